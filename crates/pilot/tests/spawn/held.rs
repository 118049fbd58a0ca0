//! Processes that do not let themselves be ended, or whose end somebody keeps: nobody waits for
//! them but their own task, and that not for ever.

use super::programs::{Holder, PROGRAMS, STOP_AT_EXIT, Tracer};
use super::{DEADLINE, Stream, World, is_gone, state_of, wait_for, world};
use rustix::io::ioctl_fionread;
use rustix::pipe::{SpliceFlags, splice};
use rustix::process::Signal;
use shipway_pilot::spawn::{HowEnded, ProcessEvent, StartError, Ticket};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn assert_ends_without(world: &World, pid: u32, tracer: Tracer, how: HowEnded, words: &str) {
    let ended = world.ended();
    assert_eq!((ended.ticket, ended.how), (Ticket(1), how));
    let said = world.text(1, Stream::Err);
    assert!(said.contains(words), "{said}");
    // Whoever signals it does not wait either, and the next one is started.
    world.pool.signal(Ticket(1), Signal::KILL);
    world.shell(2, "true");
    assert_eq!(world.ended().ticket, Ticket(2));
    let pid = pid.to_string();
    assert!(!is_gone(&pid), "it is its tracer's");
    drop(tracer);
    wait_for("it is reaped when its tracer is gone", || {
        world.pool.reap_orphans();
        is_gone(&pid)
    });
}

#[test]
fn a_tracer_that_keeps_the_end_of_a_task_holds_up_nobody() {
    let world = world();
    world.shell(1, "sleep 1000");
    let pid = world.started();
    let tracer = Tracer::of(pid, "0");
    world.pool.signal(Ticket(1), Signal::KILL);
    let words = "how it ended is not known";
    assert_ends_without(&world, pid, tracer, HowEnded::Unknown, words);
}

#[test]
fn a_task_that_is_stopped_on_its_way_out_ends_all_the_same() {
    let world = world();
    world.shell(1, "sleep 1000");
    let pid = world.started();
    let tracer = Tracer::of(pid, STOP_AT_EXIT);
    world.pool.signal(Ticket(1), Signal::KILL);
    let killed = HowEnded::Signal(Signal::KILL.as_raw());
    assert_ends_without(&world, pid, tracer, killed, "it counts as ended");
}

#[test]
fn a_process_without_a_first_thread_ends_with_its_task() {
    let world = world();
    // So that it cannot be taken for being the only one's.
    world.shell(9, "sleep 1000");
    world.started();
    let left = world.dir.path().join("left");
    let program = format!("{PROGRAMS}/first_thread_ends.py");
    let argv = ["python3", &program, left.to_str().unwrap()];
    world.pool.start(world.request(1, &argv)).unwrap();
    let ended = world.ended();
    assert_eq!((ended.ticket, ended.how), (Ticket(1), HowEnded::Exit(0)));
    let pid = std::fs::read_to_string(left).unwrap();
    assert!(is_gone(&pid), "still there: {}", state_of(&pid));
}

/// More than there are threads.
const HELD_TASKS: u64 = 5;

/// How a task of this person ends, or why it is not started.
fn try_one(world: &World, ticket: u64, user: &str) -> Result<HowEnded, StartError> {
    let mut request = world.request(ticket, &["true"]);
    request.user = user.into();
    world.pool.start(request).unwrap();
    loop {
        match world.next() {
            ProcessEvent::Ended(ended) if ended.ticket == Ticket(ticket) => return Ok(ended.how),
            ProcessEvent::NotStarted { error, .. } => return Err(error),
            _ => {}
        }
    }
}

#[test]
fn whoever_keeps_the_output_of_tasks_busy_holds_up_nobody_else() {
    let world = world();
    let mut holders = Vec::new();
    for ticket in 1..=HELD_TASKS {
        world.shell(ticket, "sleep 1000");
        let pid = world.started();
        for fd in [1, 2] {
            let pipe = OpenOptions::new().write(true).open(format!("/proc/{pid}/fd/{fd}"));
            holders.push(Holder::of(pipe.unwrap()));
        }
    }
    wait_for("all pipes to be held", || holders.iter().all(Holder::holds));
    for ticket in 1..=HELD_TASKS {
        world.pool.signal(Ticket(ticket), Signal::KILL);
    }
    let ended: BTreeSet<Ticket> = (0..HELD_TASKS).map(|_| world.ended().ticket).collect();
    assert_eq!(ended.len(), 5, "each counts as ended");
    assert_eq!(try_one(&world, 10, "bob"), Ok(HowEnded::Exit(0)));
    // Each task of theirs would leave pipes that nobody can close.
    let mut tickets = 100..;
    wait_for("it is their own tasks that are refused", || {
        let tried = try_one(&world, tickets.next().unwrap(), "ada");
        tried == Err(StartError::OutputHeld { program: "true".into() })
    });
    assert_eq!(try_one(&world, 11, "bob"), Ok(HowEnded::Exit(0)));
    drop(holders);
    wait_for("they are taken again when nothing is held", || {
        try_one(&world, tickets.next().unwrap(), "ada") == Ok(HowEnded::Exit(0))
    });
}

