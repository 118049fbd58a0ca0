//! The connection to the server: opened, used, lost, opened again, for as long as the pilot lives.
//!
//! Says nothing of its own accord; what goes over it is the machine's business.

use super::log_turns::Turn;
use super::said;
use hyper_util::rt::TokioIo;
use shipway_api::causes::causes;
use shipway_api::client::{ends_of, tls_config};
use shipway_api::link::MAX_MESSAGE_BYTES;
use shipway_api::proof::{self, Ends, Question, Said, Shown};
use shipway_api::wire::{ToPilot, ToServer, link_client::LinkClient, to_server};
use shipway_api::{bearer, local, routes};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::client::TlsStream;
use tonic::codegen::http;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Status, Streaming};
use tower::{Service as _, ServiceExt as _};

/// Waits between tries: short at first, for a server that is just restarting.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(5);
const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(10);
/// Messages from the server on their way to the machine.
const INBOX: usize = 64;

/// Where the server is.
#[derive(Debug, Clone)]
pub enum Server {
    /// As the home of a local server says, read anew before each try: the port may change.
    Home(PathBuf),
    Url {
        url: String,
        certificate: Option<PathBuf>,
    },
}

impl Server {
    /// Whether whoever started the server is the one who runs this pilot. Said by whose folder its
    /// home is: only they, or root, can have put something there. Of a server elsewhere nobody
    /// knows it.
    pub(super) fn is_of_this_user(&self) -> bool {
        let Self::Home(home) = self else { return false };
        let own = rustix::process::geteuid().as_raw();
        // Others than root can read the token of a server only if it is theirs.
        own != 0 || std::fs::metadata(home).is_ok_and(|found| found.uid() == own)
    }
}

#[derive(Debug)]
pub(super) enum ToLink {
    Say(ToServer),
    /// A piece of output. It is the reader's turn until the connection takes it.
    Show(ToServer, Turn),
    Reconnect,
}

#[derive(Debug)]
pub(super) enum FromLink {
    /// A connection is open; the number of the session is wanted for what comes over it.
    Up {
        session: oneshot::Sender<u64>,
    },
    Message {
        session: u64,
        message: ToPilot,
    },
    Down {
        session: u64,
    },
    /// The server does not know the token, or no longer.
    Refused,
}

pub(super) fn run(
    server: Server,
    token: String,
) -> (mpsc::UnboundedSender<ToLink>, mpsc::Receiver<FromLink>) {
    let (to_link, orders) = mpsc::unbounded_channel();
    let (send, from_link) = mpsc::channel(INBOX);
    tokio::spawn(async move {
        let mut link = Link { server, token, orders, send };
        let mut wait = FIRST_WAIT;
        let mut last = String::new();
        loop {
            match link.once().await {
                Ok(Ended::Stopped) => return,
                Ok(Ended::WasUp) => {
                    wait = FIRST_WAIT;
                    last.clear();
                }
                Err(error) if is_refusal(error.as_ref()) => {
                    let _ = link.send.send(FromLink::Refused).await;
                    return;
                }
                Err(error) => {
                    // Once for each different trouble, however often it is tried.
                    let text = causes(error.as_ref());
                    if text != last {
                        tracing::warn!("no connection to the server: {text}");
                        last = text;
                    }
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    });
    (to_link, from_link)
}

struct Link {
    server: Server,
    token: String,
    orders: mpsc::UnboundedReceiver<ToLink>,
    send: mpsc::Sender<FromLink>,
}

enum Ended {
    WasUp,
    /// The pilot itself has ended.
    Stopped,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Link {
    /// One connection, from its opening to its end.
    async fn once(&mut self) -> Result<Ended, Failure> {
        let channel = self.connect().await?;
        // What was said to a connection that is gone is not for this one.
        while self.orders.try_recv().is_ok() {}
        let (session, named) = oneshot::channel();
        if self.send.send(FromLink::Up { session }).await.is_err() {
            return Ok(Ended::Stopped);
        }
        let session = named.await?;
        let ended = self.talk(channel, session).await;
        if self.send.send(FromLink::Down { session }).await.is_err() {
            return Ok(Ended::Stopped);
        }
        ended
    }

    /// A connection to a server that has shown to be the right one.
    async fn connect(&self) -> Result<Channel, Failure> {
        let (url, certificate, of_home) = match &self.server {
            Server::Home(home) => {
                let server = local::read(home)?;
                (server.url, server.certificate, Some(server.token))
            }
            Server::Url { url, certificate } => (url.clone(), certificate.clone(), None),
        };
        let uri: Uri = url.parse()?;
        let secure = uri.scheme_str() == Some("https");
        let address = uri.authority().ok_or("no address")?.as_str();
        // TLS is ours, below; for the library the connection is a plain one.
        let plain = Uri::builder().scheme("http").path_and_query("/").authority(address).build()?;
        let endpoint = Endpoint::from(plain)
            .connect_timeout(CONNECT_WITHIN)
            .http2_keep_alive_interval(KEEP_ALIVE_EVERY)
            .keep_alive_timeout(KEEP_ALIVE_ANSWER);
        let stream = tokio::time::timeout(CONNECT_WITHIN, tcp(&uri)).await??;
        if secure {
            let stream = encrypted(&uri, certificate.as_deref(), stream).await?;
            return over(endpoint, stream).await;
        }
        let ends = ends_of(&stream)?;
        let mut channel = over(endpoint, stream).await?;
        let known_by = of_home.as_deref().unwrap_or(&self.token);
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

    async fn talk(&mut self, channel: Channel, session: u64) -> Result<Ended, Failure> {
        let (say, said) = said::lines();
        // The greeting comes first: the server answers nothing before it. What stands before it
        // in line was said to the connection before this one.
        loop {
            match self.orders.recv().await {
                Some(ToLink::Say(message)) if is_hello(&message) => {
                    say.say(message);
                    break;
                }
                Some(ToLink::Say(_) | ToLink::Show(..)) => {}
                Some(ToLink::Reconnect) => return Ok(Ended::WasUp),
                None => return Ok(Ended::Stopped),
            }
        }
        let mut request = Request::new(said.stream());
        request.metadata_mut().insert("authorization", bearer::header(&self.token).parse()?);
        let mut client = LinkClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let mut heard = client.attach(request).await?.into_inner();
        loop {
            tokio::select! {
                order = self.orders.recv() => match order {
                    Some(ToLink::Say(message)) => say.say(message),
                    Some(ToLink::Show(piece, turn)) => say.show(piece, turn),
                    Some(ToLink::Reconnect) => return Ok(Ended::WasUp),
                    None => return Ok(Ended::Stopped),
                },
                message = next(&mut heard) => match message {
                    Some(message) => self.send.send(FromLink::Message { session, message }).await?,
                    None => return Ok(Ended::WasUp),
                },
            }
        }
    }
}

/// Trying again would not help: a token that has ended does not come back.
fn is_refusal(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let status = error.downcast_ref::<tonic::Status>();
    status.is_some_and(|status| status.code() == tonic::Code::Unauthenticated)
}

fn is_hello(message: &ToServer) -> bool {
    matches!(message.body, Some(to_server::Body::Hello(_)))
}

async fn next(heard: &mut Streaming<ToPilot>) -> Option<ToPilot> {
    heard.message().await.ok().flatten()
}

async fn tcp(uri: &Uri) -> std::io::Result<TcpStream> {
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
