//! One call at a time, over the doors that pilots come in by.

use super::*;
use crate::up::{Inside, inside};
use axum::body::Body;
use axum::http::{Request, Response};
use http_body_util::BodyExt;
use prost::Message;
use shipway_api::link::{CONNECTION_NUMBER, FromPilot, Hello};
use shipway_api::wire;
use shipway_core::State;
use shipway_core::pilot::Pilot;
use shipway_model::{ConnectionNumber, PilotId};
use std::time::Duration;
use tower::ServiceExt;

/// Far beyond what any answer takes; only a hang reaches it.
const PATIENCE: Duration = Duration::from_mins(1);
const CONTROL: &str = "/shipway.pilot.v1.Link/Attach";
const LOGS: &str = "/shipway.pilot.v1.Logs/Show";
const TOO_MANY: &str = "8";

#[test]
fn a_place_is_given_back() {
    let calls = OneEach::default();
    let first = calls.begin("p").expect("nobody calls");
    assert!(calls.begin("p").is_none() && calls.begin("q").is_some());
    drop(first);
    assert!(calls.begin("p").is_some());
}

struct World {
    inside: Inside,
    pilot: PilotId,
    token: String,
    _home: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let inside = inside(home.path()).await.expect("a new home");
        let request = Request::post("/api/v1/pilots")
            .header("authorization", format!("Bearer {}", inside.token))
            .body(Body::empty());
        let asked = inside.router.clone().oneshot(request.expect("a request"));
        let body = asked.await.expect("an answer").into_body().collect().await.expect("a body");
        let issued: serde_json::Value = serde_json::from_slice(&body.to_bytes()).expect("JSON");
        let text = |name: &str| issued[name].as_str().expect("a text").to_string();
        let pilot = PilotId::new(&text("pilot")).expect("good");
        World { token: text("token"), inside, pilot, _home: home }
    }

    /// The answer to a call that sends this, and then no end.
    async fn call(&self, path: &str, sends: Vec<u8>) -> Response<Body> {
        use futures_util::{StreamExt, stream};
        let sends = stream::iter([Ok::<_, std::io::Error>(sends)]).chain(stream::pending());
        let request = Request::post(path)
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header(CONNECTION_NUMBER, 1)
            .body(Body::from_stream(sends));
        let asked = self.inside.router.clone().oneshot(request.expect("a request"));
        asked.await.expect("an answer")
    }

    /// How a call is refused at once, while another one waits for the rest of its message.
    async fn refused(&self, path: &str) -> Option<String> {
        let first = self.call(path, vec![0, 0, 0, 0, 9, 1]);
        let second = tokio::time::timeout(PATIENCE, self.call(path, Vec::new()));
        let second = tokio::select! {
            biased;
            answered = first => panic!("it waits for the rest: {answered:?}"),
            second = second => second.ok()?,
        };
        let status = second.headers().get("grpc-status")?.to_str().ok()?;
        Some(status.to_string())
    }

    fn greeting(&self) -> Vec<u8> {
        let ad = r#"{"node":"n","capacity":{"cpus":4,"memory":8000000000,"disk":1},"gpus":[]}"#;
        let hello = Hello {
            pilot: self.pilot.clone(),
            connection: ConnectionNumber(1),
            version: "1".into(),
            ad: serde_json::from_str(ad).expect("an ad"),
            lease: Some(shipway_model::Millis(600_000)),
            held: Vec::new(),
            folder_key: "key".into(),
        };
        said(FromPilot::Hello(Box::new(hello)))
    }
}

/// A message as it goes over the wire.
fn said(message: FromPilot) -> Vec<u8> {
    let message = wire::ToServer::from(message).encode_to_vec();
    let size = u32::try_from(message.len()).expect("small").to_be_bytes();
    [&[0], size.as_slice(), message.as_slice()].concat()
}

/// Each of them would have sixteen mebibytes of the server's memory.
#[tokio::test]
async fn a_pilot_that_greets_is_not_heard_on_another_call() {
    let world = World::new().await;
    let refused = world.refused(CONTROL).await;
    // The one that waited was broken off: the next is heard.
    let greeted = world.call(CONTROL, world.greeting()).await;
    // That one is done with, for as long as it goes on.
    let again = world.call(CONTROL, vec![0, 0, 0, 0, 1, 0xff]).await;
    world.inside.stop().await;
    assert_eq!(refused.as_deref(), Some(TOO_MANY));
    assert!(!greeted.headers().contains_key("grpc-status"), "{greeted:?}");
    assert_ne!(again.headers().get("grpc-status").expect("refused"), TOO_MANY);
}

#[tokio::test]
async fn output_of_a_connection_comes_by_one_call() {
    let world = World::new().await;
    let _control = world.call(CONTROL, world.greeting()).await;
    let refused = world.refused(LOGS).await;
    let again = world.refused(LOGS).await;
    world.inside.stop().await;
    assert_eq!(refused.as_deref(), Some(TOO_MANY));
    assert_eq!(again, refused, "the next was heard, and the one beside it was not");
}

#[tokio::test]
async fn a_mistake_over_a_message_of_a_pilot_costs_its_connection() {
    let world = World::new().await;
    let struck = said(FromPilot::Ping { number: super::super::service::STRUCK });
    let call = world.call(CONTROL, [world.greeting(), struck].concat()).await;
    // The pilot sees its end, and greets again.
    let heard = tokio::time::timeout(PATIENCE, call.into_body().collect()).await;
    let heard = heard.expect("the call ends").expect("in order");
    let status = heard.trailers().and_then(|end| end.get("grpc-status")).cloned();
    let (site, pilot) = (&world.inside.site, world.pilot.clone());
    let known = site.pilots.nodes();
    let is_known = move |state: &State| state.pilots().get(&pilot).is_some_and(Pilot::is_connected);
    let is_known = site.writer.glance(is_known).await.expect("an answer");
    world.inside.stop().await;
    assert_eq!((known.len(), is_known), (0, false), "nothing more is said to it, or placed on it");
    assert_eq!(status.expect("it says how"), "14", "unavailable");
}
