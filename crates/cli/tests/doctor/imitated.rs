//! A node whose driver is an imitation in C, for faults that no real one can be made to show. That
//! a real GPU passes is shown on a machine that has one.

use super::common::{World, cannot, is_alive, wait_some};
use super::{check, doctor, report};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the imitations, or `None` where they cannot be used.
pub(crate) fn driver(dir: &Path) -> Option<PathBuf> {
    if Path::new("/dev/nvidiactl").exists() {
        cannot_here("this machine has a real GPU");
        return None;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (library, source) in [
        ("libnvidia-ml.so.1", root.join("tests/doctor/libnvidia-ml.c")),
        ("libcuda.so.1", root.join("../pilot/tests/kernel/libcuda.c")),
    ] {
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-w", "-o"]).arg(dir.join(library)).arg(source).arg("-lm");
        if !cc.status().is_ok_and(|status| status.success()) {
            cannot("a C compiler is missing");
            return None;
        }
    }
    Some(dir.to_owned())
}

/// No failure even in CI: a machine with a GPU shows the real thing.
#[allow(clippy::print_stderr, reason = "a skipped test must be seen")]
fn cannot_here(why: &str) {
    eprintln!("skipped: {why}");
}

fn started(driver: &Path, fault: &str) -> World {
    let world = World::new();
    world.up_with(&[], |command| {
        command.env("LD_LIBRARY_PATH", driver).env("IMITATE", fault);
    });
    world
}

#[test]
fn a_task_over_its_share_of_a_gpu_is_ended_and_told_why() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(driver) = driver(dir.path()) else { return };
    let world = World::new();
    let uses = world.work().join("uses");
    world.up_with(&[], |command| {
        command.env("LD_LIBRARY_PATH", &driver).env("IMITATE", "right");
        command.env("IMITATE_USES", &uses);
    });
    // The GPU has 8 GB. The first task keeps within its half, its neighbour does not.
    let modest = "sleep 1000 & echo $! 3900000000 >> uses; wait";
    let greedy = "sleep 1000 & echo $! 2100000000 >> uses; echo $$ 2000000000 >> uses; wait";
    let held = world.submit(&["--gpus", "0.5", "--cpus", "0.1", "--", "sh", "-c", modest]);
    let ran = world.cli(&["run", "--gpus", "0.5", "--cpus", "0.1", "--", "sh", "-c", greedy]);
    assert_eq!(ran.code, 137, "{}", ran.stderr);
    let outcome = world.json(&["show", "2"])["job"]["outcome"].clone();
    assert_eq!((&outcome["kind"], &outcome["on_gpu"]), (&"out_of_memory".into(), &true.into()));
    assert_eq!(
        (&outcome["used"], &outcome["limit"]),
        (&4_100_000_000_u64.into(), &4_000_000_000_u64.into())
    );
    let said = "out of GPU memory: used 4.1GB, and its share is 4GB";
    assert!(world.ok(&["show", "2"]).contains(said), "{}", world.ok(&["show", "2"]));
    assert_eq!(world.json(&["show", &held])["job"]["state"], "running", "its neighbour goes on");
    world.ok(&["cancel", &held]);
}

#[test]
fn the_service_for_shares_is_told_its_gpu_and_ends_with_the_pilot() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().expect("a directory");
    let Some(driver) = driver(dir.path()) else { return };
    let control = dir.path().join("nvidia-cuda-mps-control");
    let note = dir.path().join("note");
    let script = "#!/bin/sh\necho $$ $1 $CUDA_VISIBLE_DEVICES $CUDA_MPS_PIPE_DIRECTORY > \
                  $IMITATE_MPS.new\nmv $IMITATE_MPS.new $IMITATE_MPS\nexec sleep 100000\n";
    std::fs::write(&control, script).expect("written");
    let runs = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&control, runs).expect("allowed");
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").expect("a path"));
    let world = World::new();
    world.up_with(&["--gpu-sharing", "mps"], |command| {
        command.env("LD_LIBRARY_PATH", &driver).env("IMITATE", "right");
        command.env("PATH", path).env("IMITATE_MPS", &note);
    });
    let noted = wait_some("the service is started", || std::fs::read_to_string(&note).ok());
    let words: Vec<&str> = noted.split_whitespace().collect();
    let pipes = world.home().join("pilot/mps/0");
    assert_eq!(words[1..], ["-f", "GPU-imitated", pipes.to_str().expect("text")]);
    let tell = "echo $CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE \
                $CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";
    let said = world.ok(&["run", "--gpus", "0.25", "--", "sh", "-c", tell]);
    assert_eq!(said.trim(), format!("{} 25 0=1907M", pipes.display()));
    let said = world.ok(&["run", "--gpus", "1", "--", "sh", "-c", tell]);
    assert_eq!(said.trim(), "", "a whole GPU needs no service");
    assert!(world.stop_server().success());
    let pid = words[0].parse().expect("a process");
    wait_some("the service has ended", || (!is_alive(pid)).then_some(()));
}

