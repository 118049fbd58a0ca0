//! The world: one queue of happenings in virtual time, and everything that they happen to.
//!
//! The parts are in the files below; this one keeps the time and the order.

mod clients;
mod faults;
mod network;
mod pilots;
mod serving;
mod sites;

pub use clients::{Wanted, WishState};
pub use sites::Brokered;

use crate::batch::BatchSystem;
use crate::dice::Dice;
use crate::disk::Disk;
use crate::node::Node;
use crate::server::Server;
use crate::totals::Totals;
use crate::truth::Truth;
use network::Connection;
use shipway_api::wire;
use shipway_core::Command;
use shipway_model::{AllocationEnd, AllocationId, AttemptId, JobId, PilotId, SiteName, Timestamp};
use shipway_shell::WriteError;
use std::collections::{BTreeMap, VecDeque};

/// The wall clock when a run begins.
pub const EPOCH: u64 = 1_700_000_000_000;
/// Lines of the log that a failing run shows.
pub const LOG_LINES: usize = 40;

/// How rough the world is. Times are (from, to) in milliseconds, chances in a thousand.
#[derive(Debug, Clone)]
pub struct Settings {
    pub delay: (u64, u64),
    pub commit: (u64, u64),
    pub redial: (u64, u64),
    pub process_start: (u64, u64),
    /// From a signal to the death by it.
    pub dying: (u64, u64),
    /// A submission that is made twice.
    pub duplicate: u64,
    pub lose_reply: u64,
    /// A crash in one batch: amid the commit, after it, and while effects go out.
    pub crash: u64,
    /// A commit that fails, after which the server goes on.
    pub disk_fails: u64,
    pub server_down: (u64, u64),
    pub snapshot_every: u64,
    /// A mistake of the server, which is to be found.
    pub replies_too_early: bool,
}

impl Settings {
    pub const CALM: Settings = Settings {
        delay: (1, 1),
        commit: (2, 2),
        redial: (500, 500),
        process_start: (3, 3),
        dying: (10, 10),
        duplicate: 0,
        lose_reply: 0,
        crash: 0,
        disk_fails: 0,
        server_down: (1_000, 1_000),
        snapshot_every: 100,
        replies_too_early: false,
    };
}

#[derive(Debug)]
pub enum Happening {
    Dial {
        node: usize,
        life: usize,
    },
    ToServer {
        link: u64,
        message: Box<wire::ToServer>,
    },
    ToPilot {
        link: u64,
        message: wire::ToPilot,
    },
    ServerSawLinkDown {
        link: u64,
    },
    PilotSawLinkDown {
        link: u64,
        parted: bool,
    },
    Silence {
        link: u64,
    },
    PilotTick {
        node: usize,
        life: usize,
    },
    ProcessConfirmed {
        node: usize,
        life: usize,
        id: AttemptId,
    },
    ProcessExits {
        node: usize,
        life: usize,
        id: AttemptId,
        version: u64,
    },
    ProcessesGone {
        ids: Vec<AttemptId>,
    },
    StartPilot {
        node: usize,
    },
    ServerWorks {
        run: u64,
    },
    ServerWritten {
        run: u64,
    },
    ServerRetries {
        run: u64,
    },
    ServerTick {
        run: u64,
    },
    ServerRestarts,
    Asked {
        command: Command,
    },
    Submits {
        wish: usize,
    },
    Replied {
        wish: usize,
        answer: Result<JobId, WriteError>,
    },
    NoReply {
        wish: usize,
        sent: u32,
    },
    /// The broker looks what to ask of batch systems.
    BrokerLooks {
        run: u64,
    },
    /// An allocation is handed in to its batch system.
    HandsIn {
        run: u64,
        site: SiteName,
        allocation: AllocationId,
        pilots: Vec<PilotId>,
    },
    WasTaken {
        run: u64,
        site: SiteName,
        allocation: AllocationId,
    },
    TakesBack {
        run: u64,
        site: SiteName,
        allocation: AllocationId,
    },
    /// Whoever runs a batch system's commands looks.
    SiteTurn {
        site: SiteName,
    },
    /// A batch system starts what has its turn.
    BatchCycle {
        site: SiteName,
    },
    LentDies {
        node: usize,
    },
    /// Nothing of an allocation is left, and its batch system knows.
    LentIsOver {
        node: usize,
        end: AllocationEnd,
    },
    /// The workload and the faults of a seed.
    Burst,
    Fault,
}

