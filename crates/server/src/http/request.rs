//! Around every request: an id for it, a body for its error, a line in the log, a count in the
//! metrics.
//!
//! Of a request only its method, its route and its path are told, never a header, a query or a
//! body: tokens and users' data are in those.

use super::Site;
use super::asking::Asked;
use super::error::ApiError;
use super::stay::Stay;
use crate::on_behalf::{AskedBy, on_behalf_of, step_on_behalf_of};
use crate::panics::{Panicked, guarded_task};
use crate::secrets::random_word;
use axum::Json;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::{Body as _, Frame, SizeHint};
use shipway_api::error::ErrorBody;
use shipway_api::routes;
use shipway_model::UserName;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Letters of a path that are told; ours are shorter.
const PATH_TOLD: usize = 200;

/// What is told about a request that was answered.
struct Told<'a> {
    id: &'a str,
    method: &'a Method,
    /// The template that it matched; nothing when it matched none.
    route: &'a str,
    path: &'a str,
    user: &'a str,
    status: StatusCode,
    took: Duration,
}

pub(super) async fn around(State(site): State<Site>, mut request: Request, next: Next) -> Response {
    let (began, id, asked) = (Instant::now(), random_word(12), Asked::default());
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let path: String = request.uri().path().chars().take(PATH_TOLD).collect();
    let method = request.method().clone();
    request.extensions_mut().insert(asked.clone());
    let stay = Stay::new(&site, AskedBy::default());
    request.extensions_mut().insert(stay.asked_by());
    let is_get = method == Method::GET;
    let answered = guarded_task(on_behalf_of(stay.asked_by(), async {
        if is_get { stay.answer(next.run(request)).await } else { next.run(request).await }
    }));
    let mut response = answered.await.unwrap_or_else(|Panicked| {
        ApiError::internal("the server failed at this request; its log says where").into_response()
    });
    let told = Told {
        id: &id,
        method: &method,
        route: matched.as_ref().map_or("", MatchedPath::as_str),
        path: &path,
        user: asked.0.user().map_or("", UserName::as_str),
        status: response.status(),
        took: began.elapsed(),
    };
    site.metrics.requests.answered(told.route, method.as_str(), told.status.as_u16(), told.took);
    if let Some(mut body) = response.extensions_mut().remove::<ErrorBody>() {
        log(&told, Some(&body.code));
        body.request_id.clone_from(&id);
        response = (told.status, Json(body)).into_response();
    } else {
        log(&told, None);
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(routes::REQUEST_ID, value);
    }
    // In hand until the last of it is read.
    let asked_by = stay.asked_by();
    let in_hand = |body: Body| {
        if body.is_end_stream() {
            return body;
        }
        Body::new(InHand { body, asked_by, asked })
    };
    stay.body(response.map(in_hand))
}

/// An answer on its way, and whose it is.
struct InHand {
    body: Body,
    asked_by: AskedBy,
    #[expect(dead_code, reason = "kept for its drop")]
    asked: Asked,
}

impl hyper::body::Body for InHand {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // What is asked while it is read, is asked by whoever reads it.
        let asked_by = self.asked_by.clone();
        step_on_behalf_of(asked_by, || Pin::new(&mut self.body).poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Refusals are worth a look; the rest is for those who look for something.
fn log(told: &Told<'_>, refused: Option<&str>) {
    let Told { id, method, route, path, user, status, took } = told;
    let (status, millis) = (status.as_u16(), u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    match refused {
        Some(code) => {
            tracing::info!(
                request = id, %method, route, path, user, status, code, millis, "refused"
            );
        }
        None => {
            tracing::debug!(request = id, %method, route, path, user, status, millis, "answered");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::on_behalf::asker;
    use http_body_util::BodyExt as _;
    use shipway_model::{Actor, Role};
    use std::convert::Infallible;

    #[tokio::test]
    async fn what_is_asked_while_an_answer_is_read_is_its_readers() {
        let told = || asker().map(|user| user.to_string()).unwrap_or_default();
        let pieces = futures_util::stream::once(async move { Ok::<_, Infallible>(told()) });
        let asked_by = AskedBy::default();
        let user = UserName::new("bob").expect("a good name");
        asked_by.0.set(Actor::new(user, Role::User)).expect("set once");
        let body = InHand { body: Body::from_stream(pieces), asked_by, asked: Asked::default() };
        let read = Body::new(body).collect().await.expect("it is read").to_bytes();
        assert_eq!(&read[..], b"bob");
    }
}
