//! The simulated server: the real core between an inbox and a disk, in the order of the real
//! writer. It decides a batch, hands it back to be committed, and only then lets anything out.
//!
//! It has no network of its own: `world` carries what goes out.

use crate::disk::Disk;
use shipway_api::{link, wire};
use shipway_core::clock::SteadyClock;
use shipway_core::command::AskSite;
use shipway_core::command::{Command, Ended, Held, HeldPhase, PilotJoined, PilotReported};
use shipway_core::decide::already_submitted;
use shipway_core::engine::step;
use shipway_core::event::{Placement, Recorded};
use shipway_core::invariants;
use shipway_core::schedule::schedule;
use shipway_core::site::SiteKind;
use shipway_core::{Effect, Rejection, State};
use shipway_model::{JobId, JobSpec, JobState, Millis, PilotId, Timestamp};
use std::collections::{BTreeMap, VecDeque};

/// States with fewer jobs and pilots than this are checked after every step, others now and then.
const SMALL_STATE: usize = 60;
const CHECK_EVERY: u64 = 97;
/// Ended jobs that stay in memory.
const KEEP_ENDED: usize = 20;

#[derive(Debug)]
pub struct Server {
    pub state: State,
    clock: SteadyClock,
    inbox: VecDeque<Request>,
    links: BTreeMap<u64, Link>,
    by_pilot: BTreeMap<PilotId, u64>,
    pub steps: u64,
}

/// One connection as the server sees it.
#[derive(Debug, Default)]
struct Link {
    pilot: Option<(PilotId, u64)>,
    sent: u64,
    next_report: u64,
    /// Reports that overtook another.
    ahead: BTreeMap<u64, wire::Report>,
    pub heard: u64,
}

#[derive(Debug)]
struct Request {
    command: Command,
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
    ToPilot { link: u64, message: wire::ToPilot },
    Reply { wish: usize, answer: Result<JobId, Rejection> },
}

/// A decided batch: to be committed, then let out.
#[derive(Debug, Default)]
pub struct Batch {
    pub events: Vec<Recorded>,
    out: Vec<Out>,
    pub violation: Option<String>,
}

#[derive(Debug)]
enum Out {
    Then(Then, Result<Option<JobId>, Rejection>),
    Effect(Effect),
}

impl Server {
    /// A server that found this state on its disk.
    pub fn start(state: State, wall: Timestamp, steady: Millis) -> Server {
        let clock = SteadyClock::new(wall, steady, state.at());
        let mut server = Server {
            state,
            clock,
            inbox: VecDeque::new(),
            links: BTreeMap::new(),
            by_pilot: BTreeMap::new(),
            steps: 0,
        };
        server.ask(Command::ServerStarted, Then::Nothing);
        server
    }

    pub fn ask(&mut self, command: Command, then: Then) {
        self.inbox.push_back(Request { command, then });
    }

    pub fn is_idle(&self) -> bool {
        self.inbox.is_empty()
    }

    /// How long until the core wants to be told the time.
    pub fn wait(&self, steady: u64) -> Option<u64> {
        let deadline = self.state.next_deadline()?;
        Some(deadline.since(self.clock.now(Millis(steady))).0)
    }

    pub fn core_now(&self, steady: u64) -> Timestamp {
        self.clock.now(Millis(steady))
    }

    pub fn decide(&mut self, steady: u64, disk: &Disk) -> Batch {
        let at = self.clock.now(Millis(steady));
        let mut batch = Batch::default();
        while let Some(request) = self.inbox.pop_front() {
            self.one(at, request, disk, &mut batch);
        }
        loop {
            let plan = schedule(&mut self.state, at);
            if plan.is_empty() || self.apply(at, &Command::ApplyPlan(plan), &mut batch).is_err() {
                return batch;
            }
        }
    }

    fn one(&mut self, at: Timestamp, mut request: Request, disk: &Disk, batch: &mut Batch) {
        let mut job = None;
        match &mut request.command {
            Command::Submit(submit) => {
                let first = self.state.next_job();
                for new in &mut submit.jobs {
                    new.job = first;
                    new.ended = self.ended(&new.spec, disk);
                }
                let repeated = already_submitted(&self.state, submit);
                job = Some(repeated.ok().flatten().unwrap_or(first));
            }
            Command::Retry { select, revived } => {
                let gone = select.jobs.iter().filter(|(id, _)| self.state.job(*id).is_none());
                *revived = gone.filter_map(|(id, _)| disk.record(*id)).collect();
            }
            _ => {}
        }
        // What is said goes before what is done: a pilot is welcomed before it gets work.
        let said = batch.out.len();
        let result = self.apply(at, &request.command, batch);
        batch.out.insert(said, Out::Then(request.then, result.map(|()| job)));
    }

