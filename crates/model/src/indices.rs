//! The indices of an array: what `--array 1-1000`, `0-99:3` or `1,5,9` means.
//!
//! Kept as ranges, never as a list: a million tasks are one range. Position (`Ordinal`) and index
//! are translated in both directions; what state a task is in is not kept here.

use crate::ids::{Ordinal, TaskIndex, digits};
use crate::limits::{MAX_INTERLEAVED, MAX_RANGES, MAX_TASKS};
use crate::reading::text_or_whole;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// `first`, `first + step`, … up to `last`, which is itself a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    first: u64,
    last: u64,
    step: u64,
}

impl Range {
    /// Wider than an index, because `0-18446744073709551615` is something people can type.
    fn len(self) -> u128 {
        u128::from((self.last - self.first) / self.step) + 1
    }
    fn position(self, index: u64) -> Option<u64> {
        let inside = (self.first..=self.last).contains(&index);
        (inside && (index - self.first).is_multiple_of(self.step))
            .then(|| (index - self.first) / self.step)
    }
}

/// Shared and small: a million jobs of one task each have a word of it each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexSet {
    /// `None`: index 0 alone, the one task of a job that is not an array.
    ranges: Option<Arc<Ranges>>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ranges {
    /// Ascending and disjoint as intervals, so that both translations are a search.
    list: Vec<Range>,
    /// How many indices lie before each range.
    before: Vec<u64>,
    len: u32,
}

const SINGLE: Range = Range { first: 0, last: 0, step: 1 };

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadArray {
    #[error("`{0}` is not an array of indices (write 1-1000, 0-99:3 or 1,5,9)")]
    Syntax(String),
    #[error("the array goes backwards: {first}-{last} (write {last}-{first})")]
    Backwards { first: u64, last: u64 },
    #[error("the array names index {0} twice")]
    Twice(u64),
    #[error("the array has {found} tasks; one job may have {MAX_TASKS}")]
    TooMany { found: u128 },
    #[error("the array has {found} ranges; one may have {MAX_RANGES} (use --each for lists)")]
    TooManyRanges { found: usize },
    #[error(
        "{found} tasks stand in ranges that lie across one another; at most {MAX_INTERLEAVED} may \
         (write one range after the other)"
    )]
    Interleaved { found: u128 },
}

impl IndexSet {
    /// The one task of a job that is not an array.
    pub fn single() -> Self {
        IndexSet { ranges: None }
    }

    /// Tasks 0, 1, … for jobs with one task per row.
    pub fn count(tasks: u32) -> Result<Self, BadArray> {
        let last = u64::from(tasks).checked_sub(1).ok_or(BadArray::Syntax(String::new()))?;
        Self::from_ranges(vec![Range { first: 0, last, step: 1 }])
    }

    fn from_ranges(mut ranges: Vec<Range>) -> Result<Self, BadArray> {
        if ranges.len() > MAX_RANGES {
            return Err(BadArray::TooManyRanges { found: ranges.len() });
        }
        let found: u128 = ranges.iter().map(|r| r.len()).sum();
        if found > u128::from(MAX_TASKS) {
            return Err(BadArray::TooMany { found });
        }
        if ranges == [SINGLE] {
            return Ok(Self::single());
        }
        ranges.sort_unstable();
        if !ranges.is_sorted_by(|one, next| one.last < next.first) {
            ranges = untangle(&ranges)?;
        }
        let mut before = Vec::with_capacity(ranges.len());
        let mut len = 0u32;
        for range in &ranges {
            before.push(u64::from(len));
            // At most `MAX_TASKS` together.
            len = len.saturating_add(u32::try_from(range.len()).unwrap_or(u32::MAX));
        }
        Ok(IndexSet { ranges: Some(Arc::new(Ranges { list: ranges, before, len })) })
    }

