//! Keeps a runner for each batch system, and has the broker look when something waits. Decides
//! nothing: what is proposed is a wish like any other.

use super::runner::Runner;
use super::{Sites, engine};
use crate::clock::Clock;
use crate::panics::vital;
use crate::secrets::{self, NewPilot, PilotKey};
use crate::writer::{Wish, Writer};
use shipway_core::Command;
use shipway_core::broker::{self, Ask, Known, Proposal};
use shipway_core::command::AskBatch;
use shipway_core::event::Awaited;
use shipway_model::{SiteName, SiteSpec};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::AbortHandle;

/// Looks again in any case: what was asked for gets old, what rests may be asked again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Between two looks: under load many jobs are looked at together.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) sites: Arc<Sites>,
    pub(crate) writer: Writer,
    pub(crate) clock: Clock,
    pub(crate) key: Arc<PilotKey>,
    /// Names this server at batch systems.
    pub(crate) server: String,
    /// For connections that are kept.
    pub(crate) folder: PathBuf,
}

impl Keeper {
    pub(crate) fn start(self) {
        let keeper = Arc::new(self);
        tokio::spawn(vital("who asks sites", Arc::clone(&keeper).ask()));
        tokio::spawn(vital("who keeps the sites", keeper.keep()));
    }

    /// A runner for each site, and another when it is described anew.
    async fn keep(self: Arc<Self>) {
        let mut running: BTreeMap<SiteName, (Arc<SiteSpec>, AbortHandle)> = BTreeMap::new();
        loop {
            let known = self.writer.ask(|state| {
                let specs = state.sites().iter();
                specs.map(|(name, site)| (name.clone(), Arc::clone(&site.spec))).collect()
            });
            let Ok(known) = known.await else {
                tokio::time::sleep(LOOK_AGAIN).await;
                continue;
            };
            let known: BTreeMap<SiteName, Arc<SiteSpec>> = known;
            running.retain(|name, (spec, task)| {
                let stays = known.get(name).is_some_and(|now| now == spec);
                if !stays {
                    task.abort();
                }
                if !known.contains_key(name) {
                    self.sites.forget(name);
                }
                stays
            });
            for (name, spec) in &known {
                if !running.contains_key(name) {
                    let task = self.run(spec);
                    running.insert(name.clone(), (Arc::clone(spec), task));
                }
            }
            self.sites.changed.notified().await;
        }
    }

    fn run(&self, spec: &Arc<SiteSpec>) -> AbortHandle {
        let site = spec.name.clone();
        let engine = engine::engine(spec, &self.server, &self.folder);
        let runner = Runner {
            site: site.clone(),
            spec: Arc::clone(spec),
            writer: self.writer.clone(),
            clock: self.clock.clone(),
            key: Arc::clone(&self.key),
            bell: self.sites.bell(&site),
            sites: Arc::clone(&self.sites),
            whys: Mutex::default(),
            program_seen: Mutex::default(),
        };
        tokio::spawn(runner.run(engine)).abort_handle()
    }

    async fn ask(self: Arc<Self>) {
        let mut known = Known::default();
        loop {
            if !known.is_behind() {
                let _ = tokio::time::timeout(LOOK_AGAIN, self.sites.broker.notified()).await;
            }
            let now = self.clock.now();
            let Ok(Some(look)) = self.writer.ask(move |state| broker::look(state, now)).await
            else {
                known = Known::default();
                continue;
            };
            // Matching takes longer than looking: not with everybody's state in hand.
            let mut kept = std::mem::take(&mut known);
            let proposed = tokio::task::spawn_blocking(move || {
                let proposed = look.propose_with(&mut kept);
                (proposed, kept)
            });
            let Ok((Proposal { asks, surplus }, kept)) = proposed.await else { continue };
            known = kept;
            for ask in asks {
                self.ask_for(ask).await;
            }
            if !surplus.is_empty() {
                let give_up = Command::GiveUp { allocations: surplus };
                let _ = self.writer.wish(Wish::Core(give_up)).await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn ask_for(&self, ask: Ask) {
        let Ask { site, class, count, nodes } = ask;
        let awaited = |new: NewPilot| Awaited { hash: secrets::hash(&new.token), pilot: new.pilot };
        let new = (0..count).map(|_| {
            let (allocation, pilots) = secrets::new_batch_pilots(&self.key, nodes);
            (allocation, pilots.into_iter().map(awaited).collect())
        });
        let allocations: Vec<_> = new.collect();
        tracing::info!(%site, class, count, nodes, "allocations are asked for");
        let ask = Command::AskBatch(Box::new(AskBatch { site, class, allocations }));
        if let Err(error) = self.writer.wish(Wish::Core(ask)).await {
            tracing::warn!(%error, "pilots cannot be asked for");
        }
    }
}
