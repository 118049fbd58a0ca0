//! The locks, counters and threads of the writer. The model of its interleavings
//! (`tests/model.rs`) has another file of this name in its place, and all else as it is.

pub(super) use std::sync::atomic::{AtomicUsize, Ordering};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard, mpsc};
pub(super) use std::thread;
