//! `/metrics`: the server's own figures, for Prometheus and its kind.
//!
//! For monitors and operators: how much there is to do and where is nobody else's business, on a
//! machine that many share. What is counted, and how, is in `crate::metrics`.

use super::Site;
use super::caller::Caller;
use super::error::ApiError;
use crate::metrics::{CONTENT_TYPE, Census};
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use shipway_api::error::ErrorBody;
use shipway_api::routes;
use std::time::Duration;

/// A scrape is cut after ten seconds by most; what counters say must have gone out by then.
const WRITER_ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// The server's figures in Prometheus' text format; for monitors and operators.
#[utoipa::path(get, path = routes::METRICS,
    responses((status = 200, content_type = "text/plain", body = String),
        (status = "4XX", body = ErrorBody)))]
pub async fn scrape(_: Caller, State(site): State<Site>) -> Result<impl IntoResponse, ApiError> {
    // A writer that cannot write answers nobody; that it cannot is the most wanted figure of all.
    let census = tokio::time::timeout(WRITER_ANSWERS_WITHIN, site.writer.ask(Census::take));
    let census = census.await.ok().and_then(Result::ok);
    let page = site.metrics.render(site.writer.not_ready().is_some(), census.as_ref());
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], page))
}
