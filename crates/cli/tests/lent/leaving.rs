//! Idle for too long, near the end of the allocation, and taken back.

use crate::common::{World, children, has_word, is_alive, terminate, wait_for, wait_some};
use crate::{code_of, nodes, pilot, server, task};
use serde_json::json;
use std::process::Child;

/// Says in `runs-ATTEMPT` that it runs. The first attempt would go on for ever.
const SLEEPS_ONCE: &str = "echo $$ > pid-$SHIPWAY_ATTEMPT; mv pid-$SHIPWAY_ATTEMPT \
                           runs-$SHIPWAY_ATTEMPT; [ $SHIPWAY_ATTEMPT = 2 ] || exec sleep 1000";
/// The same, and what ends it is nothing to it.
const DEAF: &str = "trap '' TERM; echo $$ > pid-$SHIPWAY_ATTEMPT; mv pid-$SHIPWAY_ATTEMPT \
                    runs-$SHIPWAY_ATTEMPT; while [ $SHIPWAY_ATTEMPT = 1 ]; do sleep 0.1; done";

fn submit(world: &World, script: &str) -> String {
    world.submit(&["--cpus", "0.1", "--", "sh", "-c", script])
}

/// The process of an attempt, once it runs.
fn runs(world: &World, attempt: u32) -> u32 {
    let file = world.work().join(format!("runs-{attempt}"));
    wait_some("the task runs", || std::fs::read_to_string(&file).ok()?.trim().parse().ok())
}

/// The pilot itself, below its guard.
fn inner(guard: &Child) -> u32 {
    wait_some("the pilot below its guard", || {
        children(guard.id()).into_iter().find(|child| has_word(*child, "--inner"))
    })
}

fn there(world: &World, count: usize) {
    wait_for("the pilots are there", || {
        nodes(world).iter().filter(|node| node["link"] == "connected").count() == count
    });
}

#[test]
fn a_pilot_without_work_leaves_in_order() {
    let world = server();
    let mut idle = pilot(&world, "idle", &["--idle", "1s"], &[]);
    // Whenever this comes: it leaves afterwards all the same.
    assert_eq!(code_of("it has nothing to do", &mut idle), 0);
    assert!(nodes(&world).is_empty(), "its goodbye was heard");
}

#[test]
fn a_pilot_with_work_is_not_idle() {
    let world = server();
    let job = world.submit(&["--", "sh", "-c", "until [ -e go ]; do sleep 0.05; done"]);
    let mut busy = pilot(&world, "busy", &["--idle", "1s"], &[]);
    let file = world.work().join("go");
    wait_for("it runs", || task(&world, &format!("{job}/0"))["state"] == "running");
    // Longer than it may be idle.
    crate::common::pause(std::time::Duration::from_millis(1_500));
    assert!(busy.try_wait().expect("a child").is_none(), "it holds a task");
    std::fs::write(file, "").expect("a file");
    assert_eq!(world.cli(&["wait", &job]).code, 0);
    assert_eq!(code_of("then it has nothing to do", &mut busy), 0);
}

#[test]
fn nothing_is_begun_in_the_last_minute_of_an_allocation() {
    let world = server();
    let job = submit(&world, "true");
    let mut late = pilot(&world, "late", &["--wall", "50s"], &[]);
    assert_eq!(code_of("it leaves at once", &mut late), 0);
    assert_eq!(task(&world, &format!("{job}/0"))["state"], "waiting");
}

/// `strike` signals as a batch system does; it is given the guard, the pilot and the task.
fn check_taken_back(script: &str, options: &[&str], strike: impl FnOnce(u32, u32, u32)) {
    let world = server();
    let mut first = pilot(&world, "first", options, &[]);
    there(&world, 1);
    let job = submit(&world, script);
    let process = runs(&world, 1);
    let mut second = pilot(&world, "second", &[], &[]);
    there(&world, 2);
    strike(first.id(), inner(&first), process);
    assert_eq!(world.cli(&["wait", &job]).code, 0, "{}", world.ok(&["show", &job]));
    assert_eq!(code_of("the first pilot leaves in order", &mut first), 0);
    assert!(!is_alive(process));
    let shown = task(&world, &format!("{job}/0"));
    let attempts = shown["attempts"].as_array().expect("attempts").clone();
    assert_eq!(attempts.len(), 2, "{shown:#}");
    let lost = json!({"kind": "lost", "why": "site_took_back"});
    assert_eq!(attempts[0]["outcome"], lost, "{shown:#}");
    assert_ne!(attempts[0]["node"], attempts[1]["node"], "{shown:#}");
    let text = world.ok(&["show", &format!("{job}/0")]);
    assert!(text.contains("the site took its node back"), "{text}");
    terminate(second.id());
    second.wait().expect("a child");
}

/// The job has no retries at all: none may be used up.
#[test]
fn what_runs_on_a_node_that_is_taken_back_runs_again_elsewhere() {
    check_taken_back(SLEEPS_ONCE, &["--grace", "1m"], |guard, _, _| terminate(guard));
}

#[test]
fn a_task_that_does_not_listen_is_killed_at_the_end_of_the_grace() {
    check_taken_back(DEAF, &["--grace", "1s"], |guard, _, _| terminate(guard));
}

/// Slurm signals every process of an allocation, and a task may die before its pilot has heard.
#[test]
fn a_signal_to_every_process_is_one_notice_and_no_failure() {
    check_taken_back(SLEEPS_ONCE, &["--grace", "1m"], |guard, pilot, task| {
        terminate(task);
        wait_for("it is dead", || !is_alive(task));
        terminate(pilot);
        terminate(guard);
    });
}

#[test]
fn a_second_sigterm_ends_at_once() {
    let world = server();
    let mut first = pilot(&world, "first", &["--grace", "1h"], &[]);
    submit(&world, DEAF);
    let process = runs(&world, 1);
    terminate(first.id());
    wait_for("it leaves", || nodes(&world)[0]["link"] == "leaving");
    assert!(is_alive(process), "it has an hour");
    terminate(first.id());
    assert_eq!(code_of("the pilot ends", &mut first), 0);
    assert!(!is_alive(process));
}

#[test]
fn without_a_grace_sigterm_ends_at_once() {
    let world = server();
    let mut first = pilot(&world, "first", &[], &[]);
    submit(&world, DEAF);
    let process = runs(&world, 1);
    terminate(first.id());
    assert_eq!(code_of("the pilot ends", &mut first), 0);
    assert!(!is_alive(process));
}
