//! A request's body: read within its user's budget, then from JSON to what it says. A small one by
//! the thread it came in on, a large one away from those that answer requests.

use super::Site;
use super::asking::{Asked, Asking, SMALL};
use super::error::ApiError;
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use futures_util::StreamExt;
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use shipway_api::job_form::wrong_in_body;
use shipway_api::routes::Endpoint;
use shipway_model::limits::MAX_SPEC_BYTES;
use std::sync::Arc;
use std::time::Duration;

/// A client that sends nothing for this long in the middle of its request has gone, or means harm.
const NEXT_PIECE_WITHIN: Duration = Duration::from_secs(20);
/// In this time the largest body that is taken comes over a megabit a second; a slower one is cut.
const BODY_WITHIN: Duration = Duration::from_mins(5);
/// What is still read of a body that is too large, and dropped: whoever sends more than this hears
/// of a broken connection instead of the answer.
const MOST_DROPPED: usize = 16 * MAX_SPEC_BYTES;
/// A body that comes without its size is counted in steps of this.
const STEP: usize = 64 << 10;

/// A JSON body, as large as the table lets it be; refused with our error body.
#[derive(Debug)]
pub struct Body<T>(pub T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<Site> for Body<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, _: &Site) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        if !is_json(&parts.headers) {
            return Err(ApiError::no_json());
        }
        let Asked(asking) = parts.extensions.get::<Asked>().cloned().unwrap_or_default();
        let endpoint = parts.extensions.get::<&Endpoint>();
        let most = endpoint.map_or(0, |endpoint| endpoint.most_bytes);
        let bytes = read(body, most, &asking).await?;
        let read = if bytes.len() <= SMALL {
            understand(bytes)
        } else {
            asking.work(move || understand(bytes)).await?
        };
        match read {
            Ok(value) => Ok(Body(value)),
            Err((bytes, error)) if error.is_data() => {
                let wrong = asking.work(move || wrong_in_body(&bytes)).await?;
                Err(wrong.map_or_else(|| (&error).into(), Into::into))
            }
            Err((_, error)) => Err((&error).into()),
        }
    }
}

/// The text itself is kept only if it is needed to say what is wrong.
fn understand<T: DeserializeOwned>(bytes: Vec<u8>) -> Result<T, (Vec<u8>, serde_json::Error)> {
    serde_json::from_slice(&bytes).map_err(|error| (bytes, error))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let suffixed = kind.starts_with("application/") && kind.ends_with("+json");
    kind == "application/json" || suffixed
}

async fn read(
    body: axum::body::Body,
    most: usize,
    asking: &Arc<Asking>,
) -> Result<Vec<u8>, ApiError> {
    let whole = tokio::time::timeout(BODY_WITHIN, read_patiently(body, most, asking));
    whole.await.map_err(|_| ApiError::too_slow())?
}

async fn read_patiently(
    body: axum::body::Body,
    most: usize,
    asking: &Arc<Asking>,
) -> Result<Vec<u8>, ApiError> {
    let told = body.size_hint().exact().and_then(|size| usize::try_from(size).ok());
    let mut held = told.filter(|size| *size <= most).unwrap_or_default();
    asking.hold(held)?;
    let (mut kept, mut size) = (Vec::with_capacity(held), 0);
    let mut pieces = body.into_data_stream();
    loop {
        let next = tokio::time::timeout(NEXT_PIECE_WITHIN, pieces.next());
        let Some(piece) = next.await.map_err(|_| ApiError::too_slow())? else { break };
        let piece = piece.map_err(|_| ApiError::bad_request("the request broke off"))?;
        size += piece.len();
        if size > held && size <= most {
            let step = (size - held).next_multiple_of(STEP);
            asking.hold(step)?;
            held += step;
        }
        if size <= most {
            kept.extend_from_slice(&piece);
        } else {
            kept = Vec::new();
        }
        if size > MOST_DROPPED {
            break;
        }
    }
    if size > most { Err(ApiError::too_large()) } else { Ok(kept) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::up::inside;
    use futures_util::FutureExt;
    use shipway_api::routes::{ENDPOINTS, SUBMISSIONS};
    use shipway_model::UserName;

    /// So long that reading it takes a while, so short that it was once read at once.
    const LONG: usize = 32 << 10;

    #[tokio::test]
    async fn a_long_body_is_read_by_turns() {
        let home = tempfile::tempdir().expect("a folder");
        let inside = inside(home.path()).await.expect("a new home");
        let site = &inside.site.clone();
        let asking = Arc::new(Asking::default());
        let user = UserName::new("ada").expect("a good name");
        asking.is_by(&user, &site.intake).expect("room");
        let endpoint = ENDPOINTS.iter().find(|endpoint| endpoint.path == SUBMISSIONS);
        let request = |size: usize| {
            let request = Request::post(SUBMISSIONS)
                .header(CONTENT_TYPE, "application/json")
                .extension(Asked(Arc::clone(&asking)))
                .extension(endpoint.expect("it is in the table"));
            request.body(format!("{:?}", "x".repeat(size)).into()).expect("a request")
        };
        let turn = asking.turn().await.expect("it is free");
        let short = Body::<String>::from_request(request(SMALL / 2), site).now_or_never();
        short.expect("at once").expect("text");
        let mut long = std::pin::pin!(Body::<String>::from_request(request(LONG), site));
        assert!(long.as_mut().now_or_never().is_none(), "another request has the turn");
        drop(turn);
        assert_eq!(long.await.expect("text").0.len(), LONG);
        inside.stop().await;
    }
}
