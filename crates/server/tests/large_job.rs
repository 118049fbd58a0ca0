//! What the largest jobs cost while they are accepted: memory, counted as it is taken. What SQLite
//! takes is not counted here.
//!
//! One test in this file: the peak is that of the whole process.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use shipway_api::routes;
use std::fmt::Write;
use tower::ServiceExt;

#[global_allocator]
static MEMORY: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

/// Enough to tell copies of it from everything else that takes memory.
const BODY: usize = 6 << 20;
/// The body itself, what was read of it, and the commit; and half a one for what grows by doubling.
const COPIES: usize = 7;
const OF: usize = 2;
const BESIDE: usize = 2 << 20;

fn body() -> String {
    let mut text = String::with_capacity(BODY + 200);
    text.push_str(r#"{"spec":{"command":["true"],"each":["#);
    let mut row = 0;
    while text.len() < BODY {
        let comma = if row == 0 { "" } else { "," };
        write!(text, r#"{comma}{{"name":"row number {row:08} of many","x":"{row:010}"}}"#)
            .expect("a text grows");
        row += 1;
    }
    text.push_str("]}}");
    text
}

#[test]
fn an_accepted_job_is_not_copied_again_and_again() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let home = tempfile::tempdir().expect("a folder");
        let inside = shipway_server::up::inside(home.path()).await.expect("a new home");
        let body = body();
        let size = body.len();
        let request = Request::post(routes::JOBS)
            .header("authorization", format!("Bearer {}", inside.token))
            .header("content-type", "application/json")
            .body(Body::from(body))
            .expect("a request");
        // The body was there before, and is read into memory once more.
        let before = MEMORY.current_usage() - size;
        MEMORY.reset_peak_usage();
        let answer = inside.router.clone().oneshot(request).await.expect("an answer");
        let taken = MEMORY.peak_usage().saturating_sub(before);
        assert_eq!(answer.status(), StatusCode::CREATED);
        let most = size * COPIES / OF + BESIDE;
        assert!(taken <= most, "{taken} bytes for a job of {size}; {most} are enough");
        inside.stop().await;
    });
}
