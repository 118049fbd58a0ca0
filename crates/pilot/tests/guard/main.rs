//! The guard with real processes: whatever happens to the pilot, nothing of it stays.
//!
//! No pilot of the product is needed: this file is its own program (it has no test harness), and
//! started again with an argument it plays the guard or the pilot.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    reason = "a test fails by panicking; as a program of its own it prints and exits"
)]

mod held;
#[path = "../programs/mod.rs"]
mod programs;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal, test_kill_process,
};
use shipway_model::AttemptId;
use shipway_model::ids::{Attempt, JobId, TaskIndex};
use shipway_pilot::logs::Logs;
use shipway_pilot::spawn::{Pool, Request, Ticket};
use shipway_pilot::{guard, leftovers};
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Far beyond what any step takes; only a hang reaches it.
const DEADLINE: Duration = Duration::from_mins(1);

/// What the pilot of these tests runs: a leader, a process beside it, and a daemon that has left
/// both group and session and has a child. Each writes down its pid.
const TASK: &str = "echo $$ > leader; sleep 1000 & echo $! > beside
    setsid sh -c 'setsid sh -c \"echo \\$\\$ > daemon; sleep 1000 & echo \\$! > below; wait\" &' &
    wait";
const PROCESSES: [&str; 4] = ["leader", "beside", "daemon", "below"];

fn main() {
    let args: Vec<OsString> = std::env::args_os().collect();
    let role = args.get(1).and_then(|role| role.to_str()).unwrap_or_default();
    let place = || PathBuf::from(&args[2]);
    match role {
        "as-guard" => std::process::exit(play_guard(&place())),
        "as-pilot" => play_pilot(&place()),
        // Asked by runners for the names of the tests: this is one.
        "--list" => println!("guard: test"),
        _ => all_tests(),
    }
}

fn all_tests() {
    let tests: [(&str, fn()); 9] = [
        ("a_killed_pilot_leaves_nothing", a_killed_pilot_leaves_nothing),
        ("signals_are_passed_on_and_the_code_comes_back", signals_are_passed_on),
        ("the_lock_is_held_while_either_lives", the_lock_is_held_while_either_lives),
        ("leftovers_of_a_killed_guard_are_ended", leftovers_of_a_killed_guard_are_ended),
        ("a_task_does_not_hold_the_lock", a_task_does_not_hold_the_lock),
        ("who_does_not_die_holds_up_no_pilot", held::who_does_not_die_holds_up_no_pilot),
        ("who_keeps_an_end_holds_up_no_guard", held::who_keeps_an_end_holds_up_no_guard),
        ("a_pilot_that_does_not_end_is_killed", held::a_pilot_that_does_not_end_is_killed),
        ("a_pilot_that_does_not_die_holds_up_no_other", held::a_pilot_that_does_not_die),
    ];
    for (name, test) in tests {
        test();
        println!("test {name} ... ok");
    }
}

fn play_guard(dir: &Path) -> i32 {
    let own = std::env::current_exe().unwrap();
    match guard::run(dir, &own, &["as-pilot".into(), dir.into()], None) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            99
        }
    }
}

/// Runs one task and exits with 7 on SIGTERM.
fn play_pilot(dir: &Path) {
    let lock = guard::adopt_lock().unwrap();
    guard::become_subreaper().unwrap();
    let key = leftovers::node_key(dir).unwrap();
    let ended = leftovers::end_all(dir, &key).unwrap();
    std::fs::write(dir.join("ended"), ended.to_string()).unwrap();
    let logs = Logs::new(dir.join("logs"));
    let pool = Pool::new(2, &key, logs, Arc::new(|_| {})).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(async {
        let mut terminate =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
        held::read_what_is_there(dir);
        pool.start(task_request(dir)).unwrap();
        std::fs::write(dir.join("pilot"), format!("{}\n", std::process::id())).unwrap();
        terminate.recv().await;
        if dir.join(held::DEAF).exists() {
            std::future::pending::<()>().await;
        }
    });
    drop(lock);
    std::process::exit(7);
}

fn task_request(dir: &Path) -> Request {
    Request {
        ticket: Ticket(1),
        argv: vec!["sh".into(), "-c".into(), TASK.into()],
        env: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
        cwd: dir.into(),
        log: AttemptId { task: JobId(1).task(TaskIndex(1)), attempt: Attempt(1) },
        log_limit: 1000,
        user: "ada".into(),
        container: None,
        before: None,
        stdin: None,
        one_stream: false,
        slot: None,
        ends_with_exit: true,
        weight: None,
    }
}

/// A guard with its pilot and task, all up.
struct Node {
    dir: tempfile::TempDir,
    guard: Child,
}

