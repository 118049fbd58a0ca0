//! Processes that do not let themselves be ended, or whose end somebody keeps: nobody waits for
//! them but their own task, and that not for ever.

use super::programs::{PROGRAMS, STOP_AT_EXIT, Tracer};
use super::{Stream, World, is_gone, state_of, wait_for, world};
use rustix::process::Signal;
use shipway_pilot::spawn::{HowEnded, Ticket};

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
