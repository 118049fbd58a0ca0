//! Encryption for the listener: a given certificate, or one made here and kept in the home.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tls {
    None,
    /// Made at the first start and kept; clients are shown where it is.
    SelfMade,
    Files {
        certificate: PathBuf,
        key: PathBuf,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {}", .path.display())]
    Pem {
        path: PathBuf,
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    #[error("certificate and key cannot be used")]
    Unusable(#[source] rustls::Error),
    #[error("cannot make a certificate")]
    Make(#[source] rcgen::Error),
    #[error("cannot write {}", .path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

/// The configuration, and the certificate that clients on this machine are told to trust.
pub type Prepared = (Arc<ServerConfig>, Option<PathBuf>);

pub fn prepare(tls: &Tls, home: &Path, names: &[String]) -> Result<Option<Prepared>, TlsError> {
    match tls {
        Tls::None => Ok(None),
        Tls::Files { certificate, key } => {
            Ok(Some((config(certificate, key)?, Some(certificate.clone()))))
        }
        Tls::SelfMade => {
            let certificate = home.join("certificate.pem");
            let key = home.join("key.pem");
            if !certificate.exists() || !key.exists() {
                make(&certificate, &key, names)?;
            }
            Ok(Some((config(&certificate, &key)?, Some(certificate))))
        }
    }
}

fn config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|source| TlsError::Pem { path: certificate.into(), source })?;
    let key = PrivateKeyDer::from_pem_file(key)
        .map_err(|source| TlsError::Pem { path: key.into(), source })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Unusable)?;
    let mut config =
        builder.with_no_client_auth().with_single_cert(chain, key).map_err(TlsError::Unusable)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn make(certificate: &Path, key: &Path, names: &[String]) -> Result<(), TlsError> {
    let made = rcgen::generate_simple_self_signed(names).map_err(TlsError::Make)?;
    let write = |path: &Path, text: String| {
        let written = shipway_trees::write_whole(path, text.as_bytes());
        written.map_err(|source| TlsError::Write { path: path.into(), source })
    };
    write(key, made.signing_key.serialize_pem())?;
    write(certificate, made.cert.pem())
}
