//! The tasks of one job: two bits each, allocated when the first one starts.
//!
//! A task is waiting, active, succeeded, or over without success; which of the last were cancelled
//! is one more bit, allocated with the first cancellation. Everything else known about a task is
//! kept only for those it matters for (tried more than once, in a back-off), as runs of tasks that
//! have it in common.

mod bits;
mod written;

use crate::ordinals::Ordinals;
use crate::runs::Runs;
use bits::Bits;
use serde::{Deserialize, Serialize};
use shipway_model::{Attempt, JobCounts, Ordinal, TaskState, Timestamp};

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
#[serde(from = "written::Written", into = "written::Written")]
pub struct TaskTable {
    len: u32,
    /// `None`: all of them wait and none was ever placed or cancelled.
    touched: Option<Box<Touched>>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Touched {
    /// No task from here on has ever been placed or cancelled.
    fresh: u32,
    states: Vec<u8>,
    cancelled: Vec<u8>,
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

    /// Runs of tasks in a back-off, with its end.
    pub fn backing_off(&self) -> impl Iterator<Item = (u32, u32, Timestamp)> + '_ {
        self.touched.iter().flat_map(|touched| touched.later.iter())
    }
    pub fn back_off_of(&self, task: Ordinal) -> Option<Timestamp> {
        self.touched.as_ref()?.later.get(task.0)
    }