    pub fn len(&self) -> u32 {
        self.ranges.as_ref().map_or(1, |ranges| ranges.len)
    }
    /// In how many ranges they lie.
    pub fn range_count(&self) -> usize {
        self.ranges.as_ref().map_or(1, |ranges| ranges.list.len())
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn index(&self, ordinal: Ordinal) -> Option<TaskIndex> {
        let Some(ranges) = &self.ranges else {
            return (ordinal.0 == 0).then_some(TaskIndex(0));
        };
        let position = u64::from(ordinal.0);
        if ordinal.0 >= ranges.len {
            return None;
        }
        let at = ranges.before.partition_point(|before| *before <= position).checked_sub(1)?;
        let (range, before) = (ranges.list.get(at)?, ranges.before.get(at)?);
        Some(TaskIndex(range.first + (position - before) * range.step))
    }

    pub fn ordinal(&self, index: TaskIndex) -> Option<Ordinal> {
        let Some(ranges) = &self.ranges else {
            return (index.0 == 0).then_some(Ordinal(0));
        };
        let at = ranges.list.partition_point(|range| range.first <= index.0).checked_sub(1)?;
        let position = ranges.before.get(at)? + ranges.list.get(at)?.position(index.0)?;
        u32::try_from(position).ok().map(Ordinal)
    }

    fn list(&self) -> &[Range] {
        self.ranges.as_ref().map_or(&[SINGLE], |ranges| &ranges.list)
    }
}

/// Interleaved ranges (`0-10:2,1-11:2`) become plain ones; an index named twice is refused. The
/// lowest index of each range waits in a heap, so that nothing is kept but the ranges.
fn untangle(ranges: &[Range]) -> Result<Vec<Range>, BadArray> {
    let found: u128 = ranges.iter().map(|range| range.len()).sum();
    if found > u128::from(MAX_INTERLEAVED) {
        return Err(BadArray::Interleaved { found });
    }
    let mut next: BinaryHeap<Reverse<(u64, usize)>> =
        ranges.iter().enumerate().map(|(at, range)| Reverse((range.first, at))).collect();
    let mut out: Vec<Range> = Vec::new();
    while let Some(Reverse((index, at))) = next.pop() {
        if let Some(range) = ranges.get(at).filter(|range| index < range.last) {
            next.push(Reverse((index.saturating_add(range.step), at)));
        }
        let found = out.len() + 1;
        match out.last_mut() {
            Some(run) if run.last == index => return Err(BadArray::Twice(index)),
            Some(run) if run.last.checked_add(1) == Some(index) => run.last = index,
            _ if found > MAX_RANGES => return Err(BadArray::TooManyRanges { found }),
            _ => out.push(Range { first: index, last: index, step: 1 }),
        }
    }
    Ok(out)
}

impl FromStr for IndexSet {
    type Err = BadArray;
    fn from_str(text: &str) -> Result<Self, BadArray> {
        let syntax = || BadArray::Syntax(text.chars().take(80).collect());
        let found = text.split(',').count();
        if found > MAX_RANGES {
            return Err(BadArray::TooManyRanges { found });
        }
        let ranges = text.split(',').map(|part| parse_range(part.trim()).ok_or_else(syntax)?);
        Self::from_ranges(ranges.collect::<Result<_, _>>()?)
    }
}

/// `None`: not a range at all.
fn parse_range(part: &str) -> Option<Result<Range, BadArray>> {
    let (bounds, step) = part.split_once(':').map_or((part, Some(1)), |(b, s)| (b, digits(s)));
    let step = step.filter(|s| *s > 0)?;
    let (first, last) = match bounds.split_once('-') {
        Some((first, last)) => (digits(first)?, digits(last)?),
        None => (digits(bounds)?, digits(bounds)?),
    };
    if first > last {
        return Some(Err(BadArray::Backwards { first, last }));
    }
    // The last member and no idle step, so that arrays compare by what they hold.
    let last: u64 = first + (last - first) / step * step;
    Some(Ok(Range { first, last, step: if first == last { 1 } else { step } }))
}

impl fmt::Display for IndexSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.list().iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match (range.len(), range.step) {
                (1, _) => write!(f, "{comma}{}", range.first)?,
                (_, 1) => write!(f, "{comma}{}-{}", range.first, range.last)?,
                (_, step) => write!(f, "{comma}{}-{}:{step}", range.first, range.last)?,
            }
        }
        Ok(())
    }
}

impl Serialize for IndexSet {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for IndexSet {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text_or_whole("indices", from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn indices(text: &str) -> Vec<u64> {
        let set: IndexSet = text.parse().expect(text);
        (0..set.len()).map(|i| set.index(Ordinal(i)).expect("inside").0).collect()
    }

    #[test]
    fn arrays_mean_what_they_say() {
        assert_eq!(indices("1-5"), [1, 2, 3, 4, 5]);
        assert_eq!("0".parse(), Ok(IndexSet::single()));
        assert_eq!(indices("0-9:3"), [0, 3, 6, 9]);
        assert_eq!(indices("0-10:3"), [0, 3, 6, 9]);
        assert_eq!(indices("9,1,5"), [1, 5, 9]);
        assert_eq!(indices("0-6:2,1-5:2"), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!("1-1000000".parse::<IndexSet>().expect("one range").list().len(), 1);
    }

    #[test]
    fn bad_arrays_are_refused_with_a_reason() {
        for bad in ["", "a", "1-", "-3", "1-5:0", "1,,2", "1-9223372036854775808:x"] {
            assert!(matches!(bad.parse::<IndexSet>(), Err(BadArray::Syntax(_))), "{bad}");
        }
        let backwards = BadArray::Backwards { first: 5, last: 1 };
        assert_eq!("5-1".parse::<IndexSet>(), Err(backwards));
        assert_eq!("1-5,3".parse::<IndexSet>(), Err(BadArray::Twice(3)));
        let huge = "0-18446744073709551615".parse::<IndexSet>();
        assert!(matches!(huge, Err(BadArray::TooMany { .. })));
    }

    proptest! {
        #[test]
        fn ordinal_and_index_are_inverse(first in 0u64..1000, len in 1u64..500, step in 1u64..7) {
            let text = format!("{first}-{}:{step}", first + len);
            let set: IndexSet = text.parse().expect("good");
            for i in 0..set.len() {
                let index = set.index(Ordinal(i)).expect("inside");
                prop_assert_eq!(set.ordinal(index), Some(Ordinal(i)));
            }
            prop_assert_eq!(set.index(Ordinal(set.len())), None);
            let again: IndexSet = set.to_string().parse().expect("printed form");
            prop_assert_eq!(again, set);
        }
    }
}
