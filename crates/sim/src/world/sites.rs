//! Batch systems: the broker that asks them, and whoever runs their commands. Both live in the
//! server's process: what they have not said yet dies with it.
//!
//! The broker and what is decided about allocations are the core's; the pauses are the server's
//! own (`server/src/sites`).

use super::{Happening, World};
use crate::batch::{BatchSystem, Health, Stands};
use crate::node::Node;
use crate::server::Then;
use shipway_core::broker::{self, Ask, Proposal};
use shipway_core::command::{AskBatch, Said, SiteSaid};
use shipway_core::event::Awaited;
use shipway_core::site::Phase;
use shipway_core::{Command, Effect, State};
use shipway_model::{
    Actor, AllocationEnd, AllocationId, Millis, PilotId, Role, SiteName, UserName,
};
use shipway_pilot::machine::Lent;
use shipway_shell::Wish;

const LOOK_AGAIN: u64 = 5_000;
const PAUSE: u64 = 200;
/// Between two looks of whoever runs a site's commands.
const TURN: (u64, u64) = (1_000, 6_000);
/// Between two decisions of a batch system about who runs.
const BATCH_CYCLE: u64 = 1_000;
const COMMAND: (u64, u64) = (20, 800);
const LEASE: Millis = Millis(10 * 60_000);
/// From the start of a pilot whose node fails its proof to its end.
const UNFIT_STAYS: u64 = 2_000;

/// One look of the broker, with what it saw.
#[derive(Debug, Clone)]
pub struct Brokered {
    pub at: u64,
    /// Tasks that waited.
    pub waiting: u64,
    /// Pilots that were asked for before and had not come.
    pub pending: u32,
    pub proposal: Proposal,
}

impl Brokered {
    /// Pilots of all kinds.
    pub fn asked(&self) -> u32 {
        self.proposal.asks.iter().map(|ask| ask.count * ask.nodes).sum()
    }

    pub fn asked_of(&self, site: &str, class: &str) -> u32 {
        let of_it = |ask: &&Ask| ask.site.as_str() == site && ask.class == class;
        self.proposal.asks.iter().filter(of_it).map(|ask| ask.count).sum()
    }
}

impl World {
    pub fn add_site(&mut self, system: BatchSystem) {
        let name = system.spec.name.clone();
        let root = UserName::new("root").expect("a plain name");
        let by = Actor::new(root, Role::Admin);
        let spec = Box::new(system.spec.clone());
        self.batch.insert(name.clone(), system);
        self.ask(Command::AddSite { by, spec });
        self.after(1, Happening::BatchCycle { site: name.clone() });
        self.after(1, Happening::SiteTurn { site: name });
    }

    /// What the core wants of sites.
    pub(super) fn for_sites(&mut self, effect: Effect) {
        let run = self.run;
        match effect {
            Effect::Ask { site, allocation, pilots, .. } => {
                let wait = self.dice.between(COMMAND);
                self.after(wait, Happening::HandsIn { run, site, allocation, pilots });
            }
            Effect::GiveUp { site, allocation, .. } => {
                let wait = self.dice.between(COMMAND);
                self.after(wait, Happening::TakesBack { run, site, allocation });
            }
            Effect::Broker => self.broker_soon(1),
            Effect::SitesChanged
            | Effect::Assign { .. }
            | Effect::Stop { .. }
            | Effect::Disconnect { .. } => {}
        }
    }

    pub(super) fn broker_soon(&mut self, wait: u64) {
        if self.batch.is_empty() {
            return;
        }
        let rested = self.brokered_at.map_or(0, |at| at + PAUSE);
        let at = (self.now + wait).max(rested);
        if self.broker_at.is_none_or(|set| at < set || set < self.now) {
            self.broker_at = Some(at);
            self.at(at, Happening::BrokerLooks { run: self.run });
        }
    }

    pub(super) fn broker_looks(&mut self, run: u64) {
        if run != self.run || self.broker_at.is_none_or(|at| at > self.now) {
            return;
        }
        (self.broker_at, self.brokered_at) = (None, Some(self.now));
        let Some(server) = &self.server else { return };
        let (state, now) = (server.state(), server.core_now(self.now));
        let proposal = broker::look(state, now).map(broker::demand::Look::propose);
        let (waiting, pending) = (waiting(state), pending(state));
        if let Some(proposal) = proposal {
            self.carry_to_core(&proposal);
            self.brokered.push(Brokered { at: self.now, waiting, pending, proposal });
        }
        self.broker_soon(LOOK_AGAIN);
    }