/// Whether a thread of a pool waits where no signal reaches it, within a moment.
fn a_thread_hangs() -> bool {
    let hangs = |stat: &str| stat.contains("(tasks-") && stat.contains(") D ");
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(200) {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let mut stats =
            threads.filter_map(|it| std::fs::read_to_string(it.path().join("stat")).ok());
        if stats.any(|stat| hangs(&stat)) {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

/// Well after a thread that hangs over the output of a task is noticed.
fn is_killed_soon(pid: u32) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(8) {
        let state = state_of(&pid.to_string());
        if state.is_empty() || state.contains(") Z ") {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

#[test]
fn a_running_task_whose_output_is_kept_busy_is_ended() {
    let world = world();
    world.shell(1, "sleep 1000");
    let pid = world.started();
    let pipe = OpenOptions::new().write(true).open(format!("/proc/{pid}/fd/1")).unwrap();
    let mut holder = None;
    // Bytes that are there, and the pipe held before anybody has read them. The thread that hangs
    // may be another test's: only what becomes of the task says that it was ours.
    wait_for("the task to be killed", || {
        drop(holder.take());
        let holder = holder.insert(Holder::behind(b"x", pipe.try_clone().unwrap()));
        wait_for("the pipe to be held", || holder.holds());
        a_thread_hangs() && is_killed_soon(pid)
    });
    let ended = world.ended();
    assert_eq!(ended.how, HowEnded::Signal(Signal::KILL.as_raw()));
    assert!(world.text(1, Stream::Err).contains("keeps the pipe of this output busy"));
    assert_eq!(try_one(&world, 10, "bob"), Ok(HowEnded::Exit(0)));
}

/// Somebody who keeps a pipe busy and lets go of it again and again, too soon for a hang: there is
/// always something in it to read, and nearly always it is held.
struct Teaser {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Teaser {
    const HOLDS_FOR: Duration = Duration::from_millis(500);
    const LETS_GO_FOR: Duration = Duration::from_millis(30);

    fn of(mut pipe: File) -> Self {
        let over = Arc::<AtomicBool>::default();
        let is_over = Arc::clone(&over);
        let tease = move || {
            let (_silent, other) = UnixStream::pair().unwrap();
            other.set_read_timeout(Some(Self::HOLDS_FOR)).unwrap();
            while !is_over.load(Ordering::Relaxed) {
                // A full one would not be held.
                if ioctl_fionread(&pipe).unwrap() == 0 && pipe.write_all(&[b'x'; 8_192]).is_err() {
                    // Nobody has its other end any more.
                    return;
                }
                let _in_time = splice(&other, None, &pipe, None, 1, SpliceFlags::empty());
                // tidy: allow(sleep-in-test) because it is what lets a reader go
                std::thread::sleep(Self::LETS_GO_FOR);
            }
        };
        Self { over, thread: Some(std::thread::spawn(tease)) }
    }
}

impl Drop for Teaser {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// So many that each event of somebody else's comes after many of theirs.
const TEASED_TASKS: u64 = 40;
/// One after the other: far beyond the deadline if each waits for that.
const OTHERS_TASKS: u64 = 300;

/// Tasks of somebody else end one after the other. Who else ended meanwhile.
fn others_go_on(world: &World, first: u64) -> Vec<Ticket> {
    let (clock, mut ended) = (Instant::now(), Vec::new());
    for ticket in first..first + OTHERS_TASKS {
        let mut request = world.request(ticket, &["true"]);
        request.user = "bob".into();
        world.pool.start(request).unwrap();
        loop {
            let end = world.ended().ticket;
            assert!(clock.elapsed() < DEADLINE, "others wait");
            if end == Ticket(ticket) {
                break;
            }
            ended.push(end);
        }
    }
    ended
}

#[test]
fn whoever_keeps_output_busy_for_moments_holds_up_nobody_else_and_is_not_ended() {
    let world = world();
    let mut teasers = Vec::new();
    for ticket in 1..=TEASED_TASKS {
        world.shell(ticket, "sleep 1000");
        let pid = world.started();
        for fd in [1, 2] {
            let pipe = OpenOptions::new().write(true).open(format!("/proc/{pid}/fd/{fd}"));
            teasers.push(Teaser::of(pipe.unwrap()));
        }
    }
    assert_eq!(others_go_on(&world, 1_000), [], "none of theirs is ended for it");
    // Nor while what is left of theirs is read, and closed.
    for ticket in 1..=TEASED_TASKS {
        world.pool.signal(Ticket(ticket), Signal::KILL);
    }
    let mut ended: BTreeSet<Ticket> = others_go_on(&world, 2_000).into_iter().collect();
    let theirs: BTreeSet<Ticket> = (1..=TEASED_TASKS).map(Ticket).collect();
    while !ended.is_superset(&theirs) {
        ended.insert(world.ended().ticket);
    }
    assert_eq!(ended, theirs);
}
