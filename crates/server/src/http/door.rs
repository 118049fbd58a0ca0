//! What stands between a connection and the router: it tells requests whose connection they come
//! on, and notes how far their answers are read.
//!
//! Answers are handed out in pieces. A client that asks for a large one and takes nothing of it
//! holds memory, and shows it by not asking for the next piece.

use super::places::{Guest, Request as Asked};
use axum::Router;
use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::{Request, Response};
use shipway_api::proof::Ends;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower::Service;

/// How much is handed out at a time: as much as one connection has on the way to a fast reader.
const PIECE: usize = 64 << 10;

/// Of this size on, an answer that is made as a whole does not wait for its reader for ever. What
/// flows, such as a log, may be read as slowly as a person reads.
const LARGE: u64 = 1 << 20;

/// The router, for one connection.
#[derive(Debug, Clone)]
pub(super) struct Door {
    router: Router,
    guest: Guest,
    between: Option<Between>,
}

/// The connection that a request came over, where that is known.
#[derive(Debug, Clone, Copy)]
pub struct Between(pub(super) Ends);

impl Door {
    pub(super) fn new(router: Router, guest: Guest, ends: Option<Ends>) -> Self {
        Door { router, guest, between: ends.map(Between) }
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Answer>, Infallible>> + Send>>;

impl hyper::service::Service<Request<Incoming>> for Door {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, mut request: Request<Incoming>) -> Answering {
        let asked = self.guest.ask();
        request.extensions_mut().insert(self.guest.clone());
        if let Some(between) = self.between {
            request.extensions_mut().insert(between);
        }
        let answered = self.router.clone().call(request);
        Box::pin(async move {
            let response = answered.await?;
            Ok(response.map(|body| {
                let is_large = body.size_hint().exact().is_some_and(|size| size > LARGE);
                Answer { body, rest: Bytes::new(), asked: asked.answered(is_large) }
            }))
        })
    }
}

/// An answer on its way.
#[derive(Debug)]
pub(super) struct Answer {
    body: Body,
    /// What is left of a piece that was too large.
    rest: Bytes,
    asked: Asked,
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        this.asked.taken();
        if this.rest.is_empty() {
            let frame = std::task::ready!(Pin::new(&mut this.body).poll_frame(context));
            match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => return Poll::Ready(other),
            }
        }
        let piece = this.rest.split_to(this.rest.len().min(PIECE));
        this.asked.offer();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let inner = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(rest));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}
