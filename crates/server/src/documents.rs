//! What the server keeps beside its journal: small documents, each read and written as a whole.
//! Secrets are among them, so none of it is ever in the journal.
//!
//! `HomeFiles` has a file for each in the home. The trait asks for no more than what a table of a
//! database server can do as well. A server that was taken over writes none any more. Files that
//! others read are not here: `server.json`, the certificate.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

use crate::journal::Tenure;
use shipway_trees::Draft;
use std::error::Error;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Document {
    /// What users have given us to open registries with.
    RegistryLogins,
    /// How far HTCondor's event logs are written.
    EventLogs,
    /// From which the tokens of pilots are made.
    PilotKey,
}

/// All of one server. Whoever implements it lets nobody but the server read them.
pub trait Documents: Send + Sync + std::fmt::Debug {
    /// `None`: it was never written.
    fn read(&self, which: Document) -> Result<Option<Vec<u8>>, DocumentError>;

    /// When this returns `Ok` it is there even after a power cut. Until then, and after an error,
    /// what was there before is. Refused once another server has taken over.
    fn write(&self, which: Document, content: &[u8]) -> Result<(), DocumentError>;

    /// Where it is, for people.
    fn place(&self, which: Document) -> String;
}

#[derive(Debug, thiserror::Error)]
#[error("cannot {act} {place}")]
pub struct DocumentError {
    pub act: &'static str,
    pub place: String,
    pub source: Box<dyn Error + Send + Sync>,
}

/// One file for each, which only its owner may read.
#[derive(Debug)]
pub struct HomeFiles {
    pub home: PathBuf,
    pub tenure: Arc<Tenure>,
}

impl HomeFiles {
    fn path(&self, which: Document) -> PathBuf {
        self.home.join(match which {
            Document::RegistryLogins => "registry-logins.json",
            Document::EventLogs => "event-logs.json",
            Document::PilotKey => "pilots.key",
        })
    }

    fn failed(&self, act: &'static str, which: Document, source: io::Error) -> DocumentError {
        DocumentError { act, place: self.place(which), source: source.into() }
    }

    /// A draft is not even begun by a server that was taken over: it would be in the way of the
    /// next one's. It gets its name while nobody can take over.
    fn write_own(&self, which: Document, content: &[u8]) -> io::Result<()> {
        self.tenure.check().map_err(io::Error::other)?;
        let mut draft = Draft::of(&self.path(which))?;
        draft.file.write_all(content)?;
        let named = draft.publish_by(|name| self.tenure.hold(name).map_err(io::Error::other)?);
        named.map(drop)
    }

    /// Of a home where no server runs.
    #[cfg(test)]
    pub(crate) fn of(home: &std::path::Path) -> Self {
        let journal = crate::journal::HomeJournal::open(home, 0).expect("a journal");
        HomeFiles { home: home.into(), tenure: Arc::new(journal.tenure().expect("ours")) }
    }
}

impl Documents for HomeFiles {
    fn read(&self, which: Document) -> Result<Option<Vec<u8>>, DocumentError> {
        match std::fs::read(self.path(which)) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("read", which, error)),
        }
    }

    fn write(&self, which: Document, content: &[u8]) -> Result<(), DocumentError> {
        self.write_own(which, content).map_err(|error| self.failed("write", which, error))
    }

    fn place(&self, which: Document) -> String {
        self.path(which).display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// Under the names that homes have had from the beginning.
    #[test]
    fn each_is_a_file_of_its_own_closed_to_others() {
        let home = tempfile::tempdir().unwrap();
        let documents = HomeFiles::of(home.path());
        let names = [
            (Document::RegistryLogins, "registry-logins.json"),
            (Document::EventLogs, "event-logs.json"),
            (Document::PilotKey, "pilots.key"),
        ];
        for (which, name) in names {
            assert_eq!(documents.read(which).unwrap(), None);
            documents.write(which, name.as_bytes()).unwrap();
            let mode = home.path().join(name).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        for (which, name) in names {
            assert_eq!(documents.read(which).unwrap().as_deref(), Some(name.as_bytes()));
        }
    }

    #[test]
    fn a_server_that_was_taken_over_writes_none() {
        let home = tempfile::tempdir().unwrap();
        let first = HomeFiles::of(home.path());
        first.write(Document::RegistryLogins, b"first").unwrap();
        let second = HomeFiles::of(home.path());
        let error = first.write(Document::RegistryLogins, b"late").unwrap_err();
        let said = shipway_api::causes::causes(&error);
        assert!(
            said.ends_with(
                "registry-logins.json: another server has taken over the journal: \
                                its epoch is 2, that of this one 1"
            ),
            "{said}"
        );
        assert_eq!(second.read(Document::RegistryLogins).unwrap().as_deref(), Some(&b"first"[..]));
        assert!(first.tenure.hold(|| panic!("it is not the first's")).is_err());
        // Nor one that began before: its draft gets no name.
        let mut draft = Draft::of(&first.path(Document::EventLogs)).unwrap();
        draft.file.write_all(b"late").unwrap();
        draft.publish_by(|name| first.tenure.hold(name).map_err(io::Error::other)?).unwrap_err();
        assert_eq!(second.read(Document::EventLogs).unwrap(), None);
        second.write(Document::RegistryLogins, b"second").unwrap();
    }

    #[test]
    fn what_cannot_be_read_is_not_taken_for_missing() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("pilots.key")).unwrap();
        let error = HomeFiles::of(home.path()).read(Document::PilotKey).unwrap_err();
        let said = error.to_string();
        assert!(said.starts_with("cannot read ") && said.ends_with("/pilots.key"), "{said}");
        assert!(error.source().is_some());
    }
}
