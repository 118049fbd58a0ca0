//! The program that pilots of a site are started as: the site's own, or the one that this server
//! is, sent there.

use crate::files::hash_of;
use sha2::Digest as _;
use shipway_model::{Digest, EngineTrouble, SiteProgram, SiteSpec};
use shipway_sites::batch::{BatchSystem, EngineError};
use shipway_sites::sending;
use std::fs::File;
use std::io;
use std::sync::OnceLock;

/// The file that this process was started from, even where another lies in its place by now.
const OWN: &str = "/proc/self/exe";

/// Where it lies at the site, and what it has to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) path: String,
    pub(super) sha256: Option<Digest>,
}

impl Program {
    /// Sees to it that it is there where it has to be sent, unless `is_known`: for threads that may
    /// wait for minutes.
    pub(super) fn at_site(
        spec: &SiteSpec,
        engine: &dyn BatchSystem,
        is_known: bool,
    ) -> Result<Program, EngineError> {
        let folder = match spec.program() {
            SiteProgram::At(path) => return Ok(Program { path: path.to_owned(), sha256: None }),
            SiteProgram::SentTo(folder) => folder,
        };
        let sha256 = own_sha256().map_err(|error| cannot(format!("cannot read {OWN}: {error}")))?;
        if !is_known {
            let no_way = || cannot("this site runs no commands of ours".to_owned());
            let way = engine.way().ok_or_else(no_way)?;
            sending::send(way, folder, &sha256, || std::fs::read(OWN))?;
        }
        Ok(Program { path: sending::path(folder, &sha256), sha256: Some(sha256) })
    }
}

fn cannot(words: String) -> EngineError {
    EngineError { act: "send the program".to_owned(), words, kind: EngineTrouble::Refused }
}

/// It stays the same for as long as the process lives.
fn own_sha256() -> io::Result<Digest> {
    static KNOWN: OnceLock<Digest> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(*known);
    }
    let hash = hash_of(&mut File::open(OWN)?, u64::MAX)?;
    Ok(*KNOWN.get_or_init(|| Digest(hash.finalize().into())))
}