fn node(world: &World) -> Option<Value> {
    world.json(&["nodes"])["nodes"].get(0).cloned()
}

#[test]
fn a_gpu_that_fails_is_not_offered_and_says_why() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(driver) = driver(dir.path()) else { return };
    let world = started(&driver, "miscomputes");
    let id = world.submit(&["--gpus", "1", "--", "true"]);
    let held = wait_some("the proof has failed", || {
        let node = node(&world)?;
        node["ad"]["withheld"].get(0).filter(|held| held["why"].is_string()).cloned()
    });
    assert_eq!((&held["name"], &held["gpu"]["id"]), (&"GPU 0".into(), &"GPU-imitated".into()));
    assert!(node(&world).expect("a node")["ad"]["gpus"].as_array().is_none_or(Vec::is_empty));
    let why = wait_some("the reason is told", || {
        Some(world.ok(&["why", &id])).filter(|why| why.contains("failed its proof"))
    });
    assert!(why.contains("GPU 0 of node"), "{why}");
    assert!(why.contains("computed wrongly"), "{why}");
    assert!(why.contains("`shipway doctor` there says how)"), "{why}");
    assert!(world.ok(&["nodes"]).contains("GPU 0 failed its proof: computed wrongly"));
    assert!(world.ok(&["gpus"]).contains("not offered: Imitation"));
    assert_eq!(world.cli(&["run", "--", "true"]).code, 0, "other tasks run");
}

#[test]
fn a_gpu_that_computes_is_offered_after_its_proof() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(driver) = driver(dir.path()) else { return };
    let world = started(&driver, "right");
    // Submitted before the proof may have ended: it waits and runs then.
    let ran = world.cli(&["run", "--gpus", "1", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]);
    assert_eq!((ran.code, ran.stdout.trim()), (0, "GPU-imitated"), "{}", ran.stderr);
}

#[test]
fn the_doctor_survives_every_driver() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(driver) = driver(dir.path()) else { return };
    let world = World::new();
    for (fault, words) in [
        ("right", "1048576 results are right"),
        ("refuses", "cuInit: CUDA_ERROR_UNKNOWN (999)"),
        ("crashes", "crashed (signal 6)"),
        ("miscomputes", "computed wrongly"),
    ] {
        let mut command = world.command(&["doctor", "--json"]);
        command.env("LD_LIBRARY_PATH", &driver).env("IMITATE", fault);
        let output = command.output().expect("it runs");
        let report = report(&output);
        let gpu = check(&report, "GPU 0");
        assert!(gpu["found"].as_str().expect("text").contains(words), "{fault}: {gpu}");
        assert_eq!(gpu["state"] == "ok", fault == "right", "{gpu}");
        assert_eq!(gpu["fix"].is_string(), fault != "right", "{gpu}");
        assert_eq!(check(&report, "driver")["found"], "570.1.2, CUDA 12.8");
    }
    let quick = doctor_with(&world, &driver, &["--quick"]);
    assert_eq!(check(&quick, "GPU 0")["state"], "not_applicable", "no kernel ran");
    let without = report(&doctor(&world, &["--quick"]));
    assert_eq!(check(&without, "GPUs")["found"], "none", "the imitation is gone with its path");
}

fn doctor_with(world: &World, driver: &Path, words: &[&str]) -> Value {
    let mut command = world.command(&[&["doctor", "--json"], words].concat());
    report(&command.env("LD_LIBRARY_PATH", driver).output().expect("it runs"))
}
