//! The ways to an end, and how each is told.

use super::*;
use shipway_model::time_limit::{Signal, TimeLimit};
use shipway_model::{Cores, Lost};

const LIMIT: u64 = 60_000;

fn limited() -> Template {
    limited_to(LIMIT, 30_000)
}

fn limited_to(limit: u64, grace: u64) -> Template {
    let (limit, grace) = (Millis(limit), Millis(grace));
    let time_limit = Some(TimeLimit { limit, warn: Signal::Usr1, grace });
    Template { time_limit, ..template(1) }
}

#[test]
fn an_end_is_told_as_it_was() {
    let over = OutOfMemory::OverLimit { limit: Bytes(10), used: Bytes(11) };
    let both = |limit, used| Outcome::OutOfMemory { limit, used, on_gpu: false };
    for (how, memory, expected) in [
        (HowEnded::Exit(0), None, Outcome::Exit { code: 0 }),
        (HowEnded::Exit(3), None, Outcome::Exit { code: 3 }),
        (HowEnded::Signal(11), None, Outcome::Signal { signal: 11 }),
        (HowEnded::Signal(9), Some(over), both(Some(Bytes(10)), Some(Bytes(11)))),
        (HowEnded::Signal(9), Some(OutOfMemory::Kernel), both(None, None)),
        (
            HowEnded::Signal(9),
            Some(OutOfMemory::OverShare { limit: Bytes(10), used: Bytes(11) }),
            Outcome::OutOfMemory { limit: Some(Bytes(10)), used: Some(Bytes(11)), on_gpu: true },
        ),
        (HowEnded::Exit(0), Some(OutOfMemory::Kernel), Outcome::Exit { code: 0 }),
    ] {
        let mut rig = Rig::up(None);
        rig.run(template(1), id(1, 0));
        rig.now += 500;
        rig.input(Input::ProcessEnded { id: id(1, 0), how, out_of_memory: memory, usage: None });
        let (started, ended) = (Some(Timestamp(1_000)), Timestamp(1_500));
        let expected = Ended { outcome: expected, started, ended, ran: Millis(500) };
        assert_eq!(rig.report().ended, [(id(1, 0), expected)]);
    }
}

#[test]
fn the_time_limit_warns_then_kills() {
    for (how, expected) in [
        (HowEnded::Signal(9), Outcome::TimedOut { limit: Millis(LIMIT) }),
        (HowEnded::Exit(1), Outcome::TimedOut { limit: Millis(LIMIT) }),
        (HowEnded::Exit(0), Outcome::Exit { code: 0 }),
    ] {
        let mut rig = Rig::up(None);
        rig.run(limited(), id(1, 0));
        rig.cut();
        assert_eq!(rig.machine.next_deadline(), Some(Millis(61_000)));
        assert_eq!(rig.tick(60_999), []);
        assert_eq!(rig.tick(61_000), [signal(id(1, 0), 10)]);
        assert_eq!(rig.tick(61_000), [], "once");
        assert_eq!(rig.machine.next_deadline(), Some(Millis(91_000)));
        assert_eq!(rig.tick(91_000), [signal(id(1, 0), SIGKILL)]);
        assert_eq!(rig.machine.next_deadline(), None);
        rig.ended(id(1, 0), how);
        let hello = rig.connect();
        assert_eq!(hello.held[0].end().unwrap().outcome, expected);
    }
}

#[test]
fn a_stop_asks_then_kills() {
    for (how, expected) in [
        (HowEnded::Signal(15), Outcome::Cancelled),
        (HowEnded::Exit(143), Outcome::Cancelled),
        (HowEnded::Exit(0), Outcome::Exit { code: 0 }),
    ] {
        let mut rig = Rig::up(None);
        rig.run(template(1), id(1, 0));
        assert_eq!(rig.stop(&[id(1, 0), id(9, 9)]), [signal(id(1, 0), SIGTERM)]);
        rig.now += 5_000;
        assert_eq!(rig.stop(&[id(1, 0)]), [], "asking again changes nothing");
        rig.cut();
        assert_eq!(rig.tick(10_999), []);
        assert_eq!(rig.tick(11_000), [signal(id(1, 0), SIGKILL)]);
        rig.ended(id(1, 0), how);
        rig.connect();
        assert_eq!(rig.held(), []);
        let mut rig = Rig::up(None);
        rig.run(template(1), id(1, 0));
        rig.stop(&[id(1, 0)]);
        rig.ended(id(1, 0), how);
        assert_eq!(rig.outcomes(), [(id(1, 0), expected)]);
    }
}

#[test]
fn a_queued_task_is_stopped_without_ever_running() {
    let mut rig = Rig::up(None);
    rig.run(template(4), id(1, 0));
    assert_eq!(rig.assign(template(4), &[id(1, 1)]), []);
    assert_eq!(rig.stop(&[id(1, 1)]), []);
    assert_eq!(rig.outcomes(), [(id(1, 1), Outcome::Cancelled)]);
    assert_eq!(rig.ended(id(1, 0), HowEnded::Exit(0)), [], "nothing waits any more");
}

#[test]
fn a_stop_that_comes_while_it_starts_is_not_forgotten() {
    let mut rig = Rig::up(None);
    assert_eq!(rig.assign(template(1), &[id(1, 0)]).len(), 1);
    assert_eq!(rig.stop(&[id(1, 0)]), [], "there is no process yet");
    rig.now += 1;
    assert_eq!(rig.input(Input::ProcessStarted { id: id(1, 0) }), [signal(id(1, 0), SIGTERM)]);
    assert_eq!(rig.tick(11_001).last(), Some(&signal(id(1, 0), SIGKILL)));
}

