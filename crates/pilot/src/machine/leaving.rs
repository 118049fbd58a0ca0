//! A pilot that is only lent its node: it leaves by itself when it has nothing to do, when the end
//! of its allocation is near, and when the site wants the node back.
//!
//! Leaving is said and finished as for a drain. Which signals mean what is not known here.

use super::held::Phase;
use super::{Machine, Now, Output};
use shipway_model::site::LAST_MINUTE;
use shipway_model::{AttemptId, Millis};

/// How long it waits, when the tasks of a node that is taken back have been killed, for the server
/// to hear of it. What it was not told then, the next pilot of the folder may tell.
pub(super) const LAST_WORDS: Millis = Millis(5_000);

/// For how long a node is lent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lent {
    /// It leaves when it has held nothing for so long.
    pub idle: Option<Millis>,
    /// When its allocation ends, by the steady clock.
    pub ends: Option<Millis>,
}

#[derive(Debug, Default)]
pub(super) struct Leaving {
    lent: Lent,
    /// Nothing has been held since then. It counts only while the server could give something.
    idle_since: Millis,
    /// When whatever lives is killed, once the site wants its node back.
    kill_at: Option<Millis>,
    /// When it ends without having been heard.
    leave_by: Option<Millis>,
}

impl Leaving {
    pub(super) fn of(lent: Lent) -> Self {
        Leaving { lent, ..Leaving::default() }
    }

    /// Something has ended, or the server has just begun to listen.
    pub(super) fn is_idle_from(&mut self, now: Millis) {
        self.idle_since = now;
    }
}

impl Machine {
    /// When it has to be looked at again whether it leaves.
    pub(super) fn next_leaving(&self) -> Option<Millis> {
        let stays = |at: &Millis| !self.draining && at.0 < u64::MAX;
        let own = self.idle_ends().into_iter().chain(self.last_minute()).filter(stays);
        own.chain(self.leaving.leave_by).min()
    }

    fn idle_ends(&self) -> Option<Millis> {
        let span = self.leaving.lent.idle.filter(|_| self.held.is_empty() && self.is_welcome())?;
        Some(Millis(self.leaving.idle_since.0.saturating_add(span.0)))
    }

    fn last_minute(&self) -> Option<Millis> {
        self.leaving.lent.ends.map(|ends| Millis(ends.0.saturating_sub(LAST_MINUTE.0)))
    }

    pub(super) fn check_leaving(&mut self, now: Now, out: &mut Vec<Output>) {
        if self.leaving.leave_by.is_some_and(|by| by <= now.steady) {
            self.leaving.leave_by = None;
            out.push(Output::Finished);
        }
        let is_due = |at: Option<Millis>| at.is_some_and(|at| at <= now.steady);
        if !self.draining && (is_due(self.idle_ends()) || is_due(self.last_minute())) {
            self.drain(out);
        }
    }

    /// Each task that runs is asked to end, and has until the grace is over. One that has ended
    /// and whose files are being taken is left alone until then: it is nearly done.
    pub(super) fn taken_back(&mut self, now: Now, grace: Millis, out: &mut Vec<Output>) {
        if self.leaving.kill_at.is_some() {
            return;
        }
        let kill_at = Millis(now.steady.0.saturating_add(grace.0));
        self.leaving.kill_at = Some(kill_at);
        self.leaving.leave_by = Some(Millis(kill_at.0.saturating_add(LAST_WORDS.0)));
        if !self.draining {
            self.drain(out);
        }
        let running: Vec<AttemptId> = self.held.keys().copied().collect();
        for id in running {
            let Some(held) = self.held.get_mut(&id).filter(|held| held.may_run()) else { continue };
            held.ending.taken_back = Some(kill_at);
            match (&held.phase, &held.collecting) {
                (Phase::Running { .. }, None) => self.ask_to_stop(now, id, grace, out),
                (Phase::Running { .. }, Some(_)) => self.set_timer(id, Some(kill_at)),
                (Phase::Queued | Phase::Starting | Phase::Ended(_), _) => {}
            }
        }
    }
}
