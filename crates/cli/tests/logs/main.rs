//! What tasks print, through the real binary: nothing lost, nothing held up, nothing mixed.
//!
//! - `follow.rs`  reading while the task writes: much of it, slowly, and over the limit
//! - `crash.rs`   following on when the server is killed and comes back
//! - `kept.rs`    reading afterwards: streams, bytes, attempts, restarts, losses
//!
//! Not here: what happens to output on a full disk (see the `crash` tests).

#[path = "../common/mod.rs"]
mod common;

mod crash;
mod follow;
mod kept;

use common::World;
use std::process::Output;

/// Runs a command and returns its bytes as they are.
fn bytes_of(world: &World, words: &[&str]) -> Output {
    world.command(words).output().expect("the binary runs")
}

/// Makes a file in the work directory, for which tasks wait.
fn signal(world: &World, name: &str) {
    std::fs::write(world.work().join(name), "").expect("a file");
}

fn has_file(world: &World, name: &str) -> bool {
    world.work().join(name).exists()
}

/// A node keeps what its tasks wrote; until it is back, its output is out of reach.
fn wait_for_node(world: &World) {
    let link = || world.json(&["nodes"])["nodes"][0]["link"].clone();
    common::wait_for("the node is back", || link() == "connected");
}
