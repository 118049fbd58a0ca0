//! Slurm as a batch system by its own daemon, `slurmrestd`, where nobody may run commands. Tested
//! with 22.05 (v0.0.38) and 24.11 (v0.0.42).
//!
//! What is handed in and what is read are pure (`submit`, `jobs`, `nodes`, `answers`); this file
//! asks by `http`. It does not ask the accounting database about what the controller has forgotten.

mod answers;
mod http;
mod jobs;
mod nodes;
mod shapes;
mod submit;
mod token;
mod unix;

use super::script::BadOrder;
use super::words::{cut, failed_to_ask};
use crate::batch::{
    BatchSystem, EngineError, EngineId, EngineNodes, EngineTrouble, Naming, Order, Seen,
};
use http::{Answer, Door, NoAnswer};
use shapes::Told;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub(super) use submit::what_can_be_said;

/// The list of 100,000 jobs takes the daemon minutes to write.
const LIST_LIMIT: Duration = Duration::from_mins(5);
/// Of an answer that is no list.
const MAX_SHORT: u64 = 1 << 20;
const NOT_FOUND: u16 = 404;
/// Those that are asked for, the newest first. What was between them no Slurm has alone.
const VERSIONS: [Version; 6] =
    [Version(44), Version(43), Version(42), Version(41), Version(40), Version(38)];

/// `v0.0.N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32);

impl Version {
    /// Its values are written plainly: `{"number": …}` came with v0.0.39.
    fn is_plain(self) -> bool {
        self < Version(39)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "v0.0.{}", self.0)
    }
}

/// How a slurmrestd is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// `http://HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`.
    pub url: String,
    /// The file with the account's token; `None`: who asks by the socket is known by that.
    pub token: Option<PathBuf>,
    /// The account that jobs are of.
    pub user: String,
    /// Asked for unless given.
    pub version: Option<Version>,
}

/// The Slurm of one site, as one account there.
#[derive(Debug)]
pub struct Rest {
    door: Door,
    naming: Naming,
    within: Duration,
    given: Option<Version>,
    found: Mutex<Option<Version>>,
}

impl Rest {
    /// Each question may take `within`, but for those whose answer is a list.
    pub fn new(address: Address, naming: Naming, within: Duration) -> Rest {
        let Address { url, token, user, version } = address;
        let door = Door::new(&url, token, &user);
        Rest { door, naming, within, given: version, found: Mutex::default() }
    }

    /// The newest that both know.
    fn version(&self, act: &str) -> Result<Version, EngineError> {
        let known = *self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = self.given.or(known) {
            return Ok(known);
        }
        for version in VERSIONS {
            let path = format!("/slurm/{version}/ping");
            let (status, answer) = short(act, self.door.get(&path, self.within))?;
            match status {
                NOT_FOUND => {}
                _ if answers::is_good(status) => {
                    *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(version);
                    return Ok(version);
                }
                _ => return Err(answers::odd(act, status, &answer)),
            }
        }
        let [newest, .., oldest] = VERSIONS;
        let words = format!("it speaks none of {oldest} to {newest}");
        Err(EngineError { act: act.to_owned(), words, kind: EngineTrouble::Refused })
    }

