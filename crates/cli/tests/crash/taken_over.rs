//! A second server on a home whose lock does not hold: the first one ends and leaves all to it.

use crate::common::{World, plain_tasks, terminate, wait_for, wait_some};
use crate::tasks::task;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Stdio};

/// A server that is not the world's own, when it is ready.
fn first_server(world: &World) -> (Child, PathBuf) {
    let said = world.work().join("first.log");
    let mut command = world.command(&["up", "--listen", "127.0.0.1:0"]);
    command.args(plain_tasks(&[])).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(File::create(&said).expect("a file"));
    let first = command.spawn().expect("the binary starts");
    wait_for("the first server is ready", || world.is_ready());
    // What it wrote while the second opens the journal would keep the second out.
    let has_node =
        |nodes: serde_json::Value| nodes["nodes"].as_array().is_some_and(|n| !n.is_empty());
    wait_for("its pilot has come", || has_node(world.json(&["nodes"])));
    (first, said)
}

/// One that has nothing to write does not know of the second.
#[test]
fn a_first_server_that_is_told_to_end_leaves_all_to_the_second() {
    let world = World::new();
    let (mut first, said) = first_server(&world);
    let pilot = world.pilot_pid();
    std::fs::remove_file(world.home().join("lock")).expect("a lock");
    world.up();
    let file = || std::fs::read_to_string(world.home().join("server.json")).ok();
    let of_second = file();
    terminate(first.id());
    let status = wait_some("the first ends", || first.try_wait().expect("a child"));
    assert_eq!(file(), of_second, "the second's");
    let said = std::fs::read_to_string(&said).expect("a log");
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("another server has taken over the journal"), "{said}");
    assert_eq!(world.cli(&["run", "--", "true"]).code, 0);
    assert_eq!(world.pilot_pid(), pilot, "the same pilot");
}

#[test]
fn the_first_of_two_servers_ends_and_the_pilot_goes_on() {
    let world = World::new();
    let (mut first, said) = first_server(&world);
    let (url, token) = (world.url(), world.token());
    let job = world.submit(&["--", "sh", "-c", "until [ -e go ]; do sleep 0.05; done"]);
    wait_for("the job runs", || task(&world, &format!("{job}/0"))["state"] == "running");
    let pilot = world.pilot_pid();

    std::fs::remove_file(world.home().join("lock")).expect("a lock");
    world.up();
    let mut late = world.command(&["run", "-d", "--name", "late", "--", "true"]);
    let late = late.env("SHIPWAY_URL", &url).env("SHIPWAY_TOKEN", &token).output();
    assert!(!late.expect("the binary runs").status.success(), "it is not the first's to take");
    let status = wait_some("the first ends", || first.try_wait().expect("a child"));
    let said = std::fs::read_to_string(&said).expect("a log");
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("another server has taken over the journal"), "{said}");
    assert!(said.contains("one server uses a home at a time"), "{said}");

    std::fs::write(world.work().join("go"), "").expect("a file");
    assert_eq!(world.cli(&["wait", &job]).code, 0);
    assert_eq!(world.pilot_pid(), pilot, "the same pilot");
    let jobs = world.json(&["jobs"]);
    assert_eq!(jobs["jobs"].as_array().map(Vec::len), Some(1), "{jobs:#}");
}
