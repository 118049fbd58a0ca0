//! The ways to an end: by itself, on request, at the time limit, with the lease.

use super::held::{Collecting, Phase};
use super::{HowEnded, Machine, Now, OutOfMemory, Output, SIGKILL, SIGTERM};
use shipway_model::{AttemptId, Lost, Millis, Outcome};

impl Machine {
    pub(super) fn process_started(&mut self, now: Now, id: AttemptId, out: &mut Vec<Output>) {
        let Some(held) = self.held.get_mut(&id) else { return };
        if !matches!(held.phase, Phase::Starting) {
            return;
        }
        held.phase = Phase::Running { since: now.steady, started: now.wall };
        let one_more = self.begun.remove(&held.need.user);
        self.new_starts.push(id);
        // What was asked while it was starting could not reach it; it does now.
        let limit = held.need.limit();
        if held.ending.lease_ran_out {
            self.kill(id, out);
        } else if let Some(grace) = held.ending.grace_from(now.steady) {
            self.ask_to_stop(now, id, grace, out);
        } else if let Some(limit) = limit {
            self.set_timer(id, Some(Millis(now.steady.0.saturating_add(limit.0))));
        }
        self.something_happened(now);
        if one_more {
            self.start_what_fits(out);
        }
    }

    pub(super) fn process_not_started(
        &mut self,
        now: Now,
        id: AttemptId,
        outcome: Outcome,
        out: &mut Vec<Output>,
    ) {
        let Some(held) = self.held.get(&id) else { return };
        // A container may have been started around it before that was known.
        if !matches!(held.phase, Phase::Starting | Phase::Running { .. }) {
            return;
        }
        let outcome = held.ending.of_our_doing().unwrap_or(outcome);
        self.release(now, id, &outcome, out);
    }

    pub(super) fn process_ended(
        &mut self,
        now: Now,
        id: AttemptId,
        how: HowEnded,
        memory: Option<OutOfMemory>,
        out: &mut Vec<Output>,
    ) {
        let Some(held) = self.held.get(&id) else { return };
        if held.started().is_none() || held.collecting.is_some() {
            return;
        }
        let outcome = held.outcome(how, memory);
        let wanted = !matches!(outcome, Outcome::Cancelled | Outcome::Lost { .. });
        if held.need.has_files && wanted {
            return self.collect(now, id, outcome, out);
        }
        self.release(now, id, &outcome, out);
    }

    /// Its time is over, so no timer runs any more; but it can still be stopped.
    fn collect(&mut self, now: Now, id: AttemptId, outcome: Outcome, out: &mut Vec<Output>) {
        self.set_timer(id, None);
        if let Some(held) = self.held.get_mut(&id) {
            held.collecting = Some(Collecting { at: now, outcome: outcome.clone() });
            out.push(Output::Collect { id, outcome });
        }
    }

    /// A task that failed by itself says more by that than by what it did not write.
    pub(super) fn collected(
        &mut self,
        now: Now,
        id: AttemptId,
        problem: Option<String>,
        out: &mut Vec<Output>,
    ) {
        let Some(held) = self.held.get(&id).filter(|held| held.may_run()) else { return };
        let Some(collecting) = &held.collecting else { return };
        let outcome = match (problem, &collecting.outcome) {
            (None, outcome) => outcome.clone(),
            (Some(message), outcome) => match held.ending.of_our_doing() {
                Some(ours) => ours,
                None if outcome.is_success() => Outcome::OutputsFailed { message },
                None => outcome.clone(),
            },
        };
        self.release(now, id, &outcome, out);
    }

    /// The end of one that had been started: its room is free for the next.
    fn release(&mut self, now: Now, id: AttemptId, outcome: &Outcome, out: &mut Vec<Output>) {
        if let Some(held) = self.held.get(&id) {
            self.room.give_back(&held.need);
        }
        self.end(now, id, outcome);
        self.start_what_fits(out);
    }

    pub(super) fn end(&mut self, now: Now, id: AttemptId, outcome: &Outcome) {
        self.set_timer(id, None);
        if let Some(held) = self.held.get_mut(&id) {
            if matches!(held.phase, Phase::Starting) {
                self.begun.remove(&held.need.user);
            }
            held.phase = Phase::Ended(Box::new(held.end(now, outcome)));
            held.start = None;
            self.leaving.is_idle_from(now.steady);
            self.new_ends.push(id);
            self.unkept.push(id);
            self.something_happened(now);
        }
    }

