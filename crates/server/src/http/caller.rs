//! Who calls, and extractors whose refusals have our error body.

use super::Site;
use super::error::ApiError;

use axum::extract::{FromRequest, FromRequestParts};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use shipway_model::Actor;

/// The user behind a request.
#[derive(Debug, Clone)]
pub struct Caller(pub Actor);

impl FromRequestParts<Site> for Caller {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, ApiError> {
        let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = header.and_then(|header| header.strip_prefix("Bearer "));
        Ok(Caller(site.auth.person(token, site.clock.now())?))
    }
}

/// A JSON body; refused with our error body.
#[derive(Debug, FromRequest)]
#[from_request(via(axum::Json), rejection(ApiError))]
pub struct Body<T>(pub T);

/// Query parameters; refused with our error body.
#[derive(Debug, FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(ApiError))]
pub struct Query<T>(pub T);

/// Parts of the path; refused with our error body.
#[derive(Debug, FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(ApiError))]
pub struct Path<T>(pub T);
