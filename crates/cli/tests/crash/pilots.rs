//! The pilot killed with -9, alone and together with its guard: what it ran is ended, and runs
//! again as another attempt.

use crate::common::{World, is_alive, kill, wait_for};
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
