//! Requests that are wrong: refused with the status that says how, and always the same body.

use super::common::World;
use super::curl::{Answer, anonymous, ask, get, post};
use serde_json::Value;

/// Every refusal has a code, a message, a hint and the id by which it is found in the log.
fn check(answer: &Answer, status: u16, code: &str, words: &str) {
    let shown = format!("{status} {code}: {answer:?}");
    assert_eq!(answer.status, status, "{shown}");
    let body = answer.json();
    assert_eq!(body["code"], code, "{shown}");
    let message = body["message"].as_str().expect("a message");
    assert!(message.contains(words), "{shown}");
    assert!(message.len() < 2_000, "a message is for reading: {} bytes", message.len());
    assert!(body["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{shown}");
    let id = body["request_id"].as_str().filter(|id| !id.is_empty());
    assert_eq!(id, answer.header("x-request-id"), "{shown}");
}

#[test]
fn what_is_not_there_is_404_and_405() {
    let world = World::started();
    world.submit(&["--", "true"]);
    for path in ["/nope", "/api/v1/nope", "/api/v2/jobs"] {
        check(&get(&world, path), 404, "not_found", "nothing at this address");
    }
    for path in [
        "/api/v1/jobs/99",
        "/api/v1/jobs/99/wait",
        "/api/v1/jobs/99/why",
        "/api/v1/jobs/99/tasks",
        "/api/v1/jobs/99/tasks/0/log",
    ] {
        check(&get(&world, path), 404, "no_such_job", "no job 99");
    }
    check(&get(&world, "/api/v1/jobs/1/tasks/8/log"), 404, "no_such_task", "no task 1/8");
    check(&get(&world, "/api/v1/jobs/1/tasks/0/log?attempt=9"), 404, "not_found", "attempt 9");
    for path in ["/api/v1/users/nobody", "/api/v1/tokens/nothing"] {
        assert_eq!(ask(&world, path, &["-X", "DELETE"], None).status, 404, "{path}");
    }
    for (method, path) in
        [("PUT", "/api/v1/jobs"), ("DELETE", "/api/v1/jobs/1"), ("POST", "/healthz")]
    {
        let answer = ask(&world, path, &["-X", method], None);
        check(&answer, 405, "bad_method", "method");
        assert!(answer.header("allow").is_some(), "{answer:?}");
    }
}

#[test]
fn what_is_not_understood_is_400_415_and_422() {
    let world = World::started();
    let jobs = "/api/v1/jobs";
    let form = ask(&world, jobs, &[], Some(b"{}"));
    check(&form, 415, "bad_request", "application/json");
    for broken in [&b"{"[..], b"", b"\xff\xfe{", b"{\"spec\": {\"command\": [\"\xff\"]}}", b"nul\0"]
    {
        check(&post(&world, jobs, broken), 400, "bad_request", "JSON");
    }
    for (body, words) in [
        (r#"{"spec": {"comand": ["true"]}}"#, "`comand` is not a key of a job"),
        (r#"{"spec": {"command": ["true"]}, "sepc": 1}"#, "unknown key `sepc`"),
        (r#"{"spec": {"command": 7}}"#, "command"),
        (
            r#"{"spec": {"command": ["true"], "array": "1-9223372036854775807"}}"#,
            "9223372036854775807",
        ),
        (r#"{"spec": {"command": ["true"], "array": "9-1"}}"#, "9-1"),
        (r#"{"spec": {"command": ["true"], "resources": {"cpus": -1}}}"#, "cpus"),
        (r#"{"spec": {"command": ["true"], "resources": {"memory": "many"}}}"#, "many"),
        ("[]", ""),
    ] {
        check(&post(&world, jobs, body.as_bytes()), 422, "bad_request", words);
    }
    check(&post(&world, jobs, br#"{"spec": {}}"#), 422, "invalid_spec", "command");
    let turned = br#"{"spec": {"command": ["true"], "resources": {"gpu": "40GB..20GB"}}}"#;
    check(&post(&world, jobs, turned), 422, "invalid_spec", "write 20GB..40GB");
    for query in ["limit=x", "limit=-1", "foo=1", "state=bogus", "before=1e9", "label=x"] {
        check(&get(&world, &format!("{jobs}?{query}")), 400, "bad_request", "");
    }
    world.submit(&["--", "true"]);
    for id in ["abc", "+1", "%2B1", "%201", "-1", "1.0"] {
        let shown = id.replace("%2B", "+").replace("%20", " ");
        let words = format!("`{shown}` where a number stands");
        for path in ["", "/why", "/wait", "/tasks", "/tasks/0/log"] {
            let path = format!("/api/v1/jobs/{id}{path}");
            check(&get(&world, &path), 400, "bad_request", &words);
        }
        let log = format!("/api/v1/jobs/1/tasks/{id}/log");
        check(&get(&world, &log), 400, "bad_request", &words);
    }
    check(&get(&world, "/api/v1/jobs/99999999999999999999"), 400, "bad_request", "");
    let events = ask(&world, "/api/v1/events", &["-H", "Last-Event-ID: x"], None);
    check(&events, 400, "bad_request", "Last-Event-ID");
    let made = get(&world, jobs).json()["jobs"].as_array().map(Vec::len);
    assert_eq!(made, Some(1), "none of these made a job");
}

/// A misspelt parameter never means "all", or "now", or "for ever".
#[test]
fn no_route_takes_a_parameter_that_it_does_not_know() {
    let world = World::started();
    world.submit(&["--", "true"]);
    let document: Value = serde_json::from_str(&world.ok(&["openapi"])).expect("JSON");
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for method in methods.as_object().expect("methods").keys() {
            let path = path.replace("{job}", "1").replace("{index}", "0");
            let path = path.replace(['{', '}'], "") + "?lasst=90d";
            let answer = ask(&world, &path, &["-X", &method.to_uppercase()], None);
            check(&answer, 400, "bad_request", "unknown parameter `lasst`");
            asked += 1;
        }
    }
    assert!(asked >= 27, "only {asked} routes are known");
}

#[test]
fn dependencies_that_cannot_be_are_refused() {
    let world = World::started();
    let with = |after: &str| format!(r#"{{"spec": {{"command": ["true"], "after": {after}}}}}"#);
    // The first job will be number 1: waiting for itself is the only cycle that can be written.
    for after in ["[1]", "[2]", r#"["99:any"]"#, "[18446744073709551615]"] {
        let answer = post(&world, "/api/v1/jobs", with(after).as_bytes());
        check(&answer, 422, "no_such_dependency", "does not exist");
    }
    let twice = post(&world, "/api/v1/jobs", with(r#"[1, "1:any"]"#).as_bytes());
    check(&twice, 422, "invalid_spec", "twice");
    assert_eq!(post(&world, "/api/v1/jobs", with(r#"["1:maybe"]"#).as_bytes()).status, 422);
}

#[test]
fn without_a_good_token_there_is_nothing_to_see() {
    let world = World::started();
    for header in
        ["Authorization: Bearer shw_forged", "Authorization: Basic eA==", "Authorization:"]
    {
        let words = ["--header", header];
        let mut paths = vec!["/api/v1/jobs", "/api/v1/users", "/api/v1/events", "/api/v1/jobs/1"];
        paths.extend(["/api/v1/nodes", "/api/v1/tokens", "/api/v1/whoami"]);
        for path in paths {
            let answer = anonymous(&world, path, &words);
            check(&answer, 401, "unauthenticated", "token");
        }
    }
}
