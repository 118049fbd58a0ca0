//! Attempts on the wire: their names, what a pilot says of them, how they ended.

use super::BadMessage;
use super::usage::read_usage;
use crate::wire;
use crate::wire::ended::Outcome as Wire;
use crate::wire::held::Phase;
use shipway_model::limits::MAX_WHY_BYTES;
use shipway_model::{
    Attempt, AttemptId, Bytes, Ended, Held, HeldPhase, JobId, Lost, Millis, Outcome, PilotId,
    TaskIndex, Timestamp,
};

impl From<AttemptId> for wire::AttemptId {
    fn from(AttemptId { task, attempt }: AttemptId) -> Self {
        wire::AttemptId { job: task.job.0, index: task.index.0, attempt: attempt.0 }
    }
}

impl From<wire::AttemptId> for AttemptId {
    fn from(wire::AttemptId { job, index, attempt }: wire::AttemptId) -> Self {
        JobId(job).task(TaskIndex(index)).attempt(Attempt(attempt))
    }
}

impl From<Held> for wire::Held {
    fn from(Held { id, phase, of, usage }: Held) -> Self {
        let phase = match phase {
            HeldPhase::Queued => Phase::Queued(true),
            HeldPhase::Running { started } => Phase::RunningSinceMs(started.0),
            HeldPhase::Ended(ended) => Phase::Ended(ended.into()),
        };
        let of = of.map(|of| of.to_string()).unwrap_or_default();
        let usage = usage.map(|usage| Box::new((*usage).into()));
        wire::Held { id: Some(id.into()), phase: Some(phase), of, usage }
    }
}

pub(super) fn read_all(held: Vec<wire::Held>) -> Result<Vec<Held>, BadMessage> {
    held.into_iter().map(read).collect()
}

fn read(held: wire::Held) -> Result<Held, BadMessage> {
    let phase = match held.phase.ok_or(BadMessage::Missing("phase"))? {
        Phase::Queued(_) => HeldPhase::Queued,
        Phase::RunningSinceMs(at) => HeldPhase::Running { started: Timestamp(at) },
        Phase::Ended(ended) => HeldPhase::Ended(read_end(ended)?),
    };
    let id = held.id.ok_or(BadMessage::Missing("attempt"))?.into();
    let of = (!held.of.is_empty()).then(|| PilotId::new(&held.of)).transpose()?;
    let usage = held.usage.as_ref().map(|usage| Box::new(read_usage(usage)));
    Ok(Held { id, phase, of, usage })
}

impl From<Ended> for wire::Ended {
    fn from(Ended { outcome, started, ended, ran }: Ended) -> Self {
        let outcome = match outcome {
            Outcome::Exit { code } => Wire::Exit(code),
            Outcome::Signal { signal } => Wire::Signal(signal),
            Outcome::OutOfMemory { limit, used, on_gpu } => {
                let (limit, used) = (limit.map(|limit| limit.0), used.map(|used| used.0));
                Wire::OutOfMemory(wire::OutOfMemory { limit, used, on_gpu })
            }
            Outcome::TimedOut { limit } => Wire::TimedOutMs(limit.0),
            Outcome::NotStarted { message } => Wire::NotStarted(message),
            Outcome::OutputsFailed { message } => Wire::OutputsFailed(message),
            Outcome::Lost { why } => Wire::Lost(match why {
                Lost::PilotDied => wire::Lost::PilotDied.into(),
                Lost::LeaseRanOut => wire::Lost::LeaseRanOut.into(),
                Lost::NoRoom => wire::Lost::NoRoom.into(),
                Lost::SiteTookBack => wire::Lost::SiteTookBack.into(),
                Lost::MadeRoom => wire::Lost::MadeRoom.into(),
                Lost::TimeOver => wire::Lost::TimeOver.into(),
                Lost::Preempted => wire::Lost::Preempted.into(),
                Lost::PilotCancelled => wire::Lost::PilotCancelled.into(),
                Lost::NodeFailed => wire::Lost::NodeFailed.into(),
                Lost::PilotOutOfMemory => wire::Lost::PilotOutOfMemory.into(),
            }),
            Outcome::Cancelled => Wire::Cancelled(true),
        };
        let started_ms = started.map(|started| started.0);
        wire::Ended { outcome: Some(outcome), started_ms, ended_ms: ended.0, ran_ms: ran.0 }
    }
}

fn read_end(ended: wire::Ended) -> Result<Ended, BadMessage> {
    Ok(Ended {
        outcome: read_outcome(ended.outcome.ok_or(BadMessage::Missing("outcome"))?)?,
        started: ended.started_ms.map(Timestamp),
        ended: Timestamp(ended.ended_ms),
        ran: Millis(ended.ran_ms),
    })
}

fn read_outcome(outcome: Wire) -> Result<Outcome, BadMessage> {
    let why = |message: String| {
        let is_short = message.len() <= MAX_WHY_BYTES;
        is_short.then_some(message).ok_or(BadMessage::TooLong("reason"))
    };
    Ok(match outcome {
        Wire::Exit(code) => Outcome::Exit { code },
        Wire::Signal(signal) => Outcome::Signal { signal },
        Wire::OutOfMemory(wire::OutOfMemory { limit, used, on_gpu }) => {
            Outcome::OutOfMemory { limit: limit.map(Bytes), used: used.map(Bytes), on_gpu }
        }
        Wire::TimedOutMs(limit) => Outcome::TimedOut { limit: Millis(limit) },
        Wire::NotStarted(message) => Outcome::NotStarted { message: why(message)? },
        Wire::OutputsFailed(message) => Outcome::OutputsFailed { message: why(message)? },
        Wire::Lost(lost) => Outcome::Lost {
            why: match wire::Lost::try_from(lost) {
                Ok(wire::Lost::PilotDied) => Lost::PilotDied,
                Ok(wire::Lost::LeaseRanOut) => Lost::LeaseRanOut,
                Ok(wire::Lost::NoRoom) => Lost::NoRoom,
                Ok(wire::Lost::SiteTookBack) => Lost::SiteTookBack,
                Ok(wire::Lost::MadeRoom) => Lost::MadeRoom,
                Ok(wire::Lost::TimeOver) => Lost::TimeOver,
                Ok(wire::Lost::Preempted) => Lost::Preempted,
                Ok(wire::Lost::PilotCancelled) => Lost::PilotCancelled,
                Ok(wire::Lost::NodeFailed) => Lost::NodeFailed,
                Ok(wire::Lost::PilotOutOfMemory) => Lost::PilotOutOfMemory,
                Ok(wire::Lost::Unsaid) | Err(_) => {
                    return Err(BadMessage::Unknown("way to be lost"));
                }
            },
        },
        Wire::Cancelled(_) => Outcome::Cancelled,
    })
}
