//! Accepts connections, and has each served by what its first byte says it is: TLS is for the
//! server, and passed on unread; a request for content is answered here; anything else is closed.

use crate::coming::Coming;
use crate::gate::{Full, Gate, Slot};
use crate::pipe::pipe;
use crate::shelf::{Shelf, ShelfError};
use crate::tickets::Tickets;
use crate::{Settings, content};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt;
use rustix::process::{Resource, getrlimit};
use shipway_api::client::ClientError;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

/// Of a record that begins a TLS connection.
const HANDSHAKE: u8 = 22;
/// Of `GET`.
const REQUEST: u8 = b'G';
/// Who connects speaks first, and at once.
const FIRST_BYTE_WITHIN: Duration = Duration::from_secs(10);
const DIAL_WITHIN: Duration = Duration::from_secs(10);
/// For the headings of a request, and between two of them.
const HEADINGS_WITHIN: Duration = Duration::from_secs(15);
const MOST_HEADINGS: usize = 16 << 10;
/// What was sent and is not acknowledged for so long: the other machine is gone, or takes nothing.
const UNACKNOWLEDGED: Duration = Duration::from_mins(1);
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(30);
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(10);
/// Requests for content at the same time: pilots' own connections always have places left.
const CONTENT_PART: usize = 4;
/// Content, tickets, the log, and what the program has open by itself.
const OTHER_FILES: usize = 128;
/// Whoever is turned away is mentioned this often.
const MENTION_EVERY: u64 = 1_000;
/// After an accept that failed (too many open files): it would fail again at once.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    #[error("`{0}` is not an address that can be relayed: write https://HOST:PORT")]
    Server(String),
    #[error(
        "`{0}` has no TLS: everybody between the nodes and the server, this relay too, could read \
         the tokens of pilots"
    )]
    Plain(String),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    #[error("cannot listen at {at}")]
    Listen {
        at: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("cannot be told when to end")]
    Signals(#[source] io::Error),
}

/// The only place that connections are passed on to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Server {
    host: String,
    port: u16,
}

impl Server {
    fn of(url: &str) -> Result<Self, RelayError> {
        let bad = || RelayError::Server(url.chars().take(200).collect());
        let uri: http::Uri = url.trim_end_matches('/').parse().map_err(|_| bad())?;
        let host = uri.host().ok_or_else(bad)?.trim_matches(['[', ']']).to_owned();
        let has_no_path = uri.path() == "/" || uri.path().is_empty();
        match uri.scheme_str() {
            Some("https") if has_no_path && uri.query().is_none() => {
                Ok(Server { host, port: uri.port_u16().unwrap_or(443) })
            }
            Some("http") => Err(RelayError::Plain(url.chars().take(200).collect())),
            _ => Err(bad()),
        }
    }
}

