//! Tasks that these tests run, and what they look at. They run in the world's work directory.

use crate::common::{World, wait_for};
use serde_json::Value;

/// Little enough that every task of a test runs at once, on any machine.
pub(crate) const SMALL: [&str; 2] = ["--cpus", "0.01"];

/// Says that it runs, by its process id in the file `pids-ATTEMPT`, and does not end by itself.
pub(crate) const SLEEPER: &str = "echo $$ >> pids-$SHIPWAY_ATTEMPT; exec sleep 1000";

/// The same, and leaves a process that is no child of it, in a session of its own.
pub(crate) const WITH_DAEMON: &str =
    "(setsid sh -c 'echo $$ >> pids-$SHIPWAY_ATTEMPT; exec sleep 1000' &)
    echo $$ >> pids-$SHIPWAY_ATTEMPT; exec sleep 1000";

/// Submits a shell script as a small task; the id of the job.
pub(crate) fn submit_script(world: &World, script: &str) -> String {
    world.submit(&[&SMALL[..], &["--", "sh", "-c", script]].concat())
}

/// The numbers that tasks wrote into a file of the work directory, one a line.
pub(crate) fn numbers(world: &World, file: &str) -> Vec<u32> {
    let text = std::fs::read_to_string(world.work().join(file)).unwrap_or_default();
    text.lines().map(|line| line.parse().expect("a number")).collect()
}

pub(crate) fn wait_for_numbers(world: &World, file: &str, count: usize) -> Vec<u32> {
    wait_for(&format!("{count} lines in {file}"), || numbers(world, file).len() >= count);
    numbers(world, file)
}

/// One task, as `show` has it.
pub(crate) fn task(world: &World, id: &str) -> Value {
    world.json(&["show", id])["task"].clone()
}