    /// A daemon that was replaced may not know the version of the one before.
    fn forget_if(&self, status: u16) {
        if status == NOT_FOUND {
            *self.found.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// One list, read as it comes.
    fn list<A>(
        &self,
        act: &str,
        what: &str,
        read: impl FnOnce(Box<dyn Read>) -> Result<(A, Told), serde_json::Error>,
    ) -> Result<A, EngineError> {
        let version = self.version(act)?;
        let answer =
            self.door.get(&format!("/slurm/{version}/{what}"), LIST_LIMIT.max(self.within));
        let Answer { status, body } = answer.map_err(|error| not_asked(act, &error))?;
        if !answers::is_good(status) {
            self.forget_if(status);
            return Err(answers::odd(act, status, &taken(act, body)?));
        }
        match read(body) {
            Ok((all, told)) if told.has_list && told.complaints.0.is_empty() => Ok(all),
            Ok((_, told)) if !told.complaints.0.is_empty() => {
                Err(answers::failed(act, status, &told.complaints))
            }
            Ok(_) => {
                let words = format!("its answer has no list of {what}");
                Err(EngineError { act: act.to_owned(), words, kind: EngineTrouble::Unreadable })
            }
            Err(error) => Err(broken(act, &error)),
        }
    }
}

impl BatchSystem for Rest {
    fn submit(&self, order: &Order) -> Result<EngineId, EngineError> {
        let act = super::act_of_submission(order);
        let refused = |error: BadOrder| {
            let (act, words) = (act.clone(), cut(&error.to_string()));
            EngineError { act, words, kind: EngineTrouble::Refused }
        };
        let version = self.version(&act)?;
        let body = submit::body(order, &self.naming, self.door.user(), version).map_err(refused)?;
        let path = format!("/slurm/{version}/job/submit");
        let (status, answer) = short(&act, self.door.post(&path, &body, self.within))?;
        self.forget_if(status);
        answers::submitted(&act, status, &answer)
    }

    fn look(&self) -> Result<Vec<Seen>, EngineError> {
        let act = super::queue::ACT;
        self.list(act, "jobs", |body| jobs::parse(body, &self.naming, self.door.user()))
    }

    fn nodes(&self) -> Result<Vec<EngineNodes>, EngineError> {
        let act = super::nodes::ACT;
        let partitions = self.list(act, "partitions", nodes::partitions)?;
        let nodes = self.list(act, "nodes", nodes::nodes)?;
        Ok(nodes::together(&nodes, &partitions))
    }

    /// Each by itself; one that cannot be cancelled keeps no other from it.
    fn cancel(&self, which: &[EngineId]) -> Result<(), EngineError> {
        let act = super::CANCEL;
        super::only_ids(which)?;
        let version = self.version(act)?;
        let mut trouble = Ok(());
        for id in which {
            let path = format!("/slurm/{version}/job/{}", id.0);
            let (status, answer) = short(act, self.door.delete(&path, self.within))?;
            self.forget_if(status);
            trouble = trouble.and(answers::cancelled(act, status, &answer));
        }
        trouble
    }
}

/// An answer of a few lines, whole.
fn short(act: &str, answer: Result<Answer, NoAnswer>) -> Result<(u16, Vec<u8>), EngineError> {
    let Answer { status, body } = answer.map_err(|error| not_asked(act, &error))?;
    Ok((status, taken(act, body)?))
}

/// What is longer than any of these is none, and is cut.
fn taken(act: &str, body: Box<dyn Read>) -> Result<Vec<u8>, EngineError> {
    let mut answer = Vec::new();
    let read = body.take(MAX_SHORT).read_to_end(&mut answer);
    read.map_err(|error| failed_to_ask(act, &format!("its answer broke off: {error}")))?;
    Ok(answer)
}

fn not_asked(act: &str, error: &NoAnswer) -> EngineError {
    failed_to_ask(act, &error.to_string())
}

/// Of a list: the connection broke, or it is none.
fn broken(act: &str, error: &serde_json::Error) -> EngineError {
    let kind = if error.is_io() { EngineTrouble::NotReached } else { EngineTrouble::Unreadable };
    let words = cut(&format!("its answer makes no sense or broke off: {error}"));
    EngineError { act: act.to_owned(), words, kind }
}

/// For what is tested of all readers.
#[cfg(test)]
pub(super) fn read_anything(body: &str, status: u16) {
    let naming = Naming { whose: "s1".into() };
    for (list, row) in [("jobs", "name"), ("nodes", "state"), ("partitions", "name")] {
        let text = serde_json::Value::from(body);
        for body in [body.to_owned(), format!(r#"{{"{list}": [{{"{row}": {text}}}]}}"#)] {
            let seen = jobs::parse(body.as_bytes(), &naming, "ada");
            assert!(seen.is_err() || seen.is_ok_and(|(seen, _)| seen.is_empty()));
            if let (Ok((nodes, _)), Ok((partitions, _))) =
                (nodes::nodes(body.as_bytes()), nodes::partitions(body.as_bytes()))
            {
                nodes::together(&nodes, &partitions);
            }
            let _ = answers::submitted("submit", status, body.as_bytes());
            let _ = answers::cancelled("cancel", status, body.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests;
