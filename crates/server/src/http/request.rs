//! Around every request: an id for it, a body for its error, a line in the log, a count in the
//! metrics.
//!
//! Of a request only its method, its route and its path are told, never a header, a query or a
//! body: tokens and users' data are in those.

use super::Site;
use crate::secrets::random_word;
use axum::Json;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use shipway_api::error::ErrorBody;
use shipway_api::routes;
use shipway_model::UserName;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Letters of a path that are told; ours are shorter.
const PATH_TOLD: usize = 200;

/// Who turned out to be asking; filled in when the token is looked at.
#[derive(Debug, Clone, Default)]
pub(super) struct AskedBy(pub(super) Arc<OnceLock<UserName>>);

/// What is told about a request that was answered.
struct Told<'a> {
    id: &'a str,
    method: &'a Method,
    /// The template that it matched; nothing when it matched none.
    route: &'a str,
    path: &'a str,
    user: &'a str,
    status: StatusCode,
    took: Duration,
}

pub(super) async fn around(State(site): State<Site>, mut request: Request, next: Next) -> Response {
    let (began, id, asked_by) = (Instant::now(), random_word(12), AskedBy::default());
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let path: String = request.uri().path().chars().take(PATH_TOLD).collect();
    let method = request.method().clone();
    request.extensions_mut().insert(asked_by.clone());
    let mut response = next.run(request).await;
    let told = Told {
        id: &id,
        method: &method,
        route: matched.as_ref().map_or("", MatchedPath::as_str),
        path: &path,
        user: asked_by.0.get().map_or("", UserName::as_str),
        status: response.status(),
        took: began.elapsed(),
    };
    site.metrics.requests.answered(told.route, method.as_str(), told.status.as_u16(), told.took);
    if let Some(mut body) = response.extensions_mut().remove::<ErrorBody>() {
        log(&told, Some(&body.code));
        body.request_id.clone_from(&id);
        response = (told.status, Json(body)).into_response();
    } else {
        log(&told, None);
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(routes::REQUEST_ID, value);
    }
    response
}

/// Refusals are worth a look; the rest is for those who look for something.
fn log(told: &Told<'_>, refused: Option<&str>) {
    let Told { id, method, route, path, user, status, took } = told;
    let (status, millis) = (status.as_u16(), u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    match refused {
        Some(code) => {
            tracing::info!(
                request = id, %method, route, path, user, status, code, millis, "refused"
            );
        }
        None => {
            tracing::debug!(request = id, %method, route, path, user, status, millis, "answered");
        }
    }
}
