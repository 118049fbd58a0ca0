//! Pilots as a site starts them in its allocations, through the real binary: what they offer, when
//! they leave, and what becomes of their tasks when the site wants its node back.
//!
//! The batch system is played by the test: variables, and signals in the order in which Slurm was
//! seen to send them. Not here: real engines.

#[path = "../common/mod.rs"]
mod common;

mod leaving;
mod offer;

use common::{World, own_account, wait_some};
use serde_json::Value;
use std::process::{Child, Command, Stdio};

/// A server that runs nothing itself.
fn server() -> World {
    let world = World::new();
    world.up_with(&["--no-pilot"], |_| {});
    world
}

/// A pilot in a folder of its own, with these options and variables.
fn pilot(world: &World, name: &str, options: &[&str], variables: &[(&str, &str)]) -> Child {
    let (dir, file) = (world.work().join(name), world.work().join(format!("{name}.json")));
    std::fs::write(&file, world.ok(&["token", "pilot", "--json"])).expect("written");
    let words = ["pilot", "--dir", dir.to_str().expect("text"), "--server", &world.url()];
    let mut command: Command = world.command(&words);
    command.arg("--token-file").arg(&file).args(["--default-image", "none"]).args(options);
    // A pilot of root's that joins a server runs nothing as root unless it is told to.
    if own_account() == "root" {
        command.args(["--accounts", "root=root"]);
    }
    command.envs(variables.iter().copied()).stdin(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("started")
}

fn nodes(world: &World) -> Vec<Value> {
    world.json(&["nodes"])["nodes"].as_array().expect("nodes").clone()
}

/// The code that a process ends with by itself.
fn code_of(what: &str, process: &mut Child) -> i32 {
    let status = wait_some(what, || process.try_wait().expect("a child"));
    status.code().unwrap_or(-1)
}

fn task(world: &World, id: &str) -> Value {
    world.json(&["show", id])["task"].clone()
}
