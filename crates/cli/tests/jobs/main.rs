//! Jobs from submission to end, through the real binary.
//!
//! - `many.rs`     arrays, rows, and how many run at once
//! - `ends.rs`     exit codes, signals, memory, time, programs that do not start
//! - `again.rs`    retries, by policy and by hand
//! - `order.rs`    dependencies, priorities, counted resources
//! - `gpus.rs`     declared GPUs, whole and shared
//! - `stop.rs`     cancelling
//! - `asking.rs`   scripts, variables, keys, dry runs
//!
//! Not here: what is kept when things are killed (see the `crash` tests).

#[path = "../common/mod.rs"]
mod common;

mod again;
mod asking;
mod ends;
mod gpus;
mod many;
mod order;
mod requirements;
mod stop;

use common::{World, wait_for};
use serde_json::Value;

/// Ends when the file `go` is there.
const UNTIL_GO: &str = "until [ -e go ]; do sleep 0.02; done";

fn signal(world: &World, name: &str) {
    write(world, name, "");
}

fn write(world: &World, name: &str, text: &str) {
    std::fs::write(world.work().join(name), text).expect("a file");
}

/// A file that tasks write; empty when it is not there.
fn read(world: &World, name: &str) -> String {
    std::fs::read_to_string(world.work().join(name)).unwrap_or_default()
}

/// A server whose node has what the text declares, and has joined.
fn declared(text: &str) -> World {
    let world = World::new();
    write(&world, "declared.json", text);
    let file = world.work().join("declared.json");
    world.up_with(&["--declared", file.to_str().expect("a plain path")], |_| {});
    wait_for("the node has joined", || world.json(&["nodes"])["nodes"][0]["link"] == "connected");
    world
}

fn job(world: &World, id: &str) -> Value {
    world.json(&["show", id])["job"].clone()
}

fn state(world: &World, id: &str) -> String {
    job(world, id)["state"].as_str().expect("a state").to_string()
}

fn tasks_in(world: &World, id: &str, state: &str) -> usize {
    let shown = world.json(&["show", id, "--state", state, "--limit", "1000"]);
    shown["tasks"]["tasks"].as_array().expect("tasks").len()
}

fn wait_for_running(world: &World, id: &str, count: usize) {
    wait_for("so many tasks run", || tasks_in(world, id, "running") == count);
}
