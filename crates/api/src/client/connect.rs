//! Opening one connection, with or without TLS.

use crate::proof::Ends;
use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use shipway_trust::NoCertificates;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpStream;

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("no connection")]
    Tcp(#[source] io::Error),
    #[error("no encrypted connection")]
    Tls(#[source] io::Error),
    #[error("no HTTP over the connection")]
    Http(#[source] hyper::Error),
    #[error("cannot read the certificate {}", .path.display())]
    Certificate {
        path: PathBuf,
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    #[error(transparent)]
    NoCertificates(#[from] NoCertificates),
    #[error("the server's name is not one a certificate can have")]
    Name,
    #[error("encryption cannot be set up")]
    Setup(#[source] rustls::Error),
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) ends: Ends,
    sender: http1::SendRequest<Full<Bytes>>,
}

impl Connection {
    pub(super) async fn open(base: &Uri, certificate: Option<&Path>) -> Result<Self, ConnectError> {
        let host = base.host().unwrap_or_default().trim_matches(['[', ']']);
        let tls = base.scheme_str() == Some("https");
        let port = base.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let stream = TcpStream::connect((host, port)).await.map_err(ConnectError::Tcp)?;
        // Requests are small and answered at once; waiting to fill a packet only costs time.
        stream.set_nodelay(true).map_err(ConnectError::Tcp)?;
        let ends = ends_of(&stream).map_err(ConnectError::Tcp)?;
        if !tls {
            return Self::speak_http(TokioIo::new(stream), ends).await;
        }
        let config = tls_config(certificate)?;
        let name = ServerName::try_from(host.to_string()).map_err(|_| ConnectError::Name)?;
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = connector.connect(name, stream).await.map_err(ConnectError::Tls)?;
        Self::speak_http(TokioIo::new(stream), ends).await
    }

    async fn speak_http<S>(stream: S, ends: Ends) -> Result<Self, ConnectError>
    where
        S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let (sender, driver) = http1::handshake(stream).await.map_err(ConnectError::Http)?;
        // Ends by itself when the sender is dropped or the server hangs up.
        tokio::spawn(driver);
        Ok(Connection { ends, sender })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        self.sender.ready().await?;
        self.sender.send_request(request).await
    }
}

/// Of a connection that was opened from here.
pub fn ends_of(stream: &TcpStream) -> io::Result<Ends> {
    Ok(Ends { server: stream.peer_addr()?, client: stream.local_addr()? })
}

/// Trusts the given certificate, if any, beside the system's.
pub fn tls_config(certificate: Option<&Path>) -> Result<rustls::ClientConfig, ConnectError> {
    let mut roots = rustls::RootCertStore::empty();
    let system = match certificate {
        Some(given) => {
            trust(&mut roots, given)?;
            shipway_trust::certificates().unwrap_or_default()
        }
        None => shipway_trust::certificates()?,
    };
    // One certificate of the system's list that cannot be used does not spoil the others.
    roots.add_parsable_certificates(system);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(ConnectError::Setup)?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn trust(roots: &mut rustls::RootCertStore, path: &Path) -> Result<(), ConnectError> {
    let unreadable = |source| ConnectError::Certificate { path: path.into(), source };
    for found in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
        let _ = roots.add(found.map_err(unreadable)?);
    }
    Ok(())
}
