//! What `squeue` says of our jobs: its arguments, and what its answer means.

use super::hosts;
use super::rows::{format, rows};
use super::states::phase;
use super::words::{cut, unreadable};
use crate::batch::{EngineError, EngineId, Naming, Seen, SeenPhase};
use shipway_model::Timestamp;

/// Id, name, state, reason, start, nodes.
const FIELDS: [&str; 6] = ["%i", "%j", "%T", "%r", "%S", "%N"];

pub(super) const ACT: &str = "list jobs";

/// Of this account only, and those that have ended as long as the controller remembers them.
/// Variables of the account that would choose among them are taken away.
pub(super) fn command() -> Vec<String> {
    let mut words: Vec<String> = vec!["env".into()];
    for variable in ["SQUEUE_PARTITION", "SQUEUE_ACCOUNT", "SQUEUE_NAMES", "SQUEUE_QOS"] {
        words.extend(["-u".into(), variable.into()]);
    }
    // Seconds since 1970, whatever the time zone there is.
    words.extend(["SLURM_TIME_FORMAT=%s", "squeue", "--noheader", "--me"].map(String::from));
    words.extend(["--states=all".into(), format!("--format={}", format(&FIELDS))]);
    words
}

pub(super) fn parse(answer: &str, naming: &Naming) -> Result<Vec<Seen>, EngineError> {
    let mut rows = rows::<6>(answer).peekable();
    if rows.peek().is_none() && !answer.trim().is_empty() {
        return Err(unreadable(ACT, answer));
    }
    Ok(rows.filter_map(|row| seen(row, naming)).collect())
}

fn seen([id, name, state, reason, start, nodes]: [&str; 6], naming: &Naming) -> Option<Seen> {
    let allocation = naming.allocation(name)?;
    let id = engine_id(id)?;
    let phase = phase(state, reason);
    // For the others it is when they did start.
    let waits = matches!(phase, SeenPhase::Queued | SeenPhase::Held);
    let expected = start.parse().ok().filter(|_| waits);
    let expected = expected.and_then(|seconds: u64| seconds.checked_mul(1000)).map(Timestamp);
    let words = match reason {
        "" | "None" => cut(state),
        reason => cut(&format!("{state} ({reason})")),
    };
    Some(Seen { id, allocation, phase, words, nodes: hosts::expand(nodes), expected })
}

/// `1234`, `1234_7` of an array, `1234+1` of several parts. Those of an array that wait together
/// (`1234_[8-9%2]`) have the id of all.
pub(super) fn engine_id(text: &str) -> Option<EngineId> {
    let id = text.split_once("_[").map_or(text, |(array, _)| array);
    is_id(id).then(|| EngineId(id.to_string()))
}

pub(super) fn is_id(text: &str) -> bool {
    let number = |text: &str| {
        (1..=10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    match text.split_once(['_', '+']) {
        Some((job, part)) => number(job) && number(part),
        None => number(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::AllocationEnd;

    /// Of one engine in the same state, as its versions tell it.
    const ANSWERS: [&str; 3] = [
        include_str!("../../tests/fixtures/slurm/22.05.8/squeue.txt"),
        include_str!("../../tests/fixtures/slurm/24.11.5/squeue.txt"),
        include_str!("../../tests/fixtures/slurm/26.05.5/squeue.txt"),
    ];

    fn naming() -> Naming {
        Naming { whose: "s1".into() }
    }

    fn read(answer: &str) -> Vec<Seen> {
        parse(answer, &naming()).expect("readable")
    }

    #[test]
    fn a_real_queue_is_read_by_name() {
        for answer in ANSWERS {
            check_real(&read(answer));
        }
    }

    fn check_real(all: &[Seen]) {
        let of = |name: &str| {
            let found = all.iter().find(|seen| seen.allocation.as_str() == name);
            found.unwrap_or_else(|| panic!("{name} is in {all:?}"))
        };
        let running = of("running");
        assert_eq!((running.phase, running.words.as_str()), (SeenPhase::Running, "RUNNING"));
        assert_eq!((running.nodes.as_slice(), running.expected), (&["n1".to_string()][..], None));
        assert_eq!(of("two-nodes").nodes, ["n1", "n2"]);
        let queued = of("queued");
        assert_eq!(
            (queued.phase, queued.words.as_str()),
            (SeenPhase::Queued, "PENDING (Resources)")
        );
        assert!(queued.expected.is_some_and(|at| at.0 > 1_700_000_000_000), "{queued:?}");
        assert_eq!(of("held").phase, SeenPhase::Held);
        assert_eq!(of("failed").phase, SeenPhase::Ended(AllocationEnd::Failed));
        assert_eq!(of("failed").words, "FAILED (NonZeroExitCode)");
        assert_eq!(of("completed").phase, SeenPhase::Ended(AllocationEnd::Completed));
        assert_eq!(of("cancelled").phase, SeenPhase::Ended(AllocationEnd::Cancelled));
        assert_eq!(of("node-down").phase, SeenPhase::Ended(AllocationEnd::NodeFailed));
        assert_eq!(of("too-long").words, "PENDING (PartitionTimeLimit)");
        let array: Vec<&str> = all
            .iter()
            .filter(|seen| seen.allocation.as_str() == "array")
            .map(|seen| seen.id.0.as_str())
            .collect();
        assert!(array.iter().any(|id| id.contains('_')), "{array:?}");
        assert!(array.iter().any(|id| !id.contains('_')), "{array:?}");
        assert!(all.iter().all(|seen| !seen.allocation.as_str().contains("others")));
    }

    #[test]
    fn an_empty_queue_is_none_and_nonsense_is_told() {
        assert_eq!(read(""), []);
        assert_eq!(read("\n"), []);
        let error = parse("{\"jobs\": []}", &naming()).expect_err("not what was asked for");
        assert_eq!(error.kind, crate::batch::EngineTrouble::Unreadable);
    }

    #[test]
    fn only_ids_that_can_be_given_back_are_ids() {
        let table = [
            ("12", Some("12")),
            ("12_7", Some("12_7")),
            ("12+1", Some("12+1")),
            ("12_[7-9%2]", Some("12")),
            ("", None),
            ("-f", None),
            ("12_", None),
            ("12 13", None),
            ("12_7_8", None),
            ("99999999999", None),
        ];
        for (text, id) in table {
            assert_eq!(engine_id(text).map(|id| id.0).as_deref(), id, "{text}");
        }
    }
}
