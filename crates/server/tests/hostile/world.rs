//! A server without a listener, on a home of its own in memory where there is such a place.

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use serde_json::Value;
use shipway_server::up::Inside;
use std::fmt;
use std::path::Path;
use std::time::Duration;
use tower::ServiceExt;

/// Answers that go on for ever (events, a log that is followed, a pilot's orders) are read for so
/// long; what a pilot says is worked on meanwhile.
const READ_FOR: Duration = Duration::from_millis(1);
const PILOT_FOR: Duration = Duration::from_millis(20);

pub(crate) struct World {
    inside: Inside,
    pub(crate) owner: String,
    pub(crate) user: String,
    /// Name and token.
    pub(crate) pilot: (String, String),
    home: tempfile::TempDir,
}

pub(crate) struct Input {
    request: Request<Body>,
    size: usize,
    said: String,
}

impl Input {
    pub(crate) fn new(request: Request<Body>, size: usize, said: String) -> Self {
        Input { request, size, said }
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) bytes: usize,
    /// It is refused because the node is out of touch.
    pub(crate) is_away: bool,
}

impl World {
    pub(crate) async fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let home = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let home = home.expect("a folder");
        let inside = shipway_server::up::inside(home.path()).await.expect("a new home");
        let owner = inside.token.clone();
        let empty = String::new();
        let mut world =
            World { inside, owner, user: empty.clone(), pilot: (empty.clone(), empty), home };
        world.post("/api/v1/users", r#"{"user":"fuzz","role":"user"}"#).await;
        let token = world.post("/api/v1/tokens", r#"{"user":"fuzz","lasts":"300d"}"#).await;
        world.user = text(&token["secret"]);
        let pilot = world.post("/api/v1/pilots", "").await;
        world.pilot = (text(&pilot["pilot"]), text(&pilot["token"]));
        world
    }

    async fn post(&self, path: &str, body: &str) -> Value {
        let request = Request::post(path)
            .header("authorization", format!("Bearer {}", self.owner))
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .expect("a request");
        let answer = self.inside.router.clone().oneshot(request).await.expect("an answer");
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        serde_json::from_slice(&body).expect("JSON")
    }

    pub(crate) async fn ask(&self, input: Input) -> Answer {
        let endless = ["/wait", "/events", "/log", "/Attach"];
        let is_endless = endless.iter().any(|end| input.request.uri().path().ends_with(end));
        let is_pilot = input.request.uri().path().ends_with("/Attach");
        let asked = self.inside.router.clone().oneshot(input.request);
        if !is_endless {
            let answer = asked.await.expect("an answer");
            let status = answer.status().as_u16();
            let body = answer.into_body().collect().await.expect("a body").to_bytes();
            return Answer { status, bytes: body.len(), is_away: says_away(&body) };
        }
        let status = std::cell::Cell::new(200);
        let (bytes, is_away) = (std::cell::Cell::new(0), std::cell::Cell::new(false));
        let reading = async {
            let answer = asked.await.expect("an answer");
            status.set(answer.status().as_u16());
            let mut body = answer.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                let data = frame.data_ref().cloned().unwrap_or_default();
                is_away.set(is_away.get() || says_away(&data));
                bytes.set(bytes.get() + data.len());
            }
        };
        // Whoever breaks off is as good as whoever waits.
        let span = if is_pilot { PILOT_FOR } else { READ_FOR };
        let _ = tokio::time::timeout(span, reading).await;
        Answer { status: status.get(), bytes: bytes.get(), is_away: is_away.get() }
    }

    pub(crate) async fn end(self) {
        self.inside.stop().await;
        drop(self.home);
    }
}

fn says_away(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains("\"code\":\"node_away\"")
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_string()
}
