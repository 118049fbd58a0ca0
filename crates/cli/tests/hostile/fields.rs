//! Every field of a job with every wrong kind of value: refused by the API with 422 and a message
//! that names the field, or taken; never anything else.

use super::check_message;
use super::common::World;
use super::curl::post;
use serde_json::{Map, Value, json};

const FIELDS: [&str; 27] = [
    "name",
    "command",
    "script",
    "env",
    "workdir",
    "image",
    "binds",
    "network",
    "stdin",
    "stdout",
    "stderr",
    "inputs",
    "outputs",
    "event_log",
    "basedir",
    "labels",
    "priority",
    "array",
    "each",
    "after",
    "retries",
    "time_limit",
    "max_running",
    "resources",
    "requirements",
    "rank",
    "log_limit",
];

/// One of each kind, and the ends of numbers.
fn kinds() -> Vec<Value> {
    vec![
        json!(true),
        json!(-1),
        json!(0),
        json!(1.5),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e300),
        json!(""),
        json!("\u{0}"),
        json!("\u{202e}x"),
        json!([]),
        json!([[]]),
        json!([null]),
        json!({}),
        json!({"": {}}),
        json!({"x": [1]}),
    ]
}

#[test]
fn no_value_of_a_field_is_worse_than_422() {
    let world = World::new();
    world.up_with(&["--no-pilot"], |_| {});
    let mut refused = 0;
    for field in FIELDS {
        for kind in kinds() {
            let mut spec = Map::from_iter([("command".to_string(), json!(["true"]))]);
            spec.insert(field.into(), kind.clone());
            let body = json!({ "spec": spec }).to_string();
            let answer = post(&world, "/api/v1/dry-run", body.as_bytes());
            let what = format!("{body}: {answer:?}");
            assert!([200, 422].contains(&answer.status), "{what}");
            if answer.status == 422 {
                refused += 1;
                let body = answer.json();
                let message = body["message"].as_str().expect("a message");
                assert!(message.contains(field), "{what}");
                assert!(body["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{what}");
                check_message(&what, message);
            }
        }
    }
    assert!(refused > FIELDS.len() * 8, "only {refused} were refused");
    assert_eq!(world.cli(&["run", "-d", "--", "true"]).code, 0, "and it still works");
}

#[test]
fn other_bodies_are_refused_in_plain_words() {
    let world = World::started();
    for (path, body, status, words) in [
        ("/api/v1/jobs", "[]", 422, "not keys and values"),
        ("/api/v1/jobs", "{}", 422, "missing key `spec`"),
        ("/api/v1/jobs", r#"{"spec": 7}"#, 422, "the number `7`"),
        ("/api/v1/jobs", "nul\0", 400, "not JSON"),
        ("/api/v1/jobs", "{\"spec\": NaN}", 400, "not JSON"),
        ("/api/v1/cancel", "{}", 400, "nothing is selected"),
        ("/api/v1/cancel", r#"{"jobs": ["x"]}"#, 422, "the text"),
        ("/api/v1/cancel", r#"{"jobs": [-1]}"#, 422, "-1"),
        ("/api/v1/cancel", r#"{"tasks": ["1"]}"#, 422, "`1` is not a task id"),
        ("/api/v1/cancel", r#"{"state": "asleep", "jobs": [1]}"#, 422, "asleep"),
        ("/api/v1/cancel", r#"{"jobs": [1], "labels": {"a": "b"}}"#, 400, "says nothing more"),
        ("/api/v1/retry", r#"{"job": 1}"#, 422, "unknown key `job`"),
        ("/api/v1/users", r#"{"user": "a/b", "role": "user"}"#, 422, "is not a user name"),
        ("/api/v1/users", r#"{"user": "a", "role": "king"}"#, 422, "king"),
        ("/api/v1/users", r#"{"user": "a"}"#, 422, "missing key `role`"),
        ("/api/v1/tokens", r#"{"lasts": "0s"}"#, 400, "longer than nothing"),
        ("/api/v1/tokens", r#"{"lasts": "soon"}"#, 422, "not a time span"),
        ("/api/v1/tokens", r#"{"user": "nobody"}"#, 404, "no user nobody"),
    ] {
        let answer = post(&world, path, body.as_bytes());
        let what = format!("{path} {body}: {answer:?}");
        assert_eq!(answer.status, status, "{what}");
        let json = answer.json();
        let message = json["message"].as_str().expect("a message");
        assert!(message.contains(words), "no `{words}`: {what}");
        assert!(json["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{what}");
        check_message(&what, message);
    }
}
