//! Requests that are far too large. Each is refused, and the server is no larger afterwards than
//! a stated bound: what a request brings is given back with its answer.

use super::common::{World, quick};
use super::curl::{ask, get, post};
use super::{most_resident, resident};
use std::fmt::Write;

/// What the server may have grown by: the largest bodies that it takes (24 MiB), parsed, in each
/// of the allocator's arenas, which keep what they once had.
const MAY_GROW_BY: u64 = 512 << 20;
const ROUNDS: usize = 2;

fn a_million_labels() -> String {
    let mut text = String::from(r#"{"spec": {"command": ["true"], "labels": {"a": "b""#);
    for number in 0..1_000_000 {
        write!(text, r#","k{number}":"v""#).expect("a text grows");
    }
    text + "}}}"
}

fn with_variable_of(bytes: usize) -> String {
    let value = "x".repeat(bytes);
    format!(r#"{{"spec": {{"command": ["true"], "env": {{"A": "{value}"}}}}}}"#)
}

fn deep() -> String {
    let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
    format!(r#"{{"spec": {{"command": ["true"], "each": {open}{close}}}}}"#)
}

#[test]
fn what_is_far_too_large_is_refused_and_forgotten() {
    let world = World::started();
    let before = resident(world.server_pid());
    let (labels, huge, large) =
        (a_million_labels(), with_variable_of(100_000_000), with_variable_of(20_000_000));
    let ranges: Vec<String> = (0..500_000).map(|number| (number * 2).to_string()).collect();
    let array = format!(r#"{{"spec": {{"command": ["true"], "array": "{}"}}}}"#, ranges.join(","));
    let rounds = if quick() { 1 } else { ROUNDS };
    for _ in 0..rounds {
        for (what, body, status) in [
            ("a million labels", &labels, 422),
            ("a variable of 100 MB", &huge, 413),
            ("a variable of 20 MB", &large, 422),
            ("half a million ranges", &array, 422),
            ("a hundred thousand brackets", &deep(), 422),
        ] {
            let answer = post(&world, "/api/v1/jobs", body.as_bytes());
            assert_eq!(answer.status, status, "{what}: {:.500}", answer.body);
            assert!(
                answer.body.len() < 4_096,
                "{what}: the answer has {} bytes",
                answer.body.len()
            );
        }
    }
    let long = format!("/api/v1/jobs?name={}", "x".repeat(60_000));
    assert!(get(&world, &long).status < 500, "a long address");
    let header = format!("X-Long: {}", "x".repeat(60_000));
    let refused = ask(&world, "/api/v1/jobs", &["--header", &header], None).status;
    assert!(refused < 500, "a long header: {refused}");
    let grown = resident(world.server_pid()).saturating_sub(before);
    assert!(grown < MAY_GROW_BY, "the server has grown by {grown} bytes");
    assert_eq!(world.cli(&["run", "--", "true"]).code, 0, "and it still works");
}

/// Two bytes of JSON can be a hundred in memory, to a reader that keeps what it does not
/// understand. None of these is worth more than six times its size, wherever it stands.
#[test]
fn a_request_takes_no_more_memory_than_it_is_worth() {
    let world = World::new();
    world.up_with(&["--no-pilot"], |_| {});
    let bytes: usize = if quick() { 8 << 20 } else { 21 << 20 };
    let many = |one: &str| format!("[{}{one}]", format!("{one},").repeat(bytes / (one.len() + 1)));
    let names = |value: &str| {
        let mut text = String::from("{\"\":1");
        for number in 0..bytes / (value.len() + 11) {
            write!(text, ",\"{number:07}\":{value}").expect("a text grows");
        }
        text + "}"
    };
    let mut bodies = Vec::new();
    for one in ["{\"\":1}", "1", "\"\"", "[]"] {
        bodies.push(format!("{{\"retries\":{{\"limit\":1,\"on\":{}}}}}", many(one)));
        bodies.push(format!("{{\"retries\":{}}}", many(one)));
        for key in ["after", "inputs", "outputs", "binds", "command", "each", "array", "labels"] {
            bodies.push(format!("{{\"{key}\":{}}}", many(one)));
        }
        bodies.push(format!("{{\"resources\":{{\"gpu\":{{\"model\":{}}}}}}}", many(one)));
        bodies.push(format!("{{\"nonsense\":{}}}", many(one)));
    }
    for key in ["env", "labels", "nonsense", "retries", "time_limit", "outputs"] {
        bodies.push(format!("{{\"{key}\":{}}}", names("\"\"")));
    }
    bodies.push(format!("{{\"each\":[{}]}}", names("\"\"")));
    let long_name = "n".repeat(bytes / 4);
    bodies.push(format!("{{\"each\":[{}{{\"{long_name}\":1}}]}}", "{},".repeat(bytes / 4)));
    bodies.push("{\"array\":\"0-9999998:2,1-9999999:2\"}".to_string());
    bodies.push(format!("{{\"priority\":\"{}\"}}", "x".repeat(bytes)));
    bodies.push(format!("{{\"{}\":1}}", "x".repeat(bytes)));
    for (at, body) in bodies.iter().enumerate() {
        let whole = format!("{{\"spec\":{body}}}");
        check_worth(&world, at, "/api/v1/jobs", &whole);
    }
    for one in ["1", "\"1/1\"", "{\"\":1}"] {
        check_worth(&world, 0, "/api/v1/cancel", &format!("{{\"jobs\":{}}}", many(one)));
        check_worth(&world, 0, "/api/v1/retry", &format!("{{\"tasks\":{}}}", many(one)));
    }
    check_worth(&world, 0, "/api/v1/users", &format!("{{\"user\":{}}}", many("[]")));
    check_worth(&world, 0, "/api/v1/tokens", &names("[]"));
}

/// It is refused, and the most memory meanwhile is six times the body and 16 MB at most.
fn check_worth(world: &World, at: usize, path: &str, body: &str) {
    let pid = world.server_pid();
    // From here on the kernel notes the most anew.
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5").expect("a process of ours");
    let before = resident(pid);
    let answer = post(world, path, body.as_bytes());
    let grown = most_resident(pid).saturating_sub(before);
    assert!((400..500).contains(&answer.status), "{at} {body:.60}: {:.300}", answer.body);
    let worth = 6 * body.len() as u64 + (16 << 20);
    assert!(grown <= worth, "{at} {path} {body:.60}…: {grown} bytes for {}", body.len());
}

/// What waits is an interval, not a task each: half a billion of them fit.
#[test]
fn the_largest_arrays_are_small_until_they_run() {
    let world = World::new();
    world.up_with(&["--no-pilot"], |_| {});
    let before = resident(world.server_pid());
    let size: u32 = if quick() { 1_000_000 } else { 10_000_000 };
    let array = format!("1-{size}");
    for _ in 0..50 {
        world.submit(&["--array", &array, "--", "true"]);
    }
    let grown = resident(world.server_pid()).saturating_sub(before);
    assert!(grown < MAY_GROW_BY, "the server has grown by {grown} bytes");
    let last = format!("/api/v1/jobs/50/tasks?from={}&limit=1000", size - 10);
    assert_eq!(get(&world, &last).json()["tasks"].as_array().map(Vec::len), Some(10));
    world.ok(&["cancel", "7"]);
    assert_eq!(get(&world, "/api/v1/jobs/7").json()["counts"]["cancelled"], size);
}

/// Whoever asks for what a task never printed gets nothing, and costs nobody else anything.
#[test]
fn a_place_behind_the_end_of_a_log_is_empty() {
    let world = World::started();
    let id = world.submit(&["--", "echo", "short"]);
    world.ok(&["wait", &id]);
    let pilot = || world.json(&["nodes"])["nodes"][0]["pilot"].clone();
    let before = pilot();
    for offset in [7, 1_000, u64::MAX] {
        let path = format!("/api/v1/jobs/{id}/tasks/0/log?offset={offset}");
        let answer = get(&world, &path);
        assert!(answer.status < 500 && !answer.body.contains("short"), "{path}: {answer:?}");
    }
    world.ok(&["run", "--", "true"]);
    assert_eq!(pilot(), before, "the same pilot as before");
}

/// Their rows are all sent to one pilot at the same moment, and together are more than it takes in
/// one message.
#[test]
fn jobs_with_large_rows_that_become_ready_at_once_hold_up_nobody() {
    let world = World::started();
    let first = world.submit(&["--", "sh", "-c", "while [ ! -e go ]; do sleep 0.1; done"]);
    let row = format!(r#"{{"a": "{}"}}"#, "x".repeat(250_000));
    let rows = vec![row; 80].join(",");
    let spec = format!(
        r#"{{"spec": {{"command": ["true"], "resources": {{"cpus": 0.001}}, "after": [{first}],
            "each": [{rows}]}}}}"#
    );
    let jobs: Vec<String> = (0..6)
        .map(|number| {
            let answer = post(&world, "/api/v1/jobs", spec.as_bytes());
            assert_eq!(answer.status, 201, "number {number}: {:.500}", answer.body);
            let answer: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
            answer["id"].to_string()
        })
        .collect();
    std::fs::write(world.work().join("go"), "").expect("written");
    assert_eq!(world.cli(&["run", "--", "true"]).code, 0, "another one starts");
    let ids: Vec<&str> = jobs.iter().map(String::as_str).collect();
    let ended = world.cli(&[&["wait"], &ids[..]].concat());
    assert_eq!(ended.code, 1, "no program takes such variables: {}", ended.stderr);
}

/// Each number is looked for while everybody waits, so that those of all jobs count together.
#[test]
fn a_request_names_no_more_jobs_to_wait_for_than_one_job_may() {
    let world = World::started();
    let numbers: Vec<String> = (1..=600).map(|number| number.to_string()).collect();
    let job = format!(r#"{{"spec":{{"command":["true"],"after":[{}]}}}}"#, numbers.join(","));
    let answer = post(&world, "/api/v1/submissions", format!(r#"{{"jobs":[{job}]}}"#).as_bytes());
    assert_eq!(answer.status, 422, "{}", answer.body);
    assert!(answer.body.contains("no_such_dependency"), "few enough: {}", answer.body);
    let both = format!(r#"{{"jobs":[{job},{job}]}}"#);
    let answer = post(&world, "/api/v1/submissions", both.as_bytes());
    assert_eq!(answer.status, 422, "{}", answer.body);
    assert!(answer.body.contains("1200 numbers of jobs to wait for"), "{}", answer.body);
}
