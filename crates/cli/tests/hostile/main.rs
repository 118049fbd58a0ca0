//! Input that is wrong or means harm, one row each: what goes in, what must come out. The server's
//! memory stays bounded, and it serves afterwards.
//!
//! - `files.rs`   job files of every wrong kind, through the command line
//! - `options.rs` options and answers of the command line
//! - `fields.rs`  every field of a job with every wrong kind of value, through the API
//! - `others.rs`  other people's jobs, and tokens that are not good, at every address
//! - `wire.rs`    requests that are no requests: slow, cut off, garbled, lying about their size
//! - `sizes.rs`   requests that are far too large, or take far more memory than their size
//! - `strangers.rs` connections in great number
//! - `wide.rs`    one act about very many jobs or tasks

#[path = "../common/mod.rs"]
mod common;
#[path = "../api/curl.rs"]
mod curl;

mod fields;
mod files;
mod options;
mod others;
mod sizes;
mod strangers;
mod wide;
mod wire;

/// Words that only the programmers of a library know; none of them belongs into a message.
const LEAKS: [&str; 16] = [
    "serde",
    "saphyr",
    "struct ",
    "untagged",
    "variant",
    "DuplicateKeyPolicy",
    "Options",
    "budget",
    "u64",
    "u32",
    "i32",
    "usize",
    "deserialize",
    "target type",
    "panicked",
    "unwrap",
];

/// A message is short, plain, and steers no terminal.
fn check_message(what: &str, message: &str) {
    assert!(message.len() < 2_000, "{what}: {} bytes of message", message.len());
    let leak = LEAKS.iter().find(|leak| message.contains(**leak));
    assert_eq!(leak, None, "{what}: {message}");
    let steers = |c: char| shipway_model::plain_text::steers(c) && c != '\n';
    assert!(!message.chars().any(steers), "{what}: {message:?}");
}

/// The memory that a process has now.
fn resident(pid: u32) -> u64 {
    memory(pid, "VmRSS:")
}

/// The most that it had.
fn most_resident(pid: u32) -> u64 {
    memory(pid, "VmHWM:")
}

fn memory(pid: u32, of: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find(|line| line.starts_with(of)).expect("a size");
    line.split_whitespace().nth(1).expect("a size").parse::<u64>().expect("a number") * 1024
}
