//! The states of a job's tasks and nothing else of them, as bits. A copy of them elsewhere is kept
//! up with pieces: it costs what has changed, however large the table is.

use super::bits::{self, Bits};
use super::blocks::{Blocks, Wanted};
use shipway_model::{JobCounts, Ordinal, TaskState};

/// Two bits a task, and one that tells cancelled from failed. What is not there waits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskStates {
    states: Vec<u8>,
    cancelled: Vec<u8>,
}

/// The bits of some neighbours. In whole bytes, so a few beside them are there too.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Piece {
    /// The first byte of `cancelled`, and half of that of `states`.
    at: usize,
    states: Vec<u8>,
    cancelled: Vec<u8>,
}

impl Piece {
    /// In bytes.
    pub fn len(&self) -> usize {
        self.states.len() + self.cancelled.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl TaskStates {
    pub const fn new() -> Self {
        TaskStates { states: Vec::new(), cancelled: Vec::new() }
    }

    /// The one task of a job that is not an array.
    pub fn one(state: TaskState) -> Self {
        let mut one = TaskStates::waiting(1);
        one.set((0, 0), 1, state);
        one
    }

    pub(super) fn waiting(len: u32) -> Self {
        TaskStates { states: vec![0; (len as usize).div_ceil(4)], cancelled: Vec::new() }
    }

    pub(super) fn from_bytes(states: Vec<u8>, cancelled: Vec<u8>) -> Self {
        TaskStates { states, cancelled }
    }

    pub(super) fn into_bytes(self) -> (Vec<u8>, Vec<u8>) {
        (self.states, self.cancelled)
    }

    fn blocks(&self) -> Blocks<'_> {
        Blocks { states: &self.states, cancelled: &self.cancelled }
    }

    /// Active tasks are `Placed` here.
    pub fn state(&self, task: Ordinal) -> TaskState {
        match bits::state(&self.states, task.0) {
            Bits::Waiting => TaskState::Waiting,
            Bits::Active => TaskState::Placed,
            Bits::Succeeded => TaskState::Succeeded,
            Bits::Over if bits::flag(&self.cancelled, task.0) => TaskState::Cancelled,
            Bits::Over => TaskState::Failed,
        }
    }

    /// See `TaskTable::runs`.
    pub fn runs(
        &self,
        from: u32,
        len: u32,
        is_wanted: impl Fn(TaskState) -> bool,
    ) -> impl Iterator<Item = (u32, u32)> + '_ {
        let wanted = Wanted::of(is_wanted);
        let last = len.checked_sub(1).filter(|last| from <= *last);
        let is_untouched = self.states.is_empty();
        let is_all = wanted.is_all() || is_untouched && wanted.has(TaskState::Waiting);
        let all = last.filter(|_| is_all).map(|last| (from, last));
        let some = last.filter(|_| !is_all && !is_untouched);
        let some = some.into_iter().flat_map(move |last| self.within(from, last, wanted));
        all.into_iter().chain(some)
    }

    pub(super) fn within(
        &self,
        first: u32,
        last: u32,
        wanted: Wanted,
    ) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.blocks().runs(first, last, wanted)
    }

    pub(super) fn counts(&self, first: u32, last: u32) -> JobCounts {
        self.blocks().counts(first, last)
    }

    /// The bytes for all of them must be there.
    pub(super) fn set(&mut self, (first, last): (u32, u32), len: u32, state: TaskState) {
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

    pub fn piece(&self, first: u32, last: u32) -> Piece {
        let (at, end) = (first as usize / 8, last as usize / 8 + 1);
        let some = |bytes: &[u8], from: usize, to: usize| {
            bytes.get(from..to.min(bytes.len())).unwrap_or_default().to_vec()
        };
        let states = some(&self.states, 2 * at, 2 * end);
        Piece { at, states, cancelled: some(&self.cancelled, at, end) }
    }

    /// Makes a copy of a table of `len` tasks say what the table said when the piece was made.
    pub fn put(&mut self, piece: &Piece, len: u32) {
        put(&mut self.states, &piece.states, 2 * piece.at, (len as usize).div_ceil(4));
        put(&mut self.cancelled, &piece.cancelled, piece.at, (len as usize).div_ceil(8));
    }
}

/// Allocated when there is something to say, as in the table.
fn put(all: &mut Vec<u8>, some: &[u8], at: usize, len: usize) {
    if some.is_empty() {
        return;
    }
    all.resize(len, 0);
    if let Some(place) = all.get_mut(at..at + some.len()) {
        place.copy_from_slice(some);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STATES: [TaskState; 5] = [
        TaskState::Waiting,
        TaskState::Placed,
        TaskState::Succeeded,
        TaskState::Failed,
        TaskState::Cancelled,
    ];

    proptest! {
        #[test]
        fn a_copy_that_gets_all_pieces_says_the_same(
            len in 1u32..70,
            steps in prop::collection::vec((0u32..70, 0u32..20, 0usize..5), 0..30),
        ) {
            let (mut table, mut copy) = (TaskStates::waiting(len), TaskStates::new());
            for (first, more, state) in steps {
                let first = first % len;
                let last = (first + more).min(len - 1);
                table.set((first, last), len, STATES[state]);
                copy.put(&table.piece(first, last), len);
                for at in 0..len {
                    prop_assert_eq!(copy.state(Ordinal(at)), table.state(Ordinal(at)));
                }
            }
        }
    }

    #[test]
    fn a_piece_is_as_large_as_what_it_says() {
        let mut table = TaskStates::waiting(10_000_000);
        table.set((5_000_001, 5_000_003), 10_000_000, TaskState::Cancelled);
        let piece = table.piece(5_000_001, 5_000_003);
        assert_eq!(piece.len(), 3);
        assert_eq!(TaskStates::one(TaskState::Cancelled).state(Ordinal(0)), TaskState::Cancelled);
    }
}
