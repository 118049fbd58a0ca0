//! Who calls, and extractors whose refusals have our error body.

use super::Site;
use super::error::{ApiError, QUOTED};
use super::request::AskedBy;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use bytes::Bytes;
use futures_util::StreamExt;
use serde::de::{self, Deserialize, DeserializeOwned, Deserializer};
use shipway_api::job_form::{self, Language, Wrong};
use shipway_model::Actor;
use shipway_model::limits::MAX_SPEC_BYTES;
use std::str::FromStr;
use std::time::Duration;

/// The user behind a request.
#[derive(Debug, Clone)]
pub struct Caller(pub Actor);

impl FromRequestParts<Site> for Caller {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, ApiError> {
        let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = header.and_then(|header| header.strip_prefix("Bearer "));
        let actor = site.auth.person(token, site.clock.now())?;
        if let Some(AskedBy(user)) = parts.extensions.get() {
            let _ = user.set(actor.user.clone());
        }
        Ok(Caller(actor))
    }
}

/// A JSON body; refused with our error body.
#[derive(Debug)]
pub struct Body<T>(pub T);

/// A client that sends nothing for this long in the middle of its request has gone, or means harm.
const NEXT_PIECE_WITHIN: Duration = Duration::from_secs(20);
/// The largest body that is taken comes in this time over a megabit a second; who drips has to end.
const BODY_WITHIN: Duration = Duration::from_mins(5);

/// What is still read of a body that is too large, and dropped: whoever sends more than this hears
/// of a broken connection instead of the answer.
const MOST_DROPPED: usize = 16 * MAX_SPEC_BYTES;

impl<T: DeserializeOwned> FromRequest<Site> for Body<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, site: &Site) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = Bytes::from(read(body).await?);
        let whole = Request::from_parts(parts, bytes.clone().into());
        match Json::from_request(whole, site).await {
            Ok(Json(value)) => Ok(Body(value)),
            Err(JsonRejection::JsonDataError(error)) => {
                let error = JsonRejection::from(error);
                Err(wrong_job(&bytes).map_or_else(|| error.into(), Into::into))
            }
            Err(rejection) => Err(rejection.into()),
        }
    }
}

/// What is wrong with the job in a body that has one, in words for who wrote it.
fn wrong_job(body: &[u8]) -> Option<Wrong> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let job = body.get("spec").filter(|job| job.is_object())?;
    job_form::unknown_key(job).or_else(|| job_form::wrong_value(job, Language::Json))
}

async fn read(body: axum::body::Body) -> Result<Vec<u8>, ApiError> {
    let whole = tokio::time::timeout(BODY_WITHIN, read_patiently(body));
    whole.await.map_err(|_| ApiError::too_slow())?
}

async fn read_patiently(body: axum::body::Body) -> Result<Vec<u8>, ApiError> {
    let (mut kept, mut size) = (Vec::new(), 0);
    let mut pieces = body.into_data_stream();
    loop {
        let next = tokio::time::timeout(NEXT_PIECE_WITHIN, pieces.next());
        let Some(piece) = next.await.map_err(|_| ApiError::too_slow())? else { break };
        let piece = piece.map_err(|_| ApiError::bad_request("the request broke off"))?;
        size += piece.len();
        if size <= MAX_SPEC_BYTES {
            kept.extend_from_slice(&piece);
        } else {
            kept = Vec::new();
        }
        if size > MOST_DROPPED {
            break;
        }
    }
    if size > MAX_SPEC_BYTES { Err(ApiError::too_large()) } else { Ok(kept) }
}

/// Query parameters; refused with our error body.
#[derive(Debug, FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(ApiError))]
pub struct Query<T>(pub T);

/// A number in the path, written in digits and nothing else: `+1` is no second name of job 1.
#[derive(Debug, Clone, Copy)]
pub struct Digits<T>(pub T);

impl<'de, T: FromStr> Deserialize<'de> for Digits<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Digits).map_err(|_| {
            let text: String = text.chars().take(QUOTED).collect();
            de::Error::custom(format_args!("the address has `{text}` where a number stands"))
        })
    }
}

/// Parts of the path; refused with our error body.
#[derive(Debug, FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(ApiError))]
pub struct Path<T>(pub T);