impl Node {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let guard = start_guard(dir.path());
        let mut node = Self { dir, guard };
        node.wait_until_up();
        node
    }

    fn wait_until_up(&mut self) {
        wait_for("all processes", || {
            if let Some(status) = self.guard.try_wait().unwrap() {
                let mut said = String::new();
                self.guard.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                panic!("the guard ended with {status}: {said}");
            }
            PROCESSES.iter().chain(&["pilot"]).all(|name| self.read(name).ends_with('\n'))
        });
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    fn pid(&self, name: &str) -> Pid {
        Pid::from_raw(self.read(name).trim().parse().unwrap()).unwrap()
    }

    fn kill(&self, name: &str, signal: Signal) {
        kill_process(self.pid(name), signal).unwrap();
    }

    /// Until the last of its threads is dead: before that it holds the lock, while its first thread
    /// may already look like a process that is dead.
    fn kill_and_wait(&self, name: &str) {
        let process = pidfd_open(self.pid(name), PidfdFlags::empty()).unwrap();
        pidfd_send_signal(&process, Signal::KILL).unwrap();
        let mut dead = [PollFd::new(&process, PollFlags::IN)];
        let deadline = DEADLINE.try_into().unwrap();
        assert_eq!(poll(&mut dead, Some(&deadline)), Ok(1), "waited in vain for the end of {name}");
    }

    fn assert_nothing_runs(&self) {
        for name in PROCESSES.iter().chain(&["pilot"]) {
            assert!(!is_alive(self.pid(name)), "{name} still runs");
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // For a test that failed half way: nothing may outlive it.
        let _already_gone = self.guard.kill();
        let _reaped = self.guard.wait();
        for name in PROCESSES.iter().chain(&["pilot"]) {
            if let Some(pid) = self.read(name).trim().parse().ok().and_then(Pid::from_raw)
                && runs_below(pid, self.dir.path())
            {
                let _already_gone = kill_process(pid, Signal::KILL);
            }
        }
    }
}

fn start_guard(dir: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("as-guard").arg(dir).stderr(Stdio::piped()).spawn().unwrap()
}

fn is_alive(pid: Pid) -> bool {
    // A zombie whose reaper is somebody else (init, in the test of a killed guard) runs no more.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    test_kill_process(pid).is_ok() && !stat.contains(") Z ")
}

fn runs_below(pid: Pid, dir: &Path) -> bool {
    std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == dir)
        || std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(dir.to_str().unwrap()))
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let clock = Instant::now();
    while !condition() {
        assert!(clock.elapsed() < DEADLINE, "waited in vain for {what}");
        // tidy: allow(sleep-in-test) because it is the pause between two looks
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn a_killed_pilot_leaves_nothing() {
    let mut node = Node::start();
    node.kill("pilot", Signal::KILL);
    assert_eq!(node.guard.wait().unwrap().code(), Some(128 + 9));
    node.assert_nothing_runs();
    assert_eq!(node.read("ended"), "0");
}

fn signals_are_passed_on() {
    let mut node = Node::start();
    kill_process(Pid::from_child(&node.guard), Signal::TERM).unwrap();
    assert_eq!(node.guard.wait().unwrap().code(), Some(7));
    node.assert_nothing_runs();
}

fn the_lock_is_held_while_either_lives() {
    let mut node = Node::start();
    let refuse = || {
        let second = start_guard(node.dir.path()).wait_with_output().unwrap();
        (second.status.code(), String::from_utf8(second.stderr).unwrap())
    };
    let (code, text) = refuse();
    assert_eq!(code, Some(99));
    assert!(text.contains("in use by another pilot (process "), "{text}");
    kill_process(Pid::from_child(&node.guard), Signal::KILL).unwrap();
    node.guard.wait().unwrap();
    let second = start_guard(node.dir.path()).wait_with_output().unwrap();
    assert_eq!(second.status.code(), Some(99), "the pilot alone holds it too");
}

fn leftovers_of_a_killed_guard_are_ended() {
    let mut node = Node::start();
    kill_process(Pid::from_child(&node.guard), Signal::KILL).unwrap();
    node.guard.wait().unwrap();
    node.kill_and_wait("pilot");
    let left: Vec<Pid> = PROCESSES.iter().map(|name| node.pid(name)).collect();
    assert!(left.iter().all(|pid| is_alive(*pid)), "nobody is there to end them");
    for name in PROCESSES.iter().chain(&["pilot"]) {
        std::fs::remove_file(node.dir.path().join(name)).unwrap();
    }
    node.guard = start_guard(node.dir.path());
    node.wait_until_up();
    assert!(left.iter().all(|pid| !is_alive(*pid)), "the next pilot ends them");
    assert_eq!(node.read("ended"), left.len().to_string());
    kill_process(Pid::from_child(&node.guard), Signal::INT).unwrap();
    // The pilot of this test does not handle SIGINT: it dies of it.
    assert_eq!(node.guard.wait().unwrap().code(), Some(128 + 2));
    node.assert_nothing_runs();
}

fn a_task_does_not_hold_the_lock() {
    let node = Node::start();
    let lock = node.dir.path().join("lock").canonicalize().unwrap();
    let holds = |pid: Pid| {
        std::fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .any(|fd| std::fs::read_link(fd.unwrap().path()).is_ok_and(|file| file == lock))
    };
    assert!(holds(node.pid("pilot")));
    assert!(PROCESSES.iter().all(|name| !holds(node.pid(name))));
}
