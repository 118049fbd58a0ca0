//! What attempts have used: told by the pilot that has them, added to by what the server knows, and
//! not lost with the pilot.

use super::*;
use shipway_model::{Advice, Usage};

/// One pilot with two GPUs, and a job of this kind running on it.
fn running(json: &str) -> (Told, TaskId) {
    let mut told = Told::default();
    told.join("p", 4, 2);
    let job = told.submit(json);
    told.place();
    let task = task(job, 0);
    report(&mut told, "p", word(task, HeldPhase::Running { started: Timestamp(9) }, None));
    (told, task)
}

fn word(task: TaskId, phase: HeldPhase, usage: Option<Usage>) -> Held {
    Held { usage: usage.map(Box::new), ..Held::own(task.attempt(Attempt(1)), phase) }
}

fn report(told: &mut Told, from: &str, held: Held) -> Vec<Event> {
    told.apply(Command::PilotReported(PilotReported { pilot: id(from), held: vec![held] }))
}

fn used(cpu_ms: u64) -> Usage {
    Usage { wall_ms: Some(60_000), looks: Some(12), cpu_ms: Some(cpu_ms), ..Usage::default() }
}

fn so_far(told: &Told, task: TaskId) -> Option<u64> {
    told.state.active()[&task].usage.as_ref()?.cpu_ms
}

fn the_end(events: &[Event]) -> &crate::event::AttemptEnded {
    let ended = events
        .iter()
        .find_map(|event| if let Event::AttemptEnded(ended) = event { Some(ended) } else { None });
    ended.expect("an end")
}

const RUNS: HeldPhase = HeldPhase::Running { started: Timestamp(9) };

#[test]
fn an_end_has_what_its_pilot_says_and_what_the_server_knows() {
    let (mut told, task) = running(r#"{"resources":{"gpu":{"count":2}}}"#);
    // What it was given is not the pilot's to say, and parts are of a whole.
    let wild = Usage { gpu_given_ms: Some(1 << 50), gpu_busy: Some(1 << 40), ..used(30_000) };
    let end = Ended { ran: Millis(60_000), ..end(9, OK) };
    let events = report(&mut told, "p", word(task, HeldPhase::Ended(end), Some(wild)));
    let usage = the_end(&events).usage.as_deref().expect("used");
    let expected = Usage { gpu_given_ms: Some(120_000), gpu_busy: Some(10_000), ..used(30_000) };
    assert_eq!(*usage, expected);
}

#[test]
fn what_is_told_of_a_running_attempt_is_not_lost_with_its_pilot() {
    let (mut told, task) = running(r#"{"resources":{"gpu":{"share":"0.5"}}}"#);
    let events = report(&mut told, "p", word(task, RUNS, Some(used(10_000))));
    assert!(matches!(&events[..], [Event::AttemptsUsed { tasks }] if tasks.len() == 1));
    assert_eq!(so_far(&told, task), Some(10_000));
    report(&mut told, "p", word(task, RUNS, Some(used(20_000))));
    told.now += 5_000;
    let events = told.apply(Command::PilotEnded { pilot: id("p") });
    let ended = the_end(&events);
    let usage = ended.usage.as_deref().expect("used");
    assert_eq!(usage.cpu_ms, Some(20_000));
    assert!(ended.ran.0 > 4_900, "{ended:?}");
    assert_eq!(usage.gpu_given_ms, Some(ended.ran.0 / 2), "for as long as it ran");
}

#[test]
fn nobody_is_believed_of_others_attempts() {
    let (mut told, task) = running("{}");
    told.join("q", 4, 0);
    for held in [
        word(task, RUNS, Some(used(1))),
        Held { of: Some(id("p")), ..word(task, RUNS, Some(used(1))) },
    ] {
        assert!(report(&mut told, "q", held).is_empty());
    }
    let other = Held { id: task.attempt(Attempt(2)), ..word(task, RUNS, Some(used(1))) };
    assert!(report(&mut told, "p", other).is_empty(), "there is no such attempt");
    assert_eq!(so_far(&told, task), None);
    assert!(report(&mut told, "p", word(task, RUNS, Some(Usage::default()))).is_empty());
}

#[test]
fn an_attempt_of_which_nothing_is_known_says_nothing() {
    let (mut told, task) = running("{}");
    let events = report(&mut told, "p", word(task, HeldPhase::Ended(end(9, OK)), None));
    assert_eq!((&the_end(&events).usage, &the_end(&events).advice), (&None, &None));
}

/// A greeting tells it too, of what goes on and of what has ended meanwhile.
#[test]
fn a_greeting_says_what_was_used() {
    let (mut told, task) = running("{}");
    let connection = ConnectionNumber(2);
    told.apply(Command::PilotAway { pilot: id("p"), connection: ConnectionNumber(1) });
    let held = vec![word(task, RUNS, Some(used(7)))];
    let back = PilotJoined { connection, held, ..pilot("p", 4, 2) };
    told.apply(Command::PilotJoined(Box::new(back)));
    assert_eq!(so_far(&told, task), Some(7));
}

#[test]
fn advice_is_decided_by_what_is_here_and_kept() {
    let (mut told, task) = running(r#"{"resources":{"cpus":1,"gpu":{"count":1}}}"#);
    let low = Usage {
        wall_ms: Some(7_200_000),
        looks: Some(1_000),
        gpus: Some(1),
        gpus_idle: Some(0),
        gpu_busy: Some(600),
        gpu_memory: Some(1 << 30),
        gpu_memory_of: Some(40 << 30),
        ..used(1)
    };
    let end = Ended { ran: Millis(7_200_000), ..end(9, OK) };
    let events = report(&mut told, "p", word(task, HeldPhase::Ended(end), Some(low)));
    let advice = the_end(&events).advice.as_deref();
    let Some(Advice::SmallerGpu { slice: None, share: Some(share), .. }) = advice else {
        panic!("{advice:?}");
    };
    assert_eq!(share.0, 1_000, "nobody has slices here");
}
