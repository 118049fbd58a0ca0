//! The listener: HTTP/1.1 and HTTP/2 on one port, with TLS or without, for people and pilots alike.
//! Who may be connected, and who has to go for another, is `places.rs`; what is watched of each
//! request is `door.rs`.

use super::door::Door;
use super::places::{Guest, Places};
use super::stream::{Entrance, Stream};
use crate::metrics::{Connections, Metrics};
use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use shipway_api::link::{CALL_WINDOW, FILE_CALLS, FRAME_BYTES};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// A peer that does not answer for this long together is gone: a dead node is noticed by it.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(5);
const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(10);
/// From its arrival to a request with a valid token, encryption included: a client that has one
/// sends it at once.
const SIGNED_IN_WITHIN: Duration = Duration::from_secs(5);
/// An HTTP/1.1 connection is closed when it is idle for this long, or as long at its headers.
const NEXT_REQUEST_WITHIN: Duration = Duration::from_secs(10);
/// The headers of one HTTP/1.1 request, and what is read ahead of those that follow it.
const MAX_HEADER_BYTES: usize = 64 << 10;
/// The headers of one HTTP/2 request, however they are cut into frames; ours are a few hundred.
const MAX_HEADER_LIST: u32 = 16 << 10;
/// Requests at once on one HTTP/2 connection.
const MAX_STREAMS: u32 = 128;
/// What a whole HTTP/2 connection may have on its way to us, which is held where nobody reads it:
/// the calls of a pilot, each with its own window (two, and those for files), and two for people's.
const CONNECTION_WINDOW: u32 = 8 * CALL_WINDOW;
const _: () = assert!(FILE_CALLS == 4, "each of them has its part of the window");
/// Requests that a client takes back before they were looked at, and such that break the protocol:
/// more than this and the connection is closed.
const MAX_RESET_STREAMS: usize = 20;
const MAX_FAULTY_STREAMS: usize = 128;
/// Connections at once, people's and pilots' together: above what ten thousand pilots and those who
/// look at them have, and what they cost (some 50 kB each) stays below a gigabyte.
const MOST_CONNECTIONS: usize = 16_384;
/// Fewer would lock out the pilot or its owner.
const LEAST_CONNECTIONS: usize = 16;
/// File descriptors that are kept for the server itself: the journal, readers of history, the
/// pilot, certificates.
const OWN_FILES: u64 = 128;
/// Until the next try when none could be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// How long open answers may take to end when the server stops.
const STOPPING: Duration = Duration::from_secs(2);

/// As many as file descriptors last for.
pub fn connection_limit() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let room = files.map(|files| usize::try_from(files.saturating_sub(OWN_FILES)));
    let room = room.and_then(Result::ok).unwrap_or(MOST_CONNECTIONS);
    room.clamp(LEAST_CONNECTIONS, MOST_CONNECTIONS)
}

