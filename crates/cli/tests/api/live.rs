//! The live view: whoever resumes by a number misses nothing and sees nothing twice.

use super::common::World;
use super::curl::Events;

fn submit(world: &World) -> u64 {
    world.submit(&["--array", "1-3", "--", "true"]).parse().expect("an id")
}

#[test]
fn resuming_across_a_crash_leaves_no_gap_and_no_repeat() {
    let world = World::started();
    let mut watching = Events::after(&world, 0);
    let first = submit(&world);
    let mut seen = watching.until_end_of(first);
    let second = submit(&world);
    let (last, event) = watching.next().expect("the stream goes on");
    seen.push((last, event));

    world.kill_server();
    // What had been sent already still comes; then the stream breaks off.
    while let Some(event) = watching.next() {
        seen.push(event);
    }
    world.up();
    let last = seen.last().expect("events").0;
    let third = submit(&world);
    assert_eq!(world.cli(&["wait", &second.to_string(), &third.to_string()]).code, 0);
    let fourth = submit(&world);
    seen.extend(Events::after(&world, last).until_end_of(fourth));

    let whole = Events::after(&world, 0).until_end_of(fourth);
    assert!(whole.windows(2).all(|pair| pair[0].0 < pair[1].0), "numbers grow");
    assert_eq!(seen, whole);
    for job in [first, second, third, fourth] {
        let of = |what: &str| {
            let fits =
                |(_, data): &&(u64, serde_json::Value)| data["what"] == what && data["job"] == job;
            whole.iter().filter(fits).count()
        };
        assert_eq!(
            (of("job_submitted"), of("task_ended"), of("job_ended")),
            (1, 3, 1),
            "job {job}"
        );
    }
}

#[test]
fn a_watcher_sees_what_happens_and_may_ask_for_one_job() {
    let world = World::started();
    let watched = submit(&world);
    let mut all = Events::after(&world, 0);
    all.until_end_of(watched);
    let later = submit(&world);
    assert!(all.until_end_of(later).iter().any(|(_, data)| data["what"] == "tasks_started"));
}
