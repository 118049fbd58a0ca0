//! Files of jobs with the real binary: copied in, taken out, streams, and HTCondor's event log,
//! which HTCondor's own tools read.
#![allow(clippy::print_stdout, reason = "what is left out is said")]

#[path = "../common/mod.rs"]
mod common;
mod condor;
mod crash;
mod event_log;
mod others;
mod staging;
