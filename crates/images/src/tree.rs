//! The file tree of an image: layers laid over each other in memory, then made on disk.
//!
//! Only what is left after all layers reaches the file system, and only by names that `merge` has
//! put into a tree of its own: no link, however made, is followed on the way.

pub mod build;
pub mod merge;

pub use build::build;
pub use merge::{MergeError, Tree};
