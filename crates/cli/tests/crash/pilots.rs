//! The pilot killed with -9, alone and together with its guard: what it ran is ended, and runs
//! again as another attempt. And a pilot that outlives its server, found by one with other options.

use crate::common::{World, interrupt, is_alive, kill, wait_for};
use crate::tasks::{SLEEPER, WITH_DAEMON, submit_script, task, wait_for_numbers};

#[test]
fn tasks_of_a_killed_pilot_are_ended_and_tried_again() {
    let world = World::started();
    check_tried_again(&world, |world| kill(world.pilot_pid()));
}

#[test]
fn tasks_of_a_killed_pilot_and_guard_are_ended_and_tried_again() {
    let world = World::started();
    check_tried_again(&world, |world| {
        let (guard, pilot) = (world.guard_pid(), world.pilot_pid());
        kill(guard);
        kill(pilot);
    });
}

fn check_tried_again(world: &World, strike: impl FnOnce(&World)) {
    let plain = submit_script(world, SLEEPER);
    let forking = submit_script(world, WITH_DAEMON);
    let first = wait_for_numbers(world, "pids-1", 3);
    assert!(first.iter().all(|process| is_alive(*process)));
    let earlier_pilot = world.pilot_pid();
    strike(world);
    let second = wait_for_numbers(world, "pids-2", 3);
    let left: Vec<_> = first.iter().filter(|process| is_alive(**process)).collect();
    assert!(left.is_empty(), "of attempt 1 there still are {left:?}");
    assert!(second.iter().all(|process| is_alive(*process)));
    assert_ne!(world.pilot_pid(), earlier_pilot);
    for job in [plain, forking] {
        let id = format!("{job}/0");
        wait_for("attempt 2 runs", || task(world, &id)["state"] == "running");
        let shown = task(world, &id);
        assert_eq!(shown["attempt"], 2, "{shown:#}");
        assert_eq!(shown["attempts"][0]["attempt"], 1, "{shown:#}");
        assert_eq!(shown["attempts"][0]["outcome"]["kind"], "lost", "{shown:#}");
    }
}

/// A file that declares one GPU, as the argument that names it.
fn declared(world: &World, gpu: &str) -> String {
    let file = world.work().join(format!("{gpu}.json"));
    let device = format!(r#""uuid": "{gpu}", "model": "A100", "memory": "40GB""#);
    let text = format!(r#"{{"gpus": [{{{device}, "vendor": "nvidia"}}]}}"#);
    std::fs::write(&file, text).expect("a file");
    file.to_str().expect("a plain path").to_string()
}

/// Waits until the node is in touch and has this GPU; whether it has another one too.
fn wait_for_gpu(world: &World, gpu: &str, other: &str) -> bool {
    wait_for("the node is in touch with its GPU", || {
        let list = world.json(&["nodes"]);
        list["nodes"][0]["link"] == "connected" && list.to_string().contains(gpu)
    });
    world.ok(&["gpus"]).contains(other)
}

#[test]
fn an_idle_pilot_is_replaced_by_one_with_the_options_of_the_new_server() {
    let world = World::new();
    let (first, second) = (declared(&world, "GPU-A"), declared(&world, "GPU-B"));
    world.up_with(&["--declared", &first], |_| {});
    assert!(!wait_for_gpu(&world, "GPU-A", "GPU-B"));
    let pilot = world.pilot_pid();
    world.kill_server();
    world.up_with(&["--declared", &second], |_| {});
    assert!(!wait_for_gpu(&world, "GPU-B", "GPU-A"), "the new file counts alone");
    let replaced = world.pilot_pid();
    assert_ne!(replaced, pilot);
    world.kill_server();
    world.up_with(&["--declared", &second], |_| {});
    wait_for_gpu(&world, "GPU-B", "GPU-A");
    assert_eq!(world.pilot_pid(), replaced, "with the same options there is no reason");
    assert!(!world.server_log().contains("--declared"), "{}", world.server_log());
}

#[test]
fn a_pilot_with_tasks_keeps_its_options_and_people_are_told() {
    let world = World::new();
    let (first, second) = (declared(&world, "GPU-A"), declared(&world, "GPU-B"));
    world.up_with(&["--declared", &first], |_| {});
    submit_script(&world, SLEEPER);
    let task = wait_for_numbers(&world, "pids-1", 1)[0];
    let pilot = world.pilot_pid();
    world.kill_server();
    world.up_with(&["--declared", &second], |_| {});
    assert!(!wait_for_gpu(&world, "GPU-A", "GPU-B"));
    assert_eq!(world.pilot_pid(), pilot);
    assert!(is_alive(task));
    let log = world.server_log();
    let id = world.json(&["nodes"])["nodes"][0]["pilot"].as_str().expect("an id").to_string();
    for words in ["another --declared", &id, "Ctrl-C"] {
        assert!(log.contains(words), "no `{words}` in {log}");
    }
    assert!(world.stop_server().success());
    world.up_with(&["--declared", &second], |_| {});
    assert!(!wait_for_gpu(&world, "GPU-B", "GPU-A"), "what was advised helps");
}

#[test]
fn a_pilot_that_leaves_finishes_what_it_runs_and_gets_nothing_more() {
    let world = World::started();
    let script = "echo $$ >> pids-$SHIPWAY_ATTEMPT; until [ -e go ]; do sleep 0.02; done";
    let first = submit_script(&world, script);
    wait_for_numbers(&world, "pids-1", 1);
    let pilot = world.pilot_pid();
    interrupt(world.guard_pid());
    let node = || world.json(&["nodes"])["nodes"][0].clone();
    wait_for("it says that it leaves", || node()["link"] == "leaving");
    let second = submit_script(&world, "true");
    let why = world.json(&["why", &second]);
    assert_eq!(why["reasons"][0]["kind"], "nodes_away", "{why:#}");
    assert_eq!(node()["backlog"], 0, "nothing more is placed there");
    std::fs::write(world.work().join("go"), "").expect("a file");
    for job in [first, second] {
        assert_eq!(world.cli(&["wait", &job]).code, 0);
        assert_eq!(task(&world, &format!("{job}/0"))["attempt"], 1, "nothing was lost with it");
    }
    assert_ne!(world.pilot_pid(), pilot, "the next pilot has run the second");
}