/// Serves until it is told to end. `ready` is told where it listens.
pub async fn relay(settings: Settings, ready: impl FnOnce(SocketAddr)) -> Result<(), RelayError> {
    let server = Server::of(&settings.server)?;
    let tickets = Tickets::new(&settings.server, settings.certificate.as_deref())?;
    let shelf = Arc::new(Shelf::of_relay(&settings.images, settings.images_size)?);
    let connections = settings.connections.min(fit_into_open_files());
    let failed = |source| RelayError::Listen { at: settings.listen, source };
    let listener = TcpListener::bind(settings.listen).await.map_err(failed)?;
    let at = listener.local_addr().map_err(failed)?;
    let relay = Arc::new(Relay {
        server,
        tickets,
        coming: Coming::new(shelf),
        content: Arc::new(Semaphore::new(connections.div_ceil(CONTENT_PART))),
    });
    let gate = Gate::new(connections, settings.connections_each);
    let mut end = signal(SignalKind::terminate()).map_err(RelayError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(RelayError::Signals)?;
    ready(at);
    let turned_away = TurnedAway::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // Pilots come back to the next one.
            _ = end.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        };
        match accepted {
            Ok((stream, peer)) => match gate.enter(peer.ip()) {
                Ok(place) => drop(tokio::spawn(Arc::clone(&relay).serve(stream, place))),
                Err(why) => turned_away.mention(peer, why),
            },
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// As many connections as there can be files open, with one to the server for each.
fn fit_into_open_files() -> usize {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    (most.saturating_sub(OTHER_FILES) / 2).max(1)
}

#[derive(Debug, Default)]
struct TurnedAway(AtomicU64);

impl TurnedAway {
    fn mention(&self, peer: SocketAddr, why: Full) {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        if !before.is_multiple_of(MENTION_EVERY) {
            return;
        }
        let why = match why {
            Full::ForAll => "all places are taken (--connections)",
            Full::ForOne => "it has as many connections as one may (--connections-each)",
        };
        tracing::warn!(%peer, turned_away = before + 1, "{why}");
    }
}

#[derive(Debug)]
struct Relay {
    server: Server,
    tickets: Tickets,
    coming: Arc<Coming>,
    content: Arc<Semaphore>,
}

impl Relay {
    async fn serve(self: Arc<Self>, stream: TcpStream, _slot: Slot) {
        if notice_dead(&stream).is_err() {
            return;
        }
        let mut first = [0];
        let seen = tokio::time::timeout(FIRST_BYTE_WITHIN, stream.peek(&mut first)).await;
        match (seen, first) {
            (Ok(Ok(1)), [HANDSHAKE]) => self.pass_on(&stream).await,
            (Ok(Ok(1)), [REQUEST]) => self.hand_out(stream).await,
            // Neither: nothing that this is for.
            _ => {}
        }
    }

    async fn pass_on(&self, stream: &TcpStream) {
        let Server { host, port } = &self.server;
        let dialled = TcpStream::connect((host.as_str(), *port));
        let dialled = match tokio::time::timeout(DIAL_WITHIN, dialled).await {
            Ok(Ok(dialled)) => dialled,
            Ok(Err(error)) => {
                tracing::info!("the server at {host}:{port} is not reached: {error}");
                return;
            }
            Err(_) => return,
        };
        if notice_dead(&dialled).is_ok() {
            pipe(stream, &dialled).await;
        }
    }

    async fn hand_out(self: Arc<Self>, stream: TcpStream) {
        let Ok(_place) = Arc::clone(&self.content).try_acquire_owned() else { return };
        let service = service_fn(move |request| {
            let relay = Arc::clone(&self);
            async move {
                let answer = content::answer(&relay.tickets, &relay.coming, request).await;
                Ok::<_, Infallible>(answer)
            }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADINGS_WITHIN)
            .max_buf_size(MOST_HEADINGS)
            .serve_connection(TokioIo::new(stream), service);
        // What breaks is its reader's to see.
        let _ = served.await;
    }
}

/// Neither end is waited for when its machine is gone without a word.
fn notice_dead(stream: &TcpStream) -> rustix::io::Result<()> {
    sockopt::set_tcp_nodelay(stream, true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEP_ALIVE_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE_EVERY)?;
    let limit = u32::try_from(UNACKNOWLEDGED.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(stream, limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_is_named_and_its_connection_is_sealed() {
        let at =
            |url: &str| Server::of(url).map(|it| (it.host, it.port)).map_err(|it| it.to_string());
        let is = |host: &str, port| Ok((host.to_owned(), port));
        assert_eq!(at("https://head:7447"), is("head", 7447));
        assert_eq!(at("https://head/"), is("head", 443));
        assert_eq!(at("https://[fd00::1]:1"), is("fd00::1", 1));
        for plain in ["http://head:7447", "http://127.0.0.1:7447"] {
            let said = at(plain).expect_err(plain);
            assert!(said.contains("has no TLS"), "{said}");
        }
        for bad in ["", "head:7447", "ftp://head", "https://head/x", "https://head?x", "https://"] {
            let said = at(bad).expect_err(bad);
            assert!(said.contains("write https://HOST:PORT"), "{said}");
        }
    }
}
