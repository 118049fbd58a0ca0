//! The tasks of one job: two bits each, allocated when the first one starts.
//!
//! A task is waiting, active, succeeded, or over without success; which of the last were cancelled
//! is one more bit, allocated with the first cancellation. Everything else known about a task is
//! kept only for the few it matters for: those tried more than once, and those in a back-off.

use serde::{Deserialize, Serialize};
use shipway_model::{Attempt, JobCounts, Ordinal, TaskState, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bits {
    Waiting = 0,
    Active = 1,
    Succeeded = 2,
    Over = 3,
}

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
pub struct TaskTable {
    len: u32,
    /// No task from here on has ever been placed or cancelled.
    fresh: u32,
    #[serde(with = "hex")]
    states: Vec<u8>,
    #[serde(with = "hex")]
    cancelled: Vec<u8>,
    /// Waiting tasks before `fresh` that may be placed again.
    again: BTreeSet<u32>,
    /// Waiting tasks in a back-off, with its end.
    #[serde(deserialize_with = "by_number::deserialize")]
    later: BTreeMap<u32, Timestamp>,
    #[serde(deserialize_with = "by_number::deserialize")]
    tries: BTreeMap<u32, Tries>,
    counts: JobCounts,
}

impl TaskTable {
    pub fn new(len: u32) -> Self {
        TaskTable {
            len,
            fresh: 0,
            states: Vec::new(),
            cancelled: Vec::new(),
            again: BTreeSet::new(),
            later: BTreeMap::new(),
            tries: BTreeMap::new(),
            counts: JobCounts { waiting: len, ..JobCounts::default() },
        }
    }

    pub fn len(&self) -> u32 {
        self.len
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    pub fn counts(&self) -> JobCounts {
        self.counts
    }
    pub fn tries(&self, task: Ordinal) -> Tries {
        self.tries.get(&task.0).copied().unwrap_or_default()
    }
    pub fn backing_off(&self) -> &BTreeMap<u32, Timestamp> {
        &self.later
    }

    /// The state as far as this table knows it: active tasks are `Placed` here.
    pub fn state(&self, task: Ordinal) -> TaskState {
        match self.bits(task) {
            Bits::Waiting => TaskState::Waiting,
            Bits::Active => TaskState::Placed,
            Bits::Succeeded => TaskState::Succeeded,
            Bits::Over if bit(&self.cancelled, task) => TaskState::Cancelled,
            Bits::Over => TaskState::Failed,
        }
    }

    /// Tasks that may be placed now, those tried before first.
    pub fn placeable(&self) -> impl Iterator<Item = Ordinal> + '_ {
        let again = self.again.iter().copied();
        again.chain(self.fresh..self.len).map(Ordinal)
    }

    pub fn has_placeable(&self) -> bool {
        self.fresh < self.len || !self.again.is_empty()
    }

    pub fn may_place(&self, task: Ordinal) -> bool {
        (self.fresh..self.len).contains(&task.0) || self.again.contains(&task.0)
    }

    /// The attempt that the next placement of this task is.
    pub fn next_attempt(&self, task: Ordinal) -> Attempt {
        match self.tries.get(&task.0) {
            Some(tries) => Attempt(tries.placed + 1),
            None if self.bits(task) == Bits::Waiting => Attempt::FIRST,
            None => Attempt(2),
        }
    }

    pub(crate) fn place(&mut self, task: Ordinal) {
        if self.again.remove(&task.0) {
            self.tries.entry(task.0).or_default().placed += 1;
        } else {
            // Fresh tasks are placed in order nearly always; one taken from further on leaves
            // the ones before it waiting in `again`.
            self.again.extend(self.fresh..task.0);
            self.fresh = self.fresh.max(task.0 + 1);
        }
        self.set(task, Bits::Active);
    }

    pub(crate) fn finish(&mut self, task: Ordinal, state: TaskState) {
        self.later.remove(&task.0);
        self.again.remove(&task.0);
        let bits = if state == TaskState::Succeeded { Bits::Succeeded } else { Bits::Over };
        if state == TaskState::Cancelled && self.bits(task) == Bits::Active {
            // Cancelled after it was placed: the next attempt must have another number.
            self.remember(task);
        }
        set_bit(&mut self.cancelled, task, self.len, state == TaskState::Cancelled);
        self.set(task, bits);
        // A task that took one try leaves nothing behind but its bits.
        let once = self.tries.get(&task.0).is_some_and(|tries| tries.placed <= 1);
        if once && state != TaskState::Cancelled {
            self.tries.remove(&task.0);
        }
    }

    /// An attempt ended and another will follow, not before `at`.
    pub(crate) fn back_off(&mut self, task: Ordinal, at: Timestamp, counted: bool) {
        self.remember(task);
        let tries = self.tries.entry(task.0).or_default();
        if counted {
            tries.failed += 1;
            tries.lost = 0;
        } else {
            tries.lost += 1;
        }
        self.set(task, Bits::Waiting);
        self.later.insert(task.0, at);
    }

    pub(crate) fn ready(&mut self, task: Ordinal) {
        if self.later.remove(&task.0).is_some() {
            self.again.insert(task.0);
        }
    }

    /// A task that is over is to run again; its count of failures starts anew.
    pub(crate) fn requeue(&mut self, task: Ordinal) {
        self.remember(task);
        let tries = self.tries.entry(task.0).or_default();
        (tries.failed, tries.lost) = (0, 0);
        self.set(task, Bits::Waiting);
        set_bit(&mut self.cancelled, task, self.len, false);
        self.again.insert(task.0);
    }

    /// A task without an entry was placed once if it is not waiting, and never otherwise.
    fn remember(&mut self, task: Ordinal) {
        let never =
            task.0 >= self.fresh || self.bits(task) == Bits::Over && bit(&self.cancelled, task);
        self.tries.entry(task.0).or_insert(Tries { placed: u32::from(!never), failed: 0, lost: 0 });
    }

    pub(crate) fn cancel_waiting(&mut self) {
        let waiting: Vec<Ordinal> = self.waiting().collect();
        self.fresh = self.len;
        for task in waiting {
            self.finish(task, TaskState::Cancelled);
        }
    }

    pub(crate) fn cancel(&mut self, task: Ordinal) {
        if task.0 >= self.fresh {
            self.again.extend(self.fresh..task.0);
            self.fresh = task.0 + 1;
        }
        self.finish(task, TaskState::Cancelled);
    }

    pub fn waiting(&self) -> impl Iterator<Item = Ordinal> + '_ {
        let known = self.again.iter().chain(self.later.keys()).copied();
        known.chain(self.fresh..self.len).map(Ordinal)
    }

    /// Every task with its state, in order.
    pub fn states(&self) -> impl Iterator<Item = (Ordinal, TaskState)> + '_ {
        (0..self.len).map(|at| (Ordinal(at), self.state(Ordinal(at))))
    }

    fn bits(&self, task: Ordinal) -> Bits {
        let byte = self.states.get(task.at() / 4).copied().unwrap_or(0);
        match byte >> (task.at() % 4 * 2) & 3 {
            0 => Bits::Waiting,
            1 => Bits::Active,
            2 => Bits::Succeeded,
            _ => Bits::Over,
        }
    }

    fn set(&mut self, task: Ordinal, bits: Bits) {
        *self.count_of(task) -= 1;
        if self.states.is_empty() {
            self.states = vec![0; (self.len as usize).div_ceil(4)];
        }
        let (byte, shift) = (task.at() / 4, task.at() % 4 * 2);
        self.states[byte] = self.states[byte] & !(3 << shift) | (bits as u8) << shift;
        *self.count_of(task) += 1;
    }

    /// The counter that this task stands in. The bit that tells cancelled from failed is therefore
    /// set before the state and cleared after it.
    fn count_of(&mut self, task: Ordinal) -> &mut u32 {
        match self.state(task) {
            TaskState::Waiting => &mut self.counts.waiting,
            TaskState::Placed | TaskState::Running => &mut self.counts.active,
            TaskState::Succeeded => &mut self.counts.succeeded,
            TaskState::Failed => &mut self.counts.failed,
            TaskState::Cancelled => &mut self.counts.cancelled,
        }
    }
}

