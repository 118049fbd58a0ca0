//! Why a registry, or a relay in its place, did not give what it was asked for.

use super::helper::HelperError;
use shipway_trust::NoCertificates;

#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error("`{host}` is not the name of a host")]
    NoHost { host: String },
    #[error("{host} is not asked: it is not on the public internet, and not listed here")]
    OutOfReach { host: String },
    #[error("cannot reach {host}")]
    Request {
        host: String,
        #[source]
        source: Box<ureq::Error>,
    },
    #[error("cannot reach {host}")]
    NoCertificates {
        host: String,
        #[source]
        source: NoCertificates,
    },
    #[error("{host} does not have {what}")]
    NotFound { host: String, what: String },
    #[error("{host} does not let us have {what}")]
    Denied { host: String, what: String, had_login: bool },
    #[error("{host} answered {code} when asked for {what}")]
    Status { host: String, what: String, code: u16 },
    #[error("{host} sends us to `{to}`, which is refused: {why}")]
    Redirect { host: String, to: String, why: &'static str },
    #[error("{host} asks for a password in a way that is not known")]
    Challenge { host: String },
    #[error("{host} sends us to `{realm}` with our password, which is refused")]
    Realm { host: String, realm: String },
    #[error("what {host} sent as {what} cannot be read")]
    Answer { host: String, what: &'static str },
    #[error(transparent)]
    Helper(#[from] HelperError),
    /// It answered, and says why not.
    #[error("{relay} does not hand out {what}: {words}")]
    Relay { relay: String, what: String, words: String, code: u16 },
    #[error("`{image}` has no digest, and a relay knows images by their digests only")]
    NoDigest { image: String },
    #[error("{host} sends next to nothing")]
    Slow { host: String },
    #[error("what {host} sent breaks off")]
    Read {
        host: String,
        #[source]
        source: std::io::Error,
    },
}
