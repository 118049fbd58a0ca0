//! Why jobs wait, as it was found a moment ago. Reasons need the whole state, so only the writer
//! can find them; many pages that show the same jobs must not all ask it.
//!
//! What was found is shown again for half a second, and only while nothing but the course of tasks
//! has changed: whoever submits, cancels or retries something, and whoever sees a node come or go,
//! sees the reasons that follow from it at once.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

use crate::length::length;
use crate::locks::Locked as _;
use crate::published::Stamp;
use shipway_model::{JobId, Millis, Reason, Timestamp};
use std::collections::HashMap;
use std::sync::Mutex;

/// Reasons of each job in a list, and those kept here. A thousand jobs may wait for a thousand
/// others each; the answer about one of them says all.
pub const LISTED_REASONS: usize = 16;

/// How long they are shown. A page that is looked at asks a few times a second.
const GOOD_FOR: Millis = Millis(500);
/// Jobs whose reasons are kept, and how long these may be together, as they would be written.
const REMEMBERED: usize = 4_096;
const MOST_BYTES: usize = 16 << 20;

#[derive(Debug, Default)]
pub struct Explained(Mutex<Shelf>);

#[derive(Debug, Default)]
struct Shelf {
    jobs: HashMap<JobId, Kept>,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    stamp: Stamp,
    at: Timestamp,
    reasons: Vec<Reason>,
    bytes: usize,
    /// There were more.
    is_cut: bool,
}

impl Explained {
    /// What was found for a job, with this many reasons at most.
    pub fn find(
        &self,
        job: JobId,
        stamp: Stamp,
        now: Timestamp,
        most: usize,
    ) -> Option<Vec<Reason>> {
        let shelf = self.0.locked();
        let known = shelf.jobs.get(&job).filter(|kept| kept.stamp == stamp && kept.is_good(now))?;
        let is_enough = !known.is_cut || most <= known.reasons.len();
        is_enough.then(|| known.reasons.iter().take(most).cloned().collect())
    }

    /// Found after the stamp was looked at.
    pub fn keep(&self, job: JobId, stamp: Stamp, at: Timestamp, reasons: &[Reason]) {
        let is_cut = reasons.len() > LISTED_REASONS;
        let reasons: Vec<Reason> = reasons.iter().take(LISTED_REASONS).cloned().collect();
        let bytes = length(&reasons);
        let mut shelf = self.0.locked();
        if !shelf.has_room(bytes) {
            shelf.jobs.retain(|_, kept| kept.is_good(at));
            shelf.bytes = shelf.jobs.values().map(|kept| kept.bytes).sum();
        }
        if shelf.has_room(bytes) {
            let kept = Kept { stamp, at, reasons, bytes, is_cut };
            let before = shelf.jobs.insert(job, kept).map_or(0, |kept| kept.bytes);
            shelf.bytes = (shelf.bytes + bytes).saturating_sub(before);
        }
    }
}

impl Shelf {
    fn has_room(&self, bytes: usize) -> bool {
        self.jobs.len() < REMEMBERED && self.bytes.saturating_add(bytes) <= MOST_BYTES
    }
}

impl Kept {
    fn is_good(&self, now: Timestamp) -> bool {
        now < self.at.plus(GOOD_FOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::Board;
    use shipway_core::State;
    use shipway_model::UserName;

    const JOB: JobId = JobId(7);

    fn stamps() -> [Stamp; 2] {
        let ada = UserName::new("ada").expect("good");
        let mut board = Board::default();
        let before = board.stamp(&ada);
        board.replace(&State::default());
        [before, board.stamp(&ada)]
    }

    #[test]
    fn reasons_are_shown_again_for_a_while_and_only_while_nothing_has_changed() {
        let (explained, [before, after]) = (Explained::default(), stamps());
        explained.keep(JOB, before, Timestamp(1_000), &[Reason::Next]);
        let find = |stamp, at| explained.find(JOB, stamp, Timestamp(at), usize::MAX);
        assert_eq!(find(before, 1_499), Some(vec![Reason::Next]));
        assert_eq!(find(before, 1_500), None, "too long ago");
        assert_eq!(find(after, 1_001), None, "something has changed");
        assert_eq!(explained.find(JobId(8), before, Timestamp(1_001), 1), None);
    }

    #[test]
    fn whoever_wants_all_reasons_gets_no_part_of_them() {
        let (explained, [stamp, _]) = (Explained::default(), stamps());
        let many: Vec<Reason> = (1..=100).map(|jobs| Reason::Behind { jobs }).collect();
        explained.keep(JOB, stamp, Timestamp(1), &many);
        let find = |most| explained.find(JOB, stamp, Timestamp(1), most).map(|found| found.len());
        assert_eq!([find(LISTED_REASONS), find(3), find(usize::MAX)], [Some(16), Some(3), None]);
    }

    #[test]
    fn there_is_an_end_to_what_is_kept() {
        let (explained, [stamp, _]) = (Explained::default(), stamps());
        for job in 0..2 * REMEMBERED as u64 {
            explained.keep(JobId(job), stamp, Timestamp(1), &[Reason::Next]);
        }
        assert_eq!(explained.0.locked().jobs.len(), REMEMBERED);
        explained.keep(JOB, stamp, Timestamp(1_000), &[Reason::Next]);
        assert_eq!(explained.0.locked().jobs.len(), 1, "what is old makes room");
    }

    #[test]
    fn what_is_kept_has_an_end_in_bytes_too() {
        let (explained, [stamp, _]) = (Explained::default(), stamps());
        let class = "x".repeat(1 << 20);
        let long = [Reason::Kept { nodes: 1, class, job: None }];
        for job in 0..40 {
            explained.keep(JobId(job), stamp, Timestamp(1), &long);
        }
        explained.keep(JobId(3), stamp, Timestamp(2), &long);
        let shelf = explained.0.locked();
        assert_eq!((shelf.jobs.len(), shelf.bytes <= MOST_BYTES), (15, true));
    }
}
