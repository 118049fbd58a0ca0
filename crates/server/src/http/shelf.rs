//! What history said and would say again: a page that is open asks for the same rows over and over,
//! and going to the disk's thread for them costs more than all the rest of the answer.
//!
//! Rows never change. Which of them there are, and whose they are, is as it was while the stamp is
//! the same (`crate::published`), which is looked at before history is asked.

use crate::journal::{AttemptRow, JobFilter, JobRow};
use crate::locks::Locked as _;
use crate::published::Stamp;
use shipway_model::{JobId, Outcome};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

/// Bytes on one shelf, about: a thousand pages or more. A full one is emptied.
const MOST: usize = 8 << 20;
/// What is larger takes up too much of it, and long to be copied.
const MOST_EACH: usize = 64 << 10;

#[derive(Debug, Default)]
pub struct Shelves {
    /// Pages of one owner's jobs, newest first, with how many were asked for.
    pub pages: Shelf<(JobFilter, usize), Arc<[JobRow]>>,
    pub jobs: Shelf<JobId, Arc<JobRow>>,
    /// Of jobs that are over.
    pub outcomes: Shelf<JobId, Outcome>,
    /// Of the tasks from one index to another, all of them over.
    pub attempts: Shelf<(JobId, u64, u64), Arc<[AttemptRow]>>,
}

#[derive(Debug)]
pub struct Shelf<K, V>(Mutex<Kept<K, V>>);

#[derive(Debug)]
struct Kept<K, V> {
    found: HashMap<K, (Stamp, V)>,
    bytes: usize,
}

impl<K, V> Default for Shelf<K, V> {
    fn default() -> Self {
        Shelf(Mutex::new(Kept { found: HashMap::new(), bytes: 0 }))
    }
}

impl<K: Eq + Hash, V: Clone> Shelf<K, V> {
    pub fn find(&self, key: &K, stamp: Stamp) -> Option<V> {
        let kept = self.0.locked();
        kept.found.get(key).filter(|(at, _)| *at == stamp).map(|(_, value)| value.clone())
    }

    /// `stamp` is from before history was asked.
    pub fn keep(&self, key: K, stamp: Stamp, value: V, bytes: usize) {
        if bytes > MOST_EACH {
            return;
        }
        let mut kept = self.0.locked();
        if kept.bytes + bytes > MOST {
            *kept = Kept { found: HashMap::new(), bytes: 0 };
        }
        // What was there before is counted twice, so the shelf is emptied a little early.
        kept.bytes += bytes;
        kept.found.insert(key, (stamp, value));
    }
}

/// About how much a row takes, with its place on a shelf.
pub(crate) fn bytes_of_job(row: &JobRow) -> usize {
    300 + row.owner.len() + row.name.len() + row.labels.len()
}

pub(crate) fn bytes_of_attempt(row: &AttemptRow) -> usize {
    let usage = row.usage.as_ref().map_or(0, |_| 700);
    let advice = row.advice.as_ref().map_or(0, |advice| 300 + advice.len());
    300 + row.outcome.len() + row.node.as_ref().map_or(0, String::len) + usage + advice
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::Board;
    use shipway_core::State;

    fn stamps() -> [Stamp; 2] {
        let mut board = Board::default();
        let before = board.stamp_of_all();
        board.replace(&State::default());
        [before, board.stamp_of_all()]
    }

    #[test]
    fn what_was_found_is_good_while_nothing_has_changed() {
        let (shelf, [before, after]) = (Shelf::default(), stamps());
        shelf.keep(7, before, "found", 10);
        assert_eq!(shelf.find(&7, before), Some("found"));
        assert_eq!((shelf.find(&7, after), shelf.find(&8, before)), (None, None));
    }

    #[test]
    fn there_is_an_end_to_what_is_kept() {
        let (shelf, [stamp, _]) = (Shelf::default(), stamps());
        for key in 0..=MOST / MOST_EACH {
            shelf.keep(key, stamp, (), MOST_EACH);
        }
        let kept = shelf.0.locked();
        assert_eq!((kept.found.len(), kept.bytes), (1, MOST_EACH), "the last one alone");
        drop(kept);
        shelf.keep(1_000, stamp, (), MOST_EACH + 1);
        assert_eq!(shelf.find(&1_000, stamp), None, "too large");
    }
}
