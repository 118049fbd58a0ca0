//! Journals that are damaged, and homes that a newer shipway wrote: what can be recovered is, and
//! said; what cannot be is refused, and not touched.

use crate::common::{Ran, World};
use std::collections::BTreeMap;
use std::path::PathBuf;

const NO_PILOT: [&str; 1] = ["--no-pilot"];

/// A home with a few jobs, whose server was killed.
fn killed_home() -> World {
    let world = World::new();
    world.up_with(&NO_PILOT, |_| {});
    for name in ["first", "second", "third"] {
        world.submit(&["--name", name, "--", "true"]);
    }
    world.kill_server();
    world
}

fn names(world: &World) -> Vec<String> {
    let listed = world.json(&["jobs"]);
    let listed = listed["jobs"].as_array().expect("jobs");
    listed.iter().rev().map(|job| job["name"].as_str().expect("a name").to_string()).collect()
}

/// How much of a log was written; behind it is room made ahead.
fn written(log: &[u8]) -> usize {
    const ROOM: u8 = 0xA5;
    log.iter().rposition(|byte| *byte != ROOM).expect("it was written to") + 1
}

fn wal(world: &World) -> PathBuf {
    world.home().join("shipway.db-wal")
}

fn database(world: &World) -> rusqlite::Connection {
    rusqlite::Connection::open(world.home().join("shipway.db")).expect("the database opens")
}

/// Moves everything into the database file itself.
fn checkpoint(world: &World) {
    let moved = database(world).query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    moved.expect("a checkpoint");
}

#[test]
fn a_damaged_tail_is_set_aside_and_said() {
    let world = killed_home();
    let path = wal(&world);
    let mut bytes = std::fs::read(&path).expect("a log");
    let last = written(&bytes) - 100;
    bytes[last] ^= 0xff;
    std::fs::write(&path, bytes).expect("written");
    world.up_with(&NO_PILOT, |_| {});
    let said = world.server_log();
    assert!(said.contains("the journal was repaired: recovered to event"), "{said}");
    assert!(said.contains("set aside in"), "{said}");
    assert_eq!(names(&world), ["first", "second"], "all but the last commit");
    world.submit(&["--name", "fourth", "--", "true"]);
    assert_eq!(names(&world), ["first", "second", "fourth"]);
}

#[test]
fn a_cut_tail_is_said() {
    let world = killed_home();
    let bytes = std::fs::read(wal(&world)).expect("a log");
    let cut = &bytes[..written(&bytes) - 100];
    std::fs::write(wal(&world), cut).expect("cut");
    world.up_with(&["--no-pilot", "--log-level", "info"], |_| {});
    let said = world.server_log();
    assert!(said.contains("recovered to event"), "{said}");
    assert_eq!(names(&world), ["first", "second"], "all but the last commit");
}

#[test]
fn damage_within_is_refused_and_nothing_is_touched() {
    let world = killed_home();
    checkpoint(&world);
    let flip = "UPDATE commits SET body = replace(body, 'second', 'sekond') WHERE body LIKE ?1";
    let flipped = database(&world).execute(flip, ["%second%"]).expect("flipped");
    assert_eq!(flipped, 1);
    checkpoint(&world);
    let ran = check_refused(&world);
    assert!(ran.stderr.contains("is damaged after event"), "{}", ran.stderr);
    assert!(ran.stderr.contains("restore this home from a backup"), "{}", ran.stderr);
}

#[test]
fn a_newer_home_is_refused_and_nothing_is_touched() {
    let world = killed_home();
    checkpoint(&world);
    let newer = "UPDATE meta SET value = 99 WHERE key = 'format';
        UPDATE meta SET value = '7.0.0' WHERE key = 'written_by'; PRAGMA user_version = 99";
    database(&world).execute_batch(newer).expect("bumped");
    checkpoint(&world);
    let ran = check_refused(&world);
    assert!(ran.stderr.contains("has format 99, written by shipway 7.0.0"), "{}", ran.stderr);
    assert!(ran.stderr.contains("start it with shipway 7.0.0 or newer"), "{}", ran.stderr);
}

/// `up` says no, and every file of the home is as it was.
fn check_refused(world: &World) -> Ran {
    let before = files(world);
    let ran = world.up_refused(&[]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert_eq!(changed(&before, &files(world)), Vec::<String>::new());
    ran
}

/// The lock is not among them: taking it is how the home is looked at safely. Nor is the file
/// that names the last server, which was killed.
fn files(world: &World) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(world.home()).expect("a home").flatten();
    let name = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let files = entries.filter(|entry| entry.path().is_file() && name(entry) != "lock");
    files.map(|entry| (name(&entry), std::fs::read(entry.path()).expect("a file"))).collect()
}

fn changed(before: &BTreeMap<String, Vec<u8>>, after: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let all = before.keys().chain(after.keys());
    all.filter(|name| before.get(*name) != after.get(*name)).cloned().collect()
}
