//! The tasks of one job: two bits each, allocated when the first one starts.
//!
//! A task is waiting, active, succeeded, or over without success; which of the last were cancelled
//! is one more bit, allocated with the first cancellation. Everything else known about a task is
//! kept only for those it matters for (tried more than once, in a back-off), as runs of tasks that
//! have it in common.

mod bits;
mod blocks;
mod hex;
mod states;
mod stored;

use crate::ordinals::Ordinals;
use crate::runs::Runs;
use blocks::Wanted;
use serde::{Deserialize, Serialize};
use shipway_model::{Attempt, JobCounts, Ordinal, TaskState, Timestamp};
pub use states::{Piece, TaskStates};

/// What is remembered of a task that was tried more than once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tries {
    /// Attempts that have been placed.
    pub placed: u32,
    /// Failures that used up a retry.
    pub failed: u32,
    /// Attempts lost with their pilots in a row.
    pub lost: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "stored::StoredTable", into = "stored::StoredTable")]
pub struct TaskTable {
    len: u32,
    /// `None`: all of them wait and none was ever placed or cancelled.
    touched: Option<Box<Touched>>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Touched {
    /// No task from here on has ever been placed or cancelled.
    fresh: u32,
    states: TaskStates,
    /// Waiting tasks before `fresh` that may be placed again.
    again: Runs<()>,
    /// Waiting tasks in a back-off, with its end.
    later: Runs<Timestamp>,
    tries: Runs<Tries>,
    counts: JobCounts,
}

impl TaskTable {
    pub fn new(len: u32) -> Self {
        TaskTable { len, touched: None }
    }

    pub fn len(&self) -> u32 {
        self.len
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Whether all of them wait and none was ever placed or cancelled.
    pub fn is_untouched(&self) -> bool {
        self.touched.is_none()
    }
    pub fn counts(&self) -> JobCounts {
        let untouched = JobCounts { waiting: self.len, ..JobCounts::default() };
        self.touched.as_ref().map_or(untouched, |touched| touched.counts)
    }
    pub fn tries(&self, task: Ordinal) -> Tries {
        self.tried(task).unwrap_or_default()
    }
    fn tried(&self, task: Ordinal) -> Option<Tries> {
        self.touched.as_ref()?.tries.get(task.0)
    }
    fn fresh(&self) -> u32 {
        self.touched.as_ref().map_or(0, |touched| touched.fresh)
    }

    /// How many runs of tasks are kept: of those to be placed again, and of those of which more is
    /// known.
    pub(crate) fn kept_runs(&self) -> (usize, usize) {
        let kept = |it: &Touched| (it.again.count(), it.later.count() + it.tries.count());
        self.touched.as_deref().map(kept).unwrap_or_default()
    }

    /// How many more runs there are at most when these tasks, which wait, are cancelled; one for
    /// the whole table aside. Less than none: it joins more than it parts.
    pub(crate) fn runs_by_cancelling(&self, tasks: &Ordinals) -> i64 {
        let waits = |at: u32| self.state(Ordinal(at)) == TaskState::Waiting;
        tasks.runs().map(|run| self.neighbours(run, waits) - 1).sum()
    }

    /// The same when these, which are over, are to run again. What is then remembered of their
    /// tries is left out: they ran for it.
    pub(crate) fn runs_by_requeueing(&self, tasks: &Ordinals) -> i64 {
        tasks.runs().map(|run| 1 - self.neighbours(run, |at| self.may_place(Ordinal(at)))).sum()
    }

    /// How many of the two tasks beside a run are so.
    fn neighbours(&self, (first, last): (u32, u32), is_so: impl Fn(u32) -> bool) -> i64 {
        let after = last.checked_add(1).filter(|at| *at < self.len);
        let beside = first.checked_sub(1).into_iter().chain(after);
        beside.map(|at| i64::from(is_so(at))).sum()
    }

    /// Runs of tasks in a back-off, with its end.
    pub fn backing_off(&self) -> impl Iterator<Item = (u32, u32, Timestamp)> + '_ {
        self.touched.iter().flat_map(|touched| touched.later.iter())
    }
    /// The same from one position to another.
    pub fn backing_off_within(
        &self,
        first: u32,
        last: u32,
    ) -> impl Iterator<Item = (u32, u32, Timestamp)> + '_ {
        self.touched.iter().flat_map(move |touched| touched.later.within(first, last))
    }
    pub fn back_off_of(&self, task: Ordinal) -> Option<Timestamp> {
        self.touched.as_ref()?.later.get(task.0)
    }

    /// The state as far as this table knows it: active tasks are `Placed` here.
    pub fn state(&self, task: Ordinal) -> TaskState {
        self.bits().state(task)
    }