#[derive(Debug)]
pub struct World {
    pub now: u64,
    sequence: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    pub dice: Dice,
    pub settings: Settings,
    pub disk: Disk,
    pub server: Option<Server>,
    /// Counts the server's starts.
    run: u64,
    works_at: Option<u64>,
    tick_at: Option<u64>,
    busy_until: u64,
    /// Commits whose events were compared with the truth.
    accounted: usize,
    wall_offset: i64,
    pub nodes: Vec<Node>,
    pub batch: BTreeMap<SiteName, BatchSystem>,
    /// The nodes that batch systems have lent.
    pub lent: BTreeMap<usize, (SiteName, AllocationId)>,
    last_allocation: u64,
    broker_at: Option<u64>,
    brokered_at: Option<u64>,
    /// Every look of the broker.
    pub brokered: Vec<Brokered>,
    connections: BTreeMap<u64, Connection>,
    last_connection: u64,
    pub wishes: Vec<Wanted>,
    pub truth: Truth,
    pub totals: Totals,
    pub log: VecDeque<String>,
    pub violation: Option<String>,
    /// While this holds, bursts and faults go on.
    pub rough: bool,
}

impl World {
    pub fn new(seed: u64, settings: Settings) -> World {
        let mut world = World {
            now: 0,
            sequence: 0,
            queue: BTreeMap::new(),
            dice: Dice::new(seed),
            settings,
            disk: Disk::default(),
            server: None,
            run: 0,
            works_at: None,
            tick_at: None,
            busy_until: 0,
            accounted: 0,
            wall_offset: 0,
            nodes: Vec::new(),
            batch: BTreeMap::new(),
            lent: BTreeMap::new(),
            last_allocation: 0,
            broker_at: None,
            brokered_at: None,
            brokered: Vec::new(),
            connections: BTreeMap::new(),
            last_connection: 0,
            wishes: Vec::new(),
            truth: Truth::default(),
            totals: Totals::default(),
            log: VecDeque::new(),
            violation: None,
            rough: false,
        };
        world.restart_server();
        world
    }

    pub fn after(&mut self, wait: u64, happening: Happening) {
        self.at(self.now + wait, happening);
    }

    /// Happenings of the same moment happen in the order they were foreseen.
    pub fn at(&mut self, at: u64, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((at.max(self.now), self.sequence), happening);
    }

    pub fn wall(&self) -> Timestamp {
        Timestamp((EPOCH + self.now).saturating_add_signed(self.wall_offset))
    }

    pub fn note(&mut self, what: impl FnOnce() -> String) {
        if self.log.len() == LOG_LINES {
            self.log.pop_front();
        }
        let (seconds, millis) = (self.now / 1_000, self.now % 1_000);
        self.log.push_back(format!("{seconds}.{millis:03}s {}", what()));
    }

    pub fn fail(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// Lets time pass up to a moment, or until a promise is broken.
    pub fn run_until(&mut self, until: u64) {
        while self.violation.is_none() {
            let Some(next) = self.queue.first_entry().filter(|next| next.key().0 <= until) else {
                break;
            };
            let ((at, _), happening) = next.remove_entry();
            self.now = at;
            self.totals.happenings += 1;
            self.happen(happening);
        }
        self.now = self.now.max(until);
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Dial { node, life } => self.dial(node, life),
            Happening::ToServer { link, message } => self.deliver_to_server(link, *message),
            Happening::ToPilot { link, message } => self.deliver_to_pilot(link, message),
            Happening::ServerSawLinkDown { link } => self.server_saw_link_down(link),
            Happening::PilotSawLinkDown { link, parted } => self.pilot_saw_link_down(link, parted),
            Happening::Silence { link } => self.check_silence(link),
            Happening::PilotTick { node, life } => self.pilot_tick(node, life),
            Happening::ProcessConfirmed { node, life, id } => self.confirm(node, life, id),
            Happening::ProcessExits { node, life, id, version } => {
                self.process_exits(node, life, id, version);
            }
            Happening::ProcessesGone { ids } => {
                for id in ids {
                    self.truth.ended(id, None);
                }
            }
            Happening::StartPilot { node } => self.start_pilot(node),
            Happening::ServerWorks { run } => self.server_works(run),
            Happening::ServerWritten { run } => self.server_written(run),
            Happening::ServerRetries { run } => self.server_retries(run),
            Happening::ServerTick { run } => self.server_tick(run),
            Happening::ServerRestarts => self.restart_server(),
            Happening::Asked { command } => self.ask(command),
            Happening::Submits { wish } => self.deliver_submission(wish),
            Happening::Replied { wish, answer } => self.replied(wish, answer),
            Happening::NoReply { wish, sent } => self.no_reply(wish, sent),
            Happening::BrokerLooks { run } => self.broker_looks(run),
            Happening::HandsIn { run, site, allocation, pilots } => {
                self.hands_in(run, site, allocation, &pilots);
            }
            Happening::WasTaken { run, site, allocation } => self.was_taken(run, &site, allocation),
            Happening::TakesBack { run, site, allocation } => {
                self.takes_back(run, &site, &allocation);
            }
            Happening::SiteTurn { site } => self.site_turn(site),
            Happening::BatchCycle { site } => self.batch_cycle(site),
            Happening::LentDies { node } => self.lent_dies(node),
            Happening::LentIsOver { node, end } => self.lent_is_over(node, end),
            Happening::Burst => self.burst(),
            Happening::Fault => self.fault(),
        }
    }
}
