//! A small HTTP client for the API: HTTP/1.1, TLS when the URL says so, one kept connection for
//! requests and one of its own for each stream. Who knows that streams will be wanted has their
//! connections opened while something else is waited for. It knows nothing of views.

mod connect;
#[cfg(test)]
mod tests;

use crate::error::ErrorBody;
use crate::proof::{self, Question, Said, Shown};
use crate::routes;
use bytes::Bytes;
use connect::Connection;
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::Mutex;

pub use connect::{ConnectError, ends_of, tls_config};

/// An answer that is not a stream is read whole; no answer of ours is larger.
const MAX_ANSWER_BYTES: usize = 256 << 20;
/// A server says at once who it is, whatever else it has to do.
const PROVE_WITHIN: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("cannot reach the server at {url}")]
    Unreachable {
        url: String,
        #[source]
        source: ConnectError,
    },
    #[error("the connection to {url} broke while waiting for an answer")]
    Broken {
        url: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("the request cannot be sent: a part of it is not plain text")]
    BadRequest(#[source] http::Error),
    /// The server answered, and the answer is no.
    #[error("{}", .body.message)]
    Refused { status: StatusCode, body: ErrorBody },
    #[error("the server at {url} answered something this client does not understand")]
    BadAnswer {
        url: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("`{0}` is not the address of a server (write http://HOST:PORT)")]
    BadUrl(String),
    /// What answers there does not know the token, which it was not sent.
    #[error("what answers at {url} is not the server that this token is of, or no longer knows it")]
    NotTheServer { url: String },
    #[error("what listens at {url} has not answered for {} seconds", PROVE_WITHIN.as_secs())]
    Silent { url: String },
    /// Somebody passes on what the server says; they were not sent the token.
    #[error("what answers at {url} passes on what the server at {at} says")]
    Elsewhere { url: String, at: String },
}

#[derive(Debug)]
pub struct Client {
    base: Uri,
    token: Option<String>,
    /// A certificate to trust beside the system's.
    certificate: Option<PathBuf>,
    /// A token that the server of this machine's home is known by, whoever asks.
    of_home: Option<String>,
    kept: Mutex<Option<Connection>>,
    /// For streams that are about to be opened.
    ahead: Mutex<Vec<Connection>>,
}

impl Client {
    pub fn new(
        url: &str,
        token: Option<String>,
        certificate: Option<PathBuf>,
    ) -> Result<Self, ClientError> {
        let bad = || ClientError::BadUrl(url.to_string());
        let base: Uri = url.trim_end_matches('/').parse().map_err(|_| bad())?;
        let scheme = base.scheme_str().unwrap_or_default();
        if base.host().is_none() || !["http", "https"].contains(&scheme) {
            return Err(bad());
        }
        let (kept, ahead) = (Mutex::default(), Mutex::default());
        Ok(Client { base, token, certificate, of_home: None, kept, ahead })
    }

    /// The server is the one whose owner has this token, whoever asks.
    #[must_use]
    pub fn of_home(mut self, owners_token: String) -> Self {
        self.of_home = Some(owners_token);
        self
    }

    pub fn url(&self) -> String {
        self.base.to_string().trim_end_matches('/').to_string()
    }

    pub async fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, ClientError> {
        self.ask(Method::GET, path, &[], Bytes::new()).await
    }

