//! Homes that earlier binaries wrote, in `tests/fixtures`: this one must read them as they were
//! meant. The steps that made them are here too, and are checked against the newest's expectation.
//!
//! - `home-0`  by the first binary that could run a job
//! - `home-1`  by the first that wrote runs of tasks as pairs
//! - `home-2`  by the last that wrote events of the first version
//! - `home-3`  by the last that wrote events of the second
//!
//! To write the next one: `SHIPWAY_KEEP_HOME=DIR`, with a new directory beside the old ones. None
//! of them is ever written again.

use crate::common::{World, wait_for};
use crate::tasks::{SMALL, task};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const FILES: [&str; 2] = ["shipway.db", "shipway.db-wal"];

const NEWEST: &str = "home-3";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

#[test]
fn a_home_of_the_first_binary_is_read_as_it_was_meant() {
    opens("home-0");
}

#[test]
fn a_home_with_runs_as_pairs_is_read_as_it_was_meant() {
    opens("home-1");
}

#[test]
fn a_home_with_events_of_the_first_version_is_read_as_it_was_meant() {
    opens("home-2");
}

#[test]
fn a_home_with_events_of_the_second_version_is_read_as_it_was_meant() {
    opens("home-3");
}

fn opens(name: &str) {
    let world = World::new();
    std::fs::create_dir(world.home()).expect("a home");
    for file in FILES {
        std::fs::copy(fixture(name).join(file), world.home().join(file)).expect("copied");
    }
    world.up_with(&["--no-pilot"], |_| {});
    check(&content(&world), name);
    // And it goes on from there: the next job has the next number.
    assert_eq!(world.submit(&["--", "true"]), "6");
}

#[test]
fn the_same_steps_give_the_same_home_today() {
    let world = World::started();
    write_home(&world);
    if let Some(keep) = std::env::var_os("SHIPWAY_KEEP_HOME") {
        for file in FILES {
            std::fs::copy(world.home().join(file), Path::new(&keep).join(file)).expect("copied");
        }
        std::fs::write(Path::new(&keep).join("events.jsonl"), events(&world)).expect("written");
    }
    world.up();
    let found = content(&world);
    if let Some(keep) = std::env::var_os("SHIPWAY_KEEP_HOME") {
        let text = serde_json::to_string_pretty(&found).expect("plain data");
        std::fs::write(Path::new(&keep).join("expected.json"), text + "\n").expect("written");
    }
    check(&found, NEWEST);
}

fn check(found: &Value, name: &str) {
    let text = std::fs::read_to_string(fixture(name).join("expected.json"));
    let expected: Value = serde_json::from_str(&text.expect("an expectation")).expect("JSON");
    assert!(*found == expected, "expected {expected:#}\nfound {found:#}");
}

/// One job of every kind, in the database file and in the write-ahead log.
fn write_home(world: &World) {
    let small = |words: &[&str]| world.submit(&[&SMALL[..], words].concat());
    small(&["--name", "good", "--label", "kind=plain", "--", "true"]);
    small(&["--name", "bad", "--", "sh", "-c", "exit 7"]);
    let endless = small(&["--name", "unwanted", "--", "sleep", "1000"]);
    wait_for("it runs", || task(world, &format!("{endless}/0"))["state"] == "running");
    world.ok(&["cancel", &endless]);
    for (job, code) in [("1", 0), ("2", 7)] {
        assert_eq!(world.cli(&["wait", job]).code, code);
    }
    assert_ne!(world.cli(&["wait", &endless]).code, 0);
    // In order, so that there is a snapshot.
    world.stop_server();
    let home = rusqlite::Connection::open(world.home().join("shipway.db")).expect("a database");
    let moved = home.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    moved.expect("a checkpoint");
    drop(home);

    world.up();
    world.ok(&["user", "add", "ada", "--role", "operator"]);
    world.ok(&["token", "new", "--user", "ada", "--note", "for the fixture"]);
    let script = "[ $SHIPWAY_INDEX -le 2 ] || exec sleep 1000";
    let half = small(&["--name", "half", "--array", "1-4", "--", "sh", "-c", script]);
    world.submit(&["--name", "waiting", "--after", &half, "--cpus", "2", "--", "true"]);
    wait_for("half of it is done", || {
        let counts = world.json(&["show", &half])["job"]["counts"].clone();
        let running = |index| task(world, &format!("{half}/{index}"))["state"] == "running";
        counts["succeeded"] == 2 && running(3) && running(4)
    });
    world.kill_server();
}

/// Every event of the journal, a line each.
fn events(world: &World) -> String {
    let home = rusqlite::Connection::open(world.home().join("shipway.db")).expect("a database");
    let mut query = home.prepare("SELECT body FROM commits ORDER BY seq_first").expect("commits");
    let bodies = query.query_map([], |row| row.get::<_, String>(0)).expect("commits");
    bodies.map(|body| body.expect("text").trim_end().to_string() + "\n").collect()
}

/// What the home holds, without what differs from one writing to the next.
fn content(world: &World) -> Value {
    let mut jobs = world.json(&["jobs", "--all"]);
    for job in jobs["jobs"].as_array_mut().expect("jobs") {
        forget(job, &["submitted", "ended", "owner"]);
    }
    let mut tasks: Vec<Value> =
        ["1/0", "2/0", "3/0", "4/1", "4/3"].iter().map(|id| task(world, id)).collect();
    for task in &mut tasks {
        forget(task, &["started", "ended", "node", "usage"]);
        for attempt in attempts(task) {
            forget(attempt, &["started", "ended", "node", "usage"]);
        }
    }
    json!({ "jobs": jobs, "tasks": tasks, "users": users(world), "notes": notes(world) })
}

/// All but the owner, who is called as the account is.
fn users(world: &World) -> Vec<Value> {
    let listed = world.json(&["user", "list"]);
    let users = listed["users"].as_array().expect("users");
    // What later versions say about users beside this is not in a home of the first ones.
    let ada = users.iter().filter(|user| user["user"] == "ada");
    ada.map(|user| json!({ "user": user["user"], "role": user["role"] })).collect()
}

fn notes(world: &World) -> Vec<Value> {
    let listed = world.json(&["token", "list"]);
    let tokens = listed["tokens"].as_array().expect("tokens");
    tokens.iter().map(|token| json!([token["user"], token["note"]])).collect()
}

fn attempts(task: &mut Value) -> impl Iterator<Item = &mut Value> {
    task.get_mut("attempts").and_then(Value::as_array_mut).into_iter().flatten()
}

fn forget(value: &mut Value, keys: &[&str]) {
    let object = value.as_object_mut().expect("an object");
    for key in keys {
        object.remove(*key);
    }
}
