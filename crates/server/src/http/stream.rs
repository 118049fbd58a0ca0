//! Accepting connections, also when the kernel refuses to watch them.
//!
//! What one user has the kernel watch is counted together, tasks of the same user included
//! (`fs.epoll.max_user_watches`). When that is used up a connection can still be accepted, read and
//! written; only nobody tells when there is something to read. Such a connection is looked at now
//! and then instead: slower, and enough to cancel whatever has used it all up.

use crate::metrics::Connections;
use shipway_api::proof::Ends;
use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;

/// Between two looks, while something comes and when nothing has come for long.
const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(250);

/// Where connections come in.
pub(super) struct Entrance(AsyncFd<std::net::TcpListener>);

impl Entrance {
    #[expect(
        deprecated,
        reason = "a listener keeps its descriptor for life, which is what the newer way wants said"
    )]
    pub(super) fn new(listener: TcpListener) -> io::Result<Self> {
        Ok(Entrance(AsyncFd::new(listener.into_std()?)?))
    }

    /// The next connection, watched or not.
    pub(super) async fn accept(&self, told: &Connections) -> io::Result<(Stream, SocketAddr)> {
        let (socket, from) = loop {
            let mut ready = self.0.readable().await?;
            if let Ok(accepted) = ready.try_io(|listener| listener.get_ref().accept()) {
                break accepted?;
            }
        };
        socket.set_nonblocking(true)?;
        // A refusal takes what it is given with it.
        let watched = socket.try_clone().and_then(TcpStream::from_std);
        let stream = match watched {
            Ok(stream) => Stream::Watched(stream),
            Err(error) => {
                told.trouble(&format!("a new connection cannot be watched: {error}"));
                Stream::LookedAt(LookedAt::new(socket))
            }
        };
        Ok((stream, from))
    }
}

pub(super) enum Stream {
    Watched(TcpStream),
    LookedAt(LookedAt),
}

impl Stream {
    /// Where it came to, and from where.
    pub(super) fn ends(&self) -> io::Result<Ends> {
        let (server, client) = match self {
            Stream::Watched(stream) => (stream.local_addr()?, stream.peer_addr()?),
            Stream::LookedAt(LookedAt { socket, .. }) => {
                (socket.local_addr()?, socket.peer_addr()?)
            }
        };
        Ok(Ends { server, client })
    }

    pub(super) fn set_nodelay(&self) -> io::Result<()> {
        match self {
            Stream::Watched(stream) => stream.set_nodelay(true),
            Stream::LookedAt(stream) => stream.socket.set_nodelay(true),
        }
    }
}

/// A connection of which nobody tells when there is something to do.
pub(super) struct LookedAt {
    socket: std::net::TcpStream,
    reading: Pause,
    writing: Pause,
}

impl LookedAt {
    fn new(socket: std::net::TcpStream) -> Self {
        LookedAt { socket, reading: Pause::default(), writing: Pause::default() }
    }
}

/// The time until the next look, longer each time there was nothing.
#[derive(Default)]
struct Pause {
    until: Option<Pin<Box<Sleep>>>,
    span: Duration,
}

impl Pause {
    /// Does it as soon as it can be done.
    fn attempt<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut act: impl FnMut() -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            if let Some(until) = &mut self.until {
                ready!(until.as_mut().poll(cx));
                self.until = None;
            }
            match act() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.span = (self.span * 2).clamp(SHORTEST, LONGEST);
                    self.until = Some(Box::pin(tokio::time::sleep(self.span)));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => {
                    self.span = Duration::ZERO;
                    return Poll::Ready(done);
                }
            }
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Watched(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::LookedAt(LookedAt { socket, reading, .. }) => {
                let room = buffer.initialize_unfilled();
                let read = ready!(reading.attempt(cx, || socket.read(room)))?;
                buffer.advance(read);
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Watched(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::LookedAt(LookedAt { socket, writing, .. }) => {
                writing.attempt(cx, || socket.write(bytes))
            }
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Watched(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Stream::LookedAt(LookedAt { socket, writing, .. }) => {
                writing.attempt(cx, || socket.write_vectored(pieces))
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Watched(stream) => Pin::new(stream).poll_flush(cx),
            Stream::LookedAt(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Watched(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::LookedAt(stream) => Poll::Ready(stream.socket.shutdown(Shutdown::Write)),
        }
    }
}
