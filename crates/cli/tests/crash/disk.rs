//! Disks that are full and disks that fail, under the whole product: nothing is acknowledged that
//! is not on disk, and the server goes on by itself when it can.

use crate::common::{Ran, World, cannot, plain_tasks, terminate, wait_for};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Submissions that are tried before the disk must have refused one.
const TRIES: usize = 500;

#[test]
fn a_full_disk_refuses_clearly_and_goes_on_with_room() {
    let Some(world) = World::on_small_disk("8m") else {
        return cannot("mounting a tmpfs needs root");
    };
    world.up();
    let mut acknowledged = vec![world.submit(&["--", "true"])];
    assert_eq!(world.cli(&["wait", &acknowledged[0]]).code, 0);
    let server = world.server_pid();
    let filler = fill(world.home());
    let refused = submit_until_refused(&world, &mut acknowledged);
    check_refusal(&world, &refused, "the disk is full");

    std::fs::remove_file(&filler).expect("removed");
    wait_for("the server goes on", || world.is_ready());
    assert_eq!(world.server_pid(), server, "without a restart");
    check_listed(&world, &acknowledged);
    assert_eq!(world.ok(&["run", "--", "echo", "hello"]), "hello\n");
    world.kill_server();
    world.up();
    check_listed(&world, &acknowledged);
}

#[test]
fn a_failed_sync_is_never_acknowledged() {
    let world = World::new();
    let Some(shim) = shim(&world.work()) else { return cannot("building the shim needs cc") };
    let flag = world.work().join("failing");
    // No pilot: it would inherit the shim.
    world.up_with(&["--no-pilot"], |command| {
        command.env("LD_PRELOAD", &shim).env("FAIL_SYNC_WHILE", &flag);
    });
    let mut acknowledged = vec![submit_waiting(&world).expect("accepted")];
    std::fs::write(&flag, "").expect("a file");
    for _ in 0..2 {
        let refused = submit_waiting(&world).expect_err("the disk fails");
        check_refusal(&world, &refused, "fsync failed");
    }
    std::fs::remove_file(&flag).expect("removed");
    wait_for("the server goes on", || world.is_ready());
    check_listed(&world, &acknowledged);
    acknowledged.push(submit_waiting(&world).expect("accepted"));
    world.kill_server();
    world.up_with(&["--no-pilot"], |_| {});
    check_listed(&world, &acknowledged);
}

/// A pilot of its own, whose disk is in order.
struct Pilot(Child);

impl Pilot {
    fn start(world: &World) -> Pilot {
        let (dir, token) = (world.work().join("pilot"), world.work().join("pilot.json"));
        std::fs::write(&token, world.ok(&["token", "pilot", "--json"])).expect("a file");
        let mut command = world.command(&["pilot", "--server", &world.url(), "--dir"]);
        command.arg(dir).arg("--token-file").arg(token).args(plain_tasks(&[]));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Pilot(command.spawn().expect("the pilot starts"))
    }
}

impl Drop for Pilot {
    fn drop(&mut self) {
        terminate(self.0.id());
        let _ = self.0.wait();
    }
}

