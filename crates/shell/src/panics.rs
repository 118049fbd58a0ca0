//! A mistake over one question or one command costs that, and nobody else anything.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// It panicked; the log says where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Panicked;

/// Work that leaves nothing half-changed behind which is used again.
pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| Panicked)
}