    /// The states alone.
    pub fn bits(&self) -> &TaskStates {
        static UNTOUCHED: TaskStates = TaskStates::new();
        self.touched.as_ref().map_or(&UNTOUCHED, |touched| &touched.states)
    }

    /// Tasks that may be placed now, those tried before first.
    pub fn placeable(&self) -> impl Iterator<Item = Ordinal> + '_ {
        let again = self.touched.iter().flat_map(|touched| touched.again.positions());
        again.chain(self.fresh()..self.len).map(Ordinal)
    }

    pub fn has_placeable(&self) -> bool {
        self.fresh() < self.len || self.touched.as_ref().is_some_and(|it| !it.again.is_empty())
    }

    pub fn may_place(&self, task: Ordinal) -> bool {
        let fresh = (self.fresh()..self.len).contains(&task.0);
        fresh || self.touched.as_ref().is_some_and(|touched| touched.again.contains(task.0))
    }

    /// The attempt that the next placement of this task is.
    pub fn next_attempt(&self, task: Ordinal) -> Attempt {
        match self.tried(task) {
            Some(tries) => Attempt(tries.placed + 1),
            None if self.state(task) == TaskState::Waiting => Attempt::FIRST,
            None => Attempt(2),
        }
    }

    fn touch(&mut self) -> &mut Touched {
        let len = self.len;
        self.touched.get_or_insert_with(|| {
            Box::new(Touched {
                states: TaskStates::waiting(len),
                counts: JobCounts { waiting: len, ..JobCounts::default() },
                ..Touched::default()
            })
        })
    }

    pub(crate) fn place(&mut self, task: Ordinal) {
        let touched = self.touch();
        if touched.again.contains(task.0) {
            touched.again.remove(task.0, task.0);
            touched.tries.update(task.0, task.0, |tries| {
                let tries = tries.unwrap_or_default();
                Some(Tries { placed: tries.placed + 1, ..tries })
            });
        } else {
            // Fresh tasks are placed in order nearly always; one taken from further on leaves
            // the ones before it waiting in `again`.
            touched.take_fresh(task.0, task.0);
        }
        self.set(task, TaskState::Placed);
    }

    pub(crate) fn finish(&mut self, task: Ordinal, state: TaskState) {
        if state == TaskState::Cancelled && self.state(task) == TaskState::Placed {
            // Cancelled after it was placed: the next attempt must have another number.
            self.remember(task);
        }
        let touched = self.touch();
        touched.later.remove(task.0, task.0);
        touched.again.remove(task.0, task.0);
        // A task that took one try leaves nothing behind but its bits.
        let once = touched.tries.get(task.0).is_some_and(|tries| tries.placed <= 1);
        if once && state != TaskState::Cancelled {
            touched.tries.remove(task.0, task.0);
        }
        self.set(task, state);
    }

    /// An attempt ended and another will follow, not before `at`.
    pub(crate) fn back_off(&mut self, task: Ordinal, at: Timestamp, counted: bool) {
        self.remember(task);
        let touched = self.touch();
        touched.tries.update(task.0, task.0, |tries| {
            let tries = tries.unwrap_or_default();
            Some(if counted {
                Tries { failed: tries.failed + 1, lost: 0, ..tries }
            } else {
                Tries { lost: tries.lost + 1, ..tries }
            })
        });
        self.put_back(task, at);
    }

    /// The same where nothing is to be learnt from that attempt.
    pub(crate) fn put_back(&mut self, task: Ordinal, at: Timestamp) {
        self.remember(task);
        self.touch().later.set(task.0, task.0, at);
        self.set(task, TaskState::Waiting);
    }

    pub(crate) fn ready(&mut self, task: Ordinal) {
        let Some(touched) = &mut self.touched else { return };
        if touched.later.contains(task.0) {
            touched.later.remove(task.0, task.0);
            touched.again.set(task.0, task.0, ());
        }
    }

    /// Tasks that are over are to run again; their counts of failures start anew.
    pub(crate) fn requeue(&mut self, tasks: &Ordinals) {
        let is_cancelled = Wanted::of(|state| state == TaskState::Cancelled);
        for (first, last) in tasks.runs() {
            // What was never placed is cancelled, or fresh.
            let placed_before = self.fresh().min(last.saturating_add(1));
            let never: Vec<(u32, u32)> = match placed_before.checked_sub(1) {
                Some(to) if first <= to => self.bits().within(first, to, is_cancelled).collect(),
                _ => Vec::new(),
            };
            let mut from = first;
            for (start, end) in never.into_iter().chain([(placed_before.max(first), last)]) {
                if from < start {
                    self.requeue_alike(from, start - 1, false);
                }
                if start <= end {
                    self.requeue_alike(start, end, true);
                }
                from = end.saturating_add(1);
            }
        }
    }

    fn requeue_alike(&mut self, first: u32, last: u32, never: bool) {
        let touched = self.touch();
        touched.tries.update(first, last, |tries| {
            let placed = tries.map(|tries| tries.placed).or((!never).then_some(1))?;
            Some(Tries { placed, failed: 0, lost: 0 })
        });
        touched.again.set(first, last, ());
        self.set_range(first, last, TaskState::Waiting);
    }

    /// A task without an entry was placed once if it is not waiting, and never otherwise.
    fn remember(&mut self, task: Ordinal) {
        let placed = u32::from(!self.was_never_placed(task));
        self.touch().tries.update(task.0, task.0, |tries| {
            Some(tries.unwrap_or(Tries { placed, failed: 0, lost: 0 }))
        });
    }

    fn was_never_placed(&self, task: Ordinal) -> bool {
        task.0 >= self.fresh() || self.state(task) == TaskState::Cancelled
    }

    pub(crate) fn cancel_waiting(&mut self) {
        let len = self.len;
        let touched = self.touch();
        let mut waiting: Vec<(u32, u32)> =
            touched.again.iter().map(|(first, last, ())| (first, last)).collect();
        waiting.extend(touched.later.iter().map(|(first, last, _)| (first, last)));
        if touched.fresh < len {
            waiting.push((touched.fresh, len - 1));
        }
        touched.fresh = len;
        touched.again = Runs::default();
        touched.later = Runs::default();
        for (first, last) in waiting {
            self.set_range(first, last, TaskState::Cancelled);
        }
    }

    /// Tasks that wait will not run.
    pub(crate) fn cancel(&mut self, first: u32, last: u32) {
        let touched = self.touch();
        // Only what is not fresh is in a back-off, or to be placed again.
        let was_fresh = first >= touched.fresh;
        touched.take_fresh(first, last);
        if !was_fresh {
            touched.later.remove(first, last);
            touched.again.remove(first, last);
        }
        self.set_range(first, last, TaskState::Cancelled);
    }

    pub fn waiting(&self) -> impl Iterator<Item = Ordinal> + '_ {
        let known = self
            .touched
            .iter()
            .flat_map(|touched| touched.again.positions().chain(touched.later.positions()));
        known.chain(self.fresh()..self.len).map(Ordinal)
    }

    /// Every task with its state, in order.
    pub fn states(&self) -> impl Iterator<Item = (Ordinal, TaskState)> + '_ {
        (0..self.len).map(|at| (Ordinal(at), self.state(Ordinal(at))))
    }

    /// First and last of each run of tasks in such a state, from a position on and in order. All
    /// active ones are `Placed` here. Found as they are asked for, thirty-two at a time.
    pub fn runs(
        &self,
        from: u32,
        is_wanted: impl Fn(TaskState) -> bool,
    ) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.bits().runs(from, self.len, is_wanted)
    }

    fn set(&mut self, task: Ordinal, state: TaskState) {
        let len = self.len;
        let before = self.state(task);
        let touched = self.touch();
        *touched.count_of(before) -= 1;
        *touched.count_of(state) += 1;
        touched.states.set((task.0, task.0), len, state);
    }

    /// Many at once, from whatever each of them was.
    fn set_range(&mut self, first: u32, last: u32, state: TaskState) {
        let len = self.len;
        let before = self.bits().counts(first, last);
        let touched = self.touch();
        let counts = &mut touched.counts;
        counts.waiting -= before.waiting;
        counts.active -= before.active;
        counts.succeeded -= before.succeeded;
        counts.failed -= before.failed;
        counts.cancelled -= before.cancelled;
        *touched.count_of(state) += last - first + 1;
        touched.states.set((first, last), len, state);
    }
}

impl Touched {
    /// These tasks are fresh no longer; those before them that were stay placeable.
    fn take_fresh(&mut self, first: u32, last: u32) {
        if last >= self.fresh {
            if first > self.fresh {
                self.again.set(self.fresh, first - 1, ());
            }
            self.fresh = last + 1;
        }
    }

    fn count_of(&mut self, state: TaskState) -> &mut u32 {
        match state {
            TaskState::Waiting => &mut self.counts.waiting,
            TaskState::Placed | TaskState::Running => &mut self.counts.active,
            TaskState::Succeeded => &mut self.counts.succeeded,
            TaskState::Failed => &mut self.counts.failed,
            TaskState::Cancelled => &mut self.counts.cancelled,
        }
    }
}

#[cfg(test)]
mod tests;
