//! Languages that people already speak, read into jobs. Pure: files, the environment, the time and
//! chance are given by the caller; nothing here submits anything.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unreachable,
    clippy::unwrap_used
)]

pub mod event_log;
pub mod htcondor;
