//! One attempt that the pilot holds, from its assignment until the server has its end on disk.

use super::need::Need;
use super::{HowEnded, Now, OutOfMemory, Start};
use shipway_model::{
    AttemptId, Ended, HeldPhase, Lost, Millis, Outcome, Timestamp, Usage, attempt,
};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct HeldAttempt {
    pub(super) need: Arc<Need>,
    /// What it is started from, until it is.
    pub(super) start: Option<Start>,
    pub(super) phase: Phase,
    pub(super) ending: Ending,
    /// It has ended, and its files are being taken.
    pub(super) collecting: Option<Collecting>,
    /// The timer that is set for it.
    pub(super) timer: Option<Millis>,
    /// What it has used, as far as is known.
    pub(super) usage: Option<Box<Usage>>,
}

#[derive(Debug)]
pub(super) enum Phase {
    Queued,
    /// Asked for, not yet confirmed.
    Starting,
    Running {
        since: Millis,
        started: Timestamp,
    },
    Ended(Box<Ended>),
}

/// When its process ended, and how.
#[derive(Debug)]
pub(super) struct Collecting {
    pub(super) at: Now,
    pub(super) outcome: Outcome,
}

/// What was done to it, which decides how its end is read.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "five independent facts, not a state")]
pub(super) struct Ending {
    /// The server asked for a stop, with this grace.
    pub(super) stopped: Option<Millis>,
    /// The site wants its node back, and kills what lives at this time.
    pub(super) taken_back: Option<Millis>,
    /// It was told of either, and its timer is that of the kill.
    pub(super) asked: bool,
    /// It was warned at its time limit.
    pub(super) timed_out: bool,
    pub(super) lease_ran_out: bool,
    pub(super) killed: bool,
}

impl Ending {
    pub(super) fn is_asked_to_stop(&self) -> bool {
        self.stopped.is_some() || self.taken_back.is_some()
    }

    /// What is left of the shorter grace of those who asked.
    pub(super) fn grace_from(&self, now: Millis) -> Option<Millis> {
        let left = self.taken_back.map(|kill_at| Millis(kill_at.0.saturating_sub(now.0)));
        self.stopped.into_iter().chain(left).min()
    }

    /// How an end is read that came after we had interfered; `None`: we have not.
    pub(super) fn of_our_doing(&self) -> Option<Outcome> {
        let lost = |why| Some(Outcome::Lost { why });
        match self {
            Ending { lease_ran_out: true, .. } => lost(Lost::LeaseRanOut),
            // Whoever cancelled it wants it no more, and need not hear of the site.
            Ending { stopped: Some(_), .. } => Some(Outcome::Cancelled),
            Ending { taken_back: Some(_), .. } => lost(Lost::SiteTookBack),
            _ => None,
        }
    }
}

impl HeldAttempt {
    pub(super) fn new(need: Arc<Need>, start: Option<Start>) -> HeldAttempt {
        HeldAttempt {
            need,
            start,
            phase: Phase::Queued,
            ending: Ending::default(),
            collecting: None,
            timer: None,
            usage: None,
        }
    }

    /// Whether it runs or may still run.
    pub(super) fn may_run(&self) -> bool {
        !matches!(self.phase, Phase::Ended(_))
    }

    /// Whether the end of the lease would still change anything for it.
    pub(super) fn is_under_lease(&self) -> bool {
        self.may_run() && !self.ending.lease_ran_out
    }

    pub(super) fn has_ended(&self) -> bool {
        !self.may_run()
    }

    pub(super) fn started(&self) -> Option<(Millis, Timestamp)> {
        match self.phase {
            Phase::Running { since, started } => Some((since, started)),
            Phase::Queued | Phase::Starting | Phase::Ended(_) => None,
        }
    }

    /// What an exit means. A task that exits with 0 has done its work, whatever was asked of it
    /// meanwhile; any other end after we interfered is our doing.
    pub(super) fn outcome(&self, how: HowEnded, memory: Option<OutOfMemory>) -> Outcome {
        let ending = &self.ending;
        if how == HowEnded::Exit(0) {
            return Outcome::Exit { code: 0 };
        }
        if let Some(outcome) = ending.of_our_doing() {
            return outcome;
        }
        match (memory, how) {
            (Some(OutOfMemory::OverLimit { limit, used }), _) => {
                Outcome::OutOfMemory { limit: Some(limit), used: Some(used), on_gpu: false }
            }
            (Some(OutOfMemory::OverShare { limit, used }), _) => {
                Outcome::OutOfMemory { limit: Some(limit), used: Some(used), on_gpu: true }
            }
            (Some(OutOfMemory::Kernel), _) => {
                Outcome::OutOfMemory { limit: None, used: None, on_gpu: false }
            }
            (Some(OutOfMemory::Held { limit }), _) => {
                Outcome::OutOfMemory { limit: Some(limit), used: None, on_gpu: false }
            }
            _ if ending.timed_out => {
                Outcome::TimedOut { limit: self.need.limit().unwrap_or_default() }
            }
            (None, HowEnded::Exit(code)) => Outcome::Exit { code },
            (None, HowEnded::Signal(signal)) => Outcome::Signal { signal },
        }
    }

    pub(super) fn end(&self, now: Now, outcome: &Outcome) -> Ended {
        let started = self.started();
        let now = self.collecting.as_ref().map_or(now, |collecting| collecting.at);
        let ran = started.map_or(0, |(since, _)| now.steady.0.saturating_sub(since.0));
        Ended {
            outcome: outcome.clone().brief(),
            started: started.map(|(_, wall)| wall),
            ended: now.wall,
            ran: Millis(ran),
        }
    }

    /// What the server is told of it.
    pub(super) fn word(&self, id: AttemptId) -> attempt::Held {
        let phase = match &self.phase {
            // Not confirmed yet: as far as anybody knows it waits.
            Phase::Queued | Phase::Starting => HeldPhase::Queued,
            Phase::Running { started, .. } => HeldPhase::Running { started: *started },
            Phase::Ended(ended) => HeldPhase::Ended((**ended).clone()),
        };
        attempt::Held { usage: self.usage.clone(), ..attempt::Held::own(id, phase) }
    }
}
