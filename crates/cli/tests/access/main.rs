//! Who may do what, through the real binary: people, tokens, and the way to the server.
//!
//! - `people.rs`   users see and touch their own jobs; operators everybody's
//! - `tokens.rs`   tokens that are over, forged or revoked, and where secrets never appear
//! - `removed.rs`  what ends with a user or a token
//! - `roles.rs`    every route against every role
//! - `lookups.rs`  where the server looks for images
//! - `pilots.rs`   pilots' tokens: each good for that pilot alone, tried by hand (`hand.rs`)
//! - `impostor.rs` somebody else listens where the server was
//! - `listener.rs` plain text is for this machine only; TLS for all others

#[path = "../common/mod.rs"]
mod common;

mod hand;
mod impostor;
mod listener;
mod lookups;
mod people;
mod pilots;
mod removed;
mod roles;
mod tokens;

use common::{Ran, World};

/// A user, and a token to act with.
fn person(world: &World, name: &str, role: &str) -> String {
    world.ok(&["user", "add", name, "--role", role]);
    world.ok(&["token", "new", "--user", name]).trim().to_string()
}

/// Runs a command as the holder of a token.
fn act(world: &World, token: &str, words: &[&str]) -> Ran {
    let mut command = world.command(words);
    let output = command.env("SHIPWAY_TOKEN", token).output().expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().unwrap_or(-1);
    Ran { code, stdout: text(&output.stdout), stderr: text(&output.stderr) }
}
