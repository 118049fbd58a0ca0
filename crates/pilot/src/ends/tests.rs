//! What was written is read; what is torn, forged or unfinished is not.

use super::*;
use shipway_model::ids::{Attempt, JobId, TaskIndex};
use shipway_model::{AttemptId, Ended, HeldPhase, Millis, Outcome, Timestamp};

fn log(index: u64) -> AttemptId {
    JobId(7).task(TaskIndex(index)).attempt(Attempt(2))
}

fn ended(index: u64, message: &str) -> Held {
    let end = Ended {
        outcome: Outcome::NotStarted { message: message.into() },
        started: Some(Timestamp(5)),
        ended: Timestamp(9),
        ran: Millis(4),
    };
    Held { of: Some(own()), ..Held::own(log(index), HeldPhase::Ended(end)) }
}

fn own() -> PilotId {
    PilotId::new("own").unwrap()
}

fn left(dir: &Path) -> Vec<(u64, String)> {
    let left = take(dir).unwrap();
    let end = |held: Held| {
        assert_eq!(held.of, Some(own()));
        let outcome = match &held.end().unwrap().outcome {
            Outcome::NotStarted { message } => message.clone(),
            other => other.to_string(),
        };
        (held.id.task.index.0, outcome)
    };
    let mut left: Vec<_> = left.ends.into_iter().map(end).collect();
    left.sort();
    left
}

#[test]
fn ends_are_read_up_to_the_first_that_is_torn() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(left(dir.path()), []);
    let mut ends = Ends::begin(dir.path(), &own(), &[ended(1, "one")]).unwrap();
    ends.keep([ended(2, "two"), ended(3, "three")].into_iter());
    let all = [(1, "one"), (2, "two"), (3, "three")].map(|(at, text)| (at, text.to_owned()));
    assert_eq!(left(dir.path()), all);
    let path = dir.path().join(ENDS);
    let whole = std::fs::read(&path).unwrap();
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        let found = left(dir.path());
        assert!(found.len() < 3 && all.starts_with(&found), "{length}: {found:?}");
    }
    for at in 0..whole.len() {
        let mut wrong = whole.clone();
        wrong[at] ^= 0x10;
        std::fs::write(&path, &wrong).unwrap();
        let found = left(dir.path());
        assert!(all.starts_with(&found), "a wrong byte at {at}: {found:?}");
    }
}

#[test]
fn a_long_file_is_written_anew_with_what_is_live() {
    let dir = tempfile::tempdir().unwrap();
    let mut ends = Ends::begin(dir.path(), &own(), &[]).unwrap();
    let many: Vec<Held> = (0..10_000).map(|at| ended(at, "an outcome of some size")).collect();
    assert!(!ends.is_long());
    ends.keep(many.iter().cloned());
    assert!(ends.is_long());
    ends.shorten(many[9_990..].iter().cloned());
    assert!(!ends.is_long());
    ends.keep([ended(10_000, "later")].into_iter());
    assert_eq!(left(dir.path()).len(), 11);
}

#[test]
fn what_the_guard_and_helpers_saw_counts_where_nothing_is_left_to_do() {
    let dir = tempfile::tempdir().unwrap();
    drop(Ends::begin(dir.path(), &own(), &[]).unwrap());
    let slots = Slots::begin(dir.path()).unwrap();
    let slot =
        |pid, index, ends_with_exit| Slot { pid, log: log(index), ends_with_exit, started: 3 };
    for (pid, index, ends_with_exit) in [(10, 1, true), (11, 2, false), (12, 3, true)] {
        slots.take(&slot(pid, index, ends_with_exit));
    }
    // Given back and taken again: the process of attempt 3 is known no more.
    slots.give_back(2);
    slots.take(&slot(14, 4, true));
    std::fs::write(dir.path().join(LEFT_BY_GUARD), "10 8\n11 8\n12 8\n14 8\n15 8\n1").unwrap();
    let told = dir.path().join(TOLD);
    std::fs::create_dir(&told).unwrap();
    let tell = |index, text: &str| std::fs::write(told.join(name_of(log(index))), text).unwrap();
    tell(5, r#"{"exit":0}"#);
    tell(6, r#"{"exit":1}"#);
    tell(7, r#"{"exit":0"#);
    tell(8, "");
    tell(9, r#"{"signal":{"number":9,"core_dumped":false}}"#);
    std::fs::write(told.join("x"), r#"{"exit":0}"#).unwrap();
    let found = left(dir.path());
    assert_eq!(found.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1, 4, 5]);
    assert!(found.iter().all(|(_, outcome)| outcome.contains("exit")), "{found:?}");
    // What the pilot itself saw says more.
    let _ends = Ends::begin(dir.path(), &own(), &[ended(1, "seen")]).unwrap();
    assert_eq!(left(dir.path())[0], (1, "seen".to_owned()));
    assert_eq!(take(dir.path()).unwrap().unseen, [log(4), log(5)]);
    Left::settle(dir.path());
    assert_eq!(left(dir.path()).len(), 1);
}
