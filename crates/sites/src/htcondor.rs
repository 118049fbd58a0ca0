//! HTCondor as a batch system: a pool with a schedd, here or elsewhere, or a compute element.
//!
//! `submit` and `lines` render what is handed in; `queue`, `ended`, `nodes` and `waits` say what is
//! asked and read the answers, by `ad`, `jobs` and `words`. All of them are pure; this file runs
//! commands. It needs nothing on the login node but HTCondor's own commands, and keeps no file
//! there. Who may do what is the site's own configuration: file system, tokens, certificates.

mod ad;
mod ended;
mod jobs;
mod lines;
mod nodes;
mod queue;
mod quoting;
mod submit;
mod waits;
mod words;

use crate::batch::{
    BatchSystem, EngineError, EngineId, EngineNodes, EngineTrouble, Naming, Order, Seen,
};
use crate::way::{Output, Way, WayError};
use std::time::Duration;

/// Ids in one command: a line of arguments has an end.
const MAX_AT_ONCE: usize = 200;
/// A schedd that is busy answers within a minute or so; one that is gone never does.
const PATIENCE: Duration = Duration::from_mins(2);

/// Which of the site's HTCondors, and how it wants to be spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `-name`; `None`: the one of the login node.
    pub schedd: Option<String>,
    /// `-pool`; `None`: the one of the login node.
    pub pool: Option<String>,
    /// It is a compute element, which hands on to another batch system in that one's words.
    pub ce: bool,
    /// How long one command may take.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { schedd: None, pool: None, ce: false, patience: PATIENCE }
    }
}

impl Settings {
    /// What every command about jobs is told.
    fn words(&self) -> Vec<String> {
        let name = self.schedd.iter().flat_map(|name| ["-name".to_string(), name.clone()]);
        name.chain(self.pool_words()).collect()
    }

    fn pool_words(&self) -> Vec<String> {
        let pool = self.pool.iter().flat_map(|pool| ["-pool".to_string(), pool.clone()]);
        pool.collect()
    }
}

#[derive(Debug)]
pub struct HtCondor {
    way: Box<dyn Way>,
    naming: Naming,
    settings: Settings,
}

impl HtCondor {
    pub fn new(way: Box<dyn Way>, naming: Naming, settings: Settings) -> HtCondor {
        HtCondor { way, naming, settings }
    }

    fn run(&self, act: &str, words: &[String], input: &[u8]) -> Result<Output, EngineError> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = self.way.run(&words, input, self.settings.patience);
        output.map_err(|error| EngineError {
            act: act.into(),
            kind: match &error {
                WayError::TooMuch { .. } => EngineTrouble::Unreadable,
                _ => EngineTrouble::NotReached,
            },
            words: words::cut(&chain(&error)),
        })
    }

    /// What a command about jobs said, if it went well.
    fn ask(&self, act: &str, mut words: Vec<String>) -> Result<Vec<u8>, EngineError> {
        words.extend(self.settings.words());
        let output = self.run(act, &words, &[])?;
        if output.code == Some(0) { Ok(output.stdout) } else { Err(failed(act, &output)) }
    }

    fn ask_pool(&self, act: &str, mut words: Vec<String>) -> Result<Vec<u8>, EngineError> {
        words.extend(self.settings.pool_words());
        let output = self.run(act, &words, &[])?;
        if output.code == Some(0) { Ok(output.stdout) } else { Err(failed(act, &output)) }
    }

    fn cancel_some(&self, ids: &[EngineId]) -> Result<(), EngineError> {
        const ACT: &str = "remove jobs";
        let clusters: Option<Vec<u64>> = ids.iter().map(|id| id.0.parse().ok()).collect();
        let clusters = clusters.ok_or_else(|| refused(ACT, "an id is not a cluster's number"))?;
        let mut words = vec!["condor_rm".to_string()];
        words.extend(self.settings.words());
        words.extend(clusters.iter().map(u64::to_string));
        let output = self.run(ACT, &words, &[])?;
        if output.code == Some(0) {
            return Ok(());
        }
        let error = failed(ACT, &output);
        if !error.words.contains("find/remove all jobs") {
            return Err(error);
        }
        // It says so of those that have ended, and of those that are not to be removed by us.
        let left = self.ask("list jobs", queue::still_there(&clusters))?;
        let left = ad::read(&left).map_err(|why| unreadable("list jobs", &why))?;
        if left.is_empty() { Ok(()) } else { Err(error) }
    }
}

