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
/// Jobs whose reasons are kept: less than 16 MB, and usually a tenth of that.
const REMEMBERED: usize = 4_096;

#[derive(Debug, Default)]
pub struct Explained(Mutex<HashMap<JobId, Kept>>);

#[derive(Debug)]
struct Kept {
    stamp: Stamp,
    at: Timestamp,
    reasons: Vec<Reason>,
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
        let kept = self.0.locked();
        let known = kept.get(&job).filter(|kept| kept.stamp == stamp && kept.is_good(now))?;
        let is_enough = !known.is_cut || most <= known.reasons.len();
        is_enough.then(|| known.reasons.iter().take(most).cloned().collect())
    }

    /// Found after the stamp was looked at.
    pub fn keep(&self, job: JobId, stamp: Stamp, at: Timestamp, reasons: &[Reason]) {
        let mut kept = self.0.locked();
        if kept.len() >= REMEMBERED {
            kept.retain(|_, kept| kept.is_good(at));
        }
        if kept.len() < REMEMBERED {
            let is_cut = reasons.len() > LISTED_REASONS;
            let reasons = reasons.iter().take(LISTED_REASONS).cloned().collect();
            kept.insert(job, Kept { stamp, at, reasons, is_cut });
        }
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
        assert_eq!(explained.0.locked().len(), REMEMBERED);
        explained.keep(JOB, stamp, Timestamp(1_000), &[Reason::Next]);
        assert_eq!(explained.0.locked().len(), 1, "what is old makes room");
    }
}
