//! The pilot as a pure state machine: what it holds, when it starts and stops it, what it says.
//!
//! Told of everything that happens (`Input`) and of the time; answers with everything that is to
//! be done (`Output`). It reaches no clock, file, process or network: the loop around it does, and
//! so does the simulation. One rule is above all others: an attempt that was started is held until
//! the server has its end on disk, because only then can the server never ask for it again.

mod assign;
mod begun;
mod contact;
mod ending;
mod held;
mod leaving;
mod need;
mod queue;
mod reads;
mod room;
mod speech;
mod weight;

pub use leaving::Lent;
pub use weight::{Weighed, Weight};

use crate::logs::Keep;
use begun::Begun;
use contact::Contact;
use held::HeldAttempt;
use leaving::Leaving;
use queue::Queue;
use room::Room;
use shipway_api::link::{Files, FromPilot, FromServer, LogRequest, Template};
use shipway_model::{
    AttemptId, Bytes, ConnectionNumber, DeviceId, Lost, Millis, NodeAd, Outcome, Outputs, PilotId,
    Timestamp, Usage, attempt,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use weight::Scales;

/// The signals it sends on its own account, by their Linux numbers.
pub const SIGTERM: i32 = 15;
pub const SIGKILL: i32 = 9;

/// The time by both clocks: the steady one measures, the wall's is only reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    pub steady: Millis,
    pub wall: Timestamp,
}

/// Who this pilot is; the same for its whole life, but for what the proof of its node adds.
#[derive(Debug, Clone)]
pub struct Identity {
    pub pilot: PilotId,
    pub version: String,
    pub ad: NodeAd,
    /// Out of touch for this long, it ends its tasks by itself. `None`: it is supervised.
    pub lease: Option<Millis>,
    /// The key of the pilot's folder, by which the server knows who has taken whose place.
    pub folder_key: String,
}

#[derive(Debug, Clone)]
pub enum Input {
    /// A connection opened; `Machine::connection_number` names it from now on.
    LinkUp,
    /// The connection of this number is gone.
    LinkDown {
        connection: ConnectionNumber,
        /// The server ended it, and wants to hear no more of this pilot.
        parted: bool,
    },
    Message {
        connection: ConnectionNumber,
        message: FromServer,
    },
    ProcessStarted {
        id: AttemptId,
    },
    ProcessNotStarted {
        id: AttemptId,
        message: String,
    },
    /// The node could not make another process or container.
    NoRoom {
        id: AttemptId,
    },
    ProcessEnded {
        id: AttemptId,
        how: HowEnded,
        out_of_memory: Option<OutOfMemory>,
        /// What it has used in all, if that was looked at.
        usage: Option<Box<Usage>>,
    },
    /// What running attempts have used so far.
    Used {
        used: Vec<(AttemptId, Box<Usage>)>,
    },
    /// The files of an attempt were taken, or why not; see `Output::Collect`.
    Collected {
        id: AttemptId,
        problem: Option<String>,
    },
    /// Time has passed; see `Machine::next_deadline`.
    Tick,
    /// Take nothing more, finish what runs, say goodbye.
    Drain,
    /// The site wants its node back: the same, and what runs is stopped now.
    TakenBack {
        /// How long tasks have between the request and the kill.
        grace: Millis,
    },
    /// The proof of the node has ended, and its ad says something else now.
    Proven {
        ad: Box<NodeAd>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HowEnded {
    Exit(i32),
    Signal(i32),
}

/// What is known of an end for want of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutOfMemory {
    /// The pilot ended it, over the job's own limit.
    OverLimit { limit: Bytes, used: Bytes },
    /// The pilot ended it, over its share of a GPU's memory.
    OverShare { limit: Bytes, used: Bytes },
    /// The kernel ended it, over the job's own limit.
    Held { limit: Bytes },
    /// The kernel ended it, because the node had no memory left.
    Kernel,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    Send(FromPilot),
    Start(Start),
    /// To the whole process group. Harmless when it has just ended.
    Signal {
        id: AttemptId,
        signal: i32,
    },
    /// It has ended in this way, and its job wants files of it. `Input::Collected` is the answer;
    /// until then it holds its room.
    Collect {
        id: AttemptId,
        outcome: Outcome,
    },
    ReadLog(LogRequest),
    CloseLog {
        id: u64,
    },
    /// Whoever asked for logs on earlier connections is gone, and their numbers mean nothing now.
    CloseLogs,
    /// These have ended: to be written down before anything else is done, so that whoever comes
    /// after this pilot knows. `Machine::end_of` has the words.
    Keep {
        ids: Vec<AttemptId>,
    },
    /// The connection is useless: drop it and open another.
    Reconnect,
    /// Drained, and the server has the goodbye on disk; or there is no time left to wait for it:
    /// the process may end.
    Finished,
}

/// What a task is started from. Whoever starts it drops this then: it may be megabytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    pub id: AttemptId,
    /// Without its outputs.
    pub template: Arc<Weighed<Template>>,
    pub taken: Option<Arc<Weighed<Taken>>>,
    pub devices: Vec<DeviceId>,
    pub fields: Arc<Weighed<BTreeMap<String, String>>>,
}

