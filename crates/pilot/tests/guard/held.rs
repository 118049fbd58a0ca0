//! A guard whose processes do not let themselves be ended: it does what can be done, says what is
//! left, and lets go.

use super::programs::{Holder, STOP_AT_EXIT, Tracer};
use super::{Node, PROCESSES, is_alive, start_guard, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::OpenOptions;
use std::io::Read;
use std::path::Path;

/// The file that keeps the pilot of these tests from ending when it is asked to.
pub(crate) const DEAF: &str = "deaf";

/// A pipe that the pilot of these tests reads from, if it is there.
const PIPE: &str = "pipe";

pub(crate) fn read_what_is_there(dir: &Path) {
    let pipe = dir.join(PIPE);
    // Opening it takes what its holder has.
    std::thread::spawn(move || {
        let pipe = OpenOptions::new().read(true).write(true).open(pipe);
        pipe.and_then(|mut pipe| pipe.read(&mut [0]))
    });
}

/// Whether a thread of a process waits where no signal reaches it.
fn hangs(pid: Pid) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut lines =
        threads.flatten().map(|thread| std::fs::read_to_string(thread.path().join("stat")));
    lines.any(|line| line.is_ok_and(|line| line.contains(") D ")))
}

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

/// Killed by somebody, or asked to end: neither the guard nor the next pilot waits for it.
pub(crate) fn a_pilot_that_does_not_die() {
    for by_guard in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join(PIPE);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        let holder = Holder::of(OpenOptions::new().read(true).write(true).open(&pipe).unwrap());
        wait_for("the pipe to be held", || holder.holds());
        let guard = start_guard(dir.path());
        let mut node = Node { dir, guard };
        node.wait_until_up();
        let pilot = node.pid("pilot");
        wait_for("the pilot to hang", || hangs(pilot));
        std::fs::write(node.dir.path().join(DEAF), "").unwrap();
        if by_guard {
            kill_process(Pid::from_child(&node.guard), Signal::TERM).unwrap();
        } else {
            kill_process(pilot, Signal::KILL).unwrap();
        }
        assert_eq!(end_of_guard(&mut node), Some(128 + 9));
        assert!(hangs(pilot), "it is not dead");
        assert!(PROCESSES.iter().all(|name| !is_alive(node.pid(name))), "its task was ended");
        assert!(node.read("hanging").ends_with("of an earlier pilot\n"), "it is written down");
        for name in PROCESSES.iter().chain(&["pilot", PIPE, DEAF]) {
            std::fs::remove_file(node.dir.path().join(name)).unwrap();
        }
        node.guard = start_guard(node.dir.path());
        node.wait_until_up();
        assert_eq!(node.read("ended"), "0", "there was nothing left");
        drop(holder);
        kill_process(Pid::from_child(&node.guard), Signal::TERM).unwrap();
        assert_eq!(end_of_guard(&mut node), Some(7));
        node.assert_nothing_runs();
    }
}
