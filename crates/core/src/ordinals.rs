//! Positions of tasks as runs, so that "all ten million of them" is one pair of numbers in the
//! journal. Written as a list of positions and `[first, last]` pairs.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use shipway_model::Ordinal;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ordinals {
    /// First and last of each run, in the order they were given.
    runs: Vec<(u32, u32)>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredRun {
    One(u32),
    Run(u32, u32),
}

impl Ordinals {
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub fn len(&self) -> u32 {
        self.runs.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// First and last of each run.
    pub fn runs(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.runs.iter().copied()
    }

    /// How many runs of neighbours they are.
    pub fn count_runs(&self) -> usize {
        self.runs.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = Ordinal> + '_ {
        self.runs.iter().flat_map(|(first, last)| (*first..=*last).map(Ordinal))
    }
}

impl FromIterator<Ordinal> for Ordinals {
    fn from_iter<I: IntoIterator<Item = Ordinal>>(tasks: I) -> Self {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for Ordinal(task) in tasks {
            match runs.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(task) => *last = task,
                _ => runs.push((task, task)),
            }
        }
        Ordinals { runs }
    }
}

impl FromIterator<(u32, u32)> for Ordinals {
    fn from_iter<I: IntoIterator<Item = (u32, u32)>>(runs: I) -> Self {
        Ordinals { runs: runs.into_iter().collect() }
    }
}

impl Serialize for Ordinals {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.runs.iter().map(|(first, last)| {
            if first == last { StoredRun::One(*first) } else { StoredRun::Run(*first, *last) }
        }))
    }
}

impl<'de> Deserialize<'de> for Ordinals {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let runs = Vec::<StoredRun>::deserialize(from)?.into_iter().map(|written| match written {
            StoredRun::One(task) => (task, task),
            StoredRun::Run(first, last) => (first, last.max(first)),
        });
        Ok(Ordinals { runs: runs.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_run() {
        let tasks: Ordinals = [0, 1, 2, 5, 7, 8].into_iter().map(Ordinal).collect();
        let text = serde_json::to_string(&tasks).expect("json");
        assert_eq!((text.as_str(), tasks.len()), ("[[0,2],5,[7,8]]", 6));
        let back: Ordinals = serde_json::from_str(&text).expect("back");
        assert_eq!(back, tasks);
        let list: Vec<u32> = back.iter().map(|task| task.0).collect();
        assert_eq!(list, [0, 1, 2, 5, 7, 8]);
    }
}