/// What is taken when it has ended, which is kept until then.
#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
    pub basedir: String,
    pub outputs: Outputs,
}

impl Taken {
    fn out_of(files: &mut Files) -> Option<Self> {
        let outputs = files.outputs.take()?;
        Some(Taken { basedir: files.basedir.clone(), outputs })
    }
}

impl Start {
    /// How much of its output is kept.
    pub fn keep(&self) -> Keep<'_> {
        Keep { limit: self.template.log_limit.0, user: &self.template.user }
    }
}

/// What is known of the connection that is open now.
#[derive(Debug)]
struct Connection {
    welcomed: bool,
    /// The ad has changed since the Hello.
    has_new_ad: bool,
    /// Ended attempts that this connection's Hello told of.
    in_hello: Vec<AttemptId>,
    last_report: u64,
    /// Ended attempts by the report that told of them, oldest first.
    reports: VecDeque<(u64, Vec<AttemptId>)>,
}

#[derive(Debug)]
pub struct Machine {
    identity: Identity,
    connection_number: ConnectionNumber,
    link: Option<Connection>,
    contact: Contact,
    held: BTreeMap<AttemptId, HeldAttempt>,
    /// Held but not started.
    queue: Queue,
    /// Requests for the output of such.
    reads: Vec<LogRequest>,
    /// How often a later task went ahead of the first in the queue.
    overtaken: u32,
    room: Room,
    begun: Begun,
    scales: Scales,
    /// When each running attempt has to be looked at.
    timers: BTreeSet<(Millis, AttemptId)>,
    /// What happened since the last report.
    new_starts: Vec<AttemptId>,
    new_ends: Vec<AttemptId>,
    /// What they have used is newer than what was reported.
    new_uses: Vec<AttemptId>,
    /// Ended, and not yet written down.
    unkept: Vec<AttemptId>,
    /// Ends that pilots before this one in the same folder have left word of, and the server may
    /// not have.
    left: Vec<attempt::Held>,
    /// When what happened must be reported at the latest; see `speech.rs`.
    report_due: Option<Millis>,
    /// The server should hear of room when so few are left in the queue.
    refill_at: usize,
    draining: bool,
    leaving: Leaving,
    /// The connection that the goodbye was last said on.
    goodbye: Option<ConnectionNumber>,
}

impl Machine {
    pub fn new(identity: Identity) -> Self {
        Machine {
            room: Room::new(&identity.ad.capacity),
            begun: Begun::default(),
            scales: Scales::new(identity.ad.capacity.memory),
            contact: Contact::new(identity.lease),
            identity,
            connection_number: ConnectionNumber(0),
            link: None,
            held: BTreeMap::new(),
            queue: Queue::default(),
            reads: Vec::new(),
            overtaken: 0,
            timers: BTreeSet::new(),
            new_starts: Vec::new(),
            new_ends: Vec::new(),
            new_uses: Vec::new(),
            unkept: Vec::new(),
            left: Vec::new(),
            report_due: None,
            refill_at: 0,
            draining: false,
            leaving: Leaving::default(),
            goodbye: None,
        }
    }

    /// Tells this process from an earlier one with the same credentials, by the numbers of its
    /// connections (`model::connection_number`).
    #[must_use]
    pub fn of_process(mut self, process: u64) -> Self {
        self.connection_number = ConnectionNumber::before_first(process);
        self
    }

    /// Has it tell the server of these ends too.
    #[must_use]
    pub fn with_left(mut self, left: Vec<attempt::Held>) -> Self {
        self.left = left;
        self
    }

    /// Has it leave by itself, as its site wants.
    #[must_use]
    pub fn lent(mut self, lent: Lent) -> Self {
        self.leaving = Leaving::of(lent);
        self
    }

    /// How an attempt ended that is still held, for whoever comes after this pilot.
    pub fn end_of(&self, id: AttemptId) -> Option<attempt::Held> {
        let held = self.held.get(&id).filter(|held| held.has_ended())?;
        Some(attempt::Held { of: Some(self.identity.pilot.clone()), ..held.word(id) })
    }

