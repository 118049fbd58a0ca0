//! Thirty-two tasks at a time: which of them are in given states, as a mask, and where runs of them
//! begin and end. Ten million tasks are three hundred thousand masks, a few milliseconds.

use super::bits::Bits;
use shipway_model::{JobCounts, TaskState};

/// Tasks in one mask.
const WIDTH: u32 = u32::BITS;

/// The bits of a table, to be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blocks<'a> {
    pub(super) states: &'a [u8],
    pub(super) cancelled: &'a [u8],
}

/// Which states are looked for, a bit each. Active tasks are `Placed` here, as everywhere in the
/// table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted(u8);

impl Wanted {
    const ALL: [TaskState; 5] = [
        TaskState::Waiting,
        TaskState::Placed,
        TaskState::Succeeded,
        TaskState::Failed,
        TaskState::Cancelled,
    ];

    pub(super) fn of(is_wanted: impl Fn(TaskState) -> bool) -> Self {
        let chosen = Self::ALL.into_iter().filter(|state| is_wanted(*state));
        Wanted(chosen.fold(0, |bits, state| bits | Self::bit(state)))
    }

    pub(super) fn is_all(self) -> bool {
        Self::ALL.into_iter().all(|state| self.has(state))
    }

    pub(super) fn has(self, state: TaskState) -> bool {
        self.0 & Self::bit(state) != 0
    }

    fn bit(state: TaskState) -> u8 {
        match state {
            TaskState::Waiting => 1,
            TaskState::Placed | TaskState::Running => 2,
            TaskState::Succeeded => 4,
            TaskState::Failed => 8,
            TaskState::Cancelled => 16,
        }
    }
}

impl<'a> Blocks<'a> {
    /// The tasks of one block that are in this state, a bit each.
    fn with(self, block: u32, state: Bits) -> u32 {
        let word = u64::from_le_bytes(bytes(self.states, block));
        let (low, high) = (every_second(word), every_second(word >> 1));
        match state {
            Bits::Waiting => !low & !high,
            Bits::Active => low & !high,
            Bits::Succeeded => !low & high,
            Bits::Over => low & high,
        }
    }

    fn flags(self, block: u32) -> u32 {
        u32::from_le_bytes(bytes(self.cancelled, block))
    }

    fn mask(self, block: u32, wanted: Wanted) -> u32 {
        let when = |state, bits| if wanted.has(state) { self.with(block, bits) } else { 0 };
        let over = match (wanted.has(TaskState::Failed), wanted.has(TaskState::Cancelled)) {
            (false, false) => 0,
            (true, true) => self.with(block, Bits::Over),
            (true, false) => self.with(block, Bits::Over) & !self.flags(block),
            (false, true) => self.with(block, Bits::Over) & self.flags(block),
        };
        when(TaskState::Waiting, Bits::Waiting)
            | when(TaskState::Placed, Bits::Active)
            | when(TaskState::Succeeded, Bits::Succeeded)
            | over
    }

    /// First and last of each run of wanted tasks from `first` to `last`, in order.
    pub(super) fn runs(self, first: u32, last: u32, wanted: Wanted) -> BlockRuns<'a> {
        BlockRuns { blocks: self, wanted, next: first, last, block: None }
    }

    /// How many tasks from `first` to `last` are in each state.
    pub(super) fn counts(self, first: u32, last: u32) -> JobCounts {
        let mut counts = JobCounts::default();
        for block in first / WIDTH..=last / WIDTH {
            let inside = from(first, block) & !from_after(last, block);
            let count = |state| (self.with(block, state) & inside).count_ones();
            let cancelled = self.with(block, Bits::Over) & self.flags(block) & inside;
            counts.waiting += count(Bits::Waiting);
            counts.active += count(Bits::Active);
            counts.succeeded += count(Bits::Succeeded);
            counts.cancelled += cancelled.count_ones();
            counts.failed += count(Bits::Over) - cancelled.count_ones();
        }
        counts
    }
}

/// Finds runs as they are asked for: whoever wants a page of them pays for no more.
#[derive(Debug)]
pub(super) struct BlockRuns<'a> {
    blocks: Blocks<'a>,
    wanted: Wanted,
    /// Everything before this was looked at.
    next: u32,
    last: u32,
    /// The last mask that was made, and of which block.
    block: Option<(u32, u32)>,
}

impl BlockRuns<'_> {
    fn mask(&mut self, block: u32) -> u32 {
        match self.block {
            Some((known, mask)) if known == block => mask,
            _ => {
                let mask = self.blocks.mask(block, self.wanted);
                self.block = Some((block, mask));
                mask
            }
        }
    }

    /// The first position from `next` on that is wanted, or is not; `None` beyond the last.
    fn find(&mut self, is_wanted: bool) -> Option<u32> {
        while self.next <= self.last {
            let block = self.next / WIDTH;
            let mask = self.mask(block);
            let found = if is_wanted { mask } else { !mask } & from(self.next, block);
            if found != 0 {
                self.next = block * WIDTH + found.trailing_zeros();
                return Some(self.next).filter(|at| *at <= self.last);
            }
            self.next = (block + 1).saturating_mul(WIDTH);
        }
        None
    }
}

impl Iterator for BlockRuns<'_> {
    type Item = (u32, u32);

    fn next(&mut self) -> Option<(u32, u32)> {
        let first = self.find(true)?;
        let end = self.find(false).unwrap_or(self.last.saturating_add(1));
        self.next = end;
        Some((first, end - 1))
    }
}

/// The positions of a block that are not before `at`.
fn from(at: u32, block: u32) -> u32 {
    u32::MAX.checked_shl(at.saturating_sub(block * WIDTH)).unwrap_or(0)
}

/// The positions of a block that are after `at`.
fn from_after(at: u32, block: u32) -> u32 {
    from(at.saturating_add(1), block)
}

/// The bytes of one block; what lies beyond the end is zero.
fn bytes<const N: usize>(all: &[u8], block: u32) -> [u8; N] {
    let rest = all.get(block as usize * N..).unwrap_or_default();
    rest.first_chunk().copied().unwrap_or_else(|| {
        let mut short = [0; N];
        short.iter_mut().zip(rest).for_each(|(to, byte)| *to = *byte);
        short
    })
}

/// The lower one of each two bits, side by side.
fn every_second(word: u64) -> u32 {
    let mut bits = word & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    u32::try_from(bits).unwrap_or(u32::MAX)
}
