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

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use shipway_model::UserName;
    use shipway_model::limits::MAX_SPEC_BYTES;

    fn asking(name: &str) -> Arc<Asking> {
        let asking = Arc::new(Asking::default());
        let user = UserName::new(name).expect("a good name");
        asking.is_by(&user, &Arc::default()).expect("room");
        asking
    }

    #[tokio::test]
    async fn the_text_of_an_answer_counts_as_in_hand() {
        let asking = asking("ada");
        let text = "x".repeat(100_000);
        measured_json(&asking, text.clone(), 0).await.expect("there is room for it");
        assert!(asking.bytes() >= text.len(), "{} bytes in hand", asking.bytes());
        asking.hold(2 * MAX_SPEC_BYTES - asking.bytes()).expect("all that one may have");
        measured_json(&asking, text, 0).await.expect_err("no room is left");
    }

    #[tokio::test]
    async fn what_is_thought_to_be_large_is_written_by_turns() {
        let asking = asking("ada");
        let turn = asking.turn().await.expect("it is free");
        let short = measured_json(&asking, "short", SHORT).now_or_never();
        assert!(short.is_some(), "short ones are written at once");
        let mut long = std::pin::pin!(measured_json(&asking, "long", SHORT + 1));
        assert!(long.as_mut().now_or_never().is_none());
        drop(turn);
        long.await.expect("it is written");
    }
}
