//! Slurm as a batch system, by its own commands: `sbatch`, `squeue`, `sinfo`, `scontrol`, `sacct`
//! and `scancel`. Tested with 22.05, 24.11 and 26.05. Where there is a slurmrestd it does too
//! (`rest`).
//!
//! Rendering and reading are apart and pure (`script`, `queue`, `nodes`, `ended`, `words`); this
//! file runs what they made. It decides nothing about allocations.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod ended;
mod exits;
mod gres;
mod hosts;
mod nodes;
mod options;
mod queue;
pub mod rest;
mod rows;
mod script;
mod states;
mod words;

#[cfg(test)]
mod any_bytes;

use crate::batch::{
    BatchSystem, EngineError, EngineId, EngineNodes, EngineTrouble, Naming, Order, Seen,
};
use crate::way::{Output, Way};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Slurm's own commands try again for minutes while the controller is away.
pub const COMMAND_LIMIT: Duration = Duration::from_mins(1);
/// Ids in one command; a command line has room for them.
const MAX_CANCELLED: usize = 500;
const CANCEL: &str = "cancel jobs";

/// The Slurm of one site, as one account there.
#[derive(Debug)]
pub struct Slurm {
    way: Box<dyn Way>,
    naming: Naming,
    within: Duration,
    past: Mutex<ended::Past>,
    exits: Mutex<exits::Exits>,
    /// The account's number there. `None` inside: the site keeps no accounts.
    accounting: OnceLock<Option<String>>,
}

impl Slurm {
    /// Each command may take `within`; [`COMMAND_LIMIT`] is a good one.
    pub fn new(way: Box<dyn Way>, naming: Naming, within: Duration) -> Slurm {
        let (past, exits, accounting) = (Mutex::default(), Mutex::default(), OnceLock::new());
        Slurm { way, naming, within, past, exits, accounting }
    }

    /// Standard output of a command that ended well.
    fn run(&self, act: &str, words: &[String], input: &[u8]) -> Result<String, EngineError> {
        let output = self.output(act, words, input)?;
        match output.code {
            Some(0) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            _ => Err(words::failed(act, &output)),
        }
    }

    fn output(&self, act: &str, words: &[String], input: &[u8]) -> Result<Output, EngineError> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = self.way.run(&words, input, self.within);
        output.map_err(|error| words::not_run(act, &error))
    }

    /// Ends that the queue has forgotten. Nothing about those that live depends on it, so it may
    /// fail, and is tried again at the next look.
    fn forgotten(&self, queue: &[Seen]) -> Vec<Seen> {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        let user = self.accounting();
        let question = user.and_then(|user| past.question(queue, &user));
        let answer = question.map(|question| self.run("list ended jobs", &question, &[]));
        if let Some(Ok(answer)) = answer {
            past.answered(&answer, &self.naming);
        }
        past.besides(queue)
    }

    /// Only words depend on it, so it may fail too.
    fn say_exits(&self, queue: &mut [Seen]) {
        let mut exits = self.exits.lock().unwrap_or_else(PoisonError::into_inner);
        let question = exits.question(queue);
        let answer = question.map(|question| self.run(exits::ACT, &question, &[]));
        if let Some(Ok(answer)) = answer {
            exits.answered(&answer);
        }
        exits.name_ends_in(queue);
    }

    /// Whose jobs to ask the accounting database about, where there is one. Asked until there is an
    /// answer, and then never again.
    fn accounting(&self) -> Option<String> {
        if let Some(known) = self.accounting.get() {
            return known.clone();
        }
        let act = "find the accounting";
        let probe = ["sacct", "--noheader", "--allocations", "--starttime=now", "--format=JobID"];
        let output = self.output(act, &probe.map(String::from), &[]).ok()?;
        let said = String::from_utf8_lossy(&output.stderr);
        let user = match output.code {
            Some(0) => {
                let user = self.run(act, &["id".into(), "-u".into()], &[]).ok()?;
                let user = user.lines().last().unwrap_or_default().trim().to_string();
                let number = !user.is_empty() && user.bytes().all(|byte| byte.is_ascii_digit());
                Some(user).filter(|_| number)?.into()
            }
            _ if said.contains(ended::NO_ACCOUNTS) => None,
            _ => return None,
        };
        self.accounting.get_or_init(|| user).clone()
    }
}

impl BatchSystem for Slurm {
    fn submit(&self, order: &Order) -> Result<EngineId, EngineError> {
        let act = act_of_submission(order);
        let refused = |error: script::BadOrder| {
            let words = words::cut(&error.to_string());
            EngineError { act: act.clone(), words, kind: EngineTrouble::Refused }
        };
        let submission = script::submission(order, &self.naming).map_err(refused)?;
        let mut words = vec!["sbatch".to_string(), "--parsable".to_string()];
        words.extend(submission.arguments);
        let answer = self.run(&act, &words, submission.script.as_bytes())?;
        // `ID;CLUSTER`, after whatever the account's shell says first.
        let last = answer.lines().rev().map(str::trim).find(|line| !line.is_empty());
        let id = last.and_then(|line| queue::engine_id(line.split(';').next()?));
        id.ok_or_else(|| words::unreadable(&act, &answer))
    }

    fn way(&self) -> Option<&dyn Way> {
        Some(&*self.way)
    }

    fn look(&self) -> Result<Vec<Seen>, EngineError> {
        let answer = self.run(queue::ACT, &queue::command(), &[])?;
        let mut all = queue::parse(&answer, &self.naming)?;
        self.say_exits(&mut all);
        all.extend(self.forgotten(&all));
        Ok(all)
    }

    fn nodes(&self) -> Result<Vec<EngineNodes>, EngineError> {
        let sinfo = self.run(nodes::ACT, &nodes::command(), &[])?;
        // Some sites do not let everybody ask; then what they keep for themselves is not known.
        let kept = self.run(nodes::ACT, &nodes::KEPT_COMMAND.map(String::from), &[]);
        nodes::parse(&sinfo, &kept.unwrap_or_default())
    }

    fn cancel(&self, which: &[EngineId]) -> Result<(), EngineError> {
        let act = CANCEL;
        only_ids(which)?;
        for some in which.chunks(MAX_CANCELLED) {
            let mut words = vec!["scancel".to_string()];
            words.extend(some.iter().map(|id| id.0.clone()));
            let output = self.output(act, &words, &[])?;
            let said = String::from_utf8_lossy(&output.stderr);
            if output.code != Some(0) && !words::was_over(&said) {
                return Err(words::failed(act, &output));
            }
        }
        Ok(())
    }
}

fn act_of_submission(order: &Order) -> String {
    match &order.partition {
        Some(partition) => format!("submit to partition {}", words::cut(partition)),
        None => "submit to the default partition".to_string(),
    }
}

/// What else they may be would be an option, or another address.
fn only_ids(which: &[EngineId]) -> Result<(), EngineError> {
    let Some(odd) = which.iter().find(|id| !queue::is_id(&id.0)) else { return Ok(()) };
    let words = words::cut(&format!("`{}` is not a job of Slurm", odd.0));
    Err(EngineError { act: CANCEL.into(), words, kind: EngineTrouble::Refused })
}
