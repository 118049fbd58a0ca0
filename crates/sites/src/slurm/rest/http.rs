//! One question to slurmrestd over HTTP, and its answer as a stream: by TCP, with TLS where the
//! address says so, or by a Unix socket. Bounded in time and size; it knows no question's meaning.

use super::token::{self, NoToken};
use super::unix::UnixSocket;
use std::error::Error;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use ureq::http::{Method, Request};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, AsSendBody};

/// A daemon that does not take a connection within this will not do so later.
const CONNECT: Duration = Duration::from_secs(20);
/// More than a list of 100,000 jobs; it is read in passing, and nobody keeps it.
pub(super) const MAX_ANSWER: u64 = 4 << 30;
const USER: &str = "X-SLURM-USER-NAME";
const TOKEN: &str = "X-SLURM-USER-TOKEN";

/// Where a slurmrestd is, and as whom it is spoken to.
#[derive(Debug)]
pub(super) struct Door {
    /// `http://HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`.
    url: String,
    token: Option<PathBuf>,
    user: String,
    agent: OnceLock<Agent>,
}

/// The question got no answer. Whether something was done about it is unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAnswer {
    #[error(transparent)]
    Token(#[from] NoToken),
    #[error("{url} cannot be trusted: {words}")]
    Trust { url: String, words: String },
    #[error("{url} did not answer: {words}")]
    Silent { url: String, words: String },
}

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Box<dyn Read>,
}

impl Door {
    pub(super) fn new(url: &str, token: Option<PathBuf>, user: &str) -> Door {
        let url = url.trim_end_matches('/').to_owned();
        Door { url, token, user: user.to_owned(), agent: OnceLock::new() }
    }

    pub(super) fn user(&self) -> &str {
        &self.user
    }

    pub(super) fn get(&self, path: &str, within: Duration) -> Result<Answer, NoAnswer> {
        self.ask(Method::GET, path, (), within)
    }

    pub(super) fn delete(&self, path: &str, within: Duration) -> Result<Answer, NoAnswer> {
        self.ask(Method::DELETE, path, (), within)
    }

    pub(super) fn post(
        &self,
        path: &str,
        json: &[u8],
        within: Duration,
    ) -> Result<Answer, NoAnswer> {
        self.ask(Method::POST, path, json, within)
    }

    /// Nothing is asked twice: an answer that is lost may be of something that was done.
    fn ask(
        &self,
        method: Method,
        path: &str,
        json: impl AsSendBody,
        within: Duration,
    ) -> Result<Answer, NoAnswer> {
        let agent = self.agent()?;
        let base = if self.socket().is_some() { "http://localhost" } else { &self.url };
        let mut request = Request::builder().method(method).uri(format!("{base}{path}"));
        request = request.header(USER, &self.user).header("Accept", "application/json");
        request = request.header("Content-Type", "application/json");
        if let Some(path) = &self.token {
            request = request.header(TOKEN, token::read(path)?.text());
        }
        let request = request.body(json).map_err(|error| self.silent(&error))?;
        let request = agent.configure_request(request).timeout_global(Some(within)).build();
        let answer = agent.run(request).map_err(|error| self.silent(&error))?;
        let status = answer.status().as_u16();
        let body = answer.into_body().into_with_config().limit(MAX_ANSWER).reader();
        Ok(Answer { status, body: Box::new(body) })
    }

    fn socket(&self) -> Option<PathBuf> {
        self.url.strip_prefix("unix:").map(PathBuf::from)
    }

    /// Made when it is first needed: which certificates are trusted is not known before.
    fn agent(&self) -> Result<Agent, NoAnswer> {
        if let Some(agent) = self.agent.get() {
            return Ok(agent.clone());
        }
        let mut config = Agent::config_builder()
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT))
            // A site's own daemon is not behind the proxy that leads out.
            .proxy(None)
            // One that the daemon has closed meanwhile would lose a question.
            .max_idle_connections(0)
            .user_agent(concat!("shipway/", env!("CARGO_PKG_VERSION")));
        if self.url.starts_with("https://") {
            let untrusted = |words: String| NoAnswer::Trust { url: self.url.clone(), words };
            let found =
                shipway_trust::certificates().map_err(|error| untrusted(error.to_string()))?;
            let roots = found.iter().map(|der| ureq::tls::Certificate::from_der(der).to_owned());
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let tls = ureq::tls::TlsConfig::builder()
                .unversioned_rustls_crypto_provider(provider)
                .root_certs(ureq::tls::RootCerts::from(roots));
            config = config.tls_config(tls.build());
        }
        let agent = match self.socket() {
            Some(path) => Agent::with_parts(
                config.build(),
                UnixSocket::at(path.clone()),
                UnixSocket::at(path),
            ),
            None => Agent::with_parts(
                config.build(),
                DefaultConnector::default(),
                DefaultResolver::default(),
            ),
        };
        Ok(self.agent.get_or_init(|| agent).clone())
    }

    /// Its words name the cause, and never what was asked: that has the token.
    fn silent(&self, error: &dyn Error) -> NoAnswer {
        let mut words = error.to_string();
        let mut cause = error.source();
        while let Some(one) = cause {
            if !words.contains(&one.to_string()) {
                words = format!("{words}: {one}");
            }
            cause = one.source();
        }
        NoAnswer::Silent { url: self.url.clone(), words }
    }
}
