//! What came of a command, for whoever asked for it. Known when it is decided: nobody has to look
//! at the state before and after.

use crate::event::Event;
use shipway_model::JobId;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Done {
    /// There is nothing to say about it.
    #[default]
    Plain,
    /// The first job of a submission; the others follow it.
    Submitted {
        first: JobId,
        /// It was made when the same key was used before.
        repeated: bool,
    },
    /// How many tasks were cancelled, asked to stop, or queued again.
    Touched { tasks: u32 },
    /// A user is removed, who had not finished so many jobs.
    Removed { jobs: u64 },
}

impl Done {
    pub fn tasks(self) -> u32 {
        if let Done::Touched { tasks } = self { tasks } else { 0 }
    }
}

/// The facts that a command comes to, and what is said about them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decided {
    pub events: Vec<Event>,
    pub done: Done,
}

impl From<Vec<Event>> for Decided {
    fn from(events: Vec<Event>) -> Decided {
        Decided { events, done: Done::Plain }
    }
}