#[test]
fn a_stop_during_the_grace_of_the_time_limit_does_not_prolong_it() {
    let mut rig = Rig::up(None);
    rig.run(limited_to(LIMIT, 2_000), id(1, 0));
    let silent = [Output::Reconnect, signal(id(1, 0), 10)];
    assert_eq!(rig.tick(61_000), silent, "no pong came meanwhile");
    rig.connect();
    assert_eq!(rig.stop(&[id(1, 0)]), [signal(id(1, 0), SIGTERM)]);
    assert_eq!(rig.tick(63_000), [signal(id(1, 0), SIGKILL)]);
    rig.ended(id(1, 0), HowEnded::Signal(9));
    assert_eq!(rig.outcomes(), [(id(1, 0), Outcome::Cancelled)]);
}

#[test]
fn an_end_survives_a_stop_that_crossed_it() {
    let mut rig = Rig::up(None);
    rig.run(template(1), id(1, 0));
    rig.ended(id(1, 0), HowEnded::Exit(0));
    rig.report();
    assert_eq!(rig.stop(&[id(1, 0)]), []);
    rig.cut();
    assert_eq!(rig.link_up().held.len(), 1, "the report may be lost: it is told again");
}

#[test]
fn without_contact_a_leased_pilot_ends_everything_before_the_lease_does() {
    let mut rig = Rig::up(Some(100_000));
    rig.run(template(3), id(1, 0));
    assert_eq!(rig.assign(template(1), &[id(2, 0)]).len(), 1, "starting");
    assert_eq!(rig.assign(template(2), &[id(3, 0)]), [], "queued");
    rig.cut();
    assert_eq!(rig.machine.next_deadline(), Some(Millis(91_000)));
    assert_eq!(rig.tick(90_999), []);
    assert_eq!(rig.tick(91_000), [signal(id(1, 0), SIGKILL)]);
    assert_eq!(rig.machine.next_deadline(), None);
    assert_eq!(rig.input(Input::ProcessStarted { id: id(2, 0) }), [signal(id(2, 0), SIGKILL)]);
    rig.ended(id(1, 0), HowEnded::Signal(9));
    rig.ended(id(2, 0), HowEnded::Signal(9));
    let lost = Outcome::Lost { why: Lost::LeaseRanOut };
    for held in rig.connect().held {
        assert_eq!(held.end().unwrap().outcome, lost);
    }
}

#[test]
fn a_supervised_pilot_waits_for_ever() {
    let mut rig = Rig::up(None);
    rig.run(template(1), id(1, 0));
    rig.cut();
    assert_eq!(rig.machine.next_deadline(), None);
    assert_eq!(rig.tick(u64::MAX / 2), []);
}

#[test]
fn only_an_answered_ping_prolongs_the_lease_from_when_it_was_sent() {
    let mut rig = Rig::up(Some(100_000));
    rig.run(template(1), id(1, 0));
    assert_eq!(rig.tick(6_000), [ping(1)]);
    assert_eq!(rig.tick(11_000), [ping(2)]);
    rig.say(FromServer::Pong { number: 1 });
    rig.cut();
    assert_eq!(rig.machine.next_deadline(), Some(Millis(96_000)));
}

fn with_files() -> Template {
    Template { files: Some(Files::default()), ..limited() }
}

/// Whoever wants files of a task hears of its end first; the room is held until they are taken.
#[test]
fn an_end_waits_for_files() {
    let mut rig = Rig::up(None);
    let mut short = Template { files: Some(Files::default()), ..limited_to(100, 30_000) };
    short.need.cpus = Cores::whole(4);
    rig.run(short, id(1, 0));
    assert_eq!(starts(&rig.assign(template(1), &[id(2, 0)])), []);
    rig.now += 10;
    let collect = Output::Collect { id: id(1, 0), outcome: Outcome::Exit { code: 0 } };
    assert_eq!(rig.ended(id(1, 0), HowEnded::Exit(0)), [collect]);
    // Its time limit is no matter any more.
    assert_eq!(rig.tick(rig.now + 200), []);
    let out = rig.input(Input::Collected { id: id(1, 0), problem: None });
    assert_eq!(starts(&out), [id(2, 0)]);
    let (_, ended) = rig.report().ended.remove(0);
    assert_eq!(ended.outcome, Outcome::Exit { code: 0 });
    assert_eq!(ended.ran, Millis(10), "taking files is no part of its run");
}

#[test]
fn files_that_cannot_be_taken_fail_what_went_well() {
    let trouble = || Some("no x".to_string());
    let message = "no x".to_string();
    for (how, problem, expected) in [
        (HowEnded::Exit(0), trouble(), Outcome::OutputsFailed { message }),
        (HowEnded::Exit(3), trouble(), Outcome::Exit { code: 3 }),
        (HowEnded::Signal(11), None, Outcome::Signal { signal: 11 }),
    ] {
        let mut rig = Rig::up(None);
        rig.run(with_files(), id(1, 0));
        assert_eq!(rig.ended(id(1, 0), how).len(), 1);
        assert_eq!(rig.input(Input::Collected { id: id(1, 0), problem }), []);
        assert_eq!(rig.outcomes(), [(id(1, 0), expected)]);
    }
}

#[test]
fn taking_files_can_be_stopped() {
    let mut rig = Rig::up(None);
    rig.run(with_files(), id(1, 0));
    assert_eq!(rig.ended(id(1, 0), HowEnded::Exit(0)).len(), 1);
    assert_eq!(rig.stop(&[id(1, 0)]), [signal(id(1, 0), SIGTERM)]);
    let problem = Some("it was stopped".to_string());
    assert_eq!(rig.input(Input::Collected { id: id(1, 0), problem }), []);
    assert_eq!(rig.outcomes(), [(id(1, 0), Outcome::Cancelled)]);
}
