//! A guard whose processes do not let themselves be ended: it does what can be done, says what is
//! left, and lets go.

use super::programs::{STOP_AT_EXIT, Tracer};
use super::{Node, PROCESSES, is_alive, start_guard, wait_for};
use rustix::process::{Pid, Signal, kill_process};

/// The file that keeps the pilot of these tests from ending when it is asked to.
pub(crate) const DEAF: &str = "deaf";

fn trace(node: &Node, name: &str, options: &str) -> Tracer {
    Tracer::of(node.pid(name).as_raw_nonzero().get().unsigned_abs(), options)
}

/// The code that the guard ends with, within the deadline.
fn end_of_guard(node: &mut Node) -> Option<i32> {
    let mut ended = None;
    wait_for("the end of the guard", || {
        ended = node.guard.try_wait().unwrap();
        ended.is_some()
    });
    ended.and_then(|status| status.code())
}

pub(crate) fn who_does_not_die_holds_up_no_pilot() {
    let mut node = Node::start();
    let (hangs, below) = (node.pid("daemon"), node.pid("below"));
    let tracer = trace(&node, "daemon", STOP_AT_EXIT);
    node.kill("pilot", Signal::KILL);
    assert_eq!(end_of_guard(&mut node), Some(128 + 9));
    assert!(is_alive(hangs), "it is held on its way out");
    assert!(!is_alive(below), "what stands below it was ended");
    let said = node.read("hanging");
    assert!(said.starts_with(&format!("{hangs} ")) && said.ends_with("of an earlier task\n"));
    for name in PROCESSES.iter().chain(&["pilot"]) {
        std::fs::remove_file(node.dir.path().join(name)).unwrap();
    }
    node.guard = start_guard(node.dir.path());
    node.wait_until_up();
    assert!(is_alive(hangs));
    assert_eq!(node.read("ended"), "0", "it has been ended before");
    drop(tracer);
    kill_process(Pid::from_child(&node.guard), Signal::TERM).unwrap();
    assert_eq!(end_of_guard(&mut node), Some(7));
    node.assert_nothing_runs();
}

pub(crate) fn who_keeps_an_end_holds_up_no_guard() {
    let mut node = Node::start();
    let _tracers = [trace(&node, "leader", "0"), trace(&node, "daemon", "0")];
    node.kill("leader", Signal::KILL);
    node.kill("pilot", Signal::KILL);
    assert_eq!(end_of_guard(&mut node), Some(128 + 9));
    node.assert_nothing_runs();
    assert_eq!(node.read("hanging"), "");
}

pub(crate) fn a_pilot_that_does_not_end_is_killed() {
    let mut node = Node::start();
    std::fs::write(node.dir.path().join(DEAF), "").unwrap();
    kill_process(Pid::from_child(&node.guard), Signal::TERM).unwrap();
    assert_eq!(end_of_guard(&mut node), Some(128 + 9));
    node.assert_nothing_runs();
}