    fn carry_to_core(&mut self, proposal: &Proposal) {
        for Ask { site, class, count, nodes } in &proposal.asks {
            let new = (0..*count).map(|_| {
                self.last_allocation += 1;
                let name = format!("batch-{}", self.last_allocation);
                let awaited = |at: u32| {
                    let name = if at == 0 { name.clone() } else { format!("{name}.{at}") };
                    Awaited { pilot: PilotId::new(&name).expect("a plain name"), hash: name }
                };
                let allocation = AllocationId::new(&name).expect("a plain name");
                (allocation, (0..*nodes).map(awaited).collect())
            });
            let allocations = new.collect();
            let (site, class) = (site.clone(), class.clone());
            let ask = AskBatch { site, class, allocations };
            self.tell_server(Command::AskBatch(Box::new(ask)));
        }
        if !proposal.surplus.is_empty() {
            self.tell_server(Command::GiveUp { allocations: proposal.surplus.clone() });
        }
    }

    fn tell_server(&mut self, command: Command) {
        if let Some(server) = &mut self.server {
            server.ask(Wish::Core(command), Then::Nothing);
        }
        self.wake_server();
    }

    fn site_said(&mut self, site: &SiteName, said: Said) {
        self.tell_server(Command::SiteSaid(SiteSaid { site: site.clone(), said }));
    }

    /// An allocation is handed in. That it was is heard of later, or never.
    pub(super) fn hands_in(
        &mut self,
        run: u64,
        site: SiteName,
        allocation: AllocationId,
        pilots: &[PilotId],
    ) {
        let class = self.server.as_ref().and_then(|server| {
            let known = server.state().allocations().get(&allocation)?;
            let is_asked = known.phase == Phase::Asked;
            Some(known.batch.as_ref().filter(|_| is_asked)?.class.clone())
        });
        let (Some(class), Some(system)) = (class, self.batch.get_mut(&site)) else { return };
        if run == self.run {
            system.take(&allocation, &class, pilots);
            let wait = self.dice.between(COMMAND);
            self.after(wait, Happening::WasTaken { run, site, allocation });
        }
    }

    pub(super) fn was_taken(&mut self, run: u64, site: &SiteName, allocation: AllocationId) {
        let number = self.batch.get(site).and_then(|system| system.known.get(&allocation));
        let Some(engine_id) = number.map(|one| one.number.to_string()) else { return };
        if run == self.run {
            self.site_said(site, Said::Taken { allocation, engine_id });
        }
    }

    pub(super) fn takes_back(&mut self, run: u64, site: &SiteName, allocation: &AllocationId) {
        if run != self.run {
            return;
        }
        let Some(one) = self.batch.get(site).and_then(|system| system.known.get(allocation)) else {
            return;
        };
        match one.stands {
            Stands::Runs(_) => {
                for node in one.nodes() {
                    self.ends_at_site(node, AllocationEnd::Cancelled);
                }
            }
            Stands::Waits => {
                let now = self.now;
                if let Some(system) = self.batch.get_mut(site) {
                    system.is_over(allocation, AllocationEnd::Cancelled, now);
                }
            }
            Stands::Over(..) => {}
        }
    }

    /// Whoever runs the site's commands looks, if the server is up.
    pub(super) fn site_turn(&mut self, site: SiteName) {
        let wait = self.dice.between(TURN);
        let began = self.server.as_ref().map(|server| server.core_now(self.now));
        if let (Some(began), Some(system)) = (began, self.batch.get(&site)) {
            let seen = system.seen();
            self.take_back_unknown(&site);
            self.site_said(&site, Said::Looked { began, seen });
        }
        self.after(wait, Happening::SiteTurn { site });
    }

    /// What carries our name and is nobody's.
    fn take_back_unknown(&mut self, site: &SiteName) {
        let (Some(server), Some(system)) = (&self.server, self.batch.get(site)) else { return };
        let is_known = |id: &&AllocationId| server.state().allocations().contains_key(*id);
        let unknown = system.known.keys().filter(|id| !is_known(id));
        let unknown: Vec<AllocationId> = unknown.cloned().collect();
        for allocation in unknown {
            self.takes_back(self.run, site, &allocation);
        }
    }

