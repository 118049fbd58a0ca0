//! A situation as it may be at a site on a bad day: a few nodes, some users with a past, arrays,
//! time limits, jobs after others, a batch system, nodes that are kept. Everything that fits is
//! placed. Not a simulation of pilots: what they would report is told to the core directly.

use shipway_core::command::{
    AskSite, Command, NewJob, Pick, PilotJoined, PilotReported, Select, Submit,
};
use shipway_core::engine::step;
use shipway_core::schedule::schedule;
use shipway_core::site::SiteKind;
use shipway_core::{State, invariants};
use shipway_model::gpu::Version;
use shipway_model::node::ALLOCATION_ENDS;
use shipway_model::site::LAST_MINUTE;
use shipway_model::{
    Actor, Attempt, Bytes, Capacity, ConnectionNumber, Cores, DeviceId, Ended, GpuDevice,
    GpuSource, GpuVendor, Held, HeldPhase, JobId, JobSpec, Millis, NodeAd, NodeName, Outcome,
    PilotId, Role, TaskId, Timestamp, UserName,
};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

const USERS: usize = 3;
const MINUTE: u64 = 60_000;
const STEPS: usize = 24;

/// Numbers that depend on nothing but the seed (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let end = u64::try_from(end).expect("fits");
        usize::try_from((mixed ^ (mixed >> 31)) % end).expect("less than a usize")
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }
}

#[derive(Clone)]
pub(crate) struct Situation {
    seed: u64,
    dice: Dice,
    pub(crate) state: State,
    pub(crate) now: Timestamp,
    /// What each job asks for, and whose it is.
    pub(crate) specs: BTreeMap<JobId, (usize, String)>,
    /// What somebody thinks of asking for.
    pub(crate) new: (usize, String),
}

impl fmt::Display for Situation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}", self.seed)
    }
}

impl Situation {
    pub(crate) fn random(seed: u64) -> Situation {
        let (state, now) = (State::default(), Timestamp(1_000));
        let (dice, new) = (Dice(seed), (0, String::new()));
        let mut it = Situation { seed, dice, state, now, specs: BTreeMap::new(), new };
        if it.dice.one_in(3) {
            it.join_site();
        }
        for at in 0..=it.dice.below(4) {
            it.join(at);
        }
        for _ in 0..STEPS {
            it.one_step();
        }
        let now = it.now;
        place(&mut it.state, now);
        assert_eq!(invariants::check(&it.state), [], "{it}");
        let user = it.dice.below(USERS);
        it.new = (user, it.wish(user));
        it
    }

    pub(crate) fn tell(&self, state: &mut State, command: &Command) {
        step(state, self.now, command).unwrap_or_else(|why| panic!("{self}: {command:?}: {why}"));
    }

    /// Jobs that wait, by their ids.
    pub(crate) fn waiting(&self) -> Vec<JobId> {
        let jobs = self.state.jobs().iter();
        jobs.filter(|(_, job)| job.tasks.counts().waiting > 0).map(|(id, _)| id).collect()
    }

    fn one_step(&mut self) {
        match self.dice.below(8) {
            0..=3 => {
                let user = self.dice.below(USERS);
                let wish = self.wish(user);
                self.submit(user, wish);
            }
            4 => self.now = self.now.plus(Millis(self.dice.below(40) as u64 * MINUTE)),
            5 => self.end_one(),
            _ => {
                let now = self.now;
                place(&mut self.state, now);
            }
        }
        self.end_what_is_due();
    }

    fn submit(&mut self, user: usize, json: String) {
        let job = submit(&mut self.state, self.now, user, spec(&json));
        self.specs.insert(job, (user, json));
    }

