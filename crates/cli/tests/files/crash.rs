//! Killed with -9 in the middle of copying: the pilot, and the server beside an event log.

use crate::common::{World, children, has_word, kill, wait_for, wait_some};
use std::process::Command;

/// A process that copies, of this world.
fn copier(world: &World) -> Option<u32> {
    children(world.pilot_pid()).into_iter().find(|pid| has_word(*pid, "stage-files"))
}

#[test]
fn a_pilot_killed_while_copying_leaves_nothing_half_done() {
    let world = World::started();
    let pipe = world.work().join("slow");
    // Big enough to be met in the middle.
    let made = Command::new("truncate").args(["-s", "2G"]).arg(&pipe).status();
    assert!(made.expect("truncate").success());
    let words = ["--input", "slow", "--output", "done", "--", "sh", "-c"];
    let job = world.submit(&[&words[..], &["rm slow; echo $SHIPWAY_ATTEMPT > done"]].concat());
    let copying = wait_some("files are copied", || copier(&world));
    kill(world.pilot_pid());
    wait_for("the copying ends with its pilot", || !has_word(copying, "stage-files"));
    std::fs::write(&pipe, "small").expect("a small one for the next try");
    assert_eq!(world.cli(&["wait", &job]).code, 0, "{}", world.ok(&["show", &job]));
    let done = std::fs::read_to_string(world.work().join("done")).expect("taken");
    assert_eq!(done.trim(), "2", "the second attempt's");
    let task = &world.json(&["show", &format!("{job}/0")])["task"];
    assert_eq!(task["attempts"][0]["outcome"]["kind"], "lost", "{task:#}");
}

#[test]
fn a_job_is_cancelled_while_its_files_are_copied() {
    let world = World::started();
    let made = Command::new("truncate").args(["-s", "2G"]).arg(world.work().join("slow")).status();
    assert!(made.expect("truncate").success());
    let job = world.submit(&["--input", "slow", "--", "true"]);
    wait_some("files are copied", || copier(&world));
    world.ok(&["cancel", &job]);
    assert_eq!(world.cli(&["wait", &job]).code, 130);
    wait_for("the copying has ended", || copier(&world).is_none());
}
