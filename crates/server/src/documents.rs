//! What the server keeps beside its journal: small documents, each read and written as a whole.
//! Secrets are among them, so none of it is ever in the journal.
//!
//! `HomeFiles` has a file for each in the home. The trait asks for no more than what a table of a
//! database server can do as well. Files that others read are not here: `server.json`, the
//! certificate.

use std::error::Error;
use std::io;
use std::path::PathBuf;

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
    /// what was there before is.
    fn write(&self, which: Document, content: &[u8]) -> Result<(), DocumentError>;
}

#[derive(Debug, thiserror::Error)]
#[error("cannot {act} {place}")]
pub struct DocumentError {
    act: &'static str,
    place: String,
    source: Box<dyn Error + Send + Sync>,
}

/// One file for each, which only its owner may read.
#[derive(Debug)]
pub struct HomeFiles(pub PathBuf);

impl HomeFiles {
    fn path(&self, which: Document) -> PathBuf {
        self.0.join(match which {
            Document::RegistryLogins => "registry-logins.json",
            Document::EventLogs => "event-logs.json",
            Document::PilotKey => "pilots.key",
        })
    }

    fn failed(&self, act: &'static str, which: Document, source: io::Error) -> DocumentError {
        let place = self.path(which).display().to_string();
        DocumentError { act, place, source: source.into() }
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
        let written = shipway_trees::write_whole(&self.path(which), content);
        written.map_err(|error| self.failed("write", which, error))
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
        let documents = HomeFiles(home.path().into());
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
    fn what_cannot_be_read_is_not_taken_for_missing() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("pilots.key")).unwrap();
        let error = HomeFiles(home.path().into()).read(Document::PilotKey).unwrap_err();
        let said = error.to_string();
        assert!(said.starts_with("cannot read ") && said.ends_with("/pilots.key"), "{said}");
        assert!(error.source().is_some());
    }
}
