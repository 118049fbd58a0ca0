//! The decisions of Shipway: commands in, events and effects out. Pure.
//!
//! ```text
//! Command ──decide──▶ [Event] ──evolve──▶ State
//!                        │
//!                        ├─consequences──▶ more events (a job is over, its dependents may go)
//!                        └─react──▶ [Effect]    what the outside is asked to do
//! ```
//!
//! The same fold (`evolve` over recorded events) is a restart, a replay and the simulation. There
//! is no clock, file, process, thread, random source or hash order in this crate: time and new ids
//! travel in the command, and `clippy.toml` beside this crate refuses the rest.
//!
//! What users wrote is looked at here: nothing may panic over it. Should something all the same,
//! whoever calls knows what to do without (`guard.rs`, and `panics.rs` of the server).
#![warn(clippy::wildcard_enum_match_arm)]
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unreachable,
    clippy::unwrap_used
)]

pub mod advice;
pub mod batch;
pub mod broker;
pub mod clock;
pub mod command;
pub mod consequence;
pub mod decide;
pub mod done;
pub mod effect;
pub mod ended;
pub mod engine;
pub mod event;
pub mod evolve;
pub mod explain;
mod guard;
mod guests;
pub mod invariants;
pub mod job;
pub mod job_table;
pub mod keys;
pub mod load;
pub mod ordinals;
pub mod pilot;
pub mod ranks;
pub mod reach;
pub mod react;
pub mod ready;
pub mod rejection;
pub mod requirements;
pub mod runs;
pub mod schedule;
pub mod shape;
pub mod site;
pub mod snapshot;
pub mod state;
pub mod task_table;
mod terms;
pub mod totals;
pub mod unfinished;
pub mod usage;
pub mod users;
mod weight;

pub use command::Command;
pub use done::{Decided, Done};
pub use effect::Effect;
pub use event::Event;
pub use rejection::Rejection;
pub use state::State;