    fn ended(&self, spec: &JobSpec, disk: &Disk) -> Vec<(JobId, JobState)> {
        let gone = spec.after.iter().filter(|after| self.state.job(after.job).is_none());
        gone.filter_map(|after| Some((after.job, disk.record(after.job)?.job.state()))).collect()
    }

    fn apply(
        &mut self,
        at: Timestamp,
        command: &Command,
        batch: &mut Batch,
    ) -> Result<(), Rejection> {
        let done = step(&mut self.state, at, command)?;
        self.steps += 1;
        let size = self.state.jobs().len() + self.state.pilots().len();
        if size < SMALL_STATE || self.steps.is_multiple_of(CHECK_EVERY) {
            let found = invariants::check(&self.state);
            if let Some(first) = found.first().filter(|_| batch.violation.is_none()) {
                batch.violation = Some(format!("after {command:?}: {first:?}"));
            }
        }
        batch.events.extend(done.events);
        batch.out.extend(done.effects.into_iter().map(Out::Effect));
        Ok(())
    }

    /// What goes out once the batch is on disk, in order.
    pub fn release(&mut self, batch: Batch, disk: &Disk) -> Vec<Outgoing> {
        let mut outgoing = Vec::new();
        for out in batch.out {
            match out {
                Out::Then(then, result) => self.say(then, result, &mut outgoing),
                Out::Effect(effect) => self.carry_out(effect, disk, &mut outgoing),
            }
        }
        let jobs = self.state.archivable(KEEP_ENDED, u64::MAX);
        if !jobs.is_empty() {
            self.ask(Command::Archive { jobs }, Then::Nothing);
        }
        outgoing
    }

    fn say(
        &mut self,
        then: Then,
        result: Result<Option<JobId>, Rejection>,
        out: &mut Vec<Outgoing>,
    ) {
        use wire::to_pilot::Body;
        match then {
            Then::Nothing => {}
            // A greeting that was overtaken is not answered.
            Then::Welcome { .. } if result.is_err() => {}
            Then::Welcome { link } => {
                if let Some((pilot, _)) = self.links.get(&link).and_then(|link| link.pilot.clone())
                {
                    self.by_pilot.insert(pilot, link);
                }
                out.extend(self.message(link, Body::Welcome(wire::Welcome::default())));
            }
            Then::Ack { link, report } => {
                out.extend(self.message(link, Body::Ack(wire::Ack { report })));
            }
            Then::Reply { wish } => {
                let answer = result.map(|job| job.unwrap_or(JobId(0)));
                out.push(Outgoing::Reply { wish, answer });
            }
        }
    }

    /// A pilot that is not connected misses it; what it holds when it is back shows that.
    fn carry_out(&mut self, effect: Effect, disk: &Disk, out: &mut Vec<Outgoing>) {
        use wire::to_pilot::Body;
        let (pilot, body) = match effect {
            // Its pilot has said goodbye, or is one that nobody hears of again.
            Effect::Ask { .. } => return,
            Effect::Disconnect { pilot } => {
                self.by_pilot.remove(&pilot);
                return;
            }
            Effect::Assign { pilot, tasks } => (pilot, Body::Assign(assignment(&tasks, disk))),
            Effect::Stop { pilot, tasks, grace } => {
                let ids = tasks.into_iter().map(|(task, n)| link::attempt_id(task, n)).collect();
                (pilot, Body::Stop(wire::Stop { ids, grace_ms: grace.0 }))
            }
        };
        if let Some(link) = self.by_pilot.get(&pilot).copied() {
            out.extend(self.message(link, body));
        }
    }

    fn message(&mut self, link: u64, body: wire::to_pilot::Body) -> Option<Outgoing> {
        let known = self.links.get_mut(&link)?;
        known.sent += 1;
        let message = wire::ToPilot { number: known.sent, body: Some(body) };
        Some(Outgoing::ToPilot { link, message })
    }

    pub fn opened(&mut self, link: u64, now: u64) {
        let fresh = Link { next_report: 1, heard: now, ..Link::default() };
        self.links.insert(link, fresh);
    }

    pub fn closed(&mut self, link: u64) {
        let Some(gone) = self.links.remove(&link) else { return };
        if let Some((pilot, session)) = gone.pilot {
            if self.by_pilot.get(&pilot) == Some(&link) {
                self.by_pilot.remove(&pilot);
            }
            self.ask(Command::PilotAway { pilot, session }, Then::Nothing);
        }
    }

    /// When something was last heard on a connection that is still open.
    pub fn heard(&self, link: u64) -> Option<u64> {
        self.links.get(&link).map(|link| link.heard)
    }

