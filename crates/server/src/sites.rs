//! Sites as the server's edges: what the core asks of them, on its way to the runner of each; and
//! those that run batch systems' commands.
//!
//! Carrying it out is the runners' matter: one that waits for its site keeps neither the writer nor
//! another site waiting. This machine has one of its own (`up/this_machine.rs`); a site without a
//! runner is asked by people: they were handed the token.
//!
//! - `keeper.rs` has a runner for each batch system, and the broker look when something waits
//! - `runner.rs` one batch system: looks, hands in, gives up; the core decides what
//! - `starts.rs` when what waits may start, as batch systems say
//! - `whys.rs`   why allocations wait, where each has to be asked about; pure
//! - `program.rs` the program that pilots are started as, sent there where the site says so
//! - `order.rs`  an allocation as it is handed in; pure
//! - `engine.rs` which batch system, and the way to it
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod engine;
pub(crate) mod keeper;
mod order;
mod program;
mod runner;
mod starts;
mod whys;

use crate::locks::Locked;
use crate::pilots::Pilots;
use crate::writer::EffectRunner;
use shipway_core::Effect;
use shipway_core::site::SiteKind;
use shipway_model::{AllocationId, PilotId, SiteName, Timestamp};
use shipway_sites::batch::EngineNodes;
use starts::Starts;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, mpsc};

/// What is asked of this machine. Where a crash lies between asking and hearing of it, it comes
/// again.
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
    batch: Mutex<BTreeMap<SiteName, Arc<Bell>>>,
    /// Batch systems have come, changed or gone.
    pub(crate) changed: Notify,
    /// There may be something to ask of batch systems.
    pub(crate) broker: Notify,
    /// The nodes of batch systems, as they said when they were asked.
    nodes: Mutex<BTreeMap<SiteName, SeenNodes>>,
    /// When each last answered.
    heard: Mutex<BTreeMap<SiteName, Timestamp>>,
    /// When each expects what waits there to start, as it said when it was last looked at.
    starts: Mutex<BTreeMap<SiteName, Starts>>,
}

/// What a batch system said of its nodes, and when.
#[derive(Debug, Clone)]
pub(crate) struct SeenNodes {
    pub(crate) at: Timestamp,
    pub(crate) nodes: Arc<Vec<EngineNodes>>,
}

/// Wakes the runner of one batch system.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: Notify,
    /// Asked for just now and never before: these cannot be there yet.
    fresh: Mutex<BTreeSet<AllocationId>>,
}

impl Bell {
    pub(crate) async fn heard(&self) {
        self.rung.notified().await;
    }

    pub(crate) fn ring(&self) {
        self.rung.notify_one();
    }

    /// Whether this one cannot be there: nobody has begun to hand it in.
    pub(crate) fn is_fresh(&self, allocation: &AllocationId) -> bool {
        self.fresh.locked().contains(allocation)
    }

    /// It is handed in or given up: from now on it may be there. False: it may be there already.
    pub(crate) fn begins(&self, allocation: &AllocationId) -> bool {
        self.fresh.locked().remove(allocation)
    }
}

impl Sites {
    /// For the runner of this machine, before anything can be asked of it.
    pub(crate) fn runner_of_this_machine(&self) -> Asks {
        let (asks, asked) = mpsc::unbounded_channel();
        if let Some(site) = SiteKind::ThisMachine.only() {
            self.runners.locked().insert(site, asks);
        }
        asked
    }

    /// What wakes the runner of a batch system; there before it runs.
    pub(crate) fn bell(&self, site: &SiteName) -> Arc<Bell> {
        Arc::clone(self.batch.locked().entry(site.clone()).or_default())
    }

    pub(crate) fn forget(&self, site: &SiteName) {
        self.batch.locked().remove(site);
        self.nodes.locked().remove(site);
        self.heard.locked().remove(site);
        self.starts.locked().remove(site);
    }

    /// It answered what it was asked then.
    pub(crate) fn heard_from(&self, site: &SiteName, at: Timestamp) {
        self.heard.locked().insert(site.clone(), at);
    }

    pub(crate) fn heard_of(&self, site: &SiteName) -> Option<Timestamp> {
        self.heard.locked().get(site).copied()
    }

    pub(crate) fn saw_nodes(&self, site: &SiteName, seen: SeenNodes) {
        self.nodes.locked().insert(site.clone(), seen);
    }

    pub(crate) fn nodes_of(&self, site: &SiteName) -> Option<SeenNodes> {
        self.nodes.locked().get(site).cloned()
    }

    fn ask(&self, site: &SiteName, ask: Ask, again: bool) {
        if SiteKind::of(site) == SiteKind::Batch {
            let bell = self.bell(site);
            if !again {
                bell.fresh.locked().insert(ask.allocation);
            }
            return bell.ring();
        }
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
            Effect::Ask { site, allocation, pilots, again } => {
                self.sites.ask(&site, Ask { allocation, pilots }, again);
            }
            Effect::GiveUp { site, allocation, .. } => {
                let bell = self.sites.bell(&site);
                bell.begins(&allocation);
                bell.ring();
            }
            Effect::SitesChanged => self.sites.changed.notify_one(),
            Effect::Broker => self.sites.broker.notify_one(),
        }
    }

    fn reset(&self) {
        self.pilots.close_all();
    }
}
