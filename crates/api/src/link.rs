//! Between the wire's messages and the model's nouns, in both directions.
//!
//! The wire is generated; this is the one place that reads it strictly and fills it completely.

use crate::wire;
use shipway_model::ids::BadId;
use shipway_model::{
    Amounts, Attempt, Counts, FileMap, GpuShare, JobId, JobSpec, Kind, Login, NodeAd, Outcome,
    OutputFiles, TakenOn, TaskId, TaskIndex,
};

/// The protocol this binary speaks.
pub const PROTOCOL: u32 = 2;
/// The number of the connection that a call beside the control call belongs to.
pub const SESSION: &str = "shipway-session";
/// One message to a pilot: a batch of assignments.
pub const MAX_MESSAGE_BYTES: usize = 96 << 20;
/// One message from a pilot: a greeting or a report of as many attempts as it may name.
pub const MAX_FROM_PILOT: usize = 16 << 20;
/// Attempts that a pilot names in one message, with what else is in it: many times what a node
/// runs at once.
pub const MAX_ENTRIES: usize = 32_768;
/// What a pilot says of its node, and of the end of one attempt, as JSON.
const MAX_AD_BYTES: usize = 1 << 20;
const MAX_OUTCOME_BYTES: usize = 64 << 10;
/// A reason in it; as JSON it may be six times as long.
const MAX_WHY_BYTES: usize = 8 << 10;
/// A piece of a log, and the message it is in.
pub const MAX_LOG_CHUNK: usize = 256 << 10;
pub const MAX_LOG_MESSAGE: usize = MAX_LOG_CHUNK + (16 << 10);
/// What of one call is on its way at most: as much is held where nobody reads it, and as much of a
/// bulk call may be before a message of another one.
pub const CALL_WINDOW: u32 = 256 << 10;
/// Of data that is handed over at once: others may be in between.
pub const FRAME_BYTES: u32 = 64 << 10;