    /// The state as far as this table knows it: active tasks are `Placed` here.
    pub fn state(&self, task: Ordinal) -> TaskState {
        let Some(touched) = &self.touched else { return TaskState::Waiting };
        match bits::state(&touched.states, task.0) {
            Bits::Waiting => TaskState::Waiting,
            Bits::Active => TaskState::Placed,
            Bits::Succeeded => TaskState::Succeeded,
            Bits::Over if bits::flag(&touched.cancelled, task.0) => TaskState::Cancelled,
            Bits::Over => TaskState::Failed,
        }
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
                states: vec![0; (len as usize).div_ceil(4)],
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
            touched.take_fresh(task.0);
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
        touched.later.set(task.0, task.0, at);
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
        for (first, last) in tasks.runs() {
            let mut from = first;
            while from <= last {
                let never = self.was_never_placed(Ordinal(from));
                let same = |at: &u32| self.was_never_placed(Ordinal(*at)) == never;
                let to = (from..=last).take_while(same).last().unwrap_or(from);
                self.requeue_alike(from, to, never);
                from = to + 1;
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

    pub(crate) fn cancel(&mut self, task: Ordinal) {
        self.touch().take_fresh(task.0);
        self.finish(task, TaskState::Cancelled);
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

    fn set(&mut self, task: Ordinal, state: TaskState) {
        let len = self.len;
        let before = self.state(task);
        let touched = self.touch();
        *touched.count_of(before) -= 1;
        *touched.count_of(state) += 1;
        touched.put((task.0, task.0), len, state);
    }

    /// Many at once, from whatever each of them was.
    fn set_range(&mut self, first: u32, last: u32, state: TaskState) {
        let len = self.len;
        for at in first..=last {
            let before = self.state(Ordinal(at));
            *self.touch().count_of(before) -= 1;
        }
        let touched = self.touch();
        *touched.count_of(state) += last - first + 1;
        touched.put((first, last), len, state);
    }
}

impl Touched {
    /// This task is fresh no longer; those before it that were stay placeable.
    fn take_fresh(&mut self, task: u32) {
        if task >= self.fresh {
            if task > self.fresh {
                self.again.set(self.fresh, task - 1, ());
            }
            self.fresh = task + 1;
        }
    }

    fn put(&mut self, (first, last): (u32, u32), len: u32, state: TaskState) {
        let bits = match state {
            TaskState::Waiting => Bits::Waiting,
            TaskState::Placed | TaskState::Running => Bits::Active,
            TaskState::Succeeded => Bits::Succeeded,
            TaskState::Failed | TaskState::Cancelled => Bits::Over,
        };
        bits::set_states(&mut self.states, first, last, bits);
        let cancelled = state == TaskState::Cancelled;
        bits::set_flags(&mut self.cancelled, (first, last), len, cancelled);
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn states(table: &TaskTable) -> String {
        let letter = |state| match state {
            TaskState::Waiting => 'w',
            TaskState::Placed | TaskState::Running => 'a',
            TaskState::Succeeded => 's',
            TaskState::Failed => 'f',
            TaskState::Cancelled => 'c',
        };
        table.states().map(|(_, state)| letter(state)).collect()
    }

    #[test]
    fn a_task_goes_through_its_states() {
        let mut table = TaskTable::new(4);
        for task in 0..3 {
            table.place(Ordinal(task));
        }
        table.finish(Ordinal(0), TaskState::Succeeded);
        table.finish(Ordinal(1), TaskState::Failed);
        table.cancel(Ordinal(3));
        assert_eq!(states(&table), "sfac");
        table.back_off(Ordinal(2), Timestamp(5), true);
        assert!(!table.has_placeable());
        table.ready(Ordinal(2));
        assert_eq!(table.next_attempt(Ordinal(2)), Attempt(2));
        table.requeue(&[Ordinal(3)].into_iter().collect());
        assert_eq!(table.next_attempt(Ordinal(3)), Attempt(1), "it was never placed");
        table.requeue(&[Ordinal(1)].into_iter().collect());
        assert_eq!(table.next_attempt(Ordinal(1)), Attempt(2));
        assert_eq!(states(&table), "swww");
        table.cancel_waiting();
        assert_eq!(states(&table), "sccc");
        assert!(table.counts().is_over());
    }

    #[test]
    fn an_untouched_array_costs_nothing_per_task() {
        let table = TaskTable::new(1_000_000);
        assert_eq!(table.touched, None);
        assert_eq!(table.placeable().next(), Some(Ordinal(0)));
    }

    #[test]
    fn ten_million_are_cancelled_and_queued_again_in_a_few_runs() {
        let len = 10_000_000;
        let mut table = TaskTable::new(len);
        table.place(Ordinal(0));
        table.finish(Ordinal(0), TaskState::Failed);
        table.cancel_waiting();
        assert_eq!(table.counts().cancelled, len - 1);
        table.requeue(&[(0, len - 1)].into_iter().collect());
        assert_eq!(table.counts().waiting, len);
        let touched = table.touched.as_ref().expect("touched");
        assert_eq!(touched.again.iter().collect::<Vec<_>>(), [(0, len - 1, ())]);
        assert_eq!(touched.tries.iter().count(), 1, "only the first was ever placed");
        assert_eq!(table.next_attempt(Ordinal(0)), Attempt(2));
        assert_eq!(table.next_attempt(Ordinal(len - 1)), Attempt(1));
    }

    #[test]
    fn what_earlier_versions_wrote_is_read() {
        let old = r#"{"len":3,"fresh":3,"states":"0e","cancelled":"01","again":[],
            "later":{"2":3000},"tries":{"1":{"placed":3,"failed":2,"lost":0}},
            "counts":{"waiting":1,"active":0,"succeeded":0,"failed":1,"cancelled":1}}"#;
        let table: TaskTable = serde_json::from_str(old).expect("good");
        assert_eq!(table.back_off_of(Ordinal(2)), Some(Timestamp(3_000)));
        assert_eq!(table.tries(Ordinal(1)), Tries { placed: 3, failed: 2, lost: 0 });
    }

    proptest! {
        /// Whatever happens, counts, bits and sets tell the same story, and survive storage.
        #[test]
        fn counts_always_agree_with_the_bits(
            steps in prop::collection::vec((0u32..20, 0u8..6), 0..200),
        ) {
            let mut table = TaskTable::new(20);
            for (at, action) in steps {
                let task = Ordinal(at);
                match (action, table.state(task)) {
                    (0, TaskState::Waiting) if table.may_place(task) => table.place(task),
                    (1, TaskState::Placed) => table.finish(task, TaskState::Succeeded),
                    (2, TaskState::Placed) => table.back_off(task, Timestamp(1), at % 2 == 0),
                    (3, TaskState::Waiting) => table.cancel(task),
                    (4, TaskState::Waiting) => table.ready(task),
                    (5, state) if state.is_over() => {
                        table.requeue(&[task].into_iter().collect());
                    }
                    _ => {}
                }
                let counts = table.counts();
                prop_assert_eq!(counts.total(), 20);
                prop_assert_eq!(counts.waiting as usize, table.waiting().count());
                prop_assert_eq!(counts.waiting as usize,
                    states(&table).chars().filter(|c| *c == 'w').count());
                prop_assert_eq!(counts.cancelled as usize,
                    states(&table).chars().filter(|c| *c == 'c').count());
            }
            let text = serde_json::to_string(&table).expect("json");
            prop_assert_eq!(serde_json::from_str::<TaskTable>(&text).expect("back"), table);
        }
    }
}
