//! The listener: HTTP/1.1 and HTTP/2 on one port, with TLS or without, for people and pilots alike.

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

/// A peer that does not answer for this long together is gone: a dead node is noticed by it.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(5);
const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(10);
/// A client that does not finish its greeting or its headers does not keep a connection open.
const GREETING: Duration = Duration::from_secs(10);
/// How long open answers may take to end when the server stops.
const STOPPING: Duration = Duration::from_secs(2);

pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    router: Router,
    mut stop: watch::Receiver<bool>,
) {
    let acceptor = tls.map(TlsAcceptor::from);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        match accepted {
            Ok((stream, _)) => {
                tokio::spawn(one(stream, acceptor.clone(), router.clone(), stop.clone()));
            }
            Err(error) => {
                // Out of file descriptors, most likely: the others go on, and so does the wait.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
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
