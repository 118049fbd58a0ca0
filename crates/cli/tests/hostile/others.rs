//! Other people's jobs at every address that takes an id, and tokens that are not good at every
//! address there is. Somebody else's job must look exactly like one that does not exist.

use super::common::{World, wait_for};
use super::curl::{Answer, anonymous};
use shipway_api::routes::{self, Who};

fn as_holder(world: &World, token: &str, path: &str, words: &[&str]) -> Answer {
    let header = format!("Authorization: Bearer {token}");
    anonymous(world, path, &[&["--header", &header], words].concat())
}

fn token_of(world: &World, user: &str) -> String {
    world.ok(&["user", "add", user]);
    world.ok(&["token", "new", "--user", user]).trim().to_string()
}

const JSON: [&str; 2] = ["--header", "Content-Type: application/json"];

/// Every way to name a job, with its id as `{job}`: the address and the body.
const WAYS: [(&str, Option<&str>); 13] = [
    (routes::JOB, None),
    (routes::JOB_WAIT, None),
    ("/api/v1/jobs/{job}/wait?seconds=0", None),
    (routes::JOB_WHY, None),
    (routes::JOB_TASKS, None),
    ("/api/v1/jobs/{job}/tasks?limit=1", None),
    ("/api/v1/jobs/{job}/tasks/0/log", None),
    ("/api/v1/jobs/{job}/tasks/0/log?stream=stderr&attempt=1", None),
    ("/api/v1/jobs/{job}/tasks/0/log?follow=true", None),
    (routes::CANCEL, Some(r#"{"jobs": [{job}]}"#)),
    (routes::CANCEL, Some(r#"{"tasks": ["{job}/0"]}"#)),
    (routes::RETRY, Some(r#"{"jobs": [{job}]}"#)),
    (routes::JOBS, Some(r#"{"spec": {"command": ["true"], "after": [{job}]}}"#)),
];

#[test]
fn the_job_of_another_looks_like_none() {
    let world = World::started();
    let (alice, bob) = (token_of(&world, "alice"), token_of(&world, "bob"));
    let mut command =
        world.command(&["run", "-d", "--label", "mine=1", "--", "sh", "-c", "echo hi"]);
    let made = command.env("SHIPWAY_TOKEN", &bob).output().expect("it runs");
    assert!(made.status.success(), "{made:?}");
    wait_for("it has ended", || world.json(&["show", "1"])["job"]["state"] == "succeeded");
    for (path, body) in WAYS {
        let ask = |job: &str| {
            let path = path.replace("{job}", job);
            let body = body.map(|body| body.replace("{job}", job));
            let data = body.iter().flat_map(|body| ["--data", body.as_str()]);
            let words: Vec<&str> = JSON.into_iter().chain(data).collect();
            let answer = as_holder(&world, &alice, &path, &words);
            let mut seen = answer.json();
            seen["request_id"] = "".into();
            (answer.status, seen.to_string().replace(&format!(" {job}"), " N"))
        };
        let (bobs, nobodys) = (ask("1"), ask("77"));
        assert!([404, 422].contains(&bobs.0), "{path}: {bobs:?}");
        assert_eq!(bobs, nobodys.clone(), "{path}");
    }
    let listed = as_holder(&world, &alice, "/api/v1/jobs?label=mine=1", &[]);
    assert_eq!(listed.json()["jobs"], serde_json::json!([]));
    assert_eq!(as_holder(&world, &alice, "/api/v1/jobs?owner=bob", &[]).status, 403);
    let labels = [&JSON[..], &["--data", r#"{"labels": {"mine": "1"}}"#]].concat();
    assert_eq!(as_holder(&world, &alice, routes::CANCEL, &labels).status, 400, "no job matches");
    let tokens = as_holder(&world, &bob, routes::TOKENS, &[]).json();
    let id = tokens["tokens"][0]["id"].as_str().expect("an id");
    let revoke = as_holder(&world, &alice, &format!("/api/v1/tokens/{id}"), &["-X", "DELETE"]);
    assert_eq!(revoke.status, 404, "{revoke:?}");
    let remove = as_holder(&world, &alice, "/api/v1/users/bob", &["-X", "DELETE"]);
    assert_eq!(remove.status, 403, "{remove:?}");
    assert_eq!(as_holder(&world, &bob, "/api/v1/jobs/1", &[]).status, 200, "untouched");
}

#[test]
fn a_token_that_is_not_good_opens_no_address() {
    let world = World::started();
    let good = token_of(&world, "alice");
    let short = world.ok(&["token", "new", "--user", "alice", "--lasts", "1s"]).trim().to_string();
    wait_for("it is over", || as_holder(&world, &short, routes::JOBS, &[]).status == 401);
    let pilot = world.ok(&["token", "pilot"]);
    let pilot = pilot.split('"').find(|word| word.starts_with("shp_")).expect("a token");
    let (truncated, longer) = (&good[..good.len() - 1], format!("{good}a"));
    let (upper, long) = (good.to_uppercase(), "x".repeat(30_000));
    let bad = [
        ("expired", &*short),
        ("truncated", truncated),
        ("longer", &longer),
        ("in capitals", &upper),
        ("a pilot's", pilot),
        ("empty", ""),
        ("long", &long),
        ("quoted", "\"x\""),
    ];
    let closed = routes::ENDPOINTS.iter().filter(|endpoint| endpoint.who != Who::Anybody);
    for routes::Endpoint { method, path, .. } in closed {
        let path = path.replace("{job}", "1").replace("{index}", "0").replace("{user}", "alice");
        let path = path.replace("{id}", "x").replace("{host}", "x");
        for (what, token) in bad {
            let answer = as_holder(&world, token, &path, &["-X", method]);
            let shown = format!("{what} token, {method} {path}: {answer:?}");
            assert_eq!(answer.status, 401, "{shown}");
            let body = answer.json();
            assert!(body["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{shown}");
            assert!(token.is_empty() || !answer.body.contains(token), "repeated: {shown}");
        }
    }
    assert_eq!(as_holder(&world, &good, routes::JOBS, &[]).status, 200, "the good one is good");
}
