//! One act that is about very many jobs or tasks: it is done in parts, and all of it is done.

use super::common::{World, wait_for};
use super::curl::{ask, get, post};

/// Jobs that wait for one; more than two parts of them.
const MANY: u32 = 2_100;

fn world() -> World {
    let world = World::new();
    world.up_with(&["--no-pilot"], |_| {});
    world
}

/// The same job so many times over one connection: what follows `#` is for curl alone.
fn submit_many(world: &World, body: &str, times: u32) {
    let path = format!("/api/v1/jobs#[1-{times}]");
    let json = ["--header", "Content-Type: application/json"];
    assert_eq!(ask(world, &path, &json, Some(body.as_bytes())).status, 201);
}

/// Of all jobs, page by page.
fn count(world: &World, state: &str) -> usize {
    let (mut all, mut before) = (0, u64::from(u32::MAX));
    loop {
        let words = ["jobs", "--state", state, "--limit", "1000", "--before", &before.to_string()];
        let page = world.json(&words);
        let Some(last) = page["jobs"].as_array().and_then(|jobs| jobs.last()) else { return all };
        all += page["jobs"].as_array().map_or(0, Vec::len);
        before = last["id"].as_u64().expect("a number");
    }
}

#[test]
fn all_who_wait_for_a_job_that_was_cancelled_are_cancelled_too() {
    let world = world();
    let first = world.submit(&["--", "true"]);
    submit_many(&world, &format!(r#"{{"spec":{{"command":["true"],"after":[{first}]}}}}"#), MANY);
    assert_eq!(count(&world, "held"), MANY as usize);
    world.ok(&["cancel", &first]);
    wait_for("all of them know", || count(&world, "held") == 0);
    assert_eq!(count(&world, "cancelled"), MANY as usize + 1);
}

#[test]
fn a_selection_larger_than_one_part_is_done_as_a_whole() {
    let world = world();
    let body = r#"{"spec":{"command":["true"],"labels":{"kind":"wide"}}}"#;
    submit_many(&world, body, MANY);
    let arrays: Vec<String> = (0..3)
        .map(|_| world.submit(&["--label", "kind=wide", "--array", "1-10000000", "--", "true"]))
        .collect();
    let said = world.ok(&["cancel", "--label", "kind=wide"]);
    assert!(said.starts_with(&format!("{} tasks cancelled", 30_000_000 + MANY)), "{said}");
    assert_eq!(world.cli(&["cancel", "--label", "kind=wide"]).code, 3, "nothing is left");
    let said = world.ok(&["retry", &arrays[0], &arrays[1], &arrays[2]]);
    assert!(said.starts_with("30000000 tasks"), "{said}");
    let unknown = format!(r#"{{"jobs":[{},999999]}}"#, arrays.join(","));
    let refused = post(&world, "/api/v1/cancel", unknown.as_bytes());
    assert_eq!(refused.status, 404, "{}", refused.body);
    assert!(!refused.body.contains("are done"), "{}", refused.body);
    assert_eq!(count(&world, "cancelled"), MANY as usize, "a wrong name is found beforehand");
}

/// A thousand jobs that wait for a thousand others each would be a million reasons in one list.
#[test]
fn a_list_has_some_reasons_of_each_job_and_why_has_all() {
    let world = world();
    submit_many(&world, r#"{"spec":{"command":["true"]}}"#, 100);
    let all: Vec<String> = (1..=100).map(|job| job.to_string()).collect();
    let after = format!(r#"{{"spec":{{"command":["true"],"after":[{}]}}}}"#, all.join(","));
    submit_many(&world, &after, 2);
    let reasons = |path: &str| get(&world, path).json();
    let listed = reasons("/api/v1/jobs?limit=2");
    assert_eq!(listed["jobs"][0]["reasons"].as_array().map(Vec::len), Some(16));
    let why = reasons("/api/v1/jobs/101/why");
    assert_eq!(why["reasons"].as_array().map(Vec::len), Some(100));
}

#[test]
fn thousands_of_tasks_by_name_are_cancelled_each_once() {
    let world = world();
    let job = world.submit(&["--array", "1-50000", "--", "true"]);
    let names: Vec<String> = (1..=25_000).map(|task| format!("\"{job}/{task}\"")).collect();
    let body = format!(r#"{{"tasks":[{}]}}"#, names.join(","));
    let answer = post(&world, "/api/v1/cancel", body.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.json()["tasks"], 25_000);
    assert_eq!(answer.json()["jobs"].as_array().map(Vec::len), Some(1), "{}", answer.body);
    let counts = &get(&world, &format!("/api/v1/jobs/{job}")).json()["counts"];
    assert_eq!((&counts["cancelled"], &counts["waiting"]), (&25_000.into(), &25_000.into()));
}