    /// The batch system starts what has its turn.
    pub(super) fn batch_cycle(&mut self, site: SiteName) {
        let now = self.now;
        let Some(system) = self.batch.get_mut(&site) else { return };
        system.forget_old(now);
        for allocation in system.due() {
            self.begins_at_site(&site, &allocation);
        }
        self.after(BATCH_CYCLE, Happening::BatchCycle { site });
    }

    fn begins_at_site(&mut self, site: &SiteName, allocation: &AllocationId) {
        let (now, node) = (self.now, self.nodes.len());
        let Some(system) = self.batch.get_mut(site) else { return };
        let health = system.health;
        let Some(one) = system.known.get_mut(allocation) else { return };
        let Some(class) = system.spec.class(&one.class) else { return };
        if health == Health::Fails {
            return system.is_over(allocation, AllocationEnd::Failed, now);
        }
        let lent = Lent {
            idle: Some(system.spec.idle),
            ends: Some(Millis(now.saturating_add(system.spec.wall.0))),
        };
        one.stands = Stands::Runs(node);
        let made = one.pilots.iter().enumerate().map(|(at, pilot)| {
            let name = if at == 0 { String::new() } else { format!(".{at}") };
            Node::lent(&format!("{site}-{allocation}{name}"), class, pilot, lent, LEASE)
        });
        self.nodes.extend(made);
        let ends = match health {
            Health::Unfit => Some(UNFIT_STAYS),
            Health::Dies(after) => Some(after),
            Health::Works | Health::Fails => None,
        };
        let nodes = one.nodes();
        for node in nodes.clone() {
            if health == Health::Unfit {
                self.nodes[node].ad.unfit.push("asked for what is not there".to_owned());
            }
            self.lent.insert(node, (site.clone(), allocation.clone()));
        }
        for node in nodes {
            self.start_pilot(node);
            if let Some(after) = ends {
                self.after(after, Happening::LentDies { node });
            }
        }
    }

    /// A pilot dies with all that it runs, and its batch system says so.
    pub fn lent_dies(&mut self, node: usize) {
        self.ends_at_site(node, AllocationEnd::Failed);
    }

    fn ends_at_site(&mut self, node: usize, end: AllocationEnd) {
        if self.nodes.get(node).is_some_and(|node| node.pilot.is_some()) {
            self.kill_pilot(node);
            let at = self.nodes.get(node).map_or(self.now, |node| node.clean_at);
            self.at(at, Happening::LentIsOver { node, end });
        }
    }

    /// A pilot that ends takes none of its allocation along, which is over with the last of them.
    pub(super) fn lent_is_over(&mut self, node: usize, end: AllocationEnd) {
        let now = self.now;
        let Some((site, allocation)) = self.lent.get(&node) else { return };
        let Some(system) = self.batch.get_mut(site) else { return };
        let Some(one) = system.known.get_mut(allocation) else { return };
        one.gone += 1;
        one.failed |= end == AllocationEnd::Failed;
        if one.gone >= one.pilots.len() {
            let end = if one.failed { AllocationEnd::Failed } else { end };
            system.is_over(allocation, end, now);
        }
    }

    /// Everything that a site has, or had, of ours.
    pub fn system(&mut self, site: &str) -> &mut BatchSystem {
        let name = SiteName::new(site).expect("a plain name");
        self.batch.get_mut(&name).expect("a site of this world")
    }
}

/// Tasks that wait.
fn waiting(state: &State) -> u64 {
    let jobs = state.jobs().iter().filter(|(_, job)| job.ended.is_none());
    jobs.map(|(_, job)| u64::from(job.tasks.counts().waiting)).sum()
}

/// Pilots that were asked for and have not come.
fn pending(state: &State) -> u32 {
    let waits = |phase: Phase| phase.is_pending() || phase == Phase::Running;
    let of_batch = |id: &AllocationId| {
        state.allocations().get(id).is_some_and(|it| it.batch.is_some() && waits(it.phase))
    };
    let tokens = state.pilot_tokens().iter();
    let pending = tokens
        .filter(|(pilot, it)| !state.pilots().contains_key(*pilot) && of_batch(&it.allocation));
    u32::try_from(pending.count()).unwrap_or(u32::MAX)
}
