//! How a connection to the server is opened: TCP, encryption where it has some, HTTP/2, and a proof
//! that it is the server.

use hyper_util::rt::TokioIo;
use shipway_api::client::{ends_of, tls_config};
use shipway_api::link::{CALL_WINDOW, FRAME_BYTES};
use shipway_api::proof::{self, Ends, Question, Said, Shown};
use shipway_api::{local, routes};
use shipway_model::RelayAddress;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tonic::Status;
use tonic::codegen::http;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::{Service as _, ServiceExt as _};

const CONNECT_WITHIN: Duration = Duration::from_secs(10);
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(5);
const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(10);
/// What the server may have on its way to us on all calls together. Each has a window of its own,
/// and it is us who open them: this one stops none of them.
const CONNECTION_WINDOW: u32 = 1 << 30;

pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What went wrong on the way by a relay. Whatever it was: the relay may be gone, or not reach the
/// server, or lead elsewhere, and then the certificate is not the server's.
#[derive(Debug, thiserror::Error)]
#[error("not by the relay at {0}")]
struct ByRelay(RelayAddress, #[source] Failure);

/// Where the server is.
#[derive(Debug, Clone)]
pub enum Server {
    /// As the home of a local server says, read anew before each try: the port may change.
    Home(PathBuf),
    Url {
        url: String,
        certificate: Option<PathBuf>,
        /// Dialled in its place, to be passed on to it. It is the server's certificate that is
        /// looked at, and only TLS goes that way.
        relay: Option<RelayAddress>,
    },
}

impl Server {
    /// Through which this node reaches things.
    pub(super) fn relay(&self) -> Option<&RelayAddress> {
        match self {
            Server::Home(_) => None,
            Server::Url { relay, .. } => relay.as_ref(),
        }
    }

    /// Whether whoever started the server is the one who runs this pilot. Said by whose folder its
    /// home is: only they, or root, can have put something there. Of a server elsewhere nobody
    /// knows it.
    pub(super) fn is_of_this_user(&self) -> bool {
        let Self::Home(home) = self else { return false };
        let own = rustix::process::geteuid().as_raw();
        // Others than root can read the token of a server only if it is theirs.
        own != 0 || std::fs::metadata(home).is_ok_and(|found| found.uid() == own)
    }

    /// A connection to a server that has shown to be the right one.
    pub(super) async fn connect(&self, token: &str) -> Result<Channel, Failure> {
        let Some(relay) = self.relay() else { return self.open(token).await };
        self.open(token).await.map_err(|error| {
            if error.is::<Status>() { error } else { Box::new(ByRelay(relay.clone(), error)) }
        })
    }

    async fn open(&self, token: &str) -> Result<Channel, Failure> {
        let (url, certificate, of_home) = match self {
            Server::Home(home) => {
                let server = local::read(home)?;
                (server.url, server.certificate, Some(server.token))
            }
            Server::Url { url, certificate, .. } => (url.clone(), certificate.clone(), None),
        };
        let uri: Uri = url.parse()?;
        let secure = uri.scheme_str() == Some("https");
        if !secure && self.relay().is_some() {
            return Err("the server's address has no TLS, and a relay could read tokens".into());
        }
        let address = uri.authority().ok_or("no address")?.as_str();
        // TLS is ours, below; for the library the connection is a plain one.
        let plain = Uri::builder().scheme("http").path_and_query("/").authority(address).build()?;
        let endpoint = Endpoint::from(plain)
            .connect_timeout(CONNECT_WITHIN)
            .initial_stream_window_size(CALL_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(FRAME_BYTES)
            .http2_keep_alive_interval(KEEP_ALIVE_EVERY)
            .keep_alive_timeout(KEEP_ALIVE_ANSWER);
        let stream = tokio::time::timeout(CONNECT_WITHIN, tcp(&uri, self.relay())).await??;
        if secure {
            let stream = encrypted(&uri, certificate.as_deref(), stream).await?;
            return over(endpoint, stream).await;
        }
        let ends = ends_of(&stream)?;
        let mut channel = over(endpoint, stream).await?;
        let known_by = of_home.as_deref().unwrap_or(token);
        match tokio::time::timeout(CONNECT_WITHIN, ask_who_it_is(&mut channel, known_by, ends))
            .await??
        {
            Shown::IsTheServer => Ok(channel),
            Shown::PassesOn(at) => {
                let tunnel = proof::TUNNEL;
                Err(format!(
                    "what answers at {address} passes on what the server at {at} says \
                     (if that is a tunnel of yours: {tunnel}={at})"
                )
                .into())
            }
            // It keeps no such token; of the server of a home that cannot be.
            Shown::IsAnother if of_home.is_none() => {
                Err(Box::new(Status::unauthenticated("unknown token")))
            }
            Shown::IsAnother => Err(format!("what answers at {address} is another program").into()),
        }
    }
}

async fn tcp(uri: &Uri, relay: Option<&RelayAddress>) -> std::io::Result<TcpStream> {
    if let Some(relay) = relay {
        let stream = TcpStream::connect(relay.as_str()).await?;
        stream.set_nodelay(true)?;
        return Ok(stream);
    }
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(usual))).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn encrypted(
    uri: &Uri,
    certificate: Option<&Path>,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, Failure> {
    let mut config = tls_config(certificate)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_string();
    let name = rustls::pki_types::ServerName::try_from(host)?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    Ok(tokio::time::timeout(CONNECT_WITHIN, connector.connect(name, stream)).await??)
}

/// HTTP/2 over this one connection. The library would open another one when it breaks, to whoever
/// listens then; what this one has shown is not true for that.
async fn over<S>(endpoint: Endpoint, stream: S) -> Result<Channel, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut only = Some(TokioIo::new(stream));
    let connect = tower::service_fn(move |_: Uri| {
        let stream = only.take().ok_or_else(|| std::io::Error::other("the connection is over"));
        std::future::ready(stream)
    });
    Ok(endpoint.connect_with_connector(connect).await?)
}

/// Whether the server at the other end keeps this token.
async fn ask_who_it_is(channel: &mut Channel, token: &str, ends: Ends) -> Result<Shown, Failure> {
    let question = Question::about(token).ok_or("no random numbers")?;
    let request = http::Request::get(routes::HEALTHZ)
        .header(proof::QUESTION, question.heading())
        .body(tonic::body::Body::empty())?;
    let answer = channel.ready().await?.call(request).await?;
    Ok(question.judge(Said::of(answer.headers()), ends))
}
