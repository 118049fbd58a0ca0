//! A server without a listener, on a home of its own in memory where there is such a place.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::{BodyExt, Collected};
use serde_json::Value;
use shipway_api::routes;
use shipway_server::up::Inside;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tower::ServiceExt;

/// Answers that go on for ever (events, a log that is followed, the end of a job) are read for so
/// long. A pilot's orders end when all it said is worked on.
const READ_FOR: Duration = Duration::from_millis(1);
/// How often somebody else asks for little.
const BYSTANDER_EVERY: Duration = Duration::from_millis(20);

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
    /// The beginning of the body.
    begins: Vec<u8>,
}

/// Of a body that is shown.
const SHOWN: usize = 300;

impl Input {
    pub(crate) fn new(request: Request<()>, body: Vec<u8>) -> Self {
        let size = body.len() + request.uri().to_string().len();
        let begins = body.get(..SHOWN).unwrap_or(&body).to_vec();
        Input { request: request.map(|()| Body::from(body)), size, begins }
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn is_pilots(&self) -> bool {
        self.request.uri().path().starts_with("/shipway.pilot.v1.")
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (method, uri) = (self.request.method(), self.request.uri());
        write!(f, "{method} {uri:.200} {}", String::from_utf8_lossy(&self.begins))
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
        world.add_user().await;
        let pilot = world.post("/api/v1/pilots", "").await;
        world.pilot = (text(&pilot["pilot"]), text(&pilot["token"]));
        world
    }

    async fn add_user(&mut self) {
        self.post(routes::USERS, r#"{"user":"fuzz","role":"user"}"#).await;
        let token = self.post(routes::TOKENS, r#"{"user":"fuzz","lasts":"300d"}"#).await;
        self.user = text(&token["secret"]);
    }

    /// Inputs remove the user, too: those that follow would all be refused alike.
    pub(crate) async fn mend(&mut self) {
        let asked = who_am_i(self.inside.router.clone(), &self.user).await;
        if !asked.is_success() {
            self.add_user().await;
        }
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
        let endless = ["/wait", "/events", "/log"];
        let is_endless = endless.iter().any(|end| input.request.uri().path().ends_with(end));
        let asked = self.inside.router.clone().oneshot(input.request);
        if !is_endless {
            let answer = asked.await.expect("an answer");
            let status = answer.status().as_u16();
            // A pilot's that breaks off is one that was refused.
            let body = answer.into_body().collect().await.map(Collected::to_bytes);
            let body = body.unwrap_or_default();
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
        let _ = tokio::time::timeout(READ_FOR, reading).await;
        Answer { status: status.get(), bytes: bytes.get(), is_away: is_away.get() }
    }

    pub(crate) async fn end(self) {
        self.inside.stop().await;
        drop(self.home);
    }
}

/// Somebody who asks who they are, over and over, while others ask for much.
pub(crate) struct Bystander {
    enough: Arc<AtomicBool>,
    asking: tokio::task::JoinHandle<(u64, Duration)>,
}

impl Bystander {
    pub(crate) fn start(world: &World) -> Self {
        let (router, token) = (world.inside.router.clone(), world.owner.clone());
        let enough = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&enough);
        let asking = tokio::spawn(async move {
            let (mut asked, mut longest) = (0, Duration::ZERO);
            let mut next = tokio::time::interval(BYSTANDER_EVERY);
            while !seen.load(Ordering::Relaxed) {
                let began = Instant::now();
                let status = who_am_i(router.clone(), &token).await;
                longest = longest.max(began.elapsed());
                assert!(status.is_success(), "{status}");
                asked += 1;
                next.tick().await;
            }
            (asked, longest)
        });
        Bystander { enough, asking }
    }

    /// How often they asked, and waited at most.
    pub(crate) async fn end(self) -> (u64, Duration) {
        self.enough.store(true, Ordering::Relaxed);
        self.asking.await.expect("the bystander was answered")
    }
}

async fn who_am_i(router: Router, token: &str) -> StatusCode {
    let request = Request::get(routes::WHO_AM_I)
        .header("authorization", format!("Bearer {token}"))
        .body(Body::empty())
        .expect("a request");
    router.oneshot(request).await.expect("an answer").status()
}

fn says_away(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains("\"code\":\"node_away\"")
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_string()
}
