//! The pilot: the agent on a node that runs tasks and reports on them.
//!
//! This file only names the modules. The process layer (`guard`, `leftovers`, `spawn`, `logs`,
//! `probe`, `memory`) knows nothing of the server; what talks to the server stands beside it.

pub mod accounts;
mod below;
mod closed;
pub mod ends;
mod folder;
pub mod given;
pub mod guard;
pub mod hanging;
pub mod helper;
mod inside;
mod left_files;
pub mod leftovers;
pub mod logs;
mod looks;
pub mod machine;
pub mod memory;
pub mod notice;
pub mod people;
pub mod probe;
mod procfs;
pub mod proof;
pub mod run;
pub mod runtimes;
mod seldom;
#[cfg(test)]
mod skips;
pub mod spawn;
pub mod stage;
mod turns;
pub mod usual;
