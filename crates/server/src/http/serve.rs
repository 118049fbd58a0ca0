//! The listener: HTTP/1.1 and HTTP/2 on one port, with TLS or without, for people and pilots alike.
//! Only so many connections are open at once; who comes then waits until another leaves.

use crate::metrics::Metrics;
use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

/// A peer that does not answer for this long together is gone: a dead node is noticed by it.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(5);
const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(10);
/// A client that does not finish its greeting or its headers does not keep a connection open.
const GREETING: Duration = Duration::from_secs(10);
/// Connections at once, people's and pilots' together: well above what a large site has, and what
/// they cost (some 50 kB each) stays below half a gigabyte.
const MOST_CONNECTIONS: usize = 8_192;
/// Fewer would lock out the pilot or its owner.
const LEAST_CONNECTIONS: usize = 16;
/// File descriptors that are kept for the server itself: the journal, readers of history, the
/// pilot, certificates.
const OWN_FILES: u64 = 128;
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
    let free = Arc::new(Semaphore::new(limit));
    metrics.connections.may_be_open(limit);
    loop {
        let accepted = tokio::select! {
            accepted = next(&listener, &free, &metrics) => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        match accepted {
            Ok((stream, permit)) => {
                let open = metrics.connections.opened(permit);
                let served = one(stream, acceptor.clone(), router.clone(), stop.clone());
                tokio::spawn(async move {
                    served.await;
                    drop(open);
                });
            }
            Err(error) => {
                // Out of file descriptors, most likely: the others go on, and so does the wait.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// The next connection, once there is room for it. Who waits is kept by the kernel, up to its own
/// limit.
async fn next(
    listener: &TcpListener,
    free: &Arc<Semaphore>,
    metrics: &Metrics,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    if free.available_permits() == 0 && metrics.connections.is_full() {
        tracing::warn!("as many connections are open as may be; the next one has to wait");
    }
    let permit = Arc::clone(free).acquire_owned().await.expect("it is never closed");
    let (stream, _) = listener.accept().await?;
    Ok((stream, permit))
}

async fn one(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    router: Router,
    stop: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let Some(acceptor) = acceptor else {
        return speak(TokioIo::new(stream), router, stop).await;
    };
    match tokio::time::timeout(GREETING, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => speak(TokioIo::new(stream), router, stop).await,
        Ok(Err(error)) => tracing::debug!(%error, "no encrypted connection"),
        Err(_) => tracing::debug!("a client did not finish its greeting"),
    }
}

/// Comes when nothing was asked in time. Until it knows which HTTP is spoken, hyper itself would
/// wait for ever.
async fn silence(asked: &AtomicBool) {
    tokio::time::sleep(GREETING).await;
    if asked.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

async fn speak<S>(stream: S, router: Router, mut stop: watch::Receiver<bool>)
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(GREETING);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE_EVERY)
        .keep_alive_timeout(KEEP_ALIVE_ANSWER);
    let asked = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&asked);
    let service = router.map_request(move |request: Request<Incoming>| {
        seen.store(true, Ordering::Relaxed);
        request
    });
    let service = TowerToHyperService::new(service);
    let connection = builder.serve_connection(stream, service);
    tokio::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = silence(&asked) => return tracing::debug!("a client asked for nothing"),
        _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    let _ = tokio::time::timeout(STOPPING, connection).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Far beyond what any step takes; only a hang reaches it.
    const DEADLINE: Duration = Duration::from_mins(1);
    const LIMIT: usize = 3;

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

    #[tokio::test]
    async fn who_comes_when_all_places_are_taken_waits_for_one() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let metrics = Arc::new(Metrics::default());
        let router = Router::new().route("/", axum::routing::get(async || "here"));
        let (stop, stopped) = watch::channel(false);
        let told = (Arc::clone(&metrics), LIMIT);
        let served = tokio::spawn(serve(listener, None, router, told, stopped));

        let mut first = Vec::new();
        for _ in 0..LIMIT {
            let mut stream = TcpStream::connect(address).await.expect("the kernel takes it");
            ask(&mut stream).await;
            answer(&mut stream).await;
            first.push(stream);
        }
        let mut late = TcpStream::connect(address).await.expect("the kernel takes it");
        ask(&mut late).await;
        for stream in &mut first {
            ask(stream).await;
            answer(stream).await;
        }
        assert_eq!(metrics.connections.open(), LIMIT as u64, "those that are in go on");
        let mut none = [0];
        let early = late.try_read(&mut none).expect_err("nobody answers yet");
        assert_eq!(early.kind(), io::ErrorKind::WouldBlock);
        drop(first.pop());
        answer(&mut late).await;
        let page = metrics.render(false, None);
        assert!(page.contains("\nshipway_http_connections 3\n"), "{page}");
        assert!(page.contains("\nshipway_http_connections_limit 3\n"), "{page}");
        drop((first, late));
        stop.send(true).expect("somebody listens");
        tokio::time::timeout(DEADLINE, served).await.expect("in time").expect("no panic");
    }

    #[test]
    fn the_limit_leaves_files_for_the_server() {
        assert!((LEAST_CONNECTIONS..=MOST_CONNECTIONS).contains(&connection_limit()));
    }
}
