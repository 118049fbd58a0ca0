//! Tasks that end when nobody can say so: the server away, the pilot stopped, its guard too.
//! Whoever comes next knows of it, and they are not run again.

use crate::common::{World, is_alive, kill, stop, wait_for};
use crate::everybody::{in_containers, open_to_all};
use crate::tasks::{submit_script, task, wait_for_numbers};

/// Says who it is, and ends when it may.
const UNTIL_GO: &str = "echo $$ >> pids; echo printed; until [ -e go ]; do sleep 0.02; done
    echo $SHIPWAY_ATTEMPT >> ended";

fn let_go(world: &World) {
    std::fs::write(world.work().join("go"), "").expect("a file");
    wait_for_numbers(world, "ended", 1);
}

/// It has ended well, in its first attempt; what it printed is there.
fn check(world: &World, job: &str) {
    assert_eq!(world.cli(&["wait", job]).code, 0, "{}", world.ok(&["show", job]));
    let shown = task(world, &format!("{job}/0"));
    assert_eq!((&shown["attempt"], &shown["state"]), (&1.into(), &"succeeded".into()), "{shown:#}");
    assert_eq!(wait_for_numbers(world, "ended", 1), [1], "it completed once");
    assert!(world.ok(&["logs", job]).starts_with("printed\n"));
}

#[test]
fn what_ended_while_the_server_was_away_is_known_after_the_pilots_death() {
    let world = World::started();
    let job = submit_script(&world, UNTIL_GO);
    let process = wait_for_numbers(&world, "pids", 1)[0];
    world.kill_server();
    let_go(&world);
    wait_for("the pilot has seen its end", || !std::fs::exists(proc_of(process)).expect("procfs"));
    let (guard, pilot) = (world.guard_pid(), world.pilot_pid());
    kill(guard);
    kill(pilot);
    world.up();
    check(&world, &job);
}

fn proc_of(process: u32) -> String {
    format!("/proc/{process}")
}

#[test]
fn what_ended_before_its_pilot_could_see_it_is_known_by_the_guard() {
    let world = World::started();
    let job = submit_script(&world, UNTIL_GO);
    let process = wait_for_numbers(&world, "pids", 1)[0];
    let pilot = world.pilot_pid();
    stop(pilot);
    let_go(&world);
    wait_for("it is dead, and nobody has looked", || !is_alive(process));
    kill(pilot);
    check(&world, &job);
    let said = world.cli(&["logs", &job]).stderr;
    assert!(said.contains("may be missing"), "and that is said: {said}");
}

#[test]
fn what_ended_in_a_container_is_known_when_pilot_and_guard_are_gone() {
    let world = World::new();
    open_to_all(&world);
    world.up_with(&in_containers(), |_| {});
    let job = submit_script(&world, UNTIL_GO);
    wait_for_numbers(&world, "pids", 1);
    let (guard, pilot) = (world.guard_pid(), world.pilot_pid());
    stop(guard);
    stop(pilot);
    let_go(&world);
    let told = world.home().join("pilot/told").join(format!("{job}.0.1"));
    wait_for("its helper has told", || std::fs::read(&told).is_ok_and(|text| !text.is_empty()));
    kill(guard);
    kill(pilot);
    check(&world, &job);
}