#[derive(Debug, thiserror::Error)]
pub enum BadMessage {
    #[error("a message of the pilot protocol lacks its {0}")]
    Missing(&'static str),
    #[error("a message of the pilot protocol has an unreadable {what}")]
    Unreadable {
        what: &'static str,
        #[source]
        source: serde_json::Error,
    },
    #[error("a message of the pilot protocol has too long a {0}")]
    TooLong(&'static str),
    #[error("a message of the pilot protocol names something impossible")]
    Id(#[from] BadId),
}

pub fn attempt_id(task: TaskId, attempt: Attempt) -> wire::AttemptId {
    wire::AttemptId { job: task.job.0, index: task.index.0, attempt: attempt.0 }
}

impl std::fmt::Debug for wire::RegistryLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegistryLogin").field("user", &self.user).finish_non_exhaustive()
    }
}

impl From<Login> for wire::RegistryLogin {
    fn from(Login { user, password }: Login) -> Self {
        wire::RegistryLogin { user, password }
    }
}

impl From<wire::RegistryLogin> for Login {
    fn from(wire::RegistryLogin { user, password }: wire::RegistryLogin) -> Self {
        Login { user, password }
    }
}

impl wire::AttemptId {
    pub fn task(&self) -> TaskId {
        JobId(self.job).task(TaskIndex(self.index))
    }
    pub fn number(&self) -> Attempt {
        Attempt(self.attempt)
    }
}

pub fn encode_ad(ad: &NodeAd) -> String {
    serde_json::to_string(ad).expect("an ad is plain data")
}

pub fn decode_ad(text: &str) -> Result<NodeAd, BadMessage> {
    decode(text, "ad", MAX_AD_BYTES)
}

pub fn encode_outcome(outcome: &Outcome) -> String {
    serde_json::to_string(&brief(outcome.clone())).expect("an outcome is plain data")
}

/// What went wrong, in as many words as are taken.
fn brief(mut outcome: Outcome) -> Outcome {
    if let Outcome::NotStarted { message } | Outcome::OutputsFailed { message } = &mut outcome
        && message.len() > MAX_WHY_BYTES
    {
        let end = (0..=MAX_WHY_BYTES).rev().find(|end| message.is_char_boundary(*end));
        message.truncate(end.unwrap_or_default());
        message.push('…');
    }
    outcome
}

pub fn decode_outcome(text: &str) -> Result<Outcome, BadMessage> {
    decode(text, "outcome", MAX_OUTCOME_BYTES)
}

fn decode<T: serde::de::DeserializeOwned>(
    text: &str,
    what: &'static str,
    most: usize,
) -> Result<T, BadMessage> {
    if text.len() > most {
        return Err(BadMessage::TooLong(what));
    }
    serde_json::from_str(text).map_err(|source| BadMessage::Unreadable { what, source })
}

/// What the tasks of a job have in common, as the pilot needs it.
pub fn template(job: JobId, owner: &str, spec: &JobSpec) -> wire::Template {
    let need = &spec.resources;
    let limit = spec.time_limit.as_ref();
    wire::Template {
        job: job.0,
        command: spec.command.clone(),
        script: spec.script.clone(),
        env: spec.env.clone().into_iter().collect(),
        workdir: spec.workdir.clone(),
        log_limit: spec.log_limit.0,
        cpus_milli: need.cpus.milli,
        memory: need.memory.0,
        disk: need.disk.0,
        named: need.named.clone().into_iter().collect(),
        time_limit_ms: limit.map_or(0, |limit| limit.limit.0),
        warn_signal: limit.map_or(0, |limit| limit.warn.number().unsigned_abs()),
        grace_ms: limit.map_or(0, |limit| limit.grace.0),
        image: spec.image.as_ref().map(ToString::to_string),
        binds: spec.binds.iter().map(ToString::to_string).collect(),
        network: spec.network.to_string(),
        gpu_share: need.gpu.as_ref().map_or(0, |gpu| match gpu.share {
            GpuShare::WHOLE => 0,
            share => share.0,
        }),
        user: owner.to_string(),
        files: files(spec),
        // Filled in by whoever keeps logins.
        registry_login: None,
        // Filled in by whoever knows who that is.
        is_owner: false,
        user_number: 0,
    }
}

/// How much a task of it holds, devices aside.
pub fn counts(template: &wire::Template) -> Counts {
    let amounts = Amounts::of(|kind| match kind {
        Kind::Cpus => template.cpus_milli,
        Kind::Memory => template.memory,
        Kind::Disk => template.disk,
    });
    let mut counts = Counts { amounts, ..Counts::default() };
    counts.add_named(&template.named);
    counts
}

fn files(spec: &JobSpec) -> Option<wire::Files> {
    let to_wire =
        |file: &FileMap| wire::FileMap { source: file.source.clone(), target: file.target.clone() };
    let outputs = spec.outputs.as_ref().map(|outputs| wire::Outputs {
        all_new: outputs.files == OutputFiles::New,
        files: outputs.names().iter().map(to_wire).collect(),
        to: outputs.to.clone(),
        only_on_success: outputs.on == TakenOn::Success,
    });
    let named = spec.streams().next().is_some() || !spec.inputs.is_empty() || outputs.is_some();
    named.then(|| wire::Files {
        basedir: spec.basedir.clone().unwrap_or_default(),
        stdin: spec.stdin.clone(),
        stdout: spec.stdout.clone(),
        stderr: spec.stderr.clone(),
        inputs: spec.inputs.iter().map(to_wire).collect(),
        outputs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_reason_is_taken_and_no_longer_one_is() {
        let message = "\u{1}€".repeat(1 << 20);
        let sent = encode_outcome(&Outcome::NotStarted { message });
        assert!(matches!(decode_outcome(&sent), Ok(Outcome::NotStarted { .. })), "{}", sent.len());
        let long = format!("{{\"kind\":\"not_started\",\"message\":\"{}\"}}", "x".repeat(70_000));
        assert!(matches!(decode_outcome(&long), Err(BadMessage::TooLong("outcome"))));
        let ad = format!("{{\"node\":\"n\",\"notes\":[\"{}\"]}}", "x".repeat(MAX_AD_BYTES));
        assert!(matches!(decode_ad(&ad), Err(BadMessage::TooLong("ad"))));
    }
}
