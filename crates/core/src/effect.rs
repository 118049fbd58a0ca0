//! Everything the core may ask of the outside. Carried out only after the events that led to it
//! are on disk; whoever carries it out makes no choices.

use crate::event::Placement;
use shipway_model::{AllocationId, AttemptId, Millis, PilotId, SiteName};

#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Give these attempts to a pilot. Giving one twice is harmless.
    Assign { pilot: PilotId, tasks: Vec<Placement> },
    /// Stop these attempts: ask, wait for the grace, kill. Unknown ones are ignored by the pilot.
    Stop { pilot: PilotId, attempts: Vec<AttemptId>, grace: Millis },
    /// Ask a site for this. Said again after a restart, until something is heard of it: whoever
    /// asks looks first whether the site has it already, by the name of the allocation.
    Ask {
        site: SiteName,
        allocation: AllocationId,
        pilots: Vec<PilotId>,
        /// It may have been asked before: said after a restart.
        again: bool,
    },
    /// Have this end there. Said again after a restart, until the site has said that it is over.
    GiveUp { site: SiteName, allocation: AllocationId },
    /// A batch system has come, has changed or has gone.
    SitesChanged,
    /// More waits than before, or there is more to ask of batch systems: the broker is to look.
    /// Said only where there are any.
    Broker,
    /// Close the connection of a pilot that is let in no more.
    Disconnect { pilot: PilotId },
}
