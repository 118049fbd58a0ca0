//! Is the server alive, and does it take work?

use super::Site;
use super::caller::NoParameters;
use super::door::Between;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use shipway_api::proof;
use shipway_api::routes;
use shipway_api::types::Health;

fn health(problem: Option<String>) -> Health {
    Health { ok: problem.is_none(), problem, version: env!("CARGO_PKG_VERSION").into() }
}

/// The process answers. Asked for it, it shows which server it is (`shipway_api::proof`).
#[utoipa::path(get, path = routes::HEALTHZ, responses((status = 200, body = Health)))]
pub async fn healthz(
    _: NoParameters,
    State(site): State<Site>,
    between: Option<Extension<Between>>,
    asked: HeaderMap,
) -> Response {
    let mut answer = Json(health(None)).into_response();
    let question = asked.get(proof::QUESTION).and_then(|question| question.to_str().ok());
    if let Some((question, Extension(Between(ends)))) = question.zip(between) {
        let between = ends.to_string();
        let proven = site.auth.prove(question, &between).map(|proven| (proof::ANSWER, proven));
        for (name, value) in proven.into_iter().chain([(proof::BETWEEN, between)]) {
            let value = HeaderValue::from_str(&value).ok();
            answer.headers_mut().extend(value.map(|value| (HeaderName::from_static(name), value)));
        }
    }
    answer
}

/// Jobs are accepted: the journal takes writes, the disk answers, and the kernel takes connections.
#[utoipa::path(get, path = routes::READYZ,
    responses((status = 200, body = Health), (status = 503, body = Health)))]
pub async fn readyz(_: NoParameters, State(site): State<Site>) -> (StatusCode, Json<Health>) {
    let problem = site.writer.not_ready().or_else(|| site.metrics.connections.problem());
    let ready = problem.is_none();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(health(problem)))
}
