//! Who calls: everybody is asked at the door of each endpoint, before its handler is reached. And
//! extractors whose refusals have our error body.

use super::Site;
use super::asking::Asked;
use super::error::{ApiError, QUOTED};
use super::places::Guest;
use crate::auth::Denied;
use crate::on_behalf::AskedBy;
use axum::extract::{FromRequestParts, Query, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use serde::Deserialize;
use serde::de::{self, DeserializeOwned, Deserializer};
use shipway_api::bearer;
use shipway_api::routes::{Endpoint, Who};
use shipway_core::rejection::needs;
use shipway_model::{Actor, May};
use std::str::FromStr;

/// Lets in whom the table lets in. No handler can forget to ask, or ask for less.
pub(super) async fn let_in(
    State((site, endpoint)): State<(Site, &'static Endpoint)>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if endpoint.who != Who::Anybody {
        let actor = sign_in(&site, &request)?;
        // Whoever only looks hears that first, and whatever a row says changes nothing.
        if endpoint.method != "GET" {
            needs(&actor, May::Change)?;
        }
        if let Who::May(act) = endpoint.who {
            needs(&actor, act)?;
        }
    }
    if endpoint.most_bytes > 0 {
        request.extensions_mut().insert(endpoint);
    }
    Ok(next.run(request).await)
}

/// From here on the request is this person's.
fn sign_in(site: &Site, request: &Request) -> Result<Actor, ApiError> {
    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = header.and_then(bearer::token);
    let actor = site.auth.person(token, site.clock.now())?;
    if let Some(guest) = request.extensions().get::<Guest>() {
        guest.is_person(&actor)?;
    }
    if let Some(Asked(asking)) = request.extensions().get() {
        asking.is_by(&actor.user, &site.intake)?;
    }
    if let Some(AskedBy(asked_by)) = request.extensions().get() {
        let _ = asked_by.set(actor.clone());
    }
    Ok(actor)
}

/// The user behind a request that takes no query parameters. Every way to be told who calls says
/// what may be asked with it, so that no route takes what it does not read.
#[derive(Debug, Clone)]
pub struct Caller(pub Actor);

impl FromRequestParts<Site> for Caller {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, ApiError> {
        let CallerWith(actor, NoParameters {}) =
            CallerWith::from_request_parts(parts, site).await?;
        Ok(Caller(actor))
    }
}

/// The user behind a request, and the query parameters that it may have.
#[derive(Debug, Clone)]
pub struct CallerWith<Q>(pub Actor, pub Q);

impl<Q: DeserializeOwned + Send> FromRequestParts<Site> for CallerWith<Q> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &Site) -> Result<Self, ApiError> {
        let asked_by = parts.extensions.get::<AskedBy>();
        let actor = asked_by.and_then(|AskedBy(asked_by)| asked_by.get().cloned());
        let actor = actor.ok_or(Denied::NoToken)?;
        let Query(query) = Query::try_from_uri(&parts.uri)?;
        Ok(CallerWith(actor, query))
    }
}

/// For what anybody may ask.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoParameters {}

impl FromRequestParts<Site> for NoParameters {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &Site) -> Result<Self, ApiError> {
        Ok(Query::try_from_uri(&parts.uri)?.0)
    }
}

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
