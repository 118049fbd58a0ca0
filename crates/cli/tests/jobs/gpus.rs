//! GPUs that are declared: given out by name, whole or in parts, never twice.

use super::common::{World, wait_for};
use super::{UNTIL_GO, declared, job, read, signal, state, tasks_in, wait_for_running};

const TWO_GPUS: &str = r#"{"cpus_milli": 16000, "gpus": [
    {"uuid": "GPU-aaaa", "model": "A100", "memory": "40GB", "vendor": "nvidia"},
    {"uuid": "GPU-bbbb", "model": "H100", "memory": "80GB", "vendor": "nvidia"}]}"#;

/// Starts an array whose tasks note their devices and then wait for `go`.
fn hold(world: &World, gpus: &str, array: &str, file: &str) -> String {
    let text = format!("echo $CUDA_VISIBLE_DEVICES >> {file}; {UNTIL_GO}");
    world.submit(&["--gpus", gpus, "--array", array, "--cpus", "0.1", "--", "sh", "-c", &text])
}

fn devices(world: &World, file: &str, count: usize) -> Vec<String> {
    wait_for("the tasks have noted their devices", || read(world, file).lines().count() == count);
    let mut found: Vec<String> = read(world, file).lines().map(ToString::to_string).collect();
    found.sort();
    found
}

#[test]
fn whole_gpus_have_one_task_each() {
    let world = declared(TWO_GPUS);
    let id = hold(&world, "1", "1-3", "held");
    wait_for_running(&world, &id, 2);
    assert_eq!(devices(&world, "held", 2), ["GPU-aaaa", "GPU-bbbb"]);
    assert_eq!(tasks_in(&world, &id, "waiting"), 1);
    let half = world.submit(&["--gpus", "0.5", "--cpus", "0.1", "--", "true"]);
    assert_eq!(state(&world, &half), "waiting", "not even a part of a GPU that is taken");
    signal(&world, "go");
    assert_eq!(world.cli(&["wait", &id]).code, 0);
    assert_eq!(world.cli(&["wait", &half]).code, 0);
}

#[test]
fn parts_of_a_gpu_share_it() {
    let world = declared(TWO_GPUS);
    let id = hold(&world, "0.5", "1-5", "held");
    wait_for_running(&world, &id, 4);
    assert_eq!(devices(&world, "held", 4), ["GPU-aaaa", "GPU-aaaa", "GPU-bbbb", "GPU-bbbb"]);
    assert_eq!(tasks_in(&world, &id, "waiting"), 1);
    signal(&world, "go");
    assert_eq!(world.cli(&["wait", &id]).code, 0);
}

#[test]
fn a_request_by_model_gets_that_model() {
    let world = declared(TWO_GPUS);
    for (request, device) in [("H100", "GPU-bbbb"), ("A100", "GPU-aaaa"), ("60GB..", "GPU-bbbb")] {
        let ran =
            world.cli(&["run", "--gpus", request, "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]);
        assert_eq!((ran.code, ran.stdout.trim()), (0, device), "{request}: {}", ran.stderr);
    }
    let ran = world.cli(&["run", "--gpus", "2", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]);
    let mut both: Vec<&str> = ran.stdout.trim().split(',').collect();
    both.sort_unstable();
    assert_eq!(both, ["GPU-aaaa", "GPU-bbbb"]);
    let ran = world.cli(&["run", "--", "sh", "-c", "echo \"<$CUDA_VISIBLE_DEVICES>\""]);
    assert_eq!(ran.stdout, "<>\n", "a task that asks for none sees none");
    assert!(world.ok(&["gpus"]).contains("declared"));
}

#[test]
fn without_a_gpu_the_wait_is_explained() {
    let world = declared("{}");
    if !world.ok(&["gpus"]).contains("no GPUs") {
        return super::common::cannot("this machine has GPUs");
    }
    let id = world.submit(&["--gpus", "1", "--", "true"]);
    assert_eq!(job(&world, &id)["reasons"][0]["kind"], "too_small");
    let why = world.ok(&["why", &id]);
    assert!(why.contains("needs 1 GPU"), "{why}");
    assert!(why.contains("Waiting alone will not start it"), "{why}");
    assert_eq!(world.cli(&["wait", "--timeout", "100ms", &id]).code, 124);
}
