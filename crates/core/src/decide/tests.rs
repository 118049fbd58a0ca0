//! The life of jobs and pilots told as commands. After every step the whole state is checked, and
//! compared with what a replay of the recorded events gives.
#![allow(clippy::needless_pass_by_value, reason = "commands are told and gone")]

mod asked;
mod dependents;
mod explaining;
mod guests;
mod jobs;
mod keeping;
mod long_passes;
mod losses;
mod misfits;
mod pilots;
mod places;
mod plans;
mod policy;
mod random;
mod replies;
mod requirements;
mod retries;
mod scattered;
mod set_aside;
mod shapes;
mod site_notes;
mod sites;
mod slices;
mod together;
mod used;
mod users;

use crate::command::{AskSite, Command, NewJob, Pick, PilotJoined, PilotReported, Select, Submit};
use crate::done::Done;
use crate::engine::step;
use crate::event::{Event, Placement, Recorded, StopReason, Verdict};
use crate::evolve::evolve;
use crate::explain::explain;
use crate::invariants::check;
use crate::schedule::schedule;
use crate::site::SiteKind;
use crate::{Effect, Rejection, State, snapshot};
use shipway_model::{
    Actor, AllocationId, Attempt, Bytes, Capacity, ConnectionNumber, Cores, DeviceId, Ended,
    GpuDevice, GpuSource, GpuVendor, Held, HeldPhase, JobCounts, JobId, JobSpec, JobState, Lost,
    Millis, NodeAd, NodeName, Outcome, PilotId, Reason, Role, TaskId, TaskIndex, TaskState,
    Timestamp, UserName,
};

/// A core and the time, with everything that was recorded and asked for.
#[derive(Default)]
struct Told {
    state: State,
    now: u64,
    recorded: Vec<Recorded>,
    effects: Vec<Effect>,
    /// What was said about the last command.
    done: Done,
    /// Pilots that join have no token unless one was issued.
    no_token_of_itself: bool,
}

impl Told {
    fn try_tell(&mut self, command: &Command) -> Result<Vec<Event>, Rejection> {
        if let Command::PilotJoined(joined) = command
            && !self.state.pilots().contains_key(&joined.pilot)
            && !self.state.pilot_tokens().contains_key(&joined.pilot)
            && !self.no_token_of_itself
        {
            self.apply(token_for(joined.pilot.as_str(), SiteKind::ByHand, None));
        }
        self.now += 1;
        let done = step(&mut self.state, Timestamp(self.now), command)?;
        assert_eq!(check(&self.state), [], "after {command:?}");
        (self.effects, self.done) = (done.effects, done.done);
        let events = done.events.iter().map(|recorded| recorded.event.clone()).collect();
        self.recorded.extend(done.events);
        assert_eq!(replayed(&self.recorded), self.state, "replay after {command:?}");
        let stored = snapshot::read(&snapshot::write(&self.state)).expect("a snapshot reads back");
        assert_eq!(stored, self.state, "snapshot after {command:?}");
        Ok(events)
    }

    fn apply(&mut self, command: Command) -> Vec<Event> {
        self.try_tell(&command).unwrap_or_else(|rejection| panic!("{command:?}: {rejection}"))
    }

