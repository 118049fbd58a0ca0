//! Tasks that are tried again.

use super::common::{World, wait_for};
use super::{job, read, state, tasks_in};

#[test]
fn a_failed_task_is_tried_again_as_often_as_allowed() {
    let world = World::started();
    let text = "echo $SHIPWAY_ATTEMPT >> tries; exit 75";
    let options = ["run", "--retries", "2", "--retry-delay", "20ms"];
    assert_eq!(world.cli(&[&options[..], &["--", "sh", "-c", text]].concat()).code, 75);
    assert_eq!(read(&world, "tries"), "1\n2\n3\n");
    let task = &world.json(&["show", "1/0"])["task"];
    assert_eq!(task["attempts"].as_array().map(Vec::len), Some(3), "{task}");
}

#[test]
fn only_the_named_ends_are_tried_again() {
    let world = World::started();
    let options =
        ["run", "--retries", "1", "--retry-delay", "10ms", "--retry-on", "75,10-12,signal"];
    for (number, (end, tries)) in
        [("exit 75", 2), ("exit 11", 2), ("kill -USR1 $$", 2), ("exit 3", 1), ("exit 0", 1)]
            .into_iter()
            .enumerate()
    {
        let text = format!("echo x >> tries{number}; {end}");
        world.cli(&[&options[..], &["--", "sh", "-c", &text]].concat());
        let found = read(&world, &format!("tries{number}")).lines().count();
        assert_eq!(found, tries, "{end}");
    }
}

#[test]
fn the_wait_before_a_retry_doubles_and_is_explained() {
    let world = World::started();
    let delay = ["--retries", "3", "--retry-delay", "200ms"];
    let id = world.submit(&[&delay[..], &["--", "false"]].concat());
    assert_eq!(world.cli(&["wait", &id]).code, 1);
    let task = &world.json(&["show", &format!("{id}/0")])["task"];
    let attempts = task["attempts"].as_array().expect("attempts");
    let time = |at: usize, what: &str| attempts[at][what].as_u64().expect("a time");
    for (at, least) in [(1, 200), (2, 400), (3, 800)] {
        let waited = time(at, "started") - time(at - 1, "ended");
        assert!(waited >= least, "before attempt {}: {waited} of {least} ms", at + 1);
    }
    let id = world.submit(&["--retries", "1", "--retry-delay", "10m", "--", "false"]);
    let why = || world.ok(&["why", &id]);
    wait_for("the wait has a reason", || job(&world, &id)["reasons"][0]["kind"] == "back_off");
    assert!(why().contains("tried again"), "{}", why());
    world.ok(&["cancel", &id]);
    assert_eq!(state(&world, &id), "cancelled");
}

#[test]
fn by_hand_only_the_failed_tasks_of_an_array_run_again() {
    let world = World::started();
    let text = "echo $SHIPWAY_INDEX >> ran; [ -e good ] || [ $((SHIPWAY_INDEX % 2)) = 0 ]";
    let id = world.submit(&["--array", "1-10", "--", "sh", "-c", text]);
    assert_eq!(world.cli(&["wait", &id]).code, 1);
    assert_eq!((tasks_in(&world, &id, "failed"), tasks_in(&world, &id, "succeeded")), (5, 5));
    super::signal(&world, "good");
    let said = world.ok(&["retry", &id]);
    assert!(said.starts_with("5 tasks"), "{said}");
    assert_eq!(world.cli(&["wait", &id]).code, 0);
    let mut again: Vec<u32> =
        read(&world, "ran").lines().skip(10).map(|line| line.parse().expect("an index")).collect();
    again.sort_unstable();
    assert_eq!(again, [1, 3, 5, 7, 9]);
    assert_eq!(world.cli(&["retry", &id]).code, 3, "nothing is left to retry");
}
