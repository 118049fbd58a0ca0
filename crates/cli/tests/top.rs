//! The live view with a real server: at a terminal, and away from one.

#[path = "common/mod.rs"]
mod common;

use common::{Terminal, World, cannot, has_word, terminate, wait_for, wait_some};
use serde_json::Value;
use std::process::Stdio;

/// The screen is left, the cursor is back, and the terminal takes lines and shows them again.
const LEFT: &str = "\x1b[?1049l";
const CURSOR_BACK: &str = "\x1b[?25h";

/// A terminal of a known size. What the shell says after `top` tells how it was left.
fn top(world: &World) -> Option<Terminal> {
    let binary = env!("CARGO_BIN_EXE_shipway");
    let line = format!(
        "stty rows 30 cols 100; {binary} top; code=$?; stty -a; echo \"code=$code\"; exit $code"
    );
    Terminal::shell(world, &line)
}

fn assert_restored(terminal: &Terminal, code: i32) {
    terminal.wait_for_text(&format!("code={code}"));
    let seen = terminal.seen();
    let (_, after) = seen.rsplit_once(LEFT).expect("the screen is left");
    assert!(seen.contains(CURSOR_BACK), "{after:?}");
    let words: Vec<&str> = after.split([' ', ';', '\r', '\n']).collect();
    for word in ["icanon", "echo", "isig", "opost"] {
        assert!(words.contains(&word), "{word} is off: {after:?}");
    }
}

#[test]
fn a_job_appears_is_cancelled_with_keys_and_the_terminal_is_given_back() {
    let world = World::started();
    let Some(mut terminal) = top(&world) else { return cannot("there is no `script`") };
    terminal.wait_for_text("no jobs of yours");
    world.submit(&["--name", "watched", "--", "sh", "-c", "echo written-by-it; sleep 600"]);
    terminal.wait_for_text("watched");
    terminal.type_in("l");
    terminal.wait_for_text("written-by-it");
    terminal.type_in("\x1b");
    wait_for("the job runs", || world.json(&["show", "1"])["job"]["state"] == "running");
    // Escape and `c` in one piece would be another key: wait until the list is there again.
    wait_for("the list again", || terminal.seen().matches("mine, by state").count() > 1);
    terminal.type_in("c");
    terminal.wait_for_text("(watched)?");
    assert_eq!(world.json(&["show", "1"])["job"]["state"], "running", "only asked so far");
    terminal.type_in("y");
    wait_for("it is cancelled", || world.json(&["show", "1"])["job"]["state"] == "cancelled");
    terminal.type_in("q");
    assert_eq!(terminal.exit_code(), Some(0));
    assert_restored(&terminal, 0);
}

#[test]
fn a_signal_ends_it_and_the_terminal_is_given_back() {
    let world = World::started();
    let Some(mut terminal) = top(&world) else { return cannot("there is no `script`") };
    terminal.wait_for_text("no jobs of yours");
    let process =
        wait_some("top", || world.processes().into_iter().find(|pid| has_word(*pid, "top")));
    terminate(process);
    assert_eq!(terminal.exit_code(), Some(130));
    assert_restored(&terminal, 130);
}

#[test]
fn a_server_that_is_gone_is_said_and_comes_back_by_itself() {
    let world = World::started();
    let Some(mut terminal) = top(&world) else { return cannot("there is no `script`") };
    terminal.wait_for_text("no jobs of yours");
    world.kill_server();
    terminal.wait_for_text("out of touch");
    // At another address: it is found by its file again.
    world.up();
    world.submit(&["--name", "after-the-break", "--", "true"]);
    terminal.wait_for_text("after-the-break");
    terminal.type_in("\x03");
    assert_eq!(terminal.exit_code(), Some(0));
    assert_restored(&terminal, 0);
}

#[test]
fn away_from_a_terminal_one_frame_or_its_data() {
    let world = World::started();
    let ran = world.cli(&["top"]);
    assert_eq!((ran.code, &*ran.stdout), (2, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("--once"), "{}", ran.stderr);
    world.ok(&["run", "--name", "seen-once", "--", "true"]);
    let frame = world.ok(&["top", "--once"]);
    assert!(frame.contains("seen-once") && frame.contains("succeeded"), "{frame}");
    assert!(!frame.chars().any(|c| c.is_control() && c != '\n'), "{frame:?}");
    let data = world.json(&["top"]);
    assert_eq!(data["jobs"][0]["name"], "seen-once");
    assert_eq!(data["nodes"].as_array().map(Vec::len), Some(1));
    assert_eq!(data["user"]["role"], "admin");
}

#[test]
fn a_gpu_names_the_task_that_has_it_to_those_who_may_see_it() {
    let world = World::new();
    let file = world.work().join("declared.json");
    let gpu = r#"{"gpus": [{"uuid": "GPU-a", "model": "A100", "memory": "40GB",
        "vendor": "nvidia"}]}"#;
    std::fs::write(&file, gpu).expect("a file");
    world.up_with(&["--declared", file.to_str().expect("a plain path")], |_| {});
    world.submit(&["--gpus", "1", "--", "sleep", "600"]);
    let held = |data: &Value| data["nodes"][0]["gpus"][0]["used"] == 10_000;
    let mine =
        wait_some("the GPU is given out", || Some(world.json(&["top"])).filter(|data| held(data)));
    assert_eq!(mine["nodes"][0]["gpus"][0]["tasks"][0], "1/0");
    world.ok(&["user", "add", "bob"]);
    let token = world.ok(&["token", "new", "--user", "bob"]);
    let mut other = world.command(&["--json", "top"]);
    other.env("SHIPWAY_TOKEN", token.trim()).stdin(Stdio::null());
    let output = other.output().expect("the binary runs");
    let theirs: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(held(&theirs), "that it is in use everybody may see: {theirs}");
    assert_eq!(theirs["nodes"][0]["gpus"][0]["tasks"], Value::Null);
    world.ok(&["cancel", "1"]);
}
