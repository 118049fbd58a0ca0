//! HTTP with one registry: where requests may go, what they carry, what an answer means.
//!
//! Redirects are followed here and not by the HTTP library: our password and tokens go to the
//! registry's own address only, and nothing leads from TLS to plain text.

use super::Settings;
use super::auth::{self, Challenge};
use super::credentials::{Credentials, basic};
use super::reach::{Judging, OutOfReach, Reach};
use super::registry_error::RegistryError;
use super::relay::Relay;
use rustls::pki_types::CertificateDer;
use serde::Deserialize;
use shipway_model::plain_text::clean;
use shipway_model::{Digest, Login};
use std::io::Read;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use ureq::http::{Response, StatusCode, Uri, header};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body};

/// Registries send blobs to one other place, sometimes two.
const REDIRECTS: usize = 5;
/// A token service answers with a few kilobytes.
const TOKEN_LIMIT: u64 = 1 << 20;
const CONNECT: Duration = Duration::from_secs(30);
/// A manifest or a token is small: by then it is there, or will not come.
const DOCUMENT_WITHIN: Duration = Duration::from_mins(1);
/// What a relay says of why not.
const RELAYS_WORDS: u64 = 600;
/// Without a byte for this long a connection is dead.
const SILENCE: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(super) struct Client {
    plain: Agent,
    /// Made when it is asked for: whoever needs none need not have certificates.
    encrypted: OnceLock<Agent>,
    /// As in references, for people and for logins.
    pub(super) host: String,
    /// None where what was named is no host: whatever is asked of it is refused.
    base: Option<Uri>,
    credentials: Credentials,
    /// Asked for when the registry asks for it: a helper may ask its user.
    login: OnceLock<Option<Login>>,
    insecure: Vec<String>,
    reach: Reach,
    /// Asked in place of the registry.
    pub(super) relay: Option<Relay>,
    /// The header that opened the door last time.
    authorization: Mutex<Option<String>>,
}

/// What to ask for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) path: &'a str,
    /// For messages.
    pub(super) what: &'a str,
    /// Its digest, where that is known.
    pub(super) of: Option<Digest>,
    pub(super) accept: Option<&'a str>,
    pub(super) part: Part,
}

/// How much of it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    All,
    From(u64),
    FirstByte,
}

impl Client {
    pub(super) fn new(host: &str, settings: &Settings) -> Client {
        let address = match host {
            shipway_model::image_ref::DEFAULT_REGISTRY => "registry-1.docker.io",
            other => other,
        };
        let plain = is_loopback(address) || settings.insecure.iter().any(|one| one == host);
        let relay = settings.relay.clone();
        let (scheme, address) = match &relay {
            Some(relay) => ("http", relay.at.as_str()),
            None => (if plain { "http" } else { "https" }, address),
        };
        let base = format!("{scheme}://{address}").parse().ok();
        // A relay is where the operator says, and sends nobody elsewhere.
        let reach = if relay.is_some() { Reach::Everything } else { settings.reach.clone() };
        Client {
            plain: agent(None, reach.clone(), relay.is_some()),
            encrypted: OnceLock::new(),
            reach,
            host: relay.as_ref().map_or_else(|| host.to_owned(), Relay::name),
            relay,
            base,
            credentials: settings.credentials.clone(),
            login: OnceLock::new(),
            insecure: settings.insecure.clone(),
            authorization: Mutex::new(None),
        }
    }

    /// By where the request goes: what has no TLS may send us to what has.
    fn agent(&self, uri: &Uri) -> Result<&Agent, RegistryError> {
        if uri.scheme_str() != Some("https") {
            return Ok(&self.plain);
        }
        if let Some(made) = self.encrypted.get() {
            return Ok(made);
        }
        let trusted = shipway_trust::certificates().map_err(|source| {
            let host = uri.authority().map_or(&*self.host, |at| at.as_str()).to_owned();
            RegistryError::NoCertificates { host, source }
        })?;
        Ok(self.encrypted.get_or_init(|| agent(Some(&trusted), self.reach.clone(), false)))
    }

