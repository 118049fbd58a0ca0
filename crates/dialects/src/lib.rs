//! Languages that people already speak, read into jobs. Pure: files, the environment, the time and
//! chance are given by the caller; nothing here submits anything.

pub mod event_log;
pub mod htcondor;
