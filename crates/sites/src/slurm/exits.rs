//! How failed jobs exited, which `squeue` says in its longer form only: asked once about each of
//! them. Nothing but the words for people depends on it.

use super::words::cut;
use crate::batch::{AllocationEnd, EngineId, Seen, SeenPhase};
use crate::exits;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const ACT: &str = "list exit codes";
/// What the queue says of a job that ended with an exit code, whichever.
pub(super) const ONLY_THAT: &str = "FAILED (NonZeroExitCode)";
/// Ids in one question. A command line has room for them.
const MAX_ASKED: usize = 500;

/// By job, what is known of those that are listed.
#[derive(Debug, Default)]
pub(super) struct Exits {
    known: BTreeMap<EngineId, String>,
}

impl Exits {
    /// Takes a look at the queue; returns the question to ask, if there is one.
    pub(super) fn question(&mut self, queue: &[Seen]) -> Option<Vec<String>> {
        let listed: BTreeSet<&EngineId> = queue.iter().map(|seen| &seen.id).collect();
        self.known.retain(|id, _| listed.contains(id));
        let open = queue.iter().filter(|seen| is_open(seen) && !self.known.contains_key(&seen.id));
        let ids: Vec<&str> = open.take(MAX_ASKED).map(|seen| seen.id.0.as_str()).collect();
        if ids.is_empty() {
            return None;
        }
        let jobs = format!("--jobs={}", ids.join(","));
        let words = ["squeue", "--noheader", "--states=failed", "--Format=JobID:20,exit_code:20"];
        let words = words.iter().map(|word| (*word).to_owned());
        Some(words.chain([jobs]).collect())
    }

    pub(super) fn answered(&mut self, answer: &str) {
        let row = |line: &str| {
            let mut words = line.split_whitespace();
            let (id, status) = (super::queue::engine_id(words.next()?)?, words.next()?);
            Some((id, of_status(status)?))
        };
        self.known.extend(answer.lines().filter_map(row));
    }

    /// Puts what is known into the words.
    pub(super) fn name_ends_in(&self, queue: &mut [Seen]) {
        for seen in queue.iter_mut().filter(|seen| is_open(seen)) {
            if let Some(words) = self.known.get(&seen.id) {
                seen.words = cut(&format!("FAILED ({words})"));
            }
        }
    }
}

fn is_open(seen: &Seen) -> bool {
    seen.phase == SeenPhase::Ended(AllocationEnd::Failed) && seen.words == ONLY_THAT
}

/// `18688`, the status of wait(2); `73:0`, the code and a signal, as `sacct` has it.
pub(super) fn of_status(status: &str) -> Option<String> {
    let (code, signal) = if let Some((code, signal)) = status.split_once(':') {
        (code.parse().ok()?, signal.parse().ok()?)
    } else {
        let status: u32 = status.parse().ok()?;
        (i64::from(status >> 8 & 0xff), i64::from(status & 0x7f))
    };
    match (code, signal) {
        (0, 0) => None,
        (0, signal) => Some(format!("ended by signal {signal}")),
        (code, _) => Some(exits::words(code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_model::AllocationId;

    fn failed(id: &str, words: &str) -> Seen {
        let (allocation, phase) = ("a", SeenPhase::Ended(AllocationEnd::Failed));
        let (id, words) = (EngineId(id.into()), words.to_owned());
        let allocation = AllocationId::new(allocation).expect("good");
        Seen { id, allocation, phase, words, nodes: Vec::new(), expected: None }
    }

    #[test]
    fn each_failure_is_asked_about_once_and_told_in_words() {
        let mut exits = Exits::default();
        let mut queue = [failed("1", ONLY_THAT), failed("2", "FAILED (JobLaunchFailure)")];
        let question = exits.question(&queue).expect("a question").join(" ");
        assert!(question.ends_with("--Format=JobID:20,exit_code:20 --jobs=1"), "{question}");
        exits.answered("Welcome\n1                   18688               \nx y\n");
        assert_eq!(exits.question(&queue), None);
        exits.name_ends_in(&mut queue);
        let words = queue.map(|seen| seen.words);
        let first = "FAILED (exit code 73: its folder could not be made there)";
        assert_eq!(words, [first, "FAILED (JobLaunchFailure)"]);
        assert_eq!(exits.question(&[]), None);
        assert!(exits.known.is_empty(), "what is listed no more is forgotten");
    }

    #[test]
    fn a_status_is_read_in_both_ways_of_writing_it() {
        let table = [
            ("18688", Some("exit code 73: its folder could not be made there")),
            ("127:0", Some("exit code 127: the program is not there")),
            ("137:0", Some("exit code 137: ended by signal 9")),
            ("9", Some("ended by signal 9")),
            ("0:15", Some("ended by signal 15")),
            ("3:0", Some("exit code 3")),
            ("0", None),
            ("0:0", None),
            ("much", None),
            ("-1", None),
            ("99999999999999999999:1", None),
        ];
        for (status, words) in table {
            assert_eq!(of_status(status).as_deref(), words, "{status}");
        }
    }
}
