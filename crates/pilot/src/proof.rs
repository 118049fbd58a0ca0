//! The proof of a node: is it fit to run tasks, and which of its GPUs work?
//!
//! ```text
//! gather   looks and tries: folders, clock, containers, GPUs      facts    what it found, as data
//! judge    facts → checks, each with what was wanted and its fix  offer    checks → the node's ad
//! kernel   a kernel on each GPU, in a process of its own          cuda     the calls for it
//! trial    a process with a deadline
//! ```
//!
//! A pilot proves its node before it takes work: what fails is a reason on the node, never a
//! failed task. `shipway doctor` shows the same to people. Judging is pure.

mod cuda;
mod facts;
mod gather;
mod judge;
pub mod kernel;
mod offer;
mod trial;

pub use facts::{
    ClockFact, ContainerFacts, Facts, FolderFact, GpuFact, ImageFact, InsideFact, KeptFact,
    KernelFact, NodeFacts, Overlay, ServerFact, Switch, TriedFacts,
};
pub use gather::{Watch, look, try_out};
pub use judge::{judge, looked_at, tried};
pub use offer::{HAS_CONTAINER, Names, offer, withhold};

use serde::Serialize;
use shipway_model::DeviceId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Ok,
    /// Tasks run, with less than there could be.
    Warning,
    Failed,
    NotApplicable,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    pub name: String,
    pub state: State,
    pub found: String,
    pub wanted: String,
    /// What an administrator can do about it; nothing where all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    #[serde(skip)]
    pub about: About,
}

/// What cannot be used when a check fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// The node as a whole.
    Node,
    Gpu(DeviceId),
    /// Tasks with an image.
    Containers,
    /// Something else that only some tasks need.
    Part,
}

impl Check {
    fn ok(name: impl Into<String>, wanted: impl Into<String>, found: impl Into<String>) -> Self {
        let (name, wanted, found) = (name.into(), wanted.into(), found.into());
        Self { name, state: State::Ok, found, wanted, fix: None, about: About::Part }
    }

    fn about(self, about: About) -> Self {
        Self { about, ..self }
    }

    fn failed(self, fix: impl Into<String>) -> Self {
        Self { state: State::Failed, fix: Some(fix.into()), ..self }
    }

    fn warning(self, fix: impl Into<String>) -> Self {
        Self { state: State::Warning, fix: Some(fix.into()), ..self }
    }

    fn not_applicable(self) -> Self {
        Self { state: State::NotApplicable, ..self }
    }

    pub fn is_failed(&self) -> bool {
        self.state == State::Failed
    }
}
