//! What became of a task whose site took its node away, by the name of what happened.

use super::*;
use crate::site::Phase;
use shipway_model::{AllocationEnd, Lost, Millis};

/// One task on one pilot of the site, which is lent until then.
fn running(ends: Option<u64>) -> (Told, JobId, String) {
    let mut told = Told::with_site();
    let job = told.submit(r#"{"resources":{"gpu":1}}"#);
    let name = told.broker().remove(0);
    let lease = Some(Millis(600_000));
    let mut joined = PilotJoined { lease, ..pilot(&name, 8, 1) };
    let ends = ends.map(|ends| ("AllocationEnds".to_owned(), ends.to_string()));
    joined.ad.attributes.extend(ends);
    told.apply(Command::PilotJoined(Box::new(joined)));
    assert_eq!(told.place().len(), 1);
    (told, job, name)
}

fn outcome(events: &[Event]) -> &Outcome {
    let ended = events.iter().find_map(|event| {
        let Event::AttemptEnded(ended) = event else { return None };
        Some(&ended.outcome)
    });
    ended.unwrap_or_else(|| panic!("nothing ended: {events:?}"))
}

#[test]
fn what_the_batch_system_says_is_why_a_task_was_lost() {
    for (end, why, is_counted) in [
        (AllocationEnd::TimeLimit, Lost::TimeOver, false),
        (AllocationEnd::Preempted, Lost::Preempted, false),
        (AllocationEnd::Cancelled, Lost::PilotCancelled, false),
        (AllocationEnd::OutOfMemory, Lost::PilotOutOfMemory, true),
        (AllocationEnd::Failed, Lost::PilotDied, true),
    ] {
        let (mut told, job, name) = running(None);
        told.apply(Command::PilotAway { pilot: id(&name), connection: ConnectionNumber(1) });
        let events = told.sees(&[(&name, Phase::Ended(end), "OVER")]);
        assert_eq!(*outcome(&events), Outcome::Lost { why });
        let tries = told.state.job(job).expect("it waits").tasks.tries(shipway_model::Ordinal(0));
        assert_eq!((tries.failed, tries.lost), (0, u32::from(is_counted)), "{why:?}");
        assert_eq!(told.counts(job).waiting, 1);
    }
}

/// The batch system may say it before the connection breaks, or after that.
#[test]
fn what_it_said_before_the_link_broke_is_why_too() {
    for (end, why, is_counted) in [
        (AllocationEnd::TimeLimit, Lost::TimeOver, false),
        (AllocationEnd::Preempted, Lost::Preempted, false),
        (AllocationEnd::Cancelled, Lost::PilotCancelled, false),
        (AllocationEnd::OutOfMemory, Lost::PilotOutOfMemory, true),
        (AllocationEnd::Failed, Lost::PilotDied, true),
        (AllocationEnd::Completed, Lost::PilotDied, true),
    ] {
        let away =
            |name: &str| Command::PilotAway { pilot: id(name), connection: ConnectionNumber(1) };
        let goodbye = |name: &str| Command::PilotEnded { pilot: id(name) };
        for gone in [&away as &dyn Fn(&str) -> Command, &goodbye] {
            let (mut told, job, name) = running(None);
            told.sees(&[(&name, Phase::Ended(end), "OVER")]);
            assert_eq!(told.counts(job).active, 1, "it is in touch");
            let events = told.apply(gone(&name));
            assert_eq!(*outcome(&events), Outcome::Lost { why });
            let tries = &told.state.job(job).expect("it waits").tasks;
            let tries = tries.tries(shipway_model::Ordinal(0));
            assert_eq!((tries.failed, tries.lost), (0, u32::from(is_counted)), "{why:?}");
        }
    }
}

/// Nothing runs twice: its tasks may go on until their lease is over. Why they are lost is known.
#[test]
fn of_a_node_that_does_not_answer_nobody_knows_that_its_tasks_are_dead() {
    for was_away in [true, false] {
        let (mut told, job, name) = running(None);
        let away = Command::PilotAway { pilot: id(&name), connection: ConnectionNumber(1) };
        if was_away {
            told.apply(away.clone());
        }
        let end = Phase::Ended(AllocationEnd::NodeFailed);
        let mut events = told.sees(&[(&name, end, "NODE_FAIL")]);
        if !was_away {
            events.extend(told.apply(away));
        }
        events.extend(told.wait(590_000));
        assert!(!events.iter().any(|event| matches!(event, Event::AttemptEnded(_))), "{events:?}");
        assert_eq!(told.counts(job).active, 1, "until its lease is over");
        let events = told.wait(10_000);
        assert_eq!(*outcome(&events), Outcome::Lost { why: Lost::NodeFailed }, "{was_away}");
        let tries = told.state.job(job).expect("it waits").tasks.tries(shipway_model::Ordinal(0));
        assert_eq!((told.counts(job).waiting, tries.lost), (1, 1));
    }
}

#[test]
fn without_a_word_of_the_batch_system_it_was_out_of_touch() {
    for seen in [None, Some(AllocationEnd::Unknown)] {
        let (mut told, _, name) = running(None);
        told.apply(Command::PilotAway { pilot: id(&name), connection: ConnectionNumber(1) });
        if let Some(end) = seen {
            told.sees(&[(&name, Phase::Ended(end), "")]);
        }
        let events = told.wait(600_000);
        assert_eq!(*outcome(&events), Outcome::Lost { why: Lost::LeaseRanOut });
    }
}

/// Nine that count, and then one that does not: it is tried again, and the next that counts is its
/// tenth.
#[test]
fn what_does_not_count_is_never_the_last_of_ten() {
    let mut told = Told::default();
    let job = told.submit("{}");
    let mut lose = |attempt: u32, why: Lost| {
        told.join("p", 1, 0);
        told.wait(60_000);
        assert_eq!(told.place().len(), 1, "attempt {attempt}");
        told.ended("p", task(job, 0), attempt, Outcome::Lost { why });
        told.apply(Command::PilotEnded { pilot: id("p") });
        told.job_state(job)
    };
    for attempt in 1..=9 {
        assert_eq!(lose(attempt, Lost::PilotOutOfMemory), JobState::Waiting);
    }
    for (attempt, why) in [(10, Lost::SiteTookBack), (11, Lost::Preempted)] {
        assert_eq!(lose(attempt, why), JobState::Waiting, "{why:?}");
    }
    assert_eq!(lose(12, Lost::PilotOutOfMemory), JobState::Failed);
}

#[test]
fn a_pilot_that_was_warned_does_not_know_why_but_for_its_time() {
    let taken = || Outcome::Lost { why: Lost::SiteTookBack };
    let (mut told, job, name) = running(Some(4_000_000));
    assert_eq!(*outcome(&told.ended(&name, task(job, 0), 1, taken())), taken());
    let (mut told, job, name) = running(Some(4_000));
    told.now = 3_935_000;
    let events = told.ended(&name, task(job, 0), 1, taken());
    assert_eq!(*outcome(&events), Outcome::Lost { why: Lost::TimeOver });
}

/// What it says itself is what its site says, where that knows more.
#[test]
fn a_warning_is_by_the_name_that_the_batch_system_gave() {
    for (end, why) in [
        (AllocationEnd::Preempted, Lost::Preempted),
        (AllocationEnd::Cancelled, Lost::PilotCancelled),
        (AllocationEnd::NodeFailed, Lost::SiteTookBack),
        (AllocationEnd::Failed, Lost::SiteTookBack),
    ] {
        let (mut told, job, name) = running(None);
        told.sees(&[(&name, Phase::Ended(end), "OVER")]);
        let taken = Outcome::Lost { why: Lost::SiteTookBack };
        assert_eq!(*outcome(&told.ended(&name, task(job, 0), 1, taken)), Outcome::Lost { why });
    }
}

/// The words of each are its own.
#[test]
fn each_loss_has_words_of_its_own() {
    let all = [
        Lost::PilotDied,
        Lost::LeaseRanOut,
        Lost::NoRoom,
        Lost::SiteTookBack,
        Lost::MadeRoom,
        Lost::TimeOver,
        Lost::Preempted,
        Lost::PilotCancelled,
        Lost::NodeFailed,
        Lost::PilotOutOfMemory,
    ];
    let words: std::collections::BTreeSet<String> =
        all.iter().map(|why| Outcome::Lost { why: *why }.to_string()).collect();
    assert_eq!(words.len(), all.len());
}

/// Whoever holds what a node has for processes keeps it for longer than a moment.
#[test]
fn a_task_for_which_a_node_had_no_room_waits_longer_each_time() {
    let mut told = Told::default();
    told.join("p", 1, 0);
    let job = told.submit("{}");
    let mut pauses = Vec::new();
    let last = loop {
        let attempt = u32::try_from(pauses.len()).expect("few") + 1;
        assert_eq!(told.place().len(), 1, "attempt {attempt}");
        let events = told.ended("p", task(job, 0), attempt, Outcome::Lost { why: Lost::NoRoom });
        let verdict = events.into_iter().find_map(|event| {
            if let Event::AttemptEnded(ended) = event { Some(ended.verdict) } else { None }
        });
        let verdict = verdict.expect("it has ended");
        let Verdict::Retry { at, counted: false } = verdict else { break verdict };
        pauses.push((at.0 - told.now) / 1_000);
        assert_eq!(told.place(), [], "not before");
        told.wait(at.0 - told.now);
    };
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    assert_eq!(last, Verdict::Failed, "minutes later");
}
