//! The simulated server: the real shell around the real core, with an inbox before it and an outbox
//! behind it. `world` says when it works, when the disk fails, and carries what goes out.

use crate::disk::Disk;
use crate::world::Settings;
use shipway_api::link::{Assign, FromPilot, FromServer, Hello, Report, Task, Template};
use shipway_api::wire;
use shipway_core::clock::SteadyClock;
use shipway_core::command::{AskSite, Command, PilotJoined, PilotReported};
use shipway_core::event::{Placement, Recorded};
use shipway_core::invariants;
use shipway_core::site::SiteKind;
use shipway_core::{Effect, State};
use shipway_model::{ConnectionNumber, JobId, Millis, PilotId, Timestamp};
use shipway_shell::{
    Batch, Core, Desk, Done, EventSeq, Keeper, Limits, Lines, Outside, Question, Wish, WriteError,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// States with fewer jobs and pilots than this are checked after every step, others now and then.
const SMALL_STATE: usize = 60;
const CHECK_EVERY: u64 = 97;
/// Little of everything, so that a short story comes to the end of it.
const LIMITS: fn(u64) -> Limits = |snapshot_every| Limits {
    keep_ended: 20,
    archive_step: 1,
    snapshot_every,
    full_events: 300,
    ..Limits::default()
};

#[derive(Debug)]
pub struct Server {
    desk: Desk<Disk, Outbox>,
    outbox: Arc<Outbox>,
    /// The journal and the batch it is away with.
    away: Option<(Keeper<Disk, Outbox>, Batch<Outbox>)>,
    /// Why nothing is accepted now.
    pub problem: Option<String>,
    clock: SteadyClock,
    inbox: VecDeque<Request>,
    links: BTreeMap<u64, Link>,
    by_pilot: BTreeMap<PilotId, u64>,
    pub steps: u64,
}

/// One connection as the server sees it.
#[derive(Debug, Default)]
struct Link {
    pilot: Option<(PilotId, ConnectionNumber)>,
    is_welcome: bool,
    /// What is said after the welcome.
    early: Vec<wire::ToPilot>,
    pub heard: u64,
}

#[derive(Debug)]
struct Request {
    wish: Wish,
    then: Then,
}

/// What is said once the command's events are on disk.
#[derive(Debug, Clone, Copy)]
pub enum Then {
    Nothing,
    Welcome { link: u64 },
    Ack { link: u64, report: u64 },
    Reply { wish: usize },
}

#[derive(Debug)]
pub enum Outgoing {
    ToPilot {
        link: u64,
        message: wire::ToPilot,
    },
    Reply {
        wish: usize,
        answer: Result<JobId, WriteError>,
    },
    /// Somebody was shown a state in which this is the number of the next job.
    Shown {
        next_job: JobId,
    },
    /// The server is done with this connection, when all that was said is heard.
    HangUp {
        link: u64,
    },
    GiveUp {
        link: u64,
    },
    /// Of a site that is no batch system nobody hears.
    ForSites(Effect),
}

/// What the shell has let out, in order, and when it wants to be woken.
#[derive(Debug, Default)]
struct Outbox {
    said: Mutex<(Vec<Out>, Option<Timestamp>)>,
    replies_too_early: bool,
}

#[derive(Debug)]
enum Out {
    Reply(Then, Result<Done, WriteError>),
    Effect(Effect),
    Shown(JobId),
    Reset,
}

impl Outbox {
    fn change<A>(&self, change: impl FnOnce(&mut (Vec<Out>, Option<Timestamp>)) -> A) -> A {
        change(&mut self.said.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, out: Out) {
        self.change(|(all, _)| all.push(out));
    }
}

impl Outside for Outbox {
    type Reply = Then;
    type Question = Look;
    type Publication = ();

    fn wake_at(&self, at: Option<Timestamp>) {
        self.change(|(_, wake_at)| *wake_at = at);
    }
    fn effect(&self, effect: Effect) {
        self.put(Out::Effect(effect));
    }
    fn reply(&self, then: Then, answer: Result<Done, WriteError>) {
        self.put(Out::Reply(then, answer));
    }
    fn reset(&self) {
        self.put(Out::Reset);
    }
    fn publication(&self, _: &State, _: &[Recorded]) {}
    fn decided(&self, _: bool) {}
    fn written(&self, _: Option<()>, _: &mut [Recorded], _: &Lines) {}
    fn happened(&self, _: EventSeq, _: Vec<Recorded>) {}
    fn restored(&self, _: &State) {}
    fn health(&self, _: Option<&str>) {}
    fn replies_too_early(&self) -> bool {
        self.replies_too_early
    }
}

/// Somebody asks what jobs there are.
#[derive(Debug)]
struct Look {
    outbox: Arc<Outbox>,
    next_job: JobId,
}

impl Question for Look {
    fn look(&mut self, state: &State) {
        self.next_job = state.next_job();
    }
    fn answer(self, found: Result<(), WriteError>) {
        if found.is_ok() {
            self.outbox.put(Out::Shown(self.next_job));
        }
    }
}

impl Server {
    /// A server that found this on its disk.
    pub fn start(
        restored: (State, u64),
        disk: &Disk,
        (wall, steady): (Timestamp, Millis),
        &Settings { snapshot_every, replies_too_early, .. }: &Settings,
    ) -> Server {
        let outbox = Arc::new(Outbox { replies_too_early, ..Outbox::default() });
        let clock = SteadyClock::new(wall, steady, restored.0.at());
        let (journal, history) = (disk.for_writing(), disk.clone());
        let (outside, limits) = (Arc::clone(&outbox), LIMITS(snapshot_every));
        let desk = Desk::new(restored, journal, history, outside, Core::default(), limits);
        let mut server = Server {
            desk,
            outbox,
            away: None,
            problem: None,
            clock,
            inbox: VecDeque::new(),
            links: BTreeMap::new(),
            by_pilot: BTreeMap::new(),
            steps: 0,
        };
        server.ask(Wish::Core(Command::ServerStarted), Then::Nothing);
        server
    }

    /// What it believes, which is ahead of the disk.
    pub fn state(&self) -> &State {
        self.desk.state()
    }

    pub fn ask(&mut self, wish: Wish, then: Then) {
        self.inbox.push_back(Request { wish, then });
    }

    pub fn is_idle(&self) -> bool {
        self.inbox.is_empty()
    }

    /// How long until the core wants to be told the time.
    pub fn wait(&self, steady: u64) -> Option<u64> {
        let deadline = self.outbox.change(|(_, wake_at)| *wake_at)?;
        Some(deadline.since(self.core_now(steady)).0)
    }

    pub fn core_now(&self, steady: u64) -> Timestamp {
        self.clock.now(Millis(steady))
    }

    /// Decides what waits, as far as one batch goes. Returns what is wrong with the state then.
    pub fn decide(&mut self, steady: u64) -> Option<String> {
        let at = self.core_now(steady);
        let mut wrong = None;
        while !self.desk.is_full()
            && let Some(request) = self.inbox.pop_front()
        {
            let then = request.then;
            self.desk.wish(at, request.wish, Some(then));
            wrong = wrong.or_else(|| self.check(&format!("{then:?}")));
        }
        let outbox = Arc::clone(&self.outbox);
        self.desk.ask(Look { outbox, next_job: JobId(0) });
        self.desk.plan(at);
        wrong.or_else(|| self.check("planning"))
    }

    fn check(&mut self, after: &str) -> Option<String> {
        if self.desk.is_in_trouble() {
            return Some(format!("a panic at {after}"));
        }
        self.steps += 1;
        let size = self.state().jobs().len() + self.state().pilots().len();
        if size >= SMALL_STATE && !self.steps.is_multiple_of(CHECK_EVERY) {
            return None;
        }
        let found = invariants::check(self.state());
        found.first().map(|first| format!("after {after}: {first:?}"))
    }

    /// Has what is decided written by other hands, if that is worth it; `written` is the end of it.
    pub fn hand_over(&mut self, steady: u64) -> bool {
        self.away = self.desk.hand_over(self.core_now(steady));
        self.away.is_some()
    }

    /// Writes what is decided here and now.
    pub fn write(&mut self, steady: u64) {
        self.desk.settle(self.core_now(steady));
        self.problem = self.desk.take_back();
    }

    pub fn is_writing(&self) -> bool {
        self.away.is_some()
    }

    /// The hands are done with their batch.
    pub fn written(&mut self) {
        if let Some((mut keeper, batch)) = self.away.take() {
            let written = keeper.write(batch);
            self.desk.put_back(keeper, written);
        }
    }

    /// Says no to all that waits.
    pub fn refuse(&mut self) {
        let Some(problem) = &self.problem else { return };
        for request in self.inbox.drain(..) {
            self.outbox.reply(request.then, Err(WriteError::NotDurable(problem.clone())));
        }
    }

    /// Tries the disk again.
    pub fn go_on(&mut self, steady: u64) {
        self.problem = self.desk.go_on(self.core_now(steady)).err();
    }

    /// What the shell has let out.
    pub fn release(&mut self, disk: &Disk) -> Vec<Outgoing> {
        let all = self.outbox.change(|(out, _)| std::mem::take(out));
        let mut outgoing = Vec::new();
        for out in all {
            match out {
                Out::Reply(then, answer) => self.say(then, answer, &mut outgoing),
                Out::Effect(effect) => self.carry_out(effect, disk, &mut outgoing),
                Out::Shown(next_job) => outgoing.push(Outgoing::Shown { next_job }),
                Out::Reset => {
                    self.by_pilot.clear();
                    outgoing.extend(self.links.keys().map(|link| Outgoing::GiveUp { link: *link }));
                }
            }
        }
        outgoing
    }

    fn say(&mut self, then: Then, answer: Result<Done, WriteError>, out: &mut Vec<Outgoing>) {
        match then {
            Then::Welcome { link } if answer.is_ok() => {
                out.extend(
                    self.message(link, FromServer::Welcome { server_version: String::new() }),
                );
            }
            // A greeting that was overtaken is not answered.
            Then::Welcome { link } => {
                self.by_pilot.retain(|_, known| *known != link);
                let is_refused = matches!(answer, Err(WriteError::NotDurable(_)));
                out.extend(is_refused.then_some(Outgoing::GiveUp { link }));
            }
            Then::Ack { link, report } if answer.is_ok() => {
                out.extend(self.message(link, FromServer::Ack { report }));
            }
            Then::Nothing | Then::Ack { .. } => {}
            Then::Reply { wish } => {
                let answer = answer.map(|done| match done {
                    Done::Submitted { first, .. } => first,
                    _ => JobId(0),
                });
                out.push(Outgoing::Reply { wish, answer });
            }
        }
    }

    /// A pilot that is not connected misses it; what it holds when it is back shows that.
    fn carry_out(&mut self, effect: Effect, disk: &Disk, out: &mut Vec<Outgoing>) {
        let (pilot, said) = match effect {
            Effect::Ask { .. } | Effect::GiveUp { .. } | Effect::SitesChanged | Effect::Broker => {
                return out.push(Outgoing::ForSites(effect));
            }
            Effect::Disconnect { pilot } => {
                let link = self.by_pilot.remove(&pilot);
                return out.extend(link.map(|link| Outgoing::HangUp { link }));
            }
            Effect::Assign { pilot, tasks } => {
                (pilot, FromServer::Assign(assignment(&tasks, disk)))
            }
            Effect::Stop { pilot, attempts, grace } => {
                (pilot, FromServer::Stop { ids: attempts, grace })
            }
        };
        if let Some(link) = self.by_pilot.get(&pilot).copied() {
            out.extend(self.message(link, said));
        }
    }

    /// As the server's connections do: the welcome goes first.
    fn message(&mut self, link: u64, said: FromServer) -> Vec<Outgoing> {
        let Some(known) = self.links.get_mut(&link) else { return Vec::new() };
        known.is_welcome |= matches!(said, FromServer::Welcome { .. });
        let is_first = known.is_welcome && !known.early.is_empty();
        let at = if is_first { 0 } else { known.early.len() };
        known.early.insert(at, said.into());
        let said = if known.is_welcome { std::mem::take(&mut known.early) } else { Vec::new() };
        said.into_iter().map(|message| Outgoing::ToPilot { link, message }).collect()
    }

    pub fn opened(&mut self, link: u64, now: u64) {
        let fresh = Link { heard: now, ..Link::default() };
        self.links.insert(link, fresh);
    }

    pub fn closed(&mut self, link: u64) {
        let Some(gone) = self.links.remove(&link) else { return };
        if let Some((pilot, connection)) = gone.pilot {
            if self.by_pilot.get(&pilot) == Some(&link) {
                self.by_pilot.remove(&pilot);
            }
            self.ask(Wish::Core(Command::PilotAway { pilot, connection }), Then::Nothing);
        }
    }

    /// When something was last heard on a connection that is still open.
    pub fn heard(&self, link: u64) -> Option<u64> {
        self.links.get(&link).map(|link| link.heard)
    }

    /// A message of a pilot. A heartbeat is answered at once, everything else by the writer.
    pub fn hear(&mut self, now: u64, link: u64, message: wire::ToServer) -> Option<Vec<Outgoing>> {
        let known = self.links.get_mut(&link)?;
        known.heard = now;
        let said = FromPilot::read(message).expect("good pilots say what can be read")?;
        if let FromPilot::Hello(hello) = said {
            self.greeted(link, *hello);
            return None;
        }
        let (pilot, connection) = known.pilot.clone()?;
        let (command, then) = match said {
            FromPilot::Ping { number } => {
                return Some(self.message(link, FromServer::Pong { number }));
            }
            FromPilot::Report(Report { number, held }) => {
                let then = Then::Ack { link, report: number };
                (Command::PilotReported(PilotReported { pilot, held }), then)
            }
            FromPilot::Leaving => (Command::PilotLeaving { pilot, connection }, Then::Nothing),
            FromPilot::Goodbye => (Command::PilotEnded { pilot }, Then::Nothing),
            FromPilot::Ad(ad) => (Command::PilotChanged { pilot, connection, ad }, Then::Nothing),
            FromPilot::Hello(_) | FromPilot::Series(_) => return None,
        };
        self.ask(Wish::Core(command), then);
        None
    }

    fn greeted(&mut self, link: u64, hello: Hello) {
        let Hello { pilot, connection, ad, lease, held, folder_key, .. } = hello;
        if let Some(known) = self.links.get_mut(&link) {
            known.pilot = Some((pilot.clone(), connection));
        }
        if !self.state().pilot_tokens().contains_key(&pilot) {
            let ask = AskSite::named_after(&pilot, SiteKind::ByHand);
            self.ask(Wish::Core(Command::AskSite(Box::new(ask))), Then::Nothing);
        }
        // Connected before it is welcomed: orders of the same batch must reach it.
        let number_of = |link: &u64| Some(self.links.get(link)?.pilot.as_ref()?.1);
        if self.by_pilot.get(&pilot).and_then(number_of) <= Some(connection) {
            self.by_pilot.insert(pilot.clone(), link);
        }
        let folder = Some(folder_key);
        let joined = PilotJoined { pilot, connection, ad, lease, held, folder };
        self.ask(Wish::Core(Command::PilotJoined(Box::new(joined))), Then::Welcome { link });
    }
}

fn assignment(tasks: &[Placement], disk: &Disk) -> Assign {
    let jobs: BTreeSet<JobId> = tasks.iter().map(|placement| placement.task.job).collect();
    let template = |job| Some((job, Template::of("", &*disk.spec(job)?)));
    let task = |placement: &Placement| Task {
        id: placement.task.attempt(placement.attempt),
        devices: placement.devices.clone(),
        fields: BTreeMap::new(),
    };
    Assign {
        templates: jobs.into_iter().filter_map(template).collect(),
        unreadable: BTreeMap::new(),
        tasks: tasks.iter().map(task).collect(),
    }
}
