//! Which pilots to ask of which batch system: as many as waiting tasks can use, of the kinds that
//! can run them, and no more.
//!
//! It proposes. What is asked for is a command that is checked again like any other, and ids and
//! tokens are chosen by whoever sends it. Tasks are placed late, on nodes that have come: nothing
//! here ties a task to a pilot.
//!
//! - `expected.rs` the nodes that would come, as the scheduler would see them
//! - `asked.rs`    what was asked for of each kind, by how it stands
//! - `demand.rs`   what waits, and what of a site is left: numbers, from the state
//! - `known.rs`    which kinds would do for which shapes, from look to look
//! - `matching.rs` who could be served where, and what is asked for so that they are: only numbers

mod asked;
pub mod demand;
pub(crate) mod expected;
mod known;
pub mod matching;

pub use demand::{look, room};
pub use expected::Expected;
pub use known::Known;

use shipway_model::{AllocationId, SiteName};

/// What is to be asked of sites now, and what was asked for and is needed no more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proposal {
    pub asks: Vec<Ask>,
    pub surplus: Vec<AllocationId>,
}

/// So many allocations of one kind, each with a pilot on each of its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    pub site: SiteName,
    pub class: String,
    pub count: u32,
    pub nodes: u32,
}

impl Proposal {
    pub fn is_empty(&self) -> bool {
        self.asks.is_empty() && self.surplus.is_empty()
    }
}
