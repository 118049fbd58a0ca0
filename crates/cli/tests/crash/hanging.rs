//! Processes that were killed and do not die, and ends that somebody keeps: they cost their own
//! task, and neither the pilot nor the next one. As a file system would that does not answer, a
//! tracer keeps the process on its way out.

use crate::common::{World, wait_for};
use crate::tasks::{SLEEPER, submit_script, wait_for_numbers};
use std::io::Read;
use std::process::{Child, Command, Stdio};

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../pilot/tests/programs/trace.py");
const STOP_AT_EXIT: &str = "0x40";

struct Tracer(Child);

impl Tracer {
    fn of(pid: u32, options: &str) -> Self {
        let mut command = Command::new("python3");
        command.args([TRACE, &pid.to_string(), options]).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("python3");
        let mut said = [0; 7];
        child.stdout.as_mut().expect("a pipe").read_exact(&mut said).expect("it traces");
        Self(child)
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.0.kill().expect("a child of ours");
        self.0.wait().expect("a child of ours");
    }
}

fn one_that_runs(world: &World) -> (String, u32) {
    let job = submit_script(world, SLEEPER);
    (job, wait_for_numbers(world, "pids-1", 1)[0])
}

/// What the node says of itself.
fn notes(world: &World) -> String {
    world.json(&["nodes"])["nodes"][0]["ad"]["notes"].to_string()
}

#[test]
fn whoever_keeps_the_end_of_a_task_keeps_nobody_waiting() {
    let world = World::started();
    let (job, pid) = one_that_runs(&world);
    let _tracer = Tracer::of(pid, "0");
    crate::common::kill(pid);
    world.ok(&["cancel", &job]);
    assert_eq!(world.cli(&["run", "--", "true"]).code, 0);
    assert_ne!(world.cli(&["wait", &job]).code, 0);
    assert!(world.stop_server().success());
    world.up();
    assert_eq!(world.cli(&["run", "--", "true"]).code, 0);
}

#[test]
fn a_killed_process_that_does_not_die_is_named_and_keeps_no_pilot_out() {
    let world = World::started();
    let (job, pid) = one_that_runs(&world);
    let tracer = Tracer::of(pid, STOP_AT_EXIT);
    assert!(world.stop_server().success());
    world.up();
    // The job runs again, and others with it.
    assert_eq!(world.cli(&["run", "--", "true"]).code, 0);
    let words = format!("process {pid} of task {job}/0 was killed and hangs in the kernel");
    wait_for("the node names it", || notes(&world).contains(&words));
    let second = wait_for_numbers(&world, "pids-2", 1)[0];
    // The same while the pilot lives.
    let another = Tracer::of(second, STOP_AT_EXIT);
    world.ok(&["cancel", &job]);
    assert_ne!(world.cli(&["wait", &job]).code, 0);
    wait_for("the node counts them", || notes(&world).contains("2 processes were killed"));
    drop((tracer, another));
    wait_for("the node forgets the dead", || !notes(&world).contains("killed"));
}
