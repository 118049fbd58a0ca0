//! A process that nobody can attribute holds the pipe of a dead task: the end is told all the
//! same, late and with a count. Alone in its file, because a pool takes unknown orphans for its
//! own when it runs nothing else, and the tests of one file share a process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use rustix::process::{Pid, Signal, test_kill_process};
use shipway_model::AttemptId;
use shipway_model::ids::{Attempt, JobId, TaskIndex};
use shipway_pilot::guard::become_subreaper;
use shipway_pilot::logs::{Logs, Stream};
use shipway_pilot::spawn::{DRAIN_LIMIT, Ended, HowEnded, Pool, ProcessEvent, Request, Ticket};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Far beyond what any step takes; only a hang reaches it.
const DEADLINE: Duration = Duration::from_mins(1);

fn request(ticket: u64, dir: &Path, script: &str) -> Request {
    Request {
        ticket: Ticket(ticket),
        argv: vec!["sh".into(), "-c".into(), script.into()],
        env: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
        cwd: dir.to_owned(),
        log: name(ticket),
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

fn name(ticket: u64) -> AttemptId {
    AttemptId { task: JobId(1).task(TaskIndex(ticket)), attempt: Attempt(1) }
}

fn next_end(events: &mpsc::Receiver<ProcessEvent>) -> Ended {
    loop {
        match events.recv_timeout(DEADLINE).unwrap() {
            ProcessEvent::Started { .. } => {}
            ProcessEvent::Ended(ended) => return ended,
            ProcessEvent::NotStarted { error, .. } => panic!("{error}"),
        }
    }
}

fn pid_in(dir: &Path, file: &str) -> Pid {
    let text = std::fs::read_to_string(dir.join(file)).unwrap();
    Pid::from_raw(text.trim().parse().unwrap()).unwrap()
}

/// A zombie does not run; the next sweep reaps it.
fn runs(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    test_kill_process(pid).is_ok() && !stat.contains(") Z ")
}

#[test]
fn an_unknown_process_delays_the_end_of_a_task_for_a_bounded_time() {
    become_subreaper().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let logs = Logs::new(dir.path().join("logs"));
    let (sender, events) = mpsc::channel();
    let sink = Arc::new(move |event| drop(sender.send(event)));
    let pool = Pool::new(2, "test-node", Arc::clone(&logs), sink).unwrap();

    pool.start(request(1, dir.path(), "sleep 1000")).unwrap();
    // No marks in its environment, its own session, and our pipe on its standard output.
    let script = "env -i /bin/sleep 1000 & echo $! > grouped
        setsid env -i /bin/sh -c 'echo $$ > escaped; exec /bin/sleep 1000' &
        while ! [ -s escaped ]; do sleep 0.01; done; echo bye";
    pool.start(request(2, dir.path(), script)).unwrap();
    let ended = next_end(&events);
    assert_eq!((ended.ticket, ended.how), (Ticket(2), HowEnded::Exit(0)));
    assert_eq!(ended.left_behind, 2, "its two pipes are still held");
    assert!(ended.ran < DRAIN_LIMIT, "the wait does not count as the task's time");
    let chunk = logs.reader(name(2), Stream::Out).unwrap().read(0, 100).unwrap();
    assert_eq!((chunk.bytes.as_slice(), chunk.end), (&b"bye\n"[..], true));

    let (grouped, escaped) = (pid_in(dir.path(), "grouped"), pid_in(dir.path(), "escaped"));
    assert!(!runs(grouped), "what stayed in the group dies with it, marks or none");
    assert!(runs(escaped), "it cannot be told whose it is while another task runs");
    pool.signal(Ticket(1), Signal::KILL);
    assert_eq!(next_end(&events).ticket, Ticket(1));
    assert!(!runs(escaped), "the last task takes it along");
}