    /// Asks, proves who we are if that is wanted, and follows where it leads.
    pub(super) fn get(&self, ask: Ask<'_>) -> Result<Response<Body>, RegistryError> {
        let no_host = || RegistryError::NoHost { host: clean(&self.host) };
        let base = self.base.as_ref().ok_or_else(no_host)?.to_string();
        let uri: Uri = format!("{}{}", base.trim_end_matches('/'), ask.path)
            .parse()
            .map_err(|_| self.answer("an address"))?;
        if self.relay.is_some() {
            return self.taken_from_relay(self.send(&uri, ask)?, ask);
        }
        let mut answer = self.follow(&uri, ask)?;
        if answer.status() == StatusCode::UNAUTHORIZED {
            let header = answer.headers().get(header::WWW_AUTHENTICATE);
            let header = header.and_then(|value| value.to_str().ok()).unwrap_or_default();
            let proof = self.prove(header, ask)?;
            *self.authorization.lock().unwrap_or_else(PoisonError::into_inner) = Some(proof);
            answer = self.follow(&uri, ask)?;
        }
        let (host, what) = (self.host.clone(), ask.what.to_owned());
        match answer.status().as_u16() {
            200 | 206 => Ok(answer),
            401 | 403 => {
                let had_login = self.had_login();
                Err(RegistryError::Denied { host, what, had_login })
            }
            404 => Err(RegistryError::NotFound { host, what }),
            code => Err(RegistryError::Status { host, what, code }),
        }
    }

    /// Neither is a relay's redirect followed nor its question for a password answered.
    fn taken_from_relay(
        &self,
        answer: Response<Body>,
        ask: Ask<'_>,
    ) -> Result<Response<Body>, RegistryError> {
        let code = answer.status().as_u16();
        if [200, 206].contains(&code) {
            return Ok(answer);
        }
        let mut words = Vec::new();
        let _ = answer.into_body().into_reader().take(RELAYS_WORDS).read_to_end(&mut words);
        let words = clean(&String::from_utf8_lossy(&words));
        let words = if words.is_empty() { format!("it answered {code}") } else { words };
        let (relay, what) = (self.host.clone(), ask.what.to_owned());
        Err(RegistryError::Relay { relay, what, words, code })
    }

    fn follow(&self, start: &Uri, ask: Ask<'_>) -> Result<Response<Body>, RegistryError> {
        let mut uri = start.clone();
        for _ in 0..=REDIRECTS {
            let answer = self.send(&uri, ask)?;
            if !answer.status().is_redirection() {
                return Ok(answer);
            }
            let to = answer.headers().get(header::LOCATION);
            let to = to.and_then(|value| value.to_str().ok()).unwrap_or_default();
            uri = self.redirect(&uri, to)?;
        }
        let to = uri.host().unwrap_or_default().to_owned();
        Err(RegistryError::Redirect { host: self.host.clone(), to, why: "too many times" })
    }

    fn send(&self, uri: &Uri, ask: Ask<'_>) -> Result<Response<Body>, RegistryError> {
        self.reach.judge_number(uri).map_err(|_| self.out_of_reach(uri))?;
        let mut request = self.agent(uri)?.get(uri.clone());
        if let Some(accept) = ask.accept {
            let within = request.config().timeout_global(Some(DOCUMENT_WITHIN));
            request = within.build().header(header::ACCEPT, accept);
        }
        match ask.part {
            Part::All | Part::From(0) => {}
            Part::From(at) => request = request.header(header::RANGE, format!("bytes={at}-")),
            Part::FirstByte => request = request.header(header::RANGE, "bytes=0-0"),
        }
        if let Some((relay, digest)) = self.relay.as_ref().zip(ask.of) {
            request = request.header(relay.heading, (relay.ticket)(&digest));
        // Only the registry itself is told who we are, whoever sends us elsewhere.
        } else if self.base.as_ref().is_some_and(|base| same_origin(uri, base)) {
            let proof = self.authorization.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(proof) = proof.as_ref() {
                request = request.header(header::AUTHORIZATION, proof);
            }
        }
        request.call().map_err(|source| self.unreachable(uri, source))
    }