    fn wish(&mut self, user: usize) -> String {
        let dice = &mut self.dice;
        let mut parts = vec![r#""command":["true"]"#.to_owned()];
        let gpu = match dice.below(4) {
            0 => format!(r#","gpu":{}"#, 1 + dice.below(3)),
            1 => format!(r#","gpu":{{"count":{},"model":"a100"}}"#, 1 + dice.below(2)),
            _ => String::new(),
        };
        let (cpus, memory) = (1 + dice.below(5), 1 + dice.below(18));
        parts.push(format!(r#""resources":{{"cpus":{cpus},"memory":"{memory}GB"{gpu}}}"#));
        if dice.one_in(3) {
            parts.push(format!(r#""array":"1-{}""#, 2 + dice.below(5)));
        }
        if !dice.one_in(3) {
            parts.push(format!(r#""time_limit":"{}m""#, 1 + dice.below(300)));
        }
        if dice.one_in(4) {
            parts.push(format!(r#""priority":{}"#, dice.below(3)));
        }
        if dice.one_in(4) {
            let terms = ["Rack == 1", "CUDACapability >= 8.0", "HasNothing", "Cpus >= 3"];
            let count = 1 + dice.below(2);
            let first = dice.below(terms.len());
            let chosen: Vec<&str> = (first..first + count).map(|at| terms[at % 4]).collect();
            parts.push(format!(r#""requirements":"{}""#, chosen.join(" && ")));
        }
        let is_there = |job: &JobId| self.state.job(*job).is_some();
        let own = self.specs.iter().filter(|(_, (owner, _))| *owner == user).map(|(job, _)| *job);
        let own: Vec<JobId> = own.filter(is_there).collect();
        if !own.is_empty() && dice.one_in(8) {
            parts.push(format!(r#""after":["{}:any"]"#, own[dice.below(own.len())]));
        }
        format!("{{{}}}", parts.join(","))
    }

    fn join(&mut self, at: usize) {
        let pilot = PilotId::new(&format!("p{at}")).expect("good");
        let ad = self.node(at);
        let ask = AskSite::named_after(&pilot, SiteKind::ByHand);
        let (now, state) = (self.now, &mut self.state);
        step(state, now, &Command::AskSite(Box::new(ask))).expect("a token");
        let (lease, held, folder) = (None, Vec::new(), None);
        let connection = ConnectionNumber(1);
        let joined = PilotJoined { pilot, connection, ad, lease, held, folder };
        step(state, now, &Command::PilotJoined(Box::new(joined))).expect("joins");
    }

    fn node(&mut self, at: usize) -> NodeAd {
        let (model, capability) =
            if self.dice.one_in(3) { ("Tesla V100", 7) } else { ("NVIDIA A100", 8) };
        let gpus = (0..self.dice.below(4)).map(|device| GpuDevice {
            id: DeviceId::new(&format!("gpu-{at}-{device}")).expect("good"),
            model: model.into(),
            memory: Bytes(40 << 30),
            vendor: GpuVendor::Nvidia,
            source: GpuSource::Declared,
            capability: Some(Version::new(&[capability, 0])),
            driver: None,
            slice: None,
        });
        let gpus = gpus.collect();
        let memory = Bytes([8, 16][self.dice.below(2)] * 1_000_000_000);
        let mut attributes = BTreeMap::from([("Rack".to_owned(), self.dice.below(3).to_string())]);
        if self.dice.one_in(3) {
            let ends = self.now.plus(Millis((2 + self.dice.below(600) as u64) * MINUTE));
            attributes.insert(ALLOCATION_ENDS.to_owned(), (ends.0 / 1_000).to_string());
        }
        NodeAd {
            node: NodeName::new(&format!("n{at}")).expect("good"),
            capacity: Capacity {
                cpus: Cores::whole(1 + self.dice.below(6) as u64),
                memory,
                ..Capacity::default()
            },
            gpus,
            notes: Vec::new(),
            unfit: Vec::new(),
            withheld: Vec::new(),
            people: None,
            attributes,
        }
    }

    fn join_site(&mut self) {
        let json = r#"{"name":"hpc","kind":"slurm","program":"/opt/shipway",
            "server":"http://h:7447","wall":"3h","classes":[
                {"name":"a100","pilots":4,"cpus":4,"memory":"16GB","gpus":
                    {"count":2,"model":"NVIDIA A100","memory":"40GB","kind":"a100"}},
                {"name":"cpu","pilots":10,"cpus":2,"memory":"4GB"}]}"#;
        let spec = Box::new(serde_json::from_str(json).expect(json));
        let by = Actor::new(UserName::new("root").expect("good"), Role::Admin);
        step(&mut self.state, self.now, &Command::AddSite { by, spec }).expect("a good site");
    }

    /// One task that runs, whichever, is over.
    fn end_one(&mut self) {
        let active: Vec<TaskId> = self.state.active().keys().copied().collect();
        if !active.is_empty() {
            let task = active[self.dice.below(active.len())];
            let now = self.now;
            end(&mut self.state, now, task);
        }
    }

    /// What has come to its time limit is over.
    fn end_what_is_due(&mut self) {
        let due: Vec<TaskId> =
            self.ends().into_iter().filter(|(_, end)| *end <= self.now).map(|(it, _)| it).collect();
        let now = self.now;
        for task in due {
            end(&mut self.state, now, task);
        }
    }

    /// When each task that has a time limit is over at the latest.
    fn ends(&self) -> Vec<(TaskId, Timestamp)> {
        let active = self.state.active().iter();
        let end = |(task, active): (&TaskId, &shipway_core::pilot::Active)| {
            let limit = spec(&self.specs.get(&task.job)?.1).time_limit?;
            let started = active.started.unwrap_or(active.placed);
            Some((*task, started.plus(limit.limit).plus(limit.grace)))
        };
        active.filter_map(end).collect()
    }

    /// Nothing runs and nothing waits any more.
    pub(crate) fn empty(&self, state: &mut State) {
        let jobs: Vec<JobId> = state.jobs().iter().map(|(id, _)| id).collect();
        let by = Actor::new(UserName::new("root").expect("good"), Role::Admin);
        let jobs = jobs.into_iter().map(|job| (job, Pick::All)).collect();
        let _ = step(state, self.now, &Command::Cancel(Select { by, jobs }));
        let active: Vec<TaskId> = state.active().keys().copied().collect();
        for task in active {
            end(state, self.now, task);
        }
    }

    /// Others come, what runs ends when it has to, and what fits is placed, up to this moment. Then
    /// whether somebody who stood before the owner of this job went to one of these nodes.
    pub(crate) fn go_on_until(
        &mut self,
        moment: Timestamp,
        job: JobId,
        nodes: &[NodeName],
    ) -> bool {
        let mut others_first = false;
        loop {
            let next = self.ends().into_iter().map(|(_, end)| end).min();
            let next = next.into_iter().chain(self.state.next_deadline());
            let next = next.filter(|at| *at > self.now).min().unwrap_or(moment).min(moment);
            if self.dice.one_in(2) {
                let user = self.dice.below(USERS);
                let wish = self.wish(user);
                self.submit(user, wish);
            }
            self.now = next;
            self.end_what_is_due();
            let _ = step(&mut self.state, next, &Command::Tick);
            let (there, before) = (self.on(nodes), self.standing_before(job));
            place(&mut self.state, next);
            let came = self.on(nodes).into_iter().filter(|task| !there.contains(task));
            let owner = |task: TaskId| &self.state.job(task.job).expect("it runs").owner;
            others_first |= came.map(owner).any(|owner| before.contains(owner));
            if next >= moment {
                return others_first;
            }
        }
    }

    fn on(&self, nodes: &[NodeName]) -> BTreeSet<TaskId> {
        let pilots = self.state.pilots().values().filter(|pilot| nodes.contains(pilot.name()));
        pilots.flat_map(|pilot| pilot.placed.iter().copied()).collect()
    }

    fn standing_before(&self, job: JobId) -> BTreeSet<UserName> {
        let Some(owner) = self.state.job(job).map(|job| &job.owner) else {
            return BTreeSet::new();
        };
        let standing = |user: &UserName| self.state.fair_share().standing(user, self.now);
        let users = (0..USERS).map(|user| actor(user).user);
        users.filter(|user| standing(user).order(standing(owner)) == Ordering::Less).collect()
    }

    /// Tasks of a job that were placed up to now.
    pub(crate) fn placed_of(&self, job: JobId) -> u32 {
        let counts = self.state.job(job).map(|job| (job.tasks.len(), job.tasks.counts().waiting));
        counts.map_or(0, |(all, waiting)| all - waiting)
    }

    pub(crate) fn is_over(&self, job: JobId) -> bool {
        self.state.job(job).is_none_or(|job| job.tasks.counts().waiting == 0)
    }
}

pub(crate) fn actor(user: usize) -> Actor {
    Actor::new(UserName::new(["ada", "bob", "cleo"][user]).expect("good"), Role::User)
}

pub(crate) fn spec(json: &str) -> JobSpec {
    serde_json::from_str(json).expect(json)
}

pub(crate) fn submit(state: &mut State, now: Timestamp, user: usize, spec: JobSpec) -> JobId {
    let job = state.next_job();
    let submit = Submit::one(actor(user), NewJob::new(job, spec));
    step(state, now, &Command::Submit(Box::new(submit))).expect("a good job");
    job
}

/// Plans and applies until nothing more fits, and has all of it begin.
pub(crate) fn place(state: &mut State, now: Timestamp) {
    loop {
        let plan = schedule(state, now);
        if plan.is_empty() {
            break;
        }
        step(state, now, &Command::ApplyPlan(plan)).expect("it was just made");
    }
    let begin: Vec<(PilotId, TaskId, Attempt)> = state
        .active()
        .iter()
        .filter(|(_, active)| active.started.is_none())
        .map(|(task, active)| (active.pilot.clone(), *task, active.attempt))
        .collect();
    for (pilot, task, attempt) in begin {
        let ends = state.pilots()[&pilot].ad.allocation_ends();
        let shape = state.job(task.job).map(|job| state.shapes().get(job.shape));
        if let Some((ends, at_most)) = ends.zip(shape.and_then(|shape| shape.at_most)) {
            let leaves = Timestamp(ends.0 - LAST_MINUTE.0);
            assert!(now.plus(at_most) <= leaves, "{task} is not over before {pilot} leaves");
        }
        let phase = HeldPhase::Running { started: now };
        report(state, now, pilot, Held::own(task.attempt(attempt), phase));
    }
}

fn end(state: &mut State, now: Timestamp, task: TaskId) {
    let Some(active) = state.active().get(&task) else { return };
    let (pilot, attempt) = (active.pilot.clone(), active.attempt);
    let started = active.started;
    let ran = started.map_or(Millis(0), |started| now.since(started));
    let outcome = Outcome::Exit { code: 0 };
    let phase = HeldPhase::Ended(Ended { outcome, started, ended: now, ran });
    report(state, now, pilot, Held::own(task.attempt(attempt), phase));
}

fn report(state: &mut State, now: Timestamp, pilot: PilotId, held: Held) {
    let report = PilotReported { pilot, held: vec![held] };
    step(state, now, &Command::PilotReported(report)).expect("a good report");
}
