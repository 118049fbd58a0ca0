//! Answers that may be megabytes: written away from the threads that answer requests.

use super::asking::Asking;
use super::error::ApiError;
use axum::Json;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::sync::Arc;

/// Up to about this much an answer is written by the thread that answers: that takes a tenth of a
/// millisecond, and waking another thread as long.
const SHORT: usize = 64 << 10;

/// As JSON; what is large is known from what the request has in hand.
pub(super) async fn large_json<T: Serialize + Send + 'static>(
    asking: &Arc<Asking>,
    value: T,
) -> Result<Response, ApiError> {
    if asking.bytes() <= SHORT {
        return Ok(Json(value).into_response());
    }
    let written = written(asking, value).await?;
    Ok(([(CONTENT_TYPE, "application/json")], written).into_response())
}

/// The same where only the text says how large it is, beside a guess: it counts as in hand from
/// then on. Must not be called with a turn.
pub(super) async fn measured_json<T: Serialize + Send + 'static>(
    asking: &Arc<Asking>,
    value: T,
    about: usize,
) -> Result<Response, ApiError> {
    let written = if about <= SHORT { text(&value)? } else { written(asking, value).await? };
    asking.hold(written.len())?;
    Ok(([(CONTENT_TYPE, "application/json")], written).into_response())
}

async fn written<T: Serialize + Send + 'static>(
    asking: &Arc<Asking>,
    value: T,
) -> Result<Vec<u8>, ApiError> {
    asking.work(move || text(&value)).await?
}

fn text<T: Serialize>(value: &T) -> Result<Vec<u8>, ApiError> {
    let written = serde_json::to_vec(value);
    written.map_err(|error| ApiError::internal_because("the answer cannot be written", &error))
}
