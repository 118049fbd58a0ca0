//! The way by a relay: where nothing else can be reached, all registries are asked through one
//! machine that can. What it sends is compared by its digest like what anybody sends, so it is not
//! believed anything; and it is told of a registry and of an image, and never a login.

use super::registry_error::RegistryError;
use shipway_model::{Digest, RelayAddress};
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

/// The heading by which whoever asks shows that they may.
type MakeTicket = Arc<dyn Fn(&Digest) -> String + Send + Sync>;

#[derive(Clone)]
pub struct Relay {
    pub at: RelayAddress,
    pub heading: &'static str,
    /// For one digest.
    pub ticket: MakeTicket,
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Relay {
    /// As it is called in messages, and remembered as the place that layers came from.
    pub(super) fn name(&self) -> String {
        format!("the relay at {}", self.at)
    }

    /// Where a relay has what a registry has at this path.
    pub fn path(registry: &str, path: &str) -> String {
        let rest = path.strip_prefix("/v2/").unwrap_or(path);
        format!("/v2/{registry}/{rest}")
    }
}

/// Whether an image did not come because the relay is away, or cannot tell at the moment, rather
/// than for what it said: it is started anew, or its server is, and then goes on.
pub fn is_away(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.downcast_ref::<RegistryError>().is_some_and(says_so) {
            return true;
        }
        // What such an error carries is not among its causes.
        let carried = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match carried {
            Some(carried) => Some(carried),
            None => error.source(),
        };
    }
    false
}

fn says_so(error: &RegistryError) -> bool {
    const UNAVAILABLE: u16 = 503;
    match error {
        RegistryError::Request { .. } | RegistryError::Read { .. } => true,
        RegistryError::Relay { code, .. } => *code == UNAVAILABLE,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: u16) -> RegistryError {
        let (relay, words) = ("the relay at h:1".to_owned(), "no".to_owned());
        RegistryError::Relay { relay, what: "it".into(), words, code }
    }

    #[test]
    fn a_relay_that_says_no_is_not_away() {
        let in_a_layer = |error| io::Error::other(io::Error::other(error));
        assert!(is_away(&said(503)) && is_away(&in_a_layer(said(503))));
        assert!(!is_away(&said(403)) && !is_away(&in_a_layer(said(404))));
        assert!(!is_away(&io::Error::other("its digest is another")));
        let source = io::ErrorKind::UnexpectedEof.into();
        assert!(is_away(&in_a_layer(RegistryError::Read { host: "h".into(), source })));
    }

    #[test]
    fn a_relay_has_everything_below_the_name_of_its_registry() {
        assert_eq!(Relay::path("h:1", "/v2/a/b/blobs/x"), "/v2/h:1/a/b/blobs/x");
    }
}