    fn refused(&mut self, command: Command) -> &'static str {
        self.try_tell(&command).expect_err("refused").code()
    }

    /// Submits as ada; the job's id.
    fn submit(&mut self, json: &str) -> JobId {
        let job = self.state.next_job();
        self.apply(submission(job, ada(), json, None));
        job
    }

    /// A pilot joins with these cores and devices, holding nothing.
    fn join(&mut self, name: &str, cpus: u64, gpus: u64) -> Vec<Event> {
        self.apply(Command::PilotJoined(Box::new(pilot(name, cpus, gpus))))
    }

    /// Plans and applies until nothing more fits; what was placed, in order.
    fn place(&mut self) -> Vec<Placement> {
        let mut placed = Vec::new();
        loop {
            let plan = schedule(&mut self.state, Timestamp(self.now));
            if plan.is_empty() {
                self.check_that_nothing_was_missed();
                return placed;
            }
            placed.extend(plan.by_pilot().flat_map(|(_, tasks)| tasks).cloned());
            self.apply(Command::ApplyPlan(plan));
        }
    }

    /// What the scheduler remembers saves work and changes nothing: one that remembers nothing
    /// finds nothing more to place, of users for whom no node is kept from their own tasks.
    fn check_that_nothing_was_missed(&self) {
        let held = self.state.planner().reservations();
        if held.iter().any(|held| !held.behind_own) {
            return;
        }
        let owner = |job: JobId| &self.state.job(job).expect("in memory").owner;
        let is_kept = |user: &UserName| held.iter().any(|held| owner(held.job) == user);
        let mut fresh = self.state.clone();
        fresh.rebuild();
        let plan = schedule(&mut fresh, Timestamp(self.now));
        let mut placed = plan.by_pilot().flat_map(|(_, tasks)| tasks);
        let missed = placed.find(|placed| !is_kept(owner(placed.task.job)));
        assert_eq!(missed, None, "left lying: {plan:?}");
    }

    fn started(&mut self, name: &str, task: TaskId, attempt: u32) -> Vec<Event> {
        let phase = HeldPhase::Running { started: Timestamp(self.now) };
        self.report(name, vec![Held::own(task.attempt(Attempt(attempt)), phase)])
    }

    fn ended(&mut self, name: &str, task: TaskId, attempt: u32, outcome: Outcome) -> Vec<Event> {
        self.report(name, vec![ended(task, attempt, end(self.now, outcome))])
    }

    fn report(&mut self, name: &str, held: Vec<Held>) -> Vec<Event> {
        self.apply(Command::PilotReported(PilotReported { pilot: id(name), held }))
    }

    /// Time passes and the core is told.
    fn wait(&mut self, span: u64) -> Vec<Event> {
        self.now += span;
        self.apply(Command::Tick)
    }

    fn cancel(&mut self, job: JobId, pick: Pick) -> Vec<Event> {
        self.apply(Command::Cancel(Select { by: ada(), jobs: vec![(job, pick)] }))
    }

    fn retry(&mut self, job: JobId, pick: Pick) -> Vec<Event> {
        let select = Select { by: ada(), jobs: vec![(job, pick)] };
        self.apply(Command::Retry { select, revived: Vec::new() })
    }

    fn why(&self, job: JobId) -> Vec<Reason> {
        explain(&self.state, job, Timestamp(self.now))
    }

    fn job_state(&self, job: JobId) -> JobState {
        self.state.job(job).expect("in memory").state()
    }

    fn counts(&self, job: JobId) -> JobCounts {
        self.state.job(job).expect("in memory").tasks.counts()
    }
}

fn replayed(recorded: &[Recorded]) -> State {
    let mut state = State::default();
    for one in recorded {
        let text = serde_json::to_string(one).expect("an event is plain data");
        let read: Recorded = serde_json::from_str(&text).expect("what was written reads back");
        evolve(&mut state, read.at, &read.event);
    }
    state
}

fn token_for(name: &str, site: SiteKind, expires: Option<u64>) -> Command {
    let ask = AskSite { expires: expires.map(Timestamp), ..AskSite::named_after(&id(name), site) };
    Command::AskSite(Box::new(ask))
}

fn actor(name: &str, role: Role) -> Actor {
    Actor::new(UserName::new(name).expect("good"), role)
}

fn ada() -> Actor {
    actor("ada", Role::User)
}

fn id(name: &str) -> PilotId {
    PilotId::new(name).expect("good")
}

fn spec(json: &str) -> JobSpec {
    let mut spec: JobSpec = serde_json::from_str(json).expect(json);
    if spec.command.is_empty() {
        spec.command = vec!["true".into()];
    }
    spec
}

fn submission(job: JobId, by: Actor, json: &str, key: Option<&str>) -> Command {
    let digest = json.len() as u64;
    let (jobs, key) = (vec![NewJob::new(job, spec(json))], key.map(Into::into));
    Command::Submit(Box::new(Submit { by, key, digest, jobs }))
}

fn task(job: JobId, index: u64) -> TaskId {
    job.task(TaskIndex(index))
}

fn pilot(name: &str, cpus: u64, gpus: u64) -> PilotJoined {
    let device = |at: u64| GpuDevice {
        id: DeviceId::new(&format!("{name}-gpu{at}")).expect("good"),
        model: "NVIDIA A100".into(),
        memory: Bytes(40 << 30),
        vendor: GpuVendor::Nvidia,
        source: GpuSource::Declared,
        capability: None,
        driver: None,
        slice: None,
    };
    let capacity =
        Capacity { cpus: Cores::whole(cpus), memory: Bytes(16_000_000_000), ..Capacity::default() };
    PilotJoined {
        pilot: id(name),
        connection: ConnectionNumber(1),
        ad: NodeAd {
            node: NodeName::new(name).expect("good"),
            capacity,
            gpus: (0..gpus).map(device).collect(),
            notes: Vec::new(),
            unfit: Vec::new(),
            withheld: Vec::new(),
            people: None,
            attributes: std::collections::BTreeMap::default(),
        },
        lease: None,
        held: Vec::new(),
        folder: None,
    }
}

fn ended(task: TaskId, attempt: u32, end: Ended) -> Held {
    Held::own(task.attempt(Attempt(attempt)), HeldPhase::Ended(end))
}

fn end(now: u64, outcome: Outcome) -> Ended {
    let started = Some(Timestamp(now));
    Ended { outcome, started, ended: Timestamp(now + 1_000), ran: Millis(1_000) }
}

const OK: Outcome = Outcome::Exit { code: 0 };
const FAILED: Outcome = Outcome::Exit { code: 1 };