/// What is to be written waits for it, and nothing else does: a task's end is reported in vain,
/// and meanwhile the server is asked, says why it is not ready, and reads a log from the pilot.
#[test]
fn a_disk_that_hangs_holds_up_only_what_is_to_be_written() {
    let world = World::new();
    let Some(shim) = shim(&world.work()) else { return cannot("building the shim needs cc") };
    let (hangs, go_on) = (world.work().join("hangs"), world.work().join("go-on"));
    world.up_with(&["--no-pilot"], |command| {
        command.env("LD_PRELOAD", &shim).env("HANG_SYNC_WHILE", &hangs);
    });
    let pilot = Pilot::start(&world);
    let until = format!("echo hello; until [ -e {} ]; do sleep 0.05; done", go_on.display());
    let job = world.submit(&["--", "sh", "-c", &until]);
    wait_for("it runs", || world.cli(&["logs", &job]).stdout == "hello\n");
    std::fs::write(&hangs, "").expect("a file");
    std::fs::write(&go_on, "").expect("a file");
    let why = "the journal's disk has not answered for ";
    wait_for("the server says why it is not ready", || {
        world.get("/readyz").is_some_and(|(status, body)| status == 503 && body.contains(why))
    });
    assert_eq!(world.get("/healthz").map(|(status, _)| status), Some(200));
    let words = ["run", "-d", "--", "true"];
    let mut waits = world.command(&words).stdout(Stdio::null()).spawn().expect("the binary runs");
    for _ in 0..2 {
        let jobs = world.json(&["jobs"]);
        assert_eq!(jobs["jobs"][0]["state"], "running", "its end is not on disk");
        assert_eq!(jobs["jobs"].as_array().map(Vec::len), Some(1), "{jobs}");
        assert_eq!(world.cli(&["show", &job]).code, 0);
        assert_eq!(world.json(&["nodes"])["nodes"][0]["link"], "connected");
        assert_eq!(world.cli(&["why", &job]).code, 0);
        assert_eq!(world.ok(&["logs", &job]), "hello\n", "the pilot is heard");
    }
    assert!(waits.try_wait().expect("a child").is_none(), "nothing is acknowledged");

    std::fs::remove_file(&hangs).expect("removed");
    assert_eq!(world.cli(&["wait", &job]).code, 0);
    assert!(waits.wait().expect("a child").success(), "what waited is accepted");
    wait_for("the server goes on", || world.is_ready());
    check_listed(&world, &[job, "2".into()]);
    drop(pilot);
}

/// Takes all the room there is.
fn fill(home: &Path) -> PathBuf {
    let path = home.join("filler");
    let mut file = std::fs::File::create(&path).expect("a file");
    for size in [64 << 10, 1 << 10, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
    path
}

/// Submits a job that no node can run, so that it only waits, with something to write down.
fn submit_waiting(world: &World) -> Result<String, Ran> {
    let bulk = format!("BULK={}", "x".repeat(16 << 10));
    let words = ["--json", "run", "-d", "--cpus", "9999", "--env", &bulk, "--", "true"];
    let ran = world.cli(&words);
    if ran.code != 0 {
        return Err(ran);
    }
    let answer: Value = serde_json::from_str(&ran.stdout).expect("an answer");
    Ok(answer["id"].to_string())
}

fn submit_until_refused(world: &World, acknowledged: &mut Vec<String>) -> Ran {
    for _ in 0..TRIES {
        match submit_waiting(world) {
            Ok(id) => acknowledged.push(id),
            Err(ran) => return ran,
        }
    }
    panic!("{TRIES} submissions and none refused");
}

fn check_refusal(world: &World, refused: &Ran, why: &str) {
    assert_eq!(refused.code, 3, "{refused:?}");
    let error: Value = serde_json::from_str(&refused.stderr).expect("an error in JSON");
    assert_eq!(error["error"]["code"], "not_durable", "{error:#}");
    let message = error["error"]["message"].as_str().expect("a message");
    assert!(message.contains(why), "{message}");
    let (status, body) = world.get("/readyz").expect("an answer");
    assert_eq!(status, 503, "{body}");
    assert!(body.contains(why), "{body}");
    assert_eq!(world.get("/healthz").expect("an answer").0, 200, "the process lives");
}

/// All of them, each once, and no other.
fn check_listed(world: &World, acknowledged: &[String]) {
    let listed = world.json(&["jobs", "--limit", "500"]);
    let listed = listed["jobs"].as_array().expect("jobs");
    for id in acknowledged {
        let id: u64 = id.parse().expect("a number");
        let found = listed.iter().filter(|job| job["id"] == id).count();
        assert_eq!(found, 1, "job {id} was acknowledged");
    }
}

/// Compiles the shim of the journal's own tests; `None` where there is no C compiler.
fn shim(dir: &Path) -> Option<PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../server/tests/faults/fail_sync.c");
    let library = dir.join("fail_sync.so");
    let mut build = Command::new("cc");
    build.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).args([source, "-ldl"]);
    build.status().is_ok_and(|status| status.success()).then_some(library)
}
