//! Trees of files that somebody else made: a task's work directory, an image, what a container
//! left. They may be of any depth and width, closed to their owner, and still change.
//!
//! So a tree is gone through by descriptor and not by path, one folder at a time and not by a
//! function that calls itself: what it costs in stack, descriptors and memory does not depend on
//! what is in it. No link is followed and no mount is crossed. What was given to somebody else is
//! removed with their rights (`owner.rs`), and what these are not enough for is kept (`kept.rs`).
//! When a tree is removed is the caller's matter. So is who writes: `disk.rs` says how much of a
//! file system they leave free, `whole.rs` writes files of our own whole or not at all.

pub mod disk;
mod folder;
mod kept;
mod later;
mod owner;
mod removal;
mod rights;
mod whole;

pub use kept::KEPT;
pub use later::{get_ready, remove_later};
pub use removal::{Progress, Removal, RemoveError};
pub use rights::Borrowed;
pub use whole::{Draft, write_whole};

use std::path::Path;

/// Removes a tree of our own, whatever is in it. What is not there is removed already.
///
/// It takes as long as the tree is large: see [`Removal`] for doing it in pieces.
pub fn remove(path: &Path) -> Result<(), RemoveError> {
    finish(Removal::new(path))
}

/// Removes a folder of ours in which others were given something: see [`Removal::of_others`].
pub fn remove_of_others(path: &Path) -> Result<(), RemoveError> {
    finish(Removal::of_others(path))
}

fn finish(mut removal: Removal) -> Result<(), RemoveError> {
    /// Any number of steps would do.
    const STEPS: u32 = 1 << 20;
    loop {
        match removal.go_on(STEPS) {
            Progress::More => {}
            Progress::Over(result) => return result,
        }
    }
}