    /// Unknown attempts are none of our business any more. Ended ones stay until the server has
    /// their end on disk: it may have asked before it heard.
    pub(super) fn stop(
        &mut self,
        now: Now,
        ids: Vec<AttemptId>,
        grace: Millis,
        out: &mut Vec<Output>,
    ) {
        for id in ids {
            let Some(held) = self.held.get_mut(&id) else { continue };
            if held.ending.stopped.is_some() {
                continue;
            }
            match held.phase {
                Phase::Queued => {
                    self.queue.forget(id);
                    self.end(now, id, &Outcome::Cancelled);
                }
                Phase::Starting => held.ending.stopped = Some(grace),
                Phase::Running { .. } => {
                    held.ending.stopped = Some(grace);
                    self.ask_to_stop(now, id, grace, out);
                }
                Phase::Ended(_) => {}
            }
        }
        self.start_what_fits(out);
    }

    /// Now the request, after the grace the kill. A kill that is already due earlier stays.
    pub(super) fn ask_to_stop(
        &mut self,
        now: Now,
        id: AttemptId,
        grace: Millis,
        out: &mut Vec<Output>,
    ) {
        let Some(held) = self.held.get_mut(&id).filter(|held| !held.ending.killed) else { return };
        out.push(Output::Signal { id, signal: SIGTERM });
        let kill_at = Millis(now.steady.0.saturating_add(grace.0));
        let was_asked = std::mem::replace(&mut held.ending.asked, true);
        let earlier = held.timer.filter(|_| held.ending.timed_out || was_asked);
        self.set_timer(id, Some(earlier.map_or(kill_at, |at| at.min(kill_at))));
    }

    pub(super) fn check_timers(&mut self, now: Now, out: &mut Vec<Output>) {
        while let Some((at, id)) = self.timers.first().copied() {
            if at > now.steady {
                return;
            }
            let Some(held) = self.held.get_mut(&id) else {
                self.timers.pop_first();
                continue;
            };
            if held.ending.is_asked_to_stop() || held.ending.timed_out {
                self.kill(id, out);
                continue;
            }
            held.ending.timed_out = true;
            let limit = held.need.time_limit.as_ref();
            let signal = limit.map_or(SIGTERM, |limit| limit.warn.number());
            let grace = limit.map_or(Millis(0), |limit| limit.grace);
            let kill_at = Millis(now.steady.0.saturating_add(grace.0));
            out.push(Output::Signal { id, signal });
            self.set_timer(id, Some(kill_at));
        }
    }

    fn kill(&mut self, id: AttemptId, out: &mut Vec<Output>) {
        self.set_timer(id, None);
        if let Some(held) = self.held.get_mut(&id) {
            held.ending.killed = true;
            out.push(Output::Signal { id, signal: SIGKILL });
        }
    }

    pub(super) fn set_timer(&mut self, id: AttemptId, at: Option<Millis>) {
        let Some(held) = self.held.get_mut(&id) else { return };
        if let Some(old) = std::mem::replace(&mut held.timer, at) {
            self.timers.remove(&(old, id));
        }
        self.timers.extend(at.map(|at| (at, id)));
    }

    /// Out of touch for too long: the server is about to give our tasks to somebody else, so none
    /// of them may live.
    pub(super) fn check_lease(&mut self, now: Now, out: &mut Vec<Output>) {
        if self.contact.lease_ends().is_none_or(|end| now.steady < end) {
            return;
        }
        drop(self.queue.take_all());
        let ids = self.held.iter().filter(|(_, held)| held.is_under_lease()).map(|(id, _)| *id);
        for id in ids.collect::<Vec<_>>() {
            let Some(held) = self.held.get_mut(&id) else { continue };
            held.ending.lease_ran_out = true;
            match held.phase {
                Phase::Queued => self.end(now, id, &Outcome::Lost { why: Lost::LeaseRanOut }),
                Phase::Running { .. } => self.kill(id, out),
                Phase::Starting | Phase::Ended(_) => {}
            }
        }
    }
}
