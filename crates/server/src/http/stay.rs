//! Answers that take long end with the token that asked for them: a wait, an event stream, a log
//! that is followed. Whoever was let in when it began need not be any more.
//!
//! It stands around every request, so that a new one cannot be forgotten. What changes something is
//! not cut off: it is judged again when it is decided (`core/src/decide.rs`), and who revokes
//! their own token hears that it is done.

use super::Site;
use super::error::ApiError;
use crate::auth::{Auth, Denied};
use crate::clock::Clock;
use crate::on_behalf::AskedBy;
use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use hyper::body::Body as _;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use tokio::sync::watch;
use tokio_stream::StreamExt as _;

/// One request's leave to be here.
pub(super) struct Stay {
    auth: Arc<Auth>,
    clock: Clock,
    asked_by: AskedBy,
    /// Taken before the token is looked at: no ending after that look is missed.
    endings: watch::Receiver<u64>,
}

impl Stay {
    pub(super) fn new(site: &Site, asked_by: AskedBy) -> Self {
        let (auth, clock) = (Arc::clone(&site.auth), site.clock.clone());
        let endings = auth.endings();
        Stay { auth, clock, asked_by, endings }
    }

    pub(super) fn asked_by(&self) -> AskedBy {
        self.asked_by.clone()
    }

    /// The answer, or a refusal as soon as there is none for this asker any more.
    pub(super) async fn answer(&self, answer: impl Future<Output = Response>) -> Response {
        let mut endings = self.endings.clone();
        let mut answer = pin!(answer);
        loop {
            tokio::select! {
                biased;
                answer = answer.as_mut() => return answer,
                changed = endings.changed() => {
                    if changed.is_err() {
                        return answer.await;
                    }
                    if self.is_over() {
                        return ApiError::from(Denied::UnknownToken).into_response();
                    }
                }
            }
        }
    }

    /// The same for a body that comes in pieces. One that is whole already goes out as it is.
    pub(super) fn body(self, response: Response) -> Response {
        let whole = response.body().size_hint().exact().is_some();
        let by_token = self.asked_by.0.get().is_some_and(|actor| actor.token.is_some());
        if whole || !by_token {
            return response;
        }
        let (parts, body) = response.into_parts();
        let pieces = Pieces { body: Box::pin(body.into_data_stream()), stay: Some(self) };
        let guarded = stream::unfold(pieces, Pieces::next);
        Response::from_parts(parts, Body::from_stream(guarded))
    }

    fn is_over(&self) -> bool {
        let asked_by = self.asked_by.0.get();
        asked_by.is_some_and(|actor| !self.auth.still_lets_in(actor, self.clock.now()))
    }

    /// Comes when the token has ended.
    async fn over(&mut self) {
        while !self.is_over() {
            if self.endings.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

struct Pieces {
    body: Pin<Box<axum::body::BodyDataStream>>,
    /// None: it is over, and was said to be.
    stay: Option<Stay>,
}

impl Pieces {
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        let stay = self.stay.as_mut()?;
        let piece = tokio::select! {
            biased;
            () = stay.over() => {
                // Cut off rather than ended: half a log must not look like the whole.
                self.stay = None;
                return Some((Err(io::Error::other("the token has ended")), self));
            }
            piece = self.body.next() => piece?,
        };
        Some((piece.map_err(io::Error::other), self))
    }
}