    /// Where a redirect leads, if we go there.
    fn redirect(&self, from: &Uri, to: &str) -> Result<Uri, RegistryError> {
        let refused = |why| RegistryError::Redirect {
            host: self.host.clone(),
            // Its query may hold a signature that is as good as a password.
            to: to.split('?').next().unwrap_or_default().chars().take(200).collect(),
            why,
        };
        let absolute = if to.starts_with('/') && !to.starts_with("//") {
            let authority = from.authority().map_or("", |authority| authority.as_str());
            format!("{}://{authority}{to}", from.scheme_str().unwrap_or("https"))
        } else {
            to.to_owned()
        };
        let uri: Uri = absolute.parse().map_err(|_| refused("it is not an address"))?;
        match (uri.scheme_str(), uri.host()) {
            (Some("https"), Some(_)) => Ok(uri),
            (Some("http"), Some(_)) if from.scheme_str() == Some("https") => {
                Err(refused("it leads from TLS to plain text"))
            }
            (Some("http"), Some(host)) if is_loopback(host) || self.is_insecure(&uri) => Ok(uri),
            (Some("http"), Some(_)) => Err(refused("it is plain text")),
            _ => Err(refused("it is not an address of the web")),
        }
    }

    fn is_insecure(&self, uri: &Uri) -> bool {
        uri.authority().is_some_and(|at| self.insecure.iter().any(|one| one == at.as_str()))
    }

    /// The header that answers a challenge.
    fn prove(&self, header: &str, ask: Ask<'_>) -> Result<String, RegistryError> {
        let denied = || RegistryError::Denied {
            host: self.host.clone(),
            what: ask.what.to_owned(),
            had_login: false,
        };
        match auth::challenge(header) {
            None => Err(RegistryError::Challenge { host: self.host.clone() }),
            Some(Challenge::Basic) => Ok(basic(self.login()?.ok_or_else(denied)?)),
            Some(Challenge::Bearer { realm, service, scope }) => {
                self.token(&realm, service.as_deref(), scope.as_deref())
            }
        }
    }

    fn token(
        &self,
        realm: &str,
        service: Option<&str>,
        scope: Option<&str>,
    ) -> Result<String, RegistryError> {
        let shown = || realm.split('?').next().unwrap_or_default().chars().take(200).collect();
        let uri: Uri = realm.parse().map_err(|_| self.answer("its token service"))?;
        let host = uri.host().unwrap_or_default();
        let plain = uri.scheme_str() != Some("https");
        if plain
            && !(is_loopback(host)
                && is_loopback(self.base.as_ref().and_then(Uri::host).unwrap_or_default()))
            && !self.is_insecure(&uri)
        {
            return Err(RegistryError::Realm { host: self.host.clone(), realm: shown() });
        }
        self.reach.judge_number(&uri).map_err(|_| self.out_of_reach(&uri))?;
        let request = self.agent(&uri)?.get(uri.clone());
        let mut request = request.config().timeout_global(Some(DOCUMENT_WITHIN)).build();
        for (key, value) in [("service", service), ("scope", scope)] {
            if let Some(value) = value {
                request = request.query(key, value);
            }
        }
        if let Some(login) = self.login()? {
            if !auth::may_have_password(&self.host, &uri) {
                return Err(RegistryError::Realm { host: self.host.clone(), realm: shown() });
            }
            request = request.header(header::AUTHORIZATION, basic(login));
        }
        let answer = request.call().map_err(|source| self.unreachable(&uri, source))?;
        if !answer.status().is_success() {
            let (host, what) = (self.host.clone(), "a token".to_owned());
            return Err(match answer.status().as_u16() {
                401 | 403 => RegistryError::Denied { host, what, had_login: self.had_login() },
                code => RegistryError::Status { host, what, code },
            });
        }
        let mut bytes = Vec::new();
        let read = answer.into_body().into_reader().take(TOKEN_LIMIT).read_to_end(&mut bytes);
        read.map_err(|source| RegistryError::Read { host: self.host.clone(), source })?;
        let token: Token = serde_json::from_slice(&bytes).map_err(|_| self.answer("a token"))?;
        let token = token.token.or(token.access_token).ok_or_else(|| self.answer("a token"))?;
        Ok(format!("Bearer {token}"))
    }

