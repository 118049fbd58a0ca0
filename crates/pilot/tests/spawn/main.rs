//! The pool with real processes: how they end, what they print, what they leave behind.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod held;
#[path = "../programs/mod.rs"]
mod programs;
mod turns;

use rustix::process::{Pid, Signal, test_kill_process};
use shipway_model::AttemptId;
use shipway_model::ids::{Attempt, JobId, TaskIndex};
use shipway_pilot::guard::become_subreaper;
use shipway_pilot::logs::{Logs, Stream};
use shipway_pilot::spawn::{
    Ended, HowEnded, Pool, ProcessEvent, Request, Signalled, StartError, Ticket,
};
use shipway_runtime::cgroup::Delegation;
use shipway_runtime::crowd::{Caps, Slot, Slots};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Far beyond what any step takes; only a hang reaches it.
const DEADLINE: Duration = Duration::from_mins(1);

struct World {
    dir: tempfile::TempDir,
    logs: Arc<Logs>,
    pool: Pool,
    events: mpsc::Receiver<ProcessEvent>,
}

fn world() -> World {
    become_subreaper().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let logs = Logs::new(dir.path().join("logs"));
    let (sender, events) = mpsc::channel();
    let sink = Arc::new(move |event| drop(sender.send(event)));
    let pool = Pool::new(2, "test-node", Arc::clone(&logs), sink).unwrap();
    World { dir, logs, pool, events }
}

fn name(ticket: u64) -> AttemptId {
    AttemptId { task: JobId(1).task(TaskIndex(ticket)), attempt: Attempt(1) }
}

