//! Is the server alive, and does it take work?

use super::Site;
use super::caller::NoParameters;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use shipway_api::types::Health;

fn health(problem: Option<String>) -> Health {
    Health { ok: problem.is_none(), problem, version: env!("CARGO_PKG_VERSION").into() }
}

/// The process answers.
#[utoipa::path(get, path = "/healthz", security(()), responses((status = 200, body = Health)))]
pub async fn healthz(_: NoParameters) -> Json<Health> {
    Json(health(None))
}

/// Jobs are accepted: the journal takes writes, and the disk answers.
#[utoipa::path(get, path = "/readyz", security(()),
    responses((status = 200, body = Health), (status = 503, body = Health)))]
pub async fn readyz(_: NoParameters, State(site): State<Site>) -> (StatusCode, Json<Health>) {
    let problem = site.writer.not_ready();
    let ready = problem.is_none();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(health(problem)))
}
