//! What the end of an attempt means for its task: done, failed, cancelled, or tried again.

use crate::advice::{Case, Offers, advise};
use crate::event::{AttemptEnded, Event, StopReason, Verdict};
use crate::pilot::Active;
use crate::state::State;
use shipway_model::limits::MAX_LOST_ATTEMPTS;
use shipway_model::usage::gpu_time;
use shipway_model::{
    Advice, AttemptId, Ended, Held, HeldPhase, Lost, Millis, Outcome, TaskId, Timestamp, Usage,
};

/// So far apart the clocks of a server and of a batch system may be.
const CLOCKS_DIFFER: Millis = Millis(10_000);

/// The event for an attempt's end, if that attempt is the one that is active. A report of an
/// attempt that is already settled is a repeat and says nothing new.
pub(super) fn ended(state: &State, at: Timestamp, held: &Held) -> Option<Event> {
    let (AttemptId { task, attempt }, ended) = (held.id, held.end()?);
    let active = state.active().get(&task).filter(|active| active.attempt == attempt)?;
    let named = named(state, at, active, &ended.outcome);
    let outcome = named.map_or_else(|| ended.outcome.clone(), |why| Outcome::Lost { why });
    let verdict = verdict(state, at, task, &outcome)?;
    // However it took the order: that it had to go is why it ended.
    let has_made_room = active.stopping == Some(StopReason::Preempted)
        && verdict == Verdict::Retry { at, counted: false };
    let outcome = if has_made_room { Outcome::Lost { why: Lost::MadeRoom } } else { outcome };
    let (usage, advice) = used(state, active, held, &outcome);
    Some(Event::AttemptEnded(Box::new(AttemptEnded {
        task,
        attempt,
        pilot: active.pilot.clone(),
        node: state.pilots().get(&active.pilot)?.name().clone(),
        placed: active.placed,
        outcome,
        started: ended.started,
        ended: ended.ended,
        ran: ended.ran,
        verdict,
        usage,
        advice,
    })))
}

/// What it has used by its pilot's last word, what it was given, and what to say of that. A pilot
/// is not believed in what the server knows itself.
fn used(
    state: &State,
    active: &Active,
    held: &Held,
    outcome: &Outcome,
) -> (Option<Box<Usage>>, Option<Box<Advice>>) {
    let Some(job) = state.job(held.id.task.job) else { return (None, None) };
    let asked = &state.shapes().get(job.shape).resources;
    let said = held.usage.as_deref().or(active.usage.as_deref());
    let mut usage = said.map(Usage::bounded).unwrap_or_default();
    let (gpus, ran) = (active.devices.len() as u64, held.end().map_or(0, |end| end.ran.0));
    let share = asked.gpu.as_ref().map_or(0, |gpu| u64::from(gpu.share.0));
    usage.gpu_given_ms = (gpus > 0 && ran > 0).then(|| gpu_time(gpus, share, ran));
    let case = Case { asked, usage: &usage, outcome };
    let advice = advise(&case, |asked| Offers::of(state, asked)).map(Box::new);
    ((!usage.is_empty()).then(|| Box::new(usage)), advice)
}

/// A better name for a loss than those had who noticed it. The batch system knows why a pilot is
/// gone or had to go, if it has said so. Otherwise, where the pilot's time was over, that is why.
fn named(state: &State, at: Timestamp, active: &Active, outcome: &Outcome) -> Option<Lost> {
    let Outcome::Lost { why } = outcome else { return None };
    let pilot = state.pilots().get(&active.pilot)?;
    let said = state.end_of(&pilot.allocation).map(Lost::by);
    if [Lost::PilotDied, Lost::LeaseRanOut].contains(why) {
        // That the pilot died is the least that can be said.
        return said.filter(|said| *said != Lost::PilotDied);
    }
    let is_over = || pilot.until.is_some_and(|until| until <= at.plus(CLOCKS_DIFFER));
    let time_over = || is_over().then_some(Lost::TimeOver);
    let is_taken = *why == Lost::SiteTookBack;
    is_taken.then(|| said.filter(|said| said.is_of_site()).or_else(time_over)).flatten()
}

/// The event for an attempt that went down with its pilot.
pub(super) fn lost(state: &State, at: Timestamp, task: TaskId, why: Lost) -> Option<Event> {
    let active = state.active().get(&task)?;
    let outcome = Outcome::Lost { why };
    let ran = active.started.map_or(Millis(0), |started| at.since(started));
    let report = Ended { outcome, started: active.started, ended: at, ran };
    ended(state, at, &Held::own(task.attempt(active.attempt), HeldPhase::Ended(report)))
}

const NO_ROOM: Outcome = Outcome::Lost { why: Lost::NoRoom };

/// A node that had no room for one more process will hardly have it at once: the first time it is
/// looked after a second, and then each time twice as long, so that ten tries are minutes.
fn pause(lost: u32) -> Millis {
    const LONGEST: u64 = 60_000;
    Millis(1_000_u64.checked_shl(lost).unwrap_or(LONGEST).min(LONGEST))
}

fn verdict(state: &State, at: Timestamp, task: TaskId, outcome: &Outcome) -> Option<Verdict> {
    let job = state.job(task.job)?;
    let tries = job.tasks.tries(job.indices.ordinal(task.index)?);
    if outcome.is_success() {
        return Some(Verdict::Succeeded);
    }
    let why = state.active().get(&task)?.stopping;
    let is_alone = state.shapes().get(job.shape).gang.is_one();
    if is_alone && why.is_some_and(|why| !why.is_final()) {
        // It had to make room, and did nothing wrong.
        return Some(Verdict::Retry { at, counted: false });
    }
    if why.is_some() || *outcome == Outcome::Cancelled {
        return Some(Verdict::Cancelled);
    }
    if !is_alone {
        // Its others have begun without it, and what they did cannot be undone.
        return Some(Verdict::Failed);
    }
    if let Outcome::Lost { .. } = outcome {
        let again = outcome.had_to_go() || tries.lost + 1 < MAX_LOST_ATTEMPTS;
        let at = if *outcome == NO_ROOM { at.plus(pause(tries.lost)) } else { at };
        return Some(if again { Verdict::Retry { at, counted: false } } else { Verdict::Failed });
    }
    let wait = job.terms.retries.wait_after(tries.failed + 1, outcome);
    Some(wait.map_or(Verdict::Failed, |wait| Verdict::Retry { at: at.plus(wait), counted: true }))
}
