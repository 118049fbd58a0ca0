//! Sites: suppliers of nodes. Each starts pilots in its own way; what runs there is decided
//! elsewhere.
//!
//! A site is a pure part (what to start, what an answer means) and a thin one that does it, behind
//! [`Site`]. The server has a runner for each, so that one which does not answer delays no other.
//! Batch systems have a seam of their own, [`batch`], and are asked by their commands ([`way`]).
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

pub mod batch;
mod exits;
pub mod htcondor;
pub mod local;
pub mod sending;
pub mod slurm;
pub mod way;

use shipway_model::{AllocationId, PilotCredentials, SiteName};
use std::io;
use std::path::PathBuf;

/// What a runner asks of a site. Calls take as long as the site takes: for threads that may wait.
pub trait Site: std::fmt::Debug + Send + Sync {
    fn name(&self) -> SiteName;

    /// Has a pilot come. Asked again after a crash, so it looks first whether it is there.
    fn ask(&self, wanted: &Wanted) -> Result<Asked, SiteError>;

    /// Whether the site has anything of ours.
    fn is_there(&self) -> Result<bool, SiteError>;

    /// Returns when the site has nothing of ours any more.
    fn wait_for_end(&self) -> Result<(), SiteError>;

    /// Has all of ours end, soon.
    fn end(&self);
}

/// One pilot that is to come.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// What the site knows it by, so that it can be found again.
    pub allocation: AllocationId,
    pub credentials: PilotCredentials,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    Now,
    /// It has it already.
    Before,
}

/// Why a site did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("cannot {act} {}", .path.display())]
pub struct SiteError {
    act: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}
