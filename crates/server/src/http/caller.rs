//! Who calls, and extractors whose refusals have our error body.

use super::Site;
use super::error::ApiError;
use super::request::AskedBy;

use axum::Json;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use shipway_model::Actor;
use shipway_model::limits::MAX_SPEC_BYTES;

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

/// What is still read of a body that is too large, and dropped: whoever sends more than this hears
/// of a broken connection instead of the answer.
const MOST_DROPPED: usize = 16 * MAX_SPEC_BYTES;

impl<T: DeserializeOwned> FromRequest<Site> for Body<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, site: &Site) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let whole = Request::from_parts(parts, read(body).await?.into());
        let Json(value) = Json::from_request(whole, site).await?;
        Ok(Body(value))
    }
}

async fn read(body: axum::body::Body) -> Result<Vec<u8>, ApiError> {
    let (mut kept, mut size) = (Vec::new(), 0);
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
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

/// Parts of the path; refused with our error body.
#[derive(Debug, FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(ApiError))]
pub struct Path<T>(pub T);
