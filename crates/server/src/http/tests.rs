//! What stands around the handlers: a mistake costs one request, and what a user may have done is
//! counted on the way.

use super::{Site, request};
use crate::up::{Inside, inside};
use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use shipway_api::routes;
use tower::ServiceExt;

struct World {
    inside: Inside,
    _home: tempfile::TempDir,
}

impl World {
    async fn new() -> World {
        let home = tempfile::tempdir().expect("a folder");
        World { inside: inside(home.path()).await.expect("a new home"), _home: home }
    }

    fn site(&self) -> &Site {
        &self.inside.site
    }

    async fn submit(&self, spec: Value) -> (StatusCode, Value) {
        let request = Request::post(routes::JOBS)
            .header("authorization", format!("Bearer {}", self.inside.token))
            .header("content-type", "application/json")
            .body(Body::from(json!({ "spec": spec }).to_string()));
        answer(self.inside.router.clone(), request.expect("a request")).await
    }
}

async fn answer(router: Router, request: Request<Body>) -> (StatusCode, Value) {
    let answer = router.oneshot(request).await.expect("an answer");
    let status = answer.status();
    let body = answer.into_body().collect().await.expect("a body").to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

async fn fails() {
    panic!("on purpose");
}

#[tokio::test]
async fn a_route_that_panics_costs_one_request() {
    let world = World::new().await;
    let around = axum::middleware::from_fn_with_state(world.site().clone(), request::around);
    let router = Router::new()
        .route("/fails", axum::routing::get(fails).post(fails))
        .route("/works", axum::routing::get(|| async {}))
        .layer(around);
    let mut answers = Vec::new();
    for (method, path) in [("GET", "/fails"), ("POST", "/fails"), ("GET", "/works")] {
        let request = Request::builder().method(method).uri(path).body(Body::empty());
        answers.push(answer(router.clone(), request.expect("a request")).await);
    }
    let page = world.site().metrics.render(false, None);
    world.inside.stop().await;
    let [(get, body), (post, _), (works, _)] = answers.as_slice() else { panic!("three") };
    assert_eq!((get.as_u16(), post.as_u16(), works.as_u16()), (500, 500, 200));
    assert_eq!(body["code"], "internal", "{body}");
    assert!(body["request_id"].is_string(), "it can be found in the log: {body}");
    assert!(page.contains("status=\"5xx\"") || page.contains("class=\"5xx\""), "{page}");
}

#[tokio::test]
async fn whoever_has_submitted_as_much_as_one_may_in_a_day_submits_no_more() {
    let world = World::new().await;
    let spec = json!({ "command": ["true"] });
    let first = world.submit(spec.clone()).await;
    let (site, owner) = (world.site(), world.site().auth.owner());
    while site.budgets.keep_specs(owner, 1, 1 << 26, site.clock.now()).is_ok() {}
    while site.budgets.keep_specs(owner, 1, 0, site.clock.now()).is_ok() {}
    let (status, body) = world.submit(spec).await;
    world.inside.stop().await;
    assert_eq!((first.0.as_u16(), status.as_u16()), (201, 429), "{body}");
    assert!(body["message"].as_str().is_some_and(|why| why.contains("for one day")), "{body}");
}

#[tokio::test]
async fn whoever_has_used_up_their_look_ups_has_no_registry_asked() {
    let world = World::new().await;
    // Nobody is there: whoever asks is told so.
    let spec = json!({ "command": ["true"], "image": "docker://127.0.0.1:1/x:1" });
    let (site, owner) = (world.site(), world.site().auth.owner());
    let mut held = Vec::new();
    while let Ok(place) = site.budgets.look_up(owner, site.clock.now()) {
        held.push(place);
    }
    let (status, body) = world.submit(spec.clone()).await;
    drop(held);
    let asked = world.submit(spec).await;
    world.inside.stop().await;
    assert_eq!((status.as_u16(), asked.0.as_u16()), (429, 422), "{body}");
    assert!(body["message"].as_str().is_some_and(|why| why.contains("look-ups")), "{body}");
}

#[tokio::test]
async fn of_gpus_that_sites_would_give_it_is_said_whether_a_request_would_find_them() {
    let world = World::new().await;
    let ask = |method, path: String, body: Value| {
        let request = Request::builder().method(method).uri(path);
        let request = request
            .header("authorization", format!("Bearer {}", world.inside.token))
            .header("content-type", "application/json")
            .body(if body.is_null() { Body::empty() } else { Body::from(body.to_string()) });
        answer(world.inside.router.clone(), request.expect("a request"))
    };
    let gpus = json!({"count": 1, "model": "NVIDIA A100", "memory": "40GB"});
    let class = |name: &str, more: Value| {
        let mut class = json!({"name": name, "pilots": 3, "cpus": 4, "memory": "16GB"});
        more.as_object().into_iter().flatten().for_each(|(key, value)| class[key] = value.clone());
        class
    };
    let spec = json!({"name": "hpc", "kind": "slurm", "program": "/s", "server": "http://h:1",
        "classes": [class("a100", json!({ "gpus": gpus })), class("cpu", json!({}))]});
    let added = ask("POST", routes::SITES.into(), spec).await;
    let get = |request: &str| ask("GET", format!("{}{request}", routes::GPUS), Value::Null);
    let (all, one, two) = (get("").await, get("?request=A100").await, get("?request=2").await);
    let bad = get("?request=A100:2:2").await;
    world.inside.stop().await;
    assert_eq!((added.0.as_u16(), all.0.as_u16(), bad.0.as_u16()), (200, 200, 400), "{added:?}");
    let classes = |answer: &(StatusCode, Value)| answer.1["classes"].as_array().map(Vec::len);
    assert_eq!(classes(&all), Some(1), "the other class has no GPU: {all:?}");
    assert!(all.1["classes"][0]["would_do"].is_null(), "nothing was asked: {all:?}");
    assert_eq!(one.1["classes"][0]["would_do"], true, "{one:?}");
    assert_eq!(two.1["classes"][0]["would_do"], false, "{two:?}");
    assert_eq!(two.1["classes"][0]["waits"][0]["kind"], "too_small", "{two:?}");
    assert!(bad.1["message"].as_str().is_some_and(|why| why.contains("A100:2:2")), "{bad:?}");
}
