//! When a report leaves: at once with nothing else to do, in company while there is work.

use super::*;

/// Four run, so many more wait in the queue, and the start of the four is reported.
fn busy(queued: u64) -> Rig {
    let mut rig = Rig::up(None);
    let ids: Vec<_> = (0..4 + queued).map(|index| id(1, index)).collect();
    assert_eq!(starts(&rig.assign(template(1), &ids)).len(), 4);
    for index in 0..4 {
        rig.input(Input::ProcessStarted { id: id(1, index) });
    }
    rig.now += REPORT_WAIT.0;
    assert_eq!(rig.report().started.len(), 4);
    rig.ack(1);
    rig
}

/// The task ends, and the one that takes its place starts.
fn next(rig: &mut Rig, ended: u64) {
    for started in starts(&rig.ended(id(1, ended), HowEnded::Exit(0))) {
        rig.input(Input::ProcessStarted { id: started });
    }
}

#[test]
fn one_report_tells_all_that_happened_since_the_last() {
    let mut rig = Rig::up(None);
    rig.assign(template(1), &[id(1, 0), id(1, 1)]);
    rig.input(Input::ProcessStarted { id: id(1, 0) });
    rig.input(Input::ProcessStarted { id: id(1, 1) });
    rig.ended(id(1, 0), HowEnded::Exit(2));
    let report = rig.report();
    assert_eq!(report.started, [id(1, 1)], "an end tells of its start too");
    assert_eq!((report.number, report.ended.len()), (1, 1));
    assert_eq!(report.ended[0].1.started, Some(Timestamp(1_000)));
}

#[test]
fn ends_are_gathered_until_half_of_the_queue_is_used_up() {
    let mut rig = busy(20);
    for ended in 0..9 {
        next(&mut rig, ended);
        assert_eq!(rig.flush(), [], "{ended}");
    }
    next(&mut rig, 9);
    assert_eq!(rig.report().ended.len(), 10);
}

#[test]
fn ends_are_not_gathered_for_long() {
    let mut rig = busy(20);
    next(&mut rig, 0);
    assert_eq!(rig.flush(), []);
    let due = rig.now + REPORT_WAIT.0;
    assert_eq!(rig.machine.next_deadline(), Some(Millis(due)));
    rig.tick(due - 1);
    assert_eq!(rig.flush(), []);
    rig.tick(due);
    assert_eq!(rig.report().ended.len(), 1);
    assert!(rig.machine.next_deadline() > Some(Millis(due)), "nothing else is due");
}

#[test]
fn while_the_server_is_answering_the_next_report_grows() {
    let mut rig = busy(4);
    next(&mut rig, 0);
    next(&mut rig, 1);
    assert_eq!(rig.report().ended.len(), 2);
    next(&mut rig, 2);
    assert_eq!(rig.flush(), []);
    rig.ack(2);
    assert_eq!(rig.report().ended.len(), 1);
}

#[test]
fn the_last_ends_are_told_at_once() {
    let mut rig = busy(0);
    for ended in 0..4 {
        next(&mut rig, ended);
        assert_eq!(rig.report().ended.len(), 1, "whatever is still unanswered");
    }
}

#[test]
fn a_start_waits_a_little_for_the_end() {
    let mut rig = Rig::up(None);
    rig.assign(template(1), &[id(1, 0), id(1, 1)]);
    rig.input(Input::ProcessStarted { id: id(1, 0) });
    assert_eq!(rig.flush(), []);
    rig.ended(id(1, 0), HowEnded::Exit(0));
    let report = rig.report();
    assert_eq!((report.started.len(), report.ended.len()), (0, 1), "the end tells of both");
    rig.input(Input::ProcessStarted { id: id(1, 1) });
    rig.now += REPORT_WAIT.0;
    assert_eq!(rig.report().started.len(), 1, "it runs for longer");
}

#[test]
fn without_a_welcome_nothing_is_due() {
    let mut rig = busy(20);
    next(&mut rig, 0);
    rig.cut();
    assert_eq!(rig.machine.next_deadline(), None);
    rig.link_up();
    next(&mut rig, 1);
    let welcome_by = rig.machine.next_deadline().unwrap();
    assert!(welcome_by > Millis(rig.now + REPORT_WAIT.0), "only the wait for the welcome");
}