    /// A message of a pilot. A heartbeat is answered at once, everything else by the writer.
    pub fn hear(&mut self, now: u64, link: u64, message: wire::ToServer) -> Option<Outgoing> {
        use wire::to_server::Body;
        let known = self.links.get_mut(&link)?;
        known.heard = now;
        match message.body? {
            Body::Hello(hello) => {
                let joined = joined(hello);
                if !self.state.pilot_tokens().contains_key(&joined.pilot) {
                    let ask = AskSite::named_after(&joined.pilot, SiteKind::ByHand);
                    let command = Command::AskSite(Box::new(ask));
                    self.inbox.push_back(Request { command, then: Then::Nothing });
                }
                known.pilot = Some((joined.pilot.clone(), joined.session));
                self.ask(Command::PilotJoined(Box::new(joined)), Then::Welcome { link });
            }
            Body::Report(report) => {
                known.ahead.insert(report.number, report);
                let (pilot, _) = known.pilot.clone()?;
                let mut in_turn = Vec::new();
                while let Some(report) = known.ahead.remove(&known.next_report) {
                    known.next_report += 1;
                    in_turn.push(report);
                }
                let next = known.next_report;
                known.ahead.retain(|number, _| *number >= next);
                for report in in_turn {
                    let then = Then::Ack { link, report: report.number };
                    self.ask(Command::PilotReported(reported(pilot.clone(), &report)), then);
                }
            }
            Body::Ping(ping) => {
                let pong = wire::Pong { number: ping.number };
                return self.message(link, wire::to_pilot::Body::Pong(pong));
            }
            Body::Leaving(_) => {
                let (pilot, session) = known.pilot.clone()?;
                self.ask(Command::PilotLeaving { pilot, session }, Then::Nothing);
            }
            Body::Goodbye(_) => {
                let (pilot, _) = known.pilot.clone()?;
                self.ask(Command::PilotEnded { pilot }, Then::Nothing);
            }
            Body::Log(_) => {}
        }
        None
    }
}

fn assignment(tasks: &[Placement], disk: &Disk) -> wire::Assign {
    let mut templates = BTreeMap::new();
    for placement in tasks {
        let job = placement.task.job;
        if let Some(spec) = disk.spec(job) {
            templates.entry(job).or_insert_with(|| link::template(job, "", spec));
        }
    }
    let task = |placement: &Placement| wire::Task {
        id: Some(link::attempt_id(placement.task, placement.attempt)),
        devices: placement.devices.iter().map(ToString::to_string).collect(),
        fields: std::collections::HashMap::default(),
    };
    let templates = templates.into_values().collect();
    wire::Assign { templates, tasks: tasks.iter().map(task).collect() }
}

fn joined(hello: wire::Hello) -> PilotJoined {
    let pilot = |text: &String| PilotId::new(text).expect("the simulated pilots have good names");
    PilotJoined {
        pilot: pilot(&hello.pilot),
        session: hello.session,
        ad: link::decode_ad(&hello.ad_json).expect("encoded by the pilot"),
        lease: Some(Millis(hello.lease_ms)).filter(|lease| lease.0 > 0),
        held: hello.held.into_iter().filter_map(held).collect(),
        folder: Some(hello.folder_key),
    }
}

fn held(held: wire::Held) -> Option<Held> {
    let id = held.id?;
    let mut of = None;
    let phase = match held.phase? {
        wire::held::Phase::Queued(_) => HeldPhase::Queued,
        wire::held::Phase::RunningSinceMs(since) => {
            HeldPhase::Running { started: Timestamp(since) }
        }
        wire::held::Phase::Ended(end) => {
            of = PilotId::new(&end.pilot).ok();
            HeldPhase::Ended(ended(&end))
        }
    };
    Some(Held { task: id.task(), attempt: id.number(), phase, of })
}

fn ended(end: &wire::Ended) -> Ended {
    Ended {
        outcome: link::decode_outcome(&end.outcome_json).expect("encoded by the pilot"),
        started: Some(Timestamp(end.started_ms)).filter(|started| started.0 > 0),
        ended: Timestamp(end.ended_ms),
        ran: Millis(end.ran_ms),
    }
}

fn reported(pilot: PilotId, report: &wire::Report) -> PilotReported {
    let started = report.started.iter().filter_map(|started| {
        let id = started.id.as_ref()?;
        Some((id.task(), id.number(), Timestamp(started.started_ms)))
    });
    let ends = report.ended.iter().filter_map(|end| {
        let id = end.id.as_ref()?;
        Some((id.task(), id.number(), ended(end)))
    });
    PilotReported { pilot, started: started.collect(), ended: ends.collect() }
}
