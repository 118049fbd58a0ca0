//! Lists in pages, health, and the document that describes them all.

use super::common::World;
use super::curl::{get, post};
use serde_json::{Value, json};
use shipway_api::routes::{ENDPOINTS, Endpoint};

fn ids(page: &Value) -> Vec<u64> {
    let jobs = page["jobs"].as_array().expect("jobs").iter();
    jobs.map(|job| job["id"].as_u64().expect("an id")).collect()
}

#[test]
fn jobs_come_in_pages_newest_first() {
    let world = World::started();
    for number in 1..=7 {
        let label = format!("odd={}", number % 2);
        world.submit(&["--name", "paged", "--label", &label, "--", "true"]);
    }
    let (mut seen, mut path) = (Vec::new(), "/api/v1/jobs?limit=3".to_string());
    loop {
        let page = get(&world, &path).json();
        assert!(ids(&page).len() <= 3);
        seen.extend(ids(&page));
        let Some(next) = page["next"].as_u64() else { break };
        path = format!("/api/v1/jobs?limit=3&before={next}");
    }
    assert_eq!(seen, [7, 6, 5, 4, 3, 2, 1], "none twice, none missing");
    assert_eq!(ids(&get(&world, "/api/v1/jobs?label=odd=1&limit=100").json()), [7, 5, 3, 1]);
    assert_eq!(ids(&get(&world, "/api/v1/jobs?name=other").json()), [0; 0]);
    assert!(world.ok(&["jobs", "--limit", "2"]).contains("--before 6"));
}

#[test]
fn tasks_come_in_pages_in_the_order_of_the_array() {
    let world = World::started();
    let text = "[ $SHIPWAY_INDEX != 15 ]";
    let id = world.submit(&["--array", "0-20:5", "--", "sh", "-c", text]);
    assert_eq!(world.cli(&["wait", &id]).code, 1);
    let tasks = |page: &Value| -> Vec<String> {
        let tasks = page["tasks"].as_array().expect("tasks").iter();
        tasks.map(|task| task["id"].as_str().expect("an id").to_string()).collect()
    };
    let (mut seen, mut from) = (Vec::new(), Some(0));
    while let Some(at) = from {
        let page = get(&world, &format!("/api/v1/jobs/{id}/tasks?limit=2&from={at}")).json();
        assert!(tasks(&page).len() <= 2);
        seen.extend(tasks(&page));
        from = page["next"].as_u64();
    }
    assert_eq!(seen, ["1/0", "1/5", "1/10", "1/15", "1/20"]);
    let failed = get(&world, &format!("/api/v1/jobs/{id}/tasks?state=failed")).json();
    assert_eq!(tasks(&failed), ["1/15"]);
    assert_eq!(
        get(&world, &format!("/api/v1/jobs/{id}/tasks?from=4000000000")).json()["tasks"],
        json!([])
    );
}

#[test]
fn a_job_is_submitted_shown_awaited_and_read() {
    let world = World::started();
    let spec = json!({"spec": {"command": ["echo", "by hand"]}});
    let made = post(&world, "/api/v1/jobs", spec.to_string().as_bytes());
    assert_eq!((made.status, &made.json()["id"]), (201, &json!(1)));
    let ended = get(&world, "/api/v1/jobs/1/wait?seconds=60").json();
    assert_eq!((&ended["state"], &ended["outcome"]["code"]), (&json!("succeeded"), &json!(0)));
    assert_eq!(get(&world, "/api/v1/jobs/1/tasks/0/log").body, "by hand\n");
    assert_eq!(get(&world, "/api/v1/whoami").json()["role"], "admin");
}

#[test]
fn health_needs_no_token_and_says_so() {
    let world = World::started();
    for path in ["/healthz", "/readyz"] {
        let (status, body) = world.get(path).expect("an answer");
        let body: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!((status, &body["ok"]), (200, &json!(true)), "{path}");
        assert!(body["version"].is_string(), "{path}");
    }
    let (status, _) = world.get("/api/v1/jobs").expect("an answer");
    assert_eq!(status, 401);
}

#[test]
fn the_openapi_document_has_every_endpoint() {
    let document: Value = serde_json::from_str(&World::new().ok(&["openapi"])).expect("JSON");
    for Endpoint { method, path, .. } in ENDPOINTS {
        let operation = &document["paths"][path][method.to_lowercase()];
        assert!(operation.is_object(), "{method} {path} is not described");
    }
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.")));
}