impl World {
    fn request(&self, ticket: u64, argv: &[&str]) -> Request {
        Request {
            ticket: Ticket(ticket),
            argv: argv.iter().map(Into::into).collect(),
            env: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
            cwd: self.dir.path().to_owned(),
            log: name(ticket),
            log_limit: 1 << 20,
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

    fn shell(&self, ticket: u64, script: &str) {
        self.pool.start(self.request(ticket, &["sh", "-c", script])).unwrap();
    }

    fn next(&self) -> ProcessEvent {
        self.events.recv_timeout(DEADLINE).expect("an event before the deadline")
    }

    fn started(&self) -> u32 {
        match self.next() {
            ProcessEvent::Started { pid, .. } => pid,
            other => panic!("not a start: {other:?}"),
        }
    }

    fn ended(&self) -> Ended {
        loop {
            match self.next() {
                ProcessEvent::Started { .. } => {}
                ProcessEvent::Ended(ended) => return ended,
                ProcessEvent::NotStarted { error, .. } => panic!("{error}"),
            }
        }
    }

    fn refused(&self, change: impl FnOnce(&mut Request)) -> StartError {
        let mut request = self.request(1, &["true"]);
        change(&mut request);
        self.pool.start(request).unwrap();
        match self.next() {
            ProcessEvent::NotStarted { ticket: Ticket(1), error } => error,
            other => panic!("not a refusal: {other:?}"),
        }
    }

    /// The whole log; the task has ended, so nothing is waited for.
    fn text(&self, ticket: u64, stream: Stream) -> String {
        let mut reader = self.logs.reader(name(ticket), stream).unwrap();
        let chunk = reader.read(0, 1 << 20).unwrap();
        assert!(chunk.end, "the log is complete when the task has ended");
        String::from_utf8(chunk.bytes).unwrap()
    }
}

fn is_gone(pid: &str) -> bool {
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
}

/// For the message of a failed test.
fn state_of(pid: &str) -> String {
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default()
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let clock = Instant::now();
    while !condition() {
        assert!(clock.elapsed() < DEADLINE, "{what}");
        // tidy: allow(sleep-in-test) because it is the pause between two looks
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A plain process without an account, which no helper starts.
#[test]
fn a_plain_process_stands_apart_from_its_starter() {
    let world = world();
    // Field 6 of the line is the session; `grep` is in that of the shell, which leads it.
    let line = "test $(cut -d' ' -f6 /proc/$$/stat) = $$ && echo leads; \
                grep '^NoNewPrivs' /proc/self/status; (: < /dev/tty) 2>/dev/null && echo terminal; \
                echo over";
    world.shell(1, line);
    assert_eq!(world.ended().how, HowEnded::Exit(0));
    assert_eq!(world.text(1, Stream::Out), "leads\nNoNewPrivs:\t1\nover\n");
}

#[test]
fn codes_and_signals_come_back_as_they_were() {
    let world = world();
    world.shell(1, "exit 3");
    let ended = world.ended();
    assert_eq!((ended.ticket, ended.how, ended.left_behind), (Ticket(1), HowEnded::Exit(3), 0));
    world.shell(2, "kill -TERM $$");
    assert_eq!(world.ended().how, HowEnded::Signal(15));
}

#[test]
fn a_task_gets_its_environment_directory_and_name_and_nothing_of_ours() {
    let world = world();
    let mut request =
        world.request(1, &["sh", "-c", "pwd; echo $A; cat; env | cut -d= -f1 | sort"]);
    request.env.push(("A".into(), "b c".into()));
    world.pool.start(request).unwrap();
    assert_eq!(world.ended().how, HowEnded::Exit(0));
    let text = world.text(1, Stream::Out);
    let mut lines = text.lines();
    assert_eq!(lines.next(), world.dir.path().canonicalize().unwrap().to_str());
    assert_eq!(lines.next(), Some("b c"));
    let names: Vec<_> =
        lines.filter(|name| !matches!(*name, "PWD" | "_" | "OLDPWD" | "SHLVL")).collect();
    assert_eq!(names, ["A", "PATH", "SHIPWAY_ATTEMPT_KEY", "SHIPWAY_NODE_KEY"]);
}

#[test]
fn both_streams_are_complete_when_the_end_is_told() {
    let world = world();
    // More than a pipe holds, from children the leader does not wait for.
    world.shell(1, "seq 1 60000; echo oops >&2; (echo last) &");
    assert_eq!(world.ended().how, HowEnded::Exit(0));
    let text = world.text(1, Stream::Out);
    assert!(text.starts_with("1\n2\n") && text.contains("\n60000\n"), "{}", text.len());
    assert_eq!(world.text(1, Stream::Err), "oops\n");
    world.shell(2, ":");
    world.ended();
    assert_eq!(world.text(2, Stream::Out), "");
    assert!(!world.dir.path().join("logs/1/2.1.out").exists());
}

#[test]
fn a_signal_reaches_the_whole_group() {
    let world = world();
    world.shell(1, "sleep 1000 & echo $! > child; wait");
    world.started();
    let child = world.dir.path().join("child");
    wait_for("the child", || {
        std::fs::read_to_string(&child).is_ok_and(|text| text.ends_with('\n'))
    });
    assert_eq!(world.pool.signal(Ticket(2), Signal::TERM), Signalled::NotRunning);
    assert_eq!(world.pool.signal(Ticket(1), Signal::TERM), Signalled::Sent);
    assert_eq!(world.ended().how, HowEnded::Signal(15));
    assert!(is_gone(&std::fs::read_to_string(&child).unwrap()));
    assert_eq!(world.pool.signal(Ticket(1), Signal::TERM), Signalled::NotRunning);
}

#[test]
fn what_a_task_leaves_behind_is_dead_when_its_end_is_told() {
    let world = world();
    // In the group; out of the group; a daemon with a child of its own, holding the pipe.
    let script = "sleep 1000 & echo $! > a
        setsid sleep 1000 & echo $! > b
        setsid sh -c 'echo $$ > c; sleep 1000 & echo $! > d; wait' &
        while ! [ -s d ]; do sleep 0.01; done; echo done";
    let clock = Instant::now();
    world.shell(1, script);
    let ended = world.ended();
    assert_eq!((ended.how, ended.left_behind), (HowEnded::Exit(0), 0));
    for file in ["a", "b", "c", "d"] {
        let pid = std::fs::read_to_string(world.dir.path().join(file)).unwrap();
        assert!(is_gone(&pid), "{file} still runs");
    }
    assert_eq!(world.text(1, Stream::Out), "done\n");
    assert!(clock.elapsed() < DEADLINE);
}

#[test]
fn a_task_that_still_runs_keeps_its_daemons() {
    let world = world();
    world.shell(1, "setsid sh -c 'echo $$ > daemon; exec sleep 1000' & sleep 1000");
    world.started();
    let daemon = world.dir.path().join("daemon");
    wait_for("the daemon", || std::fs::read_to_string(&daemon).is_ok_and(|t| t.ends_with('\n')));
    // It ends while its daemon may be in the middle of becoming `setsid` or `sleep`.
    world.shell(2, "setsid sleep 1000 & echo $!");
    assert_eq!(world.ended().ticket, Ticket(2));
    let pid = world.text(2, Stream::Out);
    assert!(is_gone(&pid), "still there: {}", state_of(&pid));
    let pid = std::fs::read_to_string(&daemon).unwrap();
    assert!(!is_gone(&pid));
    world.pool.signal(Ticket(1), Signal::KILL);
    assert_eq!(world.ended().ticket, Ticket(1));
    assert!(is_gone(&pid));
}

#[test]
fn every_refusal_names_its_cause() {
    let world = world();
    let dir = world.dir.path().to_owned();
    let write = |name: &str, content: &str, mode: u32| {
        let path = dir.join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.into_os_string()
    };
    let missing = world.refused(|request| request.argv = vec!["no-such-program".into()]);
    assert!(matches!(missing, StartError::NotInPath { .. }), "{missing}");
    let missing = world.refused(|request| request.argv = vec!["./nothing".into()]);
    assert!(matches!(missing, StartError::NoProgram { .. }), "{missing}");
    let no_directory = world.refused(|request| request.cwd = dir.join("nowhere"));
    assert!(matches!(no_directory, StartError::NoDirectory { .. }), "{no_directory}");
    assert!(no_directory.to_string().contains("nowhere"));
    let script = write("script", "#!/no/such/interpreter\n", 0o755);
    let orphaned = world.refused(|request| request.argv = vec![script]);
    assert!(matches!(orphaned, StartError::NoInterpreter { .. }), "{orphaned}");
    let plain = write("plain", "text", 0o644);
    let plain = world.refused(|request| request.argv = vec![plain]);
    assert!(matches!(plain, StartError::NotExecutable { .. }), "{plain}");
    let garbage = write("garbage", "\u{1}\u{2}", 0o755);
    let garbage = world.refused(|request| request.argv = vec![garbage]);
    assert!(matches!(garbage, StartError::NotAProgram { .. }), "{garbage}");
    let long = "x".repeat(1 << 18);
    let long = world.refused(|request| request.argv.push(long.into()));
    assert!(matches!(long, StartError::TooLong { .. }), "{long}");
    let nul = world.refused(|request| request.argv.push("a\0b".into()));
    assert!(matches!(nul, StartError::NulByte { .. }), "{nul}");
    let empty = world.refused(|request| request.argv.clear());
    assert!(matches!(empty, StartError::EmptyCommand), "{empty}");
}

#[test]
fn a_program_being_written_is_called_that() {
    let world = world();
    let path = world.dir.path().join("busy");
    std::fs::copy("/bin/true", &path).unwrap();
    let held = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let busy = world.refused(|request| request.argv = vec![path.clone().into()]);
    assert!(matches!(busy, StartError::BeingWritten { .. }), "{busy}");
    drop(held);
}

#[test]
fn a_request_can_be_taken_back_before_it_starts_and_a_dropped_pool_kills() {
    let world = world();
    assert!(!world.pool.withdraw(Ticket(1)));
    world.shell(1, "exec sleep 1000");
    let pid = world.started().to_string();
    let World { pool, events, .. } = world;
    drop(pool);
    match events.recv_timeout(DEADLINE) {
        Ok(ProcessEvent::Ended(ended)) => assert_eq!(ended.how, HowEnded::Signal(9)),
        other => panic!("{other:?}"),
    }
    // The threads are gone too: they held the other end. They reap what they have told of.
    assert!(matches!(events.recv_timeout(DEADLINE), Err(mpsc::RecvTimeoutError::Disconnected)));
    assert!(is_gone(&pid));
}

#[test]
fn many_short_tasks_all_end_and_leave_nothing() {
    const COUNT: u64 = 300;
    let world = world();
    let descriptors = || std::fs::read_dir(Path::new("/proc/self/fd")).unwrap().count();
    for ticket in 0..COUNT {
        world.shell(ticket, &format!("echo {ticket}"));
    }
    for _ in 0..COUNT {
        assert_eq!(world.ended().how, HowEnded::Exit(0));
    }
    for ticket in 0..COUNT {
        assert_eq!(world.text(ticket, Stream::Out), format!("{ticket}\n"));
    }
    // Other tests of this process hold some; a leak of one for each task would show.
    assert!(descriptors() < 200, "{}", descriptors());
}

/// Runs itself again as `nohup` and a shell in the background would: with signals ignored.
#[test]
fn a_task_ignores_no_signal_that_its_pilot_was_started_to_ignore() {
    const AGAIN: &str = "SHIPWAY_SIGNALS_IGNORED";
    if std::env::var_os(AGAIN).is_some() {
        let world = world();
        world.shell(1, "grep -E '^Sig(Ign|Blk)' /proc/self/status; kill -HUP $$; echo alive");
        let how = world.ended().how;
        let said = world.text(1, Stream::Out);
        // The C library keeps two signals to itself, 32 and 33.
        let masks = said.lines().filter(|line| line.starts_with("Sig"));
        let named = masks.map(|line| {
            let (_, mask) = line.split_once('\t').expect("a name and a mask");
            u64::from_str_radix(mask, 16).unwrap() & 0x7fff_ffff
        });
        assert_eq!(named.collect::<Vec<_>>(), [0, 0], "{said}");
        assert_eq!(how, HowEnded::Signal(1));
        return;
    }
    let me = "a_task_ignores_no_signal_that_its_pilot_was_started_to_ignore";
    let script = "trap '' HUP INT QUIT USR1 TERM; exec \"$0\" --exact \"$1\"";
    let mut again = std::process::Command::new("sh");
    again.args(["-c", script]).arg(std::env::current_exe().unwrap()).arg(me).env(AGAIN, "1");
    let output = again.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// Bounded by itself, and never more than a hundred.
const BOMB: &str = "i=0; while [ $i -lt 100 ]; do sleep 1000 >/dev/null 2>&1 & i=$((i+1)); done";

#[test]
fn a_task_that_goes_on_forking_fails_by_itself_and_spares_the_others() {
    let delegation = Delegation::find(Path::new("/"));
    let prefix = format!("shipway-bomb-{}-", std::process::id());
    let Some(mut slots) = Slots::find(&delegation, &prefix, Caps { task: 20, person: 40, all: 60 })
    else {
        // Nothing is delegated here: then tasks are looked at, which has tests of its own.
        assert!(!matches!(delegation, Delegation::V1 { pids: Some(_), .. }), "{delegation:?}");
        return;
    };
    let world = world();
    for round in 0..2 {
        let (bomb, other) = (slots.take("ada").unwrap(), slots.take("ada").unwrap());
        let [first, second] = [3 * round + 1, 3 * round + 2];
        let mut request = world.request(first, &["sh", "-c", "echo up; exec sleep 1000"]);
        request.slot = Some(Arc::clone(&other));
        world.pool.start(request).unwrap();
        world.started();
        let mut request = world.request(second, &["sh", "-c", BOMB]);
        request.slot = Some(Arc::clone(&bomb));
        world.pool.start(request).unwrap();
        let ended = world.ended();
        assert_eq!(ended.ticket, Ticket(second), "the other lives");
        assert_ne!(ended.how, HowEnded::Exit(0));
        let said = world.text(second, Stream::Err).to_lowercase();
        assert!(said.contains("fork"), "{said}");
        // The pool starts others meanwhile.
        let mut request = world.request(3 * round + 3, &["true"]);
        request.slot = Some(Arc::clone(&bomb));
        world.pool.start(request).unwrap();
        assert_eq!(world.ended().how, HowEnded::Exit(0), "and the slot is free again");
        assert_eq!(world.pool.signal(Ticket(first), Signal::KILL), Signalled::Sent);
        assert_eq!(world.ended().how, HowEnded::Signal(9));
        slots.give_back(bomb);
        slots.give_back(other);
    }
    drop(world);
    let deadline = Instant::now() + DEADLINE;
    // Its threads have to leave first.
    while !slots.clear() {
        assert!(Instant::now() < deadline, "groups are left");
        std::thread::yield_now();
    }
}

/// As many processes as the slot's person may have, until told to end them. The thread stays: what
/// it starts would be taken for an orphan of a task otherwise.
fn fill(slot: Arc<Slot>) -> (mpsc::Sender<()>, std::thread::JoinHandle<()>) {
    let ((full, filled), (end, ended)) = (mpsc::channel(), mpsc::channel());
    let filling = std::thread::spawn(move || {
        slot.enter().unwrap();
        let one = || std::process::Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn();
        let all: Vec<_> = std::iter::from_fn(|| one().ok()).take(100).collect();
        full.send(()).unwrap();
        let _told = ended.recv();
        for mut child in all {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    });
    filled.recv().unwrap();
    (end, filling)
}

#[test]
fn a_start_without_room_waits_for_it_and_holds_up_nobody() {
    let delegation = Delegation::find(Path::new("/"));
    let prefix = format!("shipway-room-{}-", std::process::id());
    let Some(mut slots) = Slots::find(&delegation, &prefix, Caps { task: 50, person: 9, all: 60 })
    else {
        assert!(!matches!(delegation, Delegation::V1 { pids: Some(_), .. }), "{delegation:?}");
        return;
    };
    let world = world();
    let (end, filling) = fill(slots.take("eve").unwrap());
    let (hers, his) = (slots.take("eve").unwrap(), slots.take("bob").unwrap());
    for (ticket, slot) in [(1, &hers), (2, &hers), (3, &hers), (4, &hers), (5, &his)] {
        let mut request = world.request(ticket, &["true"]);
        request.slot = Some(Arc::clone(slot));
        world.pool.start(request).unwrap();
    }
    assert_eq!(world.ended().ticket, Ticket(5), "somebody else's goes on");
    let deadline = Instant::now() + DEADLINE;
    // Not while it is just being tried.
    while !world.pool.withdraw(Ticket(4)) {
        assert!(Instant::now() < deadline, "it can be taken back");
        std::thread::yield_now();
    }
    end.send(()).unwrap();
    filling.join().unwrap();
    for _ in 1..=3 {
        assert_eq!(world.ended().how, HowEnded::Exit(0));
    }
    drop(world);
    while !slots.clear() {
        assert!(Instant::now() < deadline, "groups are left");
        std::thread::yield_now();
    }
}

#[test]
fn who_is_ended_by_us_is_told_why() {
    let world = world();
    world.shell(1, "echo mine >&2; exec sleep 1000");
    world.started();
    world.pool.end(Ticket(1), "ended: too much of it".into());
    assert_eq!(world.ended().how, HowEnded::Signal(9));
    let said = world.text(1, Stream::Err);
    assert!(said.ends_with("shipway: ended: too much of it\n"), "{said}");
}
