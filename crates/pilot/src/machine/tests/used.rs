//! What attempts have used: told of those that run, with the end of the others, and in a greeting.

use super::*;
use shipway_api::link::MAX_USAGES;
use shipway_model::Usage;

fn usage(cpu_ms: u64) -> Box<Usage> {
    Box::new(Usage { cpu_ms: Some(cpu_ms), ..Usage::default() })
}

fn used(rig: &mut Rig, id: AttemptId, cpu_ms: u64) {
    assert_eq!(rig.input(Input::Used { used: vec![(id, usage(cpu_ms))] }), []);
}

/// What the next report says of each, and whether it has ended.
fn told(rig: &mut Rig) -> Vec<(AttemptId, bool, Option<u64>)> {
    let out = rig.flush();
    let [Output::Send(FromPilot::Report(report))] = &out[..] else { panic!("{out:?}") };
    let cpu = |held: &attempt::Held| held.usage.as_ref().and_then(|usage| usage.cpu_ms);
    report.held.iter().map(|held| (held.id, held.end().is_some(), cpu(held))).collect()
}

#[test]
fn of_running_attempts_the_newest_is_told_once() {
    let mut rig = Rig::up(None);
    rig.run(template(1), id(1, 0));
    used(&mut rig, id(1, 0), 5);
    used(&mut rig, id(1, 0), 6);
    // Nobody it has, and nothing to be told of.
    used(&mut rig, id(9, 9), 7);
    assert_eq!(rig.flush(), [], "it waits for company");
    rig.now += REPORT_WAIT.0;
    assert_eq!(told(&mut rig), [(id(1, 0), false, Some(6))]);
    rig.now += REPORT_WAIT.0;
    assert_eq!(rig.flush(), [], "that is all");
}

#[test]
fn an_end_tells_all_that_was_used_and_the_greeting_after_it() {
    let mut rig = Rig::up(None);
    rig.run(template(1), id(1, 0));
    used(&mut rig, id(1, 0), 5);
    let how = HowEnded::Exit(0);
    rig.input(Input::ProcessEnded {
        id: id(1, 0),
        how,
        out_of_memory: None,
        usage: Some(usage(9)),
    });
    assert_eq!(told(&mut rig), [(id(1, 0), true, Some(9))], "once, by its end");
    assert_eq!(rig.machine.end_of(id(1, 0)).unwrap().usage, Some(usage(9)), "and written down");
    rig.cut();
    let hello = rig.link_up();
    assert_eq!(hello.held[0].usage, Some(usage(9)));
}

/// Of one whose files are taken after its end, and of one that was never looked at again.
#[test]
fn what_was_seen_before_is_kept_where_the_end_knows_nothing() {
    let mut rig = Rig::up(None);
    rig.run(template(1), id(1, 0));
    used(&mut rig, id(1, 0), 5);
    rig.ended(id(1, 0), HowEnded::Exit(1));
    assert_eq!(told(&mut rig), [(id(1, 0), true, Some(5))]);
}

#[test]
fn a_greeting_has_room_for_what_it_says() {
    let left = |index: u64| {
        let ended = attempt::Ended {
            outcome: Outcome::Exit { code: 0 },
            started: None,
            ended: Timestamp(1),
            ran: Millis(1),
        };
        let held = attempt::Held::own(id(1, index), HeldPhase::Ended(ended));
        attempt::Held { usage: Some(usage(index)), ..held }
    };
    let most = MAX_USAGES as u64;
    let mut rig = Rig::new(None);
    rig.machine = rig.machine.with_left((0..most + 5).map(left).collect());
    let hello = rig.link_up();
    let with = hello.held.iter().filter(|held| held.usage.is_some()).count();
    assert_eq!((hello.held.len() as u64, with as u64), (most + 5, most));
}