/// Accepts and serves until told to stop, at most `limit` connections at a time.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    router: Router,
    (metrics, limit): (Arc<Metrics>, usize),
    mut stop: watch::Receiver<bool>,
) {
    let acceptor = tls.map(TlsAcceptor::from);
    let entrance = match Entrance::new(listener) {
        Ok(entrance) => entrance,
        Err(error) => return tracing::error!(%error, "cannot listen"),
    };
    let places = Places::new(limit, Arc::clone(&metrics.connections));
    loop {
        let accepted = tokio::select! {
            accepted = next(&entrance, &places, &metrics.connections) => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        match accepted {
            Ok((stream, guest)) => {
                let served = one(stream, acceptor.clone(), router.clone(), guest, stop.clone());
                tokio::spawn(served);
            }
            Err(error) => {
                // Out of file descriptors, most likely: the others go on, and so does the wait.
                let trouble = format!("a connection could not be accepted: {error}");
                metrics.connections.trouble(&trouble);
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

/// The next connection. There is always a place for it, if need be that of an older stranger.
async fn next(
    entrance: &Entrance,
    places: &Arc<Places>,
    told: &Connections,
) -> io::Result<(Stream, Guest)> {
    let (stream, from) = entrance.accept(told).await?;
    Ok((stream, places.arrive(from.ip()).await))
}

/// Serves one connection until it ends, has to make way, or has not signed in by its time.
async fn one(
    stream: Stream,
    acceptor: Option<TlsAcceptor>,
    router: Router,
    guest: Guest,
    stop: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay();
    let door = Door::new(router, guest.clone(), stream.ends().ok());
    let known = tokio::time::Instant::now() + SIGNED_IN_WITHIN;
    let spoken = async {
        let Some(acceptor) = acceptor else {
            return speak(TokioIo::new(stream), door, stop).await;
        };
        match acceptor.accept(stream).await {
            Ok(stream) => speak(TokioIo::new(stream), door, stop).await,
            Err(error) => tracing::debug!(%error, "no encrypted connection"),
        }
    };
    tokio::select! {
        () = spoken => {}
        () = stranger_for_too_long(&guest, known) => guest.stayed_too_long(),
        () = guest.takes_nothing() => tracing::debug!("a client takes nothing of its answer"),
        () = guest.told_to_go() => tracing::debug!("a connection makes way"),
    }
}

/// Comes when nobody has signed in by then.
async fn stranger_for_too_long(guest: &Guest, known: tokio::time::Instant) {
    tokio::time::sleep_until(known).await;
    if !guest.is_stranger() {
        std::future::pending::<()>().await;
    }
}

async fn speak<S>(stream: S, door: Door, mut stop: watch::Receiver<bool>)
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(NEXT_REQUEST_WITHIN)
        .max_buf_size(MAX_HEADER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE_EVERY)
        .keep_alive_timeout(KEEP_ALIVE_ANSWER)
        .initial_stream_window_size(CALL_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_BYTES)
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
        .max_local_error_reset_streams(MAX_FAULTY_STREAMS)
        .max_header_list_size(MAX_HEADER_LIST);
    let connection = builder.serve_connection(stream, door);
    tokio::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    let _ = tokio::time::timeout(STOPPING, connection).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    /// Far beyond what any step takes; only a hang reaches it.
    const DEADLINE: Duration = Duration::from_mins(1);
    const LIMIT: usize = LEAST_CONNECTIONS;

    async fn ask(stream: &mut TcpStream) {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("it takes a request");
    }

    async fn answer(stream: &mut TcpStream) {
        let mut start = [0; 15];
        let read = tokio::time::timeout(DEADLINE, stream.read_exact(&mut start)).await;
        read.expect("in time").expect("an answer");
        assert_eq!(&start, b"HTTP/1.1 200 OK");
        // The rest ends with the body.
        let mut rest = Vec::new();
        while !rest.ends_with(b"here") {
            let read = tokio::time::timeout(DEADLINE, stream.read_buf(&mut rest)).await;
            assert!(read.expect("in time").expect("an answer") > 0);
        }
    }

    /// Whoever names a user is that user here; `/wait` is never answered.
    fn router() -> Router {
        async fn here(request: axum::extract::Request) -> axum::response::Response {
            use axum::response::IntoResponse;
            let named = request.headers().get("user").and_then(|name| name.to_str().ok());
            let seated = named.map_or(Ok(()), |name| {
                let guest = request.extensions().get::<Guest>().expect("it comes by a connection");
                let user = shipway_model::UserName::new(name).expect("a name");
                guest.is_person(&shipway_model::Actor::new(user, shipway_model::Role::User))
            });
            match seated {
                Ok(()) if request.uri().path() == "/wait" => std::future::pending().await,
                Ok(()) => "here".into_response(),
                Err(none) => crate::http::error::ApiError::from(none).into_response(),
            }
        }
        Router::new().route("/", axum::routing::get(here)).route("/wait", axum::routing::get(here))
    }

    struct Served {
        address: std::net::SocketAddr,
        metrics: Arc<Metrics>,
        stop: watch::Sender<bool>,
        serving: tokio::task::JoinHandle<()>,
    }

    impl Served {
        async fn new() -> Served {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let metrics = Arc::new(Metrics::default());
            let (stop, stopped) = watch::channel(false);
            let told = (Arc::clone(&metrics), LIMIT);
            let serving = tokio::spawn(serve(listener, None, router(), told, stopped));
            Served { address, metrics, stop, serving }
        }

        async fn connect(&self) -> TcpStream {
            TcpStream::connect(self.address).await.expect("the kernel takes it")
        }

        async fn ask_as(&self, user: &str, path: &str) -> TcpStream {
            let mut stream = self.connect().await;
            let text = format!("GET {path} HTTP/1.1\r\nHost: x\r\nUser: {user}\r\n\r\n");
            stream.write_all(text.as_bytes()).await.expect("it takes a request");
            stream
        }

        async fn until(&self, what: &str, is: impl Fn(&Metrics) -> bool) {
            let deadline = tokio::time::Instant::now() + DEADLINE;
            while !is(&self.metrics) {
                assert!(tokio::time::Instant::now() < deadline, "{what}");
                tokio::task::yield_now().await;
            }
        }

        async fn end(self) {
            self.stop.send(true).expect("somebody listens");
            tokio::time::timeout(DEADLINE, self.serving).await.expect("in time").expect("no panic");
        }
    }

    #[tokio::test]
    async fn strangers_keep_nobody_out() {
        let served = Served::new().await;
        let mut strangers = Vec::new();
        // Those with half a greeting, those who are silent, and those who ask without a token.
        for at in 0..4 * LIMIT {
            let mut stream = served.connect().await;
            match at % 3 {
                0 => stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("sent"),
                1 => ask(&mut stream).await,
                _ => {}
            }
            strangers.push(stream);
        }
        let mut known = served.ask_as("ada", "/").await;
        answer(&mut known).await;
        let made_way = served.metrics.connections.gone(crate::metrics::Left::MadeWay);
        assert!(made_way > 0, "the oldest went");
        // It stays, whoever else comes.
        for _ in 0..4 * LIMIT {
            strangers.push(served.connect().await);
        }
        ask(&mut known).await;
        answer(&mut known).await;
        drop(strangers);
        served.end().await;
    }

    #[tokio::test]
    async fn one_user_with_many_connections_keeps_nobody_out() {
        let served = Served::new().await;
        let mut waiting = Vec::new();
        for _ in 0..2 * LIMIT {
            waiting.push(served.ask_as("eve", "/wait").await);
        }
        served
            .until("eve has what one may have", |metrics| metrics.connections.open_now()[1] >= 4)
            .await;
        let mut ada = served.ask_as("ada", "/").await;
        answer(&mut ada).await;
        drop((ada, waiting));
        served.end().await;
    }

    #[tokio::test]
    async fn an_idle_connection_makes_way_for_its_user() {
        let served = Served::new().await;
        let mut idle = Vec::new();
        for _ in 0..2 * LIMIT {
            let mut stream = served.ask_as("ada", "/").await;
            answer(&mut stream).await;
            idle.push(stream);
        }
        assert!(served.metrics.connections.gone(crate::metrics::Left::MadeWay) > 0);
        let page = served.metrics.render(false, None);
        assert!(page.contains("\nshipway_http_connections_limit 16\n"), "{page}");
        assert!(page.contains("\nshipway_http_connections{who=\"pilot\"} 0\n"), "{page}");
        drop(idle);
        served.end().await;
    }

    /// As the kernel answers when tasks of the same user have used up what it watches for one.
    fn refuse_to_watch() {
        use seccompiler::{
            SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
            SeccompRule,
        };
        /// `EPOLL_CTL_ADD`, `ENOSPC` and the number of the call on the processors we have.
        const ADD: u64 = 1;
        const NO_SPACE: u32 = 28;
        const EPOLL_CTL: i64 = if cfg!(target_arch = "x86_64") { 233 } else { 21 };
        let is_add = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, ADD);
        let rule = SeccompRule::new(vec![is_add.expect("a condition")]).expect("a rule");
        let filter = SeccompFilter::new(
            [(EPOLL_CTL, vec![rule])].into(),
            SeccompAction::Allow,
            SeccompAction::Errno(NO_SPACE),
            std::env::consts::ARCH.try_into().expect("a known processor"),
        );
        let filter: seccompiler::BpfProgram =
            filter.expect("a filter").try_into().expect("it compiles");
        seccompiler::apply_filter(&filter).expect("this thread takes it");
    }

    /// The server is on a thread of its own, which the kernel watches nothing more for.
    #[test]
    fn a_connection_that_nobody_watches_is_served_and_told_of() {
        let (tell, told) = std::sync::mpsc::channel();
        let server = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let Served { address, metrics, stop, serving } = Served::new().await;
                // Once it listens.
                tokio::task::yield_now().await;
                refuse_to_watch();
                tell.send((address, metrics, stop)).expect("heard");
                serving.await.expect("no panic");
            });
        });
        let (address, metrics, stop) = told.recv().expect("it listens");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let mut stream = TcpStream::connect(address).await.expect("the kernel takes it");
            for _ in 0..2 {
                ask(&mut stream).await;
                answer(&mut stream).await;
            }
        });
        let problem = metrics.connections.problem().expect("it says why");
        assert!(problem.contains("cannot be watched"), "{problem}");
        stop.send(true).expect("somebody listens");
        server.join().expect("no panic");
    }

    #[test]
    fn the_limit_leaves_files_for_the_server() {
        assert!((LEAST_CONNECTIONS..=MOST_CONNECTIONS).contains(&connection_limit()));
    }
}