fn bit(bits: &[u8], task: Ordinal) -> bool {
    bits.get(task.at() / 8).is_some_and(|byte| byte >> (task.at() % 8) & 1 == 1)
}

fn set_bit(bits: &mut Vec<u8>, task: Ordinal, len: u32, value: bool) {
    if bits.is_empty() {
        if !value {
            return;
        }
        *bits = vec![0; (len as usize).div_ceil(8)];
    }
    let mask = 1 << (task.at() % 8);
    let byte = &mut bits[task.at() / 8];
    *byte = if value { *byte | mask } else { *byte & !mask };
}

/// A map by number. Inside an event the keys of JSON are handed over as texts and nothing else, so
/// they are read as texts here.
mod by_number {
    use serde::{Deserialize, Deserializer, de::Error};
    use std::collections::BTreeMap;

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<u32, T>, D::Error> {
        let read = BTreeMap::<String, T>::deserialize(from)?.into_iter();
        read.map(|(key, value)| Ok((key.parse().map_err(D::Error::custom)?, value))).collect()
    }
}

/// Bytes as hexadecimal text: four times smaller than a JSON list of numbers.
mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[allow(clippy::ptr_arg, reason = "the signature serde asks for")]
    pub(super) fn serialize<S: Serializer>(bytes: &Vec<u8>, to: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let pair = |byte: &u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        let text: String = bytes.iter().flat_map(pair).map(char::from).collect();
        to.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        if !text.is_ascii() || text.len() % 2 != 0 {
            return Err(D::Error::custom("bytes are not written in pairs of hexadecimal digits"));
        }
        let pairs = (0..text.len()).step_by(2);
        pairs
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).map_err(D::Error::custom))
            .collect()
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
        table.requeue(Ordinal(3));
        assert_eq!(table.next_attempt(Ordinal(3)), Attempt(1), "it was never placed");
        table.requeue(Ordinal(1));
        assert_eq!(table.next_attempt(Ordinal(1)), Attempt(2));
        assert_eq!(states(&table), "swww");
        table.cancel_waiting();
        assert_eq!(states(&table), "sccc");
        assert!(table.counts().is_over());
    }

    #[test]
    fn an_untouched_array_costs_nothing_per_task() {
        let table = TaskTable::new(1_000_000);
        assert_eq!(table.states.capacity() + table.cancelled.capacity(), 0);
        assert_eq!(table.placeable().next(), Some(Ordinal(0)));
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
                    (5, state) if state.is_over() => table.requeue(task),
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
