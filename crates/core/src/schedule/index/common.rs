//! The first amounts of a vector, those of what nearly all ask for. Two are enough to go by what is
//! full, and of two a thousand shapes and the nodes of a block fit where memory is fast.

use shipway_model::{Amounts, Kind};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::schedule) struct Common([u64; 2]);

impl Common {
    #[inline]
    pub(in crate::schedule) fn of(amounts: &Amounts) -> Common {
        Common([amounts.get(Kind::Cpus), amounts.get(Kind::Memory)])
    }
    /// Whether there may be room; not, if there is none.
    #[inline]
    pub(in crate::schedule) fn fits(self, room: Common) -> bool {
        let (Common([one, other]), Common([has_one, has_other])) = (self, room);
        one <= has_one && other <= has_other
    }
    /// The larger of each.
    #[inline]
    pub(in crate::schedule) fn max(self, other: Common) -> Common {
        let (Common([a, b]), Common([c, d])) = (self, other);
        Common([a.max(c), b.max(d)])
    }
}
