//! The first amounts of a vector, those of what nearly all ask for. Two are enough to go by what is
//! full, and of two a thousand shapes and the nodes of a block fit where memory is fast.

use shipway_model::{Amounts, Kind};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::schedule) struct Common {
    cpus: u64,
    memory: u64,
}

impl Common {
    #[inline]
    pub(in crate::schedule) fn of(amounts: &Amounts) -> Common {
        Common { cpus: amounts.get(Kind::Cpus), memory: amounts.get(Kind::Memory) }
    }
    /// Whether there may be room; not, if there is none.
    #[inline]
    pub(in crate::schedule) fn fits(self, room: Common) -> bool {
        self.cpus <= room.cpus && self.memory <= room.memory
    }
    /// The larger of each.
    #[inline]
    pub(in crate::schedule) fn max(self, other: Common) -> Common {
        Common { cpus: self.cpus.max(other.cpus), memory: self.memory.max(other.memory) }
    }
}
