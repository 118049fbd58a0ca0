//! Work for one job or one question that must not cost the others when it fails by a mistake in
//! this program: it is cut off there, and whoever asked says so. Never around anything that changes
//! what others look at, unless that is made anew afterwards.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What the work gives; `None` when it panicked. The panic itself is told by the process's hook.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Mistakes for tests: a job that asks for a thing of this name makes that place panic.
#[cfg(test)]
pub(crate) fn strike(place: &str, need: &shipway_model::Resources) {
    assert!(!need.named.contains_key(place), "struck at {place}");
}
#[cfg(not(test))]
pub(crate) fn strike(_: &str, _: &shipway_model::Resources) {}
