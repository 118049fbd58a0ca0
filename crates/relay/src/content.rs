//! Answers to requests for content. A body is read from its file as its reader takes it, and never
//! faster: what a slow one does not take stays on disk, and one that takes next to nothing is left.

use crate::asked::{self, Asked, Part, Refusal};
use crate::coming::{Coming, Content, Far};
use crate::tickets::Tickets;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::Request;
use hyper::body::{Frame, Incoming};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Handed out at a time.
const PIECE: u64 = 128 << 10;
/// Within this a reader takes what was handed out before.
const TAKE_WITHIN: Duration = Duration::from_mins(1);

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

pub(crate) async fn answer(
    tickets: &Tickets,
    coming: &Arc<Coming>,
    request: Request<Incoming>,
) -> Response<Body> {
    match content(tickets, coming, &request).await {
        Ok((asked, content)) => whole_or_part(asked.part, content),
        Err(refusal) => refused(refusal),
    }
}

async fn content(
    tickets: &Tickets,
    coming: &Arc<Coming>,
    request: &Request<Incoming>,
) -> Result<(Asked, Content), Refusal> {
    let asked = asked::read(request.method(), request.uri().path(), request.headers())?;
    tickets.judge(&asked.ticket).await?;
    let content = coming.content(&asked).await?;
    Ok((asked, content))
}

fn refused(refusal: Refusal) -> Response<Body> {
    let body = Full::new(Bytes::from(refusal.words)).map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = refusal.code;
    // Whoever was refused does not keep a place by asking for no more.
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

fn whole_or_part(part: Part, Content { file, size, coming }: Content) -> Response<Body> {
    let Some((from, end)) = part.within(size) else {
        return refused(Refusal::new(StatusCode::RANGE_NOT_SATISFIABLE, "it is not so long"));
    };
    let body = Reading { file: Arc::new(file), at: from, end, coming, offered: None };
    let body = StreamBody::new(stream::unfold(body, Reading::next)).boxed_unsync();
    let answer = Response::builder()
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::CONTENT_LENGTH, end.saturating_sub(from));
    let answer = if part.is_all() {
        answer
    } else {
        let range = format!("bytes {from}-{}/{size}", end.saturating_sub(1));
        answer.status(StatusCode::PARTIAL_CONTENT).header(header::CONTENT_RANGE, range)
    };
    answer.body(body).unwrap_or_else(|_| {
        let words = "it made a mistake of its own";
        refused(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, words))
    })
}

struct Reading {
    file: Arc<File>,
    at: u64,
    end: u64,
    coming: Option<watch::Receiver<Far>>,
    /// When the last piece was.
    offered: Option<Instant>,
}

type Piece = io::Result<Frame<Bytes>>;

impl Reading {
    /// An error ends the connection: its reader sees that not all has come.
    async fn next(mut self) -> Option<(Piece, Self)> {
        if self.at >= self.end {
            return None;
        }
        if self.offered.is_some_and(|at| at.elapsed() > TAKE_WITHIN) {
            self.at = self.end;
            return Some((Err(io::ErrorKind::TimedOut.into()), self));
        }
        let piece = self.piece().await;
        match &piece {
            Ok(piece) => self.at = self.at.saturating_add(piece.len() as u64),
            Err(_) => self.at = self.end,
        }
        self.offered = Some(Instant::now());
        Some((piece.map(Frame::data), self))
    }

    async fn piece(&mut self) -> io::Result<Bytes> {
        let there = self.wait_for_more().await?;
        let want = there.min(self.end).saturating_sub(self.at).min(PIECE);
        let want = usize::try_from(want).map_err(io::Error::other)?;
        let (file, at) = (Arc::clone(&self.file), self.at);
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; want];
            file.read_exact_at(&mut piece, at).map(|()| Bytes::from(piece))
        });
        read.await.map_err(io::Error::other)?
    }

    /// Up to where the file can be read, once that is further than what was handed out.
    async fn wait_for_more(&mut self) -> io::Result<u64> {
        let at = self.at;
        let Some(coming) = &mut self.coming else { return Ok(self.end) };
        let is_more = |far: &Far| match far {
            Far::Coming { at: came, .. } => *came > at,
            Far::There | Far::Failed(_) => true,
            Far::Asked => false,
        };
        let far = coming.wait_for(is_more).await.map_err(io::Error::other)?.clone();
        match far {
            Far::Coming { at: came, .. } => Ok(came),
            Far::There => Ok(self.end),
            Far::Failed(refusal) => Err(io::Error::other(refusal.words)),
            Far::Asked => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
