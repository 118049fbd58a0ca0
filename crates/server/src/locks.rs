//! Locks that stay good when somebody panicked while holding one.
//!
//! For tables whose every change is one call (put in, take out, replace): there is no half of one
//! that the next could see. The writer's desk is no such thing, and looks after itself.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) trait Locked {
    type Inside;
    fn locked(&self) -> MutexGuard<'_, Self::Inside>;
}

impl<T> Locked for Mutex<T> {
    type Inside = T;
    fn locked(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) trait Shared {
    type Inside;
    fn seen(&self) -> RwLockReadGuard<'_, Self::Inside>;
    fn changed(&self) -> RwLockWriteGuard<'_, Self::Inside>;
}

impl<T> Shared for RwLock<T> {
    type Inside = T;
    fn seen(&self) -> RwLockReadGuard<'_, T> {
        self.read().unwrap_or_else(PoisonError::into_inner)
    }
    fn changed(&self) -> RwLockWriteGuard<'_, T> {
        self.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_panic_of_a_holder_does_not_lock_out_the_others() {
        let (one, many) = (Mutex::new(1), RwLock::new(1));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let (_one, _many) = (one.locked(), many.changed());
            panic!("on purpose");
        }));
        assert!(panicked.is_err() && one.is_poisoned() && many.is_poisoned());
        *one.locked() += 1;
        *many.changed() += 1;
        assert_eq!((*one.locked(), *many.seen()), (2, 2));
    }
}