    /// Every end that the server may not have.
    pub fn ends(&self) -> impl Iterator<Item = attempt::Held> {
        let own = self.held.keys().filter_map(|id| self.end_of(*id));
        self.left.iter().cloned().chain(own)
    }

    /// The number of the newest connection; a multiple of a large power of 2 before the first.
    pub fn connection_number(&self) -> ConnectionNumber {
        self.connection_number
    }

    /// Whether all is done, as far as the pilot knows, and the server was told so.
    pub fn has_said_goodbye(&self) -> bool {
        self.goodbye.is_some()
    }

    /// Whether the server has answered on the connection that is open.
    pub fn is_welcome(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.welcomed)
    }

    /// Attempts whose end the server does not have yet, or that have not ended.
    pub fn held(&self) -> impl Iterator<Item = &AttemptId> {
        self.held.keys()
    }

    /// Whether an attempt that is being started is to end at once.
    pub fn is_ending(&self, id: AttemptId) -> bool {
        let ending = self.held.get(&id).map(|held| &held.ending);
        ending.is_none_or(|ending| ending.is_asked_to_stop() || ending.lease_ran_out)
    }

    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        match input {
            Input::LinkUp => self.link_up(now, &mut out),
            Input::LinkDown { connection, parted } if connection == self.connection_number => {
                self.link_down(parted, &mut out);
            }
            Input::Message { connection, message } if connection == self.connection_number => {
                self.hear(now, message, &mut out);
            }
            // Said by a connection that was given up already.
            Input::LinkDown { .. } | Input::Message { .. } => {}
            Input::ProcessStarted { id } => self.process_started(now, id, &mut out),
            Input::ProcessNotStarted { id, message } => {
                self.process_not_started(now, id, Outcome::NotStarted { message }, &mut out);
            }
            Input::NoRoom { id } => {
                let outcome = Outcome::Lost { why: Lost::NoRoom };
                self.process_not_started(now, id, outcome, &mut out);
            }
            Input::ProcessEnded { id, how, out_of_memory, usage } => {
                if let Some(held) = self.held.get_mut(&id) {
                    held.usage = usage.or(held.usage.take());
                }
                self.process_ended(now, id, how, out_of_memory, &mut out);
            }
            Input::Used { used } => self.used(now, used),
            Input::Collected { id, problem } => self.collected(now, id, problem, &mut out),
            Input::Tick => self.tick(now, &mut out),
            Input::Drain => self.drain(&mut out),
            Input::TakenBack { grace } => self.taken_back(now, grace, &mut out),
            Input::Proven { ad } => self.proven(*ad, &mut out),
        }
        self.let_readers_go(&mut out);
        if !self.unkept.is_empty() {
            out.push(Output::Keep { ids: std::mem::take(&mut self.unkept) });
        }
        out
    }

    /// When `Input::Tick` is due, if nothing else happens before.
    pub fn next_deadline(&self) -> Option<Millis> {
        let timer = self.timers.first().map(|(at, _)| *at);
        let heartbeat = self.link.as_ref().map(|link| self.contact.next_beat(link.welcomed));
        let lease = self.contact.lease_ends();
        let lease = lease.filter(|_| self.held.values().any(HeldAttempt::is_under_lease));
        let report = self.report_due.filter(|_| self.is_welcome());
        [timer, heartbeat, lease, report, self.next_leaving()].into_iter().flatten().min()
    }

    fn tick(&mut self, now: Now, out: &mut Vec<Output>) {
        self.heartbeat(now, out);
        self.check_lease(now, out);
        self.check_timers(now, out);
        self.check_leaving(now, out);
    }

    /// From now on nothing new is taken. What was never started is let go without a word: the
    /// server gives it to somebody else when it hears the goodbye.
    fn drain(&mut self, out: &mut Vec<Output>) {
        self.draining = true;
        for id in self.queue.take_all() {
            self.held.remove(&id);
        }
        self.say_leaving(out);
    }

    /// Without a connection the next greeting says it.
    fn proven(&mut self, ad: NodeAd, out: &mut Vec<Output>) {
        self.identity.ad = ad;
        if let Some(link) = &mut self.link {
            link.has_new_ad = true;
            self.say_ad(out);
        }
    }

    fn drop_link(&mut self, out: &mut Vec<Output>) {
        if self.link.take().is_some() {
            out.push(Output::Reconnect);
        }
    }
}

#[cfg(test)]
mod tests;
