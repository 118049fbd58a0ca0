//! What the core asks of sites, on its way to the runner of each.
//!
//! Carrying it out is the runners' matter, on threads of their own (`up/this_machine.rs`): one that
//! waits for its site keeps neither the writer nor another site waiting. A site without a runner
//! is asked by people: they were handed the token.

use crate::locks::Locked;
use crate::pilots::Pilots;
use crate::writer::EffectRunner;
use shipway_core::Effect;
use shipway_model::{AllocationId, PilotId, SiteName};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

/// What is asked of one site. Where a crash lies between asking and hearing of it, it comes again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) allocation: AllocationId,
    pub(crate) pilots: Vec<PilotId>,
}

pub(crate) type Asks = mpsc::UnboundedReceiver<Ask>;

/// The ways to the runners. What is on them is bounded by what the core asks for.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    runners: Mutex<BTreeMap<SiteName, mpsc::UnboundedSender<Ask>>>,
}

impl Sites {
    /// For the runner of a site, before anything can be asked of it.
    pub(crate) fn runner_of(&self, site: SiteName) -> Asks {
        let (asks, asked) = mpsc::unbounded_channel();
        self.runners.locked().insert(site, asks);
        asked
    }

    fn ask(&self, site: &SiteName, ask: Ask) {
        if let Some(runner) = self.runners.locked().get(site) {
            // A runner that has ended does so because the server ends.
            let _ = runner.send(ask);
        }
    }
}

/// All that the core's effects are for.
#[derive(Debug)]
pub(crate) struct Outside {
    pub(crate) pilots: Arc<Pilots>,
    pub(crate) sites: Arc<Sites>,
}

impl EffectRunner for Outside {
    fn run(&self, effect: Effect) {
        match effect {
            Effect::Assign { pilot, tasks } => self.pilots.assign(&pilot, tasks),
            Effect::Stop { pilot, attempts, grace } => self.pilots.stop(&pilot, attempts, grace),
            Effect::Disconnect { pilot } => self.pilots.close(&pilot),
            Effect::Ask { site, allocation, pilots } => {
                self.sites.ask(&site, Ask { allocation, pilots });
            }
        }
    }

    fn reset(&self) {
        self.pilots.close_all();
    }
}