    fn login(&self) -> Result<Option<&Login>, RegistryError> {
        if let Some(known) = self.login.get() {
            return Ok(known.as_ref());
        }
        let found = self.credentials.of(&self.host)?;
        Ok(self.login.get_or_init(|| found).as_ref())
    }

    /// Whether a login was asked for, and there was one.
    pub(super) fn had_login(&self) -> bool {
        self.login.get().is_some_and(Option::is_some)
    }

    fn answer(&self, what: &'static str) -> RegistryError {
        RegistryError::Answer { host: self.host.clone(), what }
    }

    fn out_of_reach(&self, uri: &Uri) -> RegistryError {
        let host = uri.authority().map_or(&*self.host, |at| at.as_str()).to_owned();
        RegistryError::OutOfReach { host }
    }

    fn unreachable(&self, uri: &Uri, source: ureq::Error) -> RegistryError {
        if let ureq::Error::Other(inner) = &source
            && inner.is::<OutOfReach>()
        {
            return self.out_of_reach(uri);
        }
        let host = uri.authority().map_or(&*self.host, |at| at.as_str()).to_owned();
        RegistryError::Request { host, source: Box::new(source) }
    }
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

/// With these certificates trusted, or for plain text. What is near is reached without the proxy
/// that the environment may name.
fn agent(trusted: Option<&[CertificateDer<'_>]>, reach: Reach, is_near: bool) -> Agent {
    let mut config = Agent::config_builder()
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT))
        .timeout_per_read(Some(SILENCE))
        .user_agent(concat!("shipway/", env!("CARGO_PKG_VERSION")));
    if is_near {
        config = config.proxy(None);
    }
    if let Some(trusted) = trusted {
        let roots = trusted.iter().map(|der| ureq::tls::Certificate::from_der(der).to_owned());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ureq::tls::TlsConfig::builder()
            .unversioned_rustls_crypto_provider(provider)
            .root_certs(ureq::tls::RootCerts::from(roots));
        config = config.tls_config(tls.build());
    }
    let names = Judging { reach, names: DefaultResolver::default() };
    Agent::with_parts(config.build(), DefaultConnector::default(), names)
}

fn same_origin(a: &Uri, b: &Uri) -> bool {
    let port = |uri: &Uri| match (uri.port_u16(), uri.scheme_str()) {
        (Some(port), _) => port,
        (None, Some("http")) => 80,
        (None, _) => 443,
    };
    (a.scheme(), a.host(), port(a)) == (b.scheme(), b.host(), port(b))
}

fn is_loopback(address: &str) -> bool {
    let name = match address.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => address,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost"
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_by_number_not_by_likeness() {
        for (address, loopback) in [
            ("localhost", true),
            ("localhost:5000", true),
            ("127.0.0.1:5000", true),
            ("[::1]:5000", true),
            ("127.0.0.1.evil.test", false),
            ("localhost.evil.test", false),
            ("10.0.0.1:5000", false),
        ] {
            assert_eq!(is_loopback(address), loopback, "{address}");
        }
    }

    #[test]
    fn what_is_no_host_is_refused_and_not_asked() {
        let client = Client::new("no host\n", &Settings::default());
        let ask = Ask { path: "/v2/", what: "its door", of: None, accept: None, part: Part::All };
        let refused = client.get(ask).map(drop).expect_err("there is no such host");
        assert_eq!(refused.to_string(), "`no host?` is not the name of a host");
    }

    #[test]
    fn redirects_lead_neither_to_plain_text_nor_out_of_the_web() {
        let settings = Settings::default();
        let client = Client::new("a.example", &settings);
        let from: Uri = "https://a.example/v2/".parse().expect("address");
        let to = |to: &str| client.redirect(&from, to).map(|uri| uri.to_string());
        assert_eq!(to("/x?y").ok().as_deref(), Some("https://a.example/x?y"));
        assert!(to("https://cdn.example/x").is_ok());
        for bad in ["http://cdn.example/x", "http://127.0.0.1/x", "file:///etc/passwd", "//x/y", ""]
        {
            assert!(to(bad).is_err(), "{bad}");
        }
        assert!(!same_origin(&from, &"https://a.example:444/".parse().expect("address")));
        assert!(same_origin(&from, &"https://a.example:443/x".parse().expect("address")));
    }
}
