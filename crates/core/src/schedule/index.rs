//! What the scheduler remembers to be fast. All of it follows from the state; none of it decides
//! anything: without it a plan would be the same, and take longer (`schedule/tests.rs` makes the
//! plainest one and compares).
//!
//! - `nodes.rs`    the nodes by class (`class.rs`), with what is `free.rs` on each
//! - `members.rs`  where the nodes of a class stand, so that a search goes by full ones
//! - `common.rs`   what is asked of all of these first, side by side
//! - `known.rs`    the needs of shapes that were worked out before
//! - `open.rs`     the shapes that may find a place; the others are known to fit nowhere

pub mod class;
pub(super) mod common;
pub mod free;
pub(super) mod known;
pub mod members;
pub mod nodes;
pub(super) mod open;
