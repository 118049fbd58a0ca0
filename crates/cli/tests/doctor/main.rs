//! `shipway doctor` on this machine, a pilot whose GPU or folder fails its proof, and what tasks
//! use of a node and its GPU.

#[path = "../common/mod.rs"]
mod common;
mod imitated;
mod unfit;
mod used;

use common::World;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["checks"].as_array().expect("checks");
    let found = checks.iter().find(|check| check["name"] == name);
    found.unwrap_or_else(|| panic!("no check `{name}` in {report}"))
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn doctor(world: &World, words: &[&str]) -> Output {
    world.command(&[&["doctor", "--json"], words].concat()).output().expect("it runs")
}

/// The same as an ordinary user, whoever runs the tests.
fn as_nobody(words: &[&str]) -> Output {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    const NOBODY: u32 = 65_534;
    let dir = tempfile::tempdir().expect("a directory");
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("opened");
    };
    open(dir.path(), 0o777);
    let program = dir.path().join("shipway");
    common::copy_program(&program);
    let mut command = Command::new(program);
    command.args(["doctor", "--json"]).args(words).current_dir("/");
    command.env("SHIPWAY_HOME", dir.path().join("home")).env_remove("SHIPWAY_URL");
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().expect("it runs");
    assert!(!dir.path().join("home").exists(), "it leaves nothing behind");
    output
}

#[test]
fn this_machine_is_examined_without_a_server_by_anybody() {
    for output in [doctor(&World::new(), &["--quick"]), as_nobody(&["--quick"])] {
        let report = report(&output);
        assert_eq!(report["fit"] == true, output.status.success(), "{report}");
        for name in ["work folder", "clock", "user namespaces", "seccomp", "cgroups", "GPUs"] {
            let found = check(&report, name);
            assert!(found["wanted"].is_string() && found["found"].is_string(), "{found}");
        }
        assert_eq!(check(&report, "work folder")["state"], "ok", "{report}");
        assert_eq!(check(&report, "clock")["state"], "ok", "{report}");
        assert_eq!(check(&report, "image source")["state"], "not_applicable");
        if check(&report, "containers")["state"] == "ok" {
            assert_ne!(check(&report, "overlay")["state"], "failed", "{report}");
        } else {
            common::cannot("containers do not start here");
        }
    }
}

#[test]
fn what_fails_is_said_with_its_fix_and_by_the_exit_code() {
    let world = World::new();
    let ran = world.cli(&["doctor", "--quick", "--dir", "/proc/shipway"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stdout.contains("cannot be made"), "{}", ran.stdout);
    assert!(ran.stdout.contains("fix: give this user the folder"), "{}", ran.stdout);
    assert!(ran.stdout.contains("This node is not fit: 1 check failed"), "{}", ran.stdout);
    let missing = doctor(&world, &["--quick", "--image", "oci:/nowhere"]);
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(check(&report(&missing), "image source")["state"], "failed");
    let here = doctor(&world, &["--quick", "--image", "host"]);
    assert_eq!(check(&report(&here), "image source")["state"], "ok");
}

#[test]
fn the_clock_is_compared_with_the_servers() {
    let world = World::started();
    let found = report(&doctor(&world, &["--quick"]));
    let said = check(&found, "clock")["found"].as_str().expect("text").to_owned();
    assert!(said.contains("agrees with the server at"), "{said}");
}
