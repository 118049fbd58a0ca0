//! Cancelling: what waits, what runs, what does not listen.

use super::common::{World, is_alive, wait_for, wait_some};
use super::{UNTIL_GO, read, signal, state, tasks_in, wait_for_running};

#[test]
fn what_waits_never_runs_and_what_runs_is_ended() {
    let world = World::started();
    let waiting = world.submit(&["--gpus", "64", "--", "touch", "never"]);
    let said = world.ok(&["cancel", &waiting]);
    assert_eq!(said, format!("1 task cancelled of job {waiting}\n"));
    assert_eq!(state(&world, &waiting), "cancelled");
    assert_eq!(world.cli(&["wait", &waiting]).code, 130);

    let text = "trap 'echo asked; exit 5' TERM; touch ready; while :; do sleep 0.05; done";
    let running = world.submit(&["--", "sh", "-c", text]);
    wait_for("the task listens", || world.work().join("ready").exists());
    world.ok(&["cancel", &running]);
    assert_eq!(world.cli(&["wait", &running]).code, 130);
    assert_eq!(world.ok(&["logs", "--stdout", &running]), "asked\n", "it was asked, not killed");
    assert_eq!(world.cli(&["cancel", &running]).code, 3, "there is nothing left to cancel");
    assert!(!world.work().join("never").exists());
}

#[test]
fn a_task_that_does_not_listen_is_killed() {
    let world = World::started();
    let text = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done";
    let id = world.submit(&["--", "sh", "-c", text]);
    let pid = wait_some("the task runs", || read(&world, "pid").trim().parse::<u32>().ok());
    world.ok(&["cancel", &id]);
    assert_eq!(world.cli(&["wait", &id]).code, 130);
    wait_for("its process is gone", || !is_alive(pid));
}

#[test]
fn by_label_by_state_and_by_task() {
    let world = World::started();
    let hold = |label: &str, array: &str| {
        let words = ["--label", label, "--array", array, "--max-running", "1", "--cpus", "0.1"];
        world.submit(&[&words[..], &["--", "sh", "-c", UNTIL_GO]].concat())
    };
    let (red, also_red, blue) =
        (hold("colour=red", "1-3"), hold("colour=red", "1-2"), hold("colour=blue", "1-3"));
    for id in [&red, &also_red, &blue] {
        wait_for_running(&world, id, 1);
    }
    let said = world.ok(&["cancel", "--label", "colour=red", "--state", "waiting"]);
    assert!(said.starts_with("3 tasks cancelled"), "{said}");
    for id in [&red, &also_red] {
        assert_eq!(tasks_in(&world, id, "running"), 1, "a state selects those in it alone");
    }
    world.ok(&["cancel", "--label", "colour=red"]);
    assert_eq!(world.cli(&["wait", &red, &also_red]).code, 1);
    assert_eq!(tasks_in(&world, &blue, "cancelled"), 0, "another label");
    world.ok(&["cancel", &format!("{blue}/3")]);
    signal(&world, "go");
    assert_eq!(world.cli(&["wait", &blue]).code, 1);
    assert_eq!(
        (tasks_in(&world, &blue, "succeeded"), tasks_in(&world, &blue, "cancelled")),
        (2, 1)
    );
    assert_eq!(world.cli(&["cancel", "--state", "waiting"]).code, 2, "a state alone is too much");
    assert_eq!(world.cli(&["cancel", "--label", "colour=green"]).code, 3);
}