impl BatchSystem for HtCondor {
    fn way(&self) -> Option<&dyn Way> {
        Some(&*self.way)
    }

    fn submit(&self, order: &Order) -> Result<EngineId, EngineError> {
        const ACT: &str = "submit a job";
        let script = submit::script(order, &self.naming, &self.settings);
        let script = script.map_err(|why| refused(ACT, &why))?;
        let shell = ["sh".to_string(), "-s".to_string()];
        let output = self.run(ACT, &shell, script.as_bytes())?;
        if output.code != Some(0) {
            return Err(failed(ACT, &output));
        }
        let said = String::from_utf8_lossy(&output.stdout);
        submitted(&said).ok_or_else(|| unreadable(ACT, &said))
    }

    fn look(&self) -> Result<Vec<Seen>, EngineError> {
        const ACT: &str = "list jobs";
        const PAST: &str = "list jobs that ended";
        let no_name = || refused(ACT, "the server's name has control characters");
        let ask = queue::command(&self.naming).ok_or_else(no_name)?;
        let ask_past = ended::command(&self.naming).ok_or_else(no_name)?;
        // In this order: what leaves the queue in between is in both answers, not in neither.
        let queued = self.ask(ACT, ask)?;
        let queued = queue::read(&queued, &self.naming).map_err(|why| unreadable(ACT, &why))?;
        let past = self.ask(PAST, ask_past)?;
        let past = ended::read(&past, &self.naming).map_err(|why| unreadable(PAST, &why))?;
        Ok(jobs::seen(queued, past))
    }

    fn nodes(&self) -> Result<Vec<EngineNodes>, EngineError> {
        const ACT: &str = "list machines";
        let read = |said: Vec<u8>| nodes::slots(&said).map_err(|why| unreadable(ACT, &why));
        let mut slots = read(self.ask_pool(ACT, nodes::command())?)?;
        if nodes::any_mixed(&slots) {
            let mixed = read(self.ask_pool(ACT, nodes::command_mixed())?)?;
            slots = nodes::completed(slots, mixed);
        }
        Ok(nodes::alike(slots))
    }

    fn cancel(&self, which: &[EngineId]) -> Result<(), EngineError> {
        which.chunks(MAX_AT_ONCE).try_for_each(|ids| self.cancel_some(ids))
    }

    fn why_queued(&self, which: &EngineId) -> Result<Option<String>, EngineError> {
        const ACT: &str = "ask why a job waits";
        if which.0.parse::<u64>().is_err() {
            return Err(refused(ACT, "its id is not a cluster's number"));
        }
        Ok(waits::sentence(&self.ask(ACT, waits::command(&which.0))?))
    }
}

/// The cluster, from `12.0 - 12.3`.
fn submitted(said: &str) -> Option<EngineId> {
    let last = said.lines().rev().find(|line| !line.trim().is_empty())?;
    let cluster = last.trim().split_once('.')?.0;
    cluster.parse::<u64>().ok().map(|cluster| EngineId(cluster.to_string()))
}

fn failed(act: &str, output: &Output) -> EngineError {
    let (stdout, stderr) = [&output.stdout, &output.stderr].map(|it| cap(it)).into();
    let kind = words::trouble(output.code, &stderr);
    EngineError { act: act.into(), words: words::complaint(&stdout, &stderr), kind }
}

/// What a person reads of it stands at its beginning.
fn cap(said: &[u8]) -> String {
    const MAX_READ: usize = 64 * 1024;
    String::from_utf8_lossy(said.get(..MAX_READ).unwrap_or(said)).into_owned()
}

fn refused(act: &str, why: &str) -> EngineError {
    EngineError { act: act.into(), words: words::cut(why), kind: EngineTrouble::Refused }
}

fn unreadable(act: &str, why: &str) -> EngineError {
    let words = words::cut(&format!("its answer makes no sense to us: {why}"));
    EngineError { act: act.into(), words, kind: EngineTrouble::Unreadable }
}

/// The error and what it came from, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod any_bytes;
#[cfg(test)]
mod tests;
