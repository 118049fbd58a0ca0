//! The live view: whoever resumes by a number misses nothing and sees nothing twice.

use super::common::World;
use super::curl::Events;
use serde_json::Value;

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
            let fits = |(_, data): &&(u64, Value)| data["what"] == what && data["job"] == job;
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
fn a_watcher_may_ask_for_one_job() {
    let world = World::started();
    let (watched, other) = (submit(&world), submit(&world));
    let words = [watched, other].map(|id| id.to_string());
    assert_eq!(world.cli(&["wait", &words[0], &words[1]]).code, 0);
    let path = format!("/api/v1/events?job={watched}");
    let seen = Events::of(&world, &world.token(), &path, 0).until_end_of(watched);
    assert!(seen.iter().any(|(_, data)| data["what"] == "tasks_placed"), "{seen:?}");
    assert!(seen.iter().all(|(_, data)| data["job"] == watched), "{seen:?}");
}

#[test]
fn a_user_sees_nothing_of_the_jobs_of_others() {
    let world = World::started();
    for user in ["alice", "bob"] {
        world.ok(&["user", "add", user]);
    }
    let [alice, bob] =
        ["alice", "bob"].map(|user| world.ok(&["token", "new", "--user", user]).trim().to_string());
    let submit_as = |token: &str| {
        let mut command = world.command(&["run", "--json", "--array", "1-2", "--", "true"]);
        assert!(command.env("SHIPWAY_TOKEN", token).output().expect("it runs").status.success());
    };
    let mut live = Events::of(&world, &alice, "/api/v1/events", 0);
    submit_as(&bob);
    submit_as(&alice);
    let of_others = |(_, data): &(u64, Value)| data["job"].is_u64() && data["job"] != 2;
    let seen = live.until_end_of(2);
    assert!(!seen.iter().any(of_others), "as it happens: {seen:?}");
    let seen = Events::of(&world, &alice, "/api/v1/events", 0).until_end_of(2);
    assert!(!seen.iter().any(of_others), "from the journal: {seen:?}");
}
