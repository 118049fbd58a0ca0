//! The whole product, killed, starved and damaged: nothing that was confirmed is lost, nothing
//! runs twice, and nothing is left behind.
//!
//! - `kills.rs`    the server killed again and again under load
//! - `everybody.rs` server, pilot and guard killed at random, alone and together
//! - `ends.rs`     tasks that end when nobody can say so
//! - `pilots.rs`   the pilot and its guard killed
//! - `hanging.rs`  processes that were killed and do not die
//! - `absence.rs`  the server away, and an orderly stop
//! - `taken_over.rs` two servers on one home
//! - `disk.rs`     disks that are full or fail
//! - `output.rs`   tasks that print without end
//! - `damage.rs`   journals that are damaged or too new
//! - `fixture.rs`  a home that an earlier binary wrote

#![allow(clippy::print_stderr, reason = "what was measured is to be seen")]

#[path = "../common/mod.rs"]
mod common;

mod absence;
mod damage;
mod disk;
mod ends;
mod everybody;
mod fixture;
mod hanging;
mod kills;
mod output;
mod pilots;
mod taken_over;
mod tasks;
