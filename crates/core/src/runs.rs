//! Values by position, kept as runs of neighbours with equal values: what ten million tasks have in
//! common is one entry. Reads and changes single positions and whole ranges alike.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runs<V> {
    /// The last position and the value of each run, by its first position. Runs do not overlap,
    /// and neighbours with equal values are one run.
    runs: BTreeMap<u32, (u32, V)>,
}

impl<V> Default for Runs<V> {
    fn default() -> Self {
        Runs { runs: BTreeMap::new() }
    }
}

impl<V: Copy + PartialEq> Runs<V> {
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How many runs there are.
    pub fn count(&self) -> usize {
        self.runs.len()
    }

    pub fn get(&self, at: u32) -> Option<V> {
        let (_, (last, value)) = self.runs.range(..=at).next_back()?;
        (at <= *last).then_some(*value)
    }

    pub fn contains(&self, at: u32) -> bool {
        self.get(at).is_some()
    }

    /// First, last and value of every run, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32, V)> + '_ {
        self.runs.iter().map(|(first, (last, value))| (*first, *last, *value))
    }

    /// The same from one position to another; runs that stick out are cut.
    pub fn within(&self, first: u32, last: u32) -> impl Iterator<Item = (u32, u32, V)> + '_ {
        let before = self.runs.range(..first).next_back();
        let reaching = before.filter(move |(_, (to, _))| *to >= first);
        let inside = (first <= last).then(|| self.runs.range(first..=last));
        let all = reaching.into_iter().chain(inside.into_iter().flatten());
        all.map(move |(from, (to, value))| ((*from).max(first), (*to).min(last), *value))
    }

    pub fn positions(&self) -> impl Iterator<Item = u32> + '_ {
        self.iter().flat_map(|(first, last, _)| first..=last)
    }

    pub fn set(&mut self, first: u32, last: u32, value: V) {
        self.update(first, last, |_| Some(value));
    }

    pub fn remove(&mut self, first: u32, last: u32) {
        self.update(first, last, |_| None);
    }

    /// Gives every position from `first` to `last` the value that `change` makes of its old one.
    pub fn update(&mut self, first: u32, last: u32, change: impl Fn(Option<V>) -> Option<V>) {
        let inside = self.take(first, last);
        let mut next = u64::from(first);
        for (from, to, value) in inside {
            if next < u64::from(from) {
                self.put(narrow(next), from - 1, change(None));
            }
            self.put(from, to, change(Some(value)));
            next = u64::from(to) + 1;
        }
        if next <= u64::from(last) {
            self.put(narrow(next), last, change(None));
        }
        if last < u32::MAX {
            self.join(last + 1);
        }
    }

    /// Takes out what lies in the range; runs that stick out are cut at its ends.
    fn take(&mut self, first: u32, last: u32) -> Vec<(u32, u32, V)> {
        let mut inside = Vec::new();
        let before = self.runs.range(..first).next_back().map(|(from, run)| (*from, *run));
        if let Some((from, (to, value))) = before.filter(|(_, (to, _))| *to >= first) {
            self.runs.insert(from, (first - 1, value));
            self.runs.insert(first, (to, value));
        }
        while let Some((from, (to, value))) =
            self.runs.range(first..=last).next().map(|(from, run)| (*from, *run))
        {
            self.runs.remove(&from);
            if to > last {
                self.runs.insert(last + 1, (to, value));
            }
            inside.push((from, to.min(last), value));
        }
        inside
    }

    fn put(&mut self, first: u32, last: u32, value: Option<V>) {
        if let Some(value) = value {
            self.runs.insert(first, (last, value));
        }
        self.join(first);
    }

    /// Makes the run that starts here part of the one before it, if they say the same.
    fn join(&mut self, at: u32) {
        let Some((last, value)) = self.runs.get(&at).copied() else { return };
        let Some((_, (to, before))) = self.runs.range_mut(..at).next_back() else { return };
        if *to + 1 == at && *before == value {
            *to = last;
            self.runs.remove(&at);
        }
    }
}

fn narrow(position: u64) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

impl<V: Copy + Serialize> Serialize for Runs<V> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.runs.iter().map(|(first, (last, value))| (*first, *last, *value)))
    }
}

impl<'de, V: Copy + PartialEq + Deserialize<'de>> Deserialize<'de> for Runs<V> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = Vec::<(u32, u32, V)>::deserialize(from)?;
        let runs = written.into_iter().map(|(first, last, value)| (first, (last, value)));
        Ok(Runs { runs: runs.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_neighbours_are_one_run() {
        let mut runs = Runs::default();
        runs.set(0, 9, 'a');
        runs.set(20, 29, 'a');
        runs.set(10, 19, 'a');
        assert_eq!(runs.iter().collect::<Vec<_>>(), [(0, 29, 'a')]);
        runs.set(5, 5, 'b');
        runs.remove(25, u32::MAX);
        let expected = [(0, 4, 'a'), (5, 5, 'b'), (6, 24, 'a')];
        assert_eq!(runs.iter().collect::<Vec<_>>(), expected);
        runs.set(5, 5, 'a');
        assert_eq!(runs.iter().collect::<Vec<_>>(), [(0, 24, 'a')]);
    }

    proptest! {
        #[test]
        fn it_is_what_a_plain_map_would_be(
            steps in prop::collection::vec((0u32..40, 0u32..12, 0u8..4), 0..60),
        ) {
            let mut runs = Runs::<u8>::default();
            let mut plain = BTreeMap::new();
            for (first, more, value) in steps {
                let last = first + more;
                let change = |old: Option<u8>| match value {
                    0 => None,
                    1 => old.map(|old| old + 1),
                    other => Some(other),
                };
                runs.update(first, last, change);
                for at in first..=last {
                    match change(plain.get(&at).copied()) {
                        Some(value) => plain.insert(at, value),
                        None => plain.remove(&at),
                    };
                }
                let flat: BTreeMap<u32, u8> =
                    runs.iter().flat_map(|(a, b, v)| (a..=b).map(move |at| (at, v))).collect();
                prop_assert_eq!(&flat, &plain);
                let list: Vec<_> = runs.iter().collect();
                for pair in list.windows(2) {
                    let apart = pair[0].1 + 1 < pair[1].0 || pair[0].2 != pair[1].2;
                    prop_assert!(pair[0].1 < pair[1].0 && apart);
                }
            }
            for (first, last) in [(0, 50), (7, 7), (3, 20), (20, 3)] {
                let runs = runs.within(first, last);
                let inside: BTreeMap<u32, u8> =
                    runs.flat_map(|(a, b, v)| (a..=b).map(move |at| (at, v))).collect();
                let expected = plain.iter().filter(|(at, _)| (first..=last).contains(*at));
                prop_assert_eq!(inside, expected.map(|(at, value)| (*at, *value)).collect());
            }
            let text = serde_json::to_string(&runs).expect("json");
            prop_assert_eq!(serde_json::from_str::<Runs<u8>>(&text).expect("back"), runs);
        }
    }
}
