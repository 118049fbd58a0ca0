//! Trees of files that somebody else made: a task's work directory, an image, what a container
//! left. They may be of any depth and width, closed to their owner, and still change.
//!
//! So a tree is gone through by descriptor and not by path, one folder at a time and not by a
//! function that calls itself: what it costs in stack, descriptors and memory does not depend on
//! what is in it. No link is followed and no mount is crossed. Whose tree it is, and when it is
//! removed, is the caller's matter.

mod folder;
mod later;
mod removal;

pub use later::remove_later;
pub use removal::{Progress, Removal, RemoveError};

use std::path::Path;

/// Removes a tree, whatever is in it. What is not there is removed already.
///
/// It takes as long as the tree is large: see [`Removal`] for doing it in pieces.
pub fn remove(path: &Path) -> Result<(), RemoveError> {
    /// Any number of steps would do.
    const STEPS: u32 = 1 << 20;
    let mut removal = Removal::new(path);
    loop {
        match removal.go_on(STEPS) {
            Progress::More => {}
            Progress::Over(result) => return result,
        }
    }
}