    /// The same with headings.
    pub async fn get_with<A: DeserializeOwned>(
        &self,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<A, ClientError> {
        self.ask(Method::GET, path, headers, Bytes::new()).await
    }

    pub async fn delete<A: DeserializeOwned>(&self, path: &str) -> Result<A, ClientError> {
        self.ask(Method::DELETE, path, &[], Bytes::new()).await
    }

    #[expect(clippy::expect_used, reason = "requests are types of ours, with texts for keys")]
    pub async fn post<B: Serialize, A: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
        headers: &[(&'static str, &str)],
    ) -> Result<A, ClientError> {
        let body = serde_json::to_vec(body).expect("requests are plain data");
        self.ask(Method::POST, path, headers, body.into()).await
    }

    #[expect(clippy::expect_used, reason = "requests are types of ours, with texts for keys")]
    pub async fn put<B: Serialize, A: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<A, ClientError> {
        let body = serde_json::to_vec(body).expect("requests are plain data");
        self.ask(Method::PUT, path, &[], body.into()).await
    }

    /// Sends bytes that are no JSON.
    pub async fn post_bytes<A: DeserializeOwned>(
        &self,
        path: &str,
        bytes: Bytes,
    ) -> Result<A, ClientError> {
        let kind = [("content-type", "application/octet-stream")];
        self.ask(Method::POST, path, &kind, bytes).await
    }

    /// The server's wall clock, as its answers name it in their heading.
    pub async fn date(&self) -> Result<Option<String>, ClientError> {
        let request = self.request(&Method::GET, routes::HEALTHZ, &[], Bytes::new())?;
        let mut connection = self.connect().await?;
        let answer = connection.send(request).await.map_err(|source| self.broken(source))?;
        let date = answer.headers().get(header::DATE);
        Ok(date.and_then(|date| date.to_str().ok()).map(ToOwned::to_owned))
    }

    /// Opens connections for two streams, each of which shows that it leads to the server: the next
    /// streams have them. An error is not told here: the stream that goes without meets it too.
    pub async fn open_two_ahead(&self) {
        let opened = tokio::join!(self.connect(), self.connect());
        self.ahead.lock().await.extend([opened.0, opened.1].into_iter().flatten());
    }

    /// The body of an answer, piece by piece, on a connection of its own.
    pub async fn stream(&self, path: &str) -> Result<BodyStream, ClientError> {
        let request = self.request(&Method::GET, path, &[], Bytes::new())?;
        // One that was not used for a while the server may have closed.
        let ahead = self.ahead.lock().await.pop().filter(Connection::is_open);
        let mut connection = match ahead {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let answer = connection.send(request).await.map_err(|source| self.broken(source))?;
        if !answer.status().is_success() {
            return Err(self.refusal(answer).await);
        }
        Ok(BodyStream { url: self.url(), body: answer.into_body(), _connection: connection })
    }

    async fn ask<A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: Bytes,
    ) -> Result<A, ClientError> {
        let request = self.request(&method, path, headers, body)?;
        let mut kept = self.kept.lock().await;
        let mut connection = match kept.take().filter(Connection::is_open) {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let answer = connection.send(request).await.map_err(|source| self.broken(source))?;
        if !answer.status().is_success() {
            return Err(self.refusal(answer).await);
        }
        let body = http_body_util::Limited::new(answer.into_body(), MAX_ANSWER_BYTES);
        let body = body.collect().await;
        let body =
            body.map_err(|source| ClientError::Broken { url: self.url(), source })?.to_bytes();
        *kept = Some(connection);
        let url = || self.url();
        serde_json::from_slice(&body)
            .map_err(|source| ClientError::BadAnswer { url: url(), source })
    }

    fn request(
        &self,
        method: &Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let host = self.base.authority().map(ToString::to_string).unwrap_or_default();
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, host);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, crate::bearer::header(token));
        }
        let says_kind = headers.iter().any(|(name, _)| *name == header::CONTENT_TYPE.as_str());
        if !body.is_empty() && !says_kind {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Full::new(body)).map_err(ClientError::BadRequest)
    }

    async fn connect(&self) -> Result<Connection, ClientError> {
        let url = self.url();
        let opened = Connection::open(&self.base, self.certificate.as_deref()).await;
        let mut opened = opened.map_err(|source| ClientError::Unreachable { url, source })?;
        self.is_the_server(&mut opened).await?;
        Ok(opened)
    }

    /// Before it is given a token; with TLS the certificate has shown it.
    async fn is_the_server(&self, connection: &mut Connection) -> Result<(), ClientError> {
        let known_by = self.of_home.as_ref().or(self.token.as_ref());
        let plain = self.base.scheme_str() == Some("http");
        let Some(token) = known_by.filter(|_| plain) else { return Ok(()) };
        let stranger = || ClientError::NotTheServer { url: self.url() };
        let question = Question::about(token).ok_or_else(stranger)?;
        let host = self.base.authority().map(ToString::to_string).unwrap_or_default();
        let request = Request::get(routes::HEALTHZ)
            .header(header::HOST, &host)
            .header(proof::QUESTION, question.heading())
            .body(Full::default())
            .map_err(ClientError::BadRequest)?;
        let ends = connection.ends;
        let answer = tokio::time::timeout(PROVE_WITHIN, connection.send(request)).await;
        let answer = answer.map_err(|_| ClientError::Silent { url: self.url() })?;
        let answer = answer.map_err(|source| self.broken(source))?;
        match question.judge(Said::of(answer.headers()), ends) {
            Shown::IsTheServer => {}
            Shown::PassesOn(at) => return Err(ClientError::Elsewhere { url: self.url(), at }),
            Shown::IsAnother => return Err(stranger()),
        }
        // Read to its end: the connection is used again.
        let read = answer.into_body().collect().await;
        read.map(drop).map_err(|source| self.broken(source))
    }

    async fn refusal(&self, answer: http::Response<Incoming>) -> ClientError {
        let status = answer.status();
        let body = match answer.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(source) => return self.broken(source),
        };
        match serde_json::from_slice(&body) {
            Ok(body) => ClientError::Refused { status, body },
            Err(source) => ClientError::BadAnswer { url: self.url(), source },
        }
    }

    fn broken(&self, source: hyper::Error) -> ClientError {
        ClientError::Broken { url: self.url(), source: source.into() }
    }
}

/// The pieces of a streamed answer.
#[derive(Debug)]
pub struct BodyStream {
    url: String,
    body: Incoming,
    _connection: Connection,
}

impl BodyStream {
    /// The next piece, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        while let Some(frame) = self.body.frame().await {
            let broken = |source: hyper::Error| {
                let (url, source) = (self.url.clone(), source.into());
                ClientError::Broken { url, source }
            };
            if let Ok(data) = frame.map_err(broken)?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}
