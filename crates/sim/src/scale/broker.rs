//! What the broker costs: one look over all that waits and all sites; and how fast what pilots ask
//! for is matched. The state is made by commands, as a server's is.

use super::cluster::{GB, KINDS, Kind, ad};
use super::cost::{part, timed};
use super::workload::{Wish, resources, skewed_user, submit, user};
use crate::dice::Dice;
use shipway_core::State;
use shipway_core::broker::{self, Proposal};
use shipway_core::command::{AskBatch, Command, PilotJoined, PilotReported};
use shipway_core::engine::step;
use shipway_core::event::Awaited;
use shipway_core::explain::explain;
use shipway_core::schedule::schedule;
use shipway_model::{
    Actor, AllocationId, ConnectionNumber, Ended, Held, HeldPhase, JobId, Millis, Outcome, PilotId,
    Role, SiteSpec, TaskId, Timestamp, UserName,
};
use std::fmt;
use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub tasks: u32,
    /// Of one job.
    pub tasks_each: u32,
    pub shapes: u32,
    pub sites: u32,
}

/// What LHCb had waiting at its sites, each a job of its own.
pub const GRID: Size = Size { tasks: 872_000, tasks_each: 1, shapes: 501, sites: 60 };
/// What DiracX is being designed for.
pub const LARGE: Size = Size { tasks: 10_000_000, tasks_each: 1_000, shapes: 5_000, sites: 1_000 };

const ROUNDS: usize = 7;
const MATCHES: u32 = 20_000;
/// So often somebody asks why a job waits.
const WHY_EVERY: u32 = 100;
const HOUR: u64 = 3_600_000;
/// Classes of one site.
const CLASSES: u32 = 3;

#[derive(Debug)]
pub struct Cycle {
    size: Size,
    /// The whole of it, by round.
    pub whole: Vec<Duration>,
    /// Of that, while the state is held.
    pub held: Vec<Duration>,
    asked: u32,
    pending: usize,
}

#[derive(Debug)]
pub struct Matched {
    pub per_second: u64,
    pilots: usize,
    pub reasons: usize,
}

/// The cycle is that of a server at work: what its limits let it ask for has been asked for.
pub fn cycle(size: Size) -> Cycle {
    let (mut state, mut now) = made(size);
    let asked = ask(&mut state, &mut now).len();
    let (mut whole, mut held) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (_, took) = propose(&state, now);
        held.push(took.0);
        whole.push(took.1);
    }
    whole.sort_unstable();
    held.sort_unstable();
    let pending = state.allocations().len();
    Cycle { size, whole, held, asked: u32::try_from(asked).unwrap_or(u32::MAX), pending }
}

/// What a look proposes, and how long it took: with the state in hand, and in all.
fn propose(state: &State, now: Timestamp) -> (Proposal, (Duration, Duration)) {
    let (look, held) = timed(|| broker::look(state, now));
    let (proposal, rest) = timed(|| look.map(broker::demand::Look::propose));
    (proposal.unwrap_or_default(), (held, held + rest))
}

fn root() -> Actor {
    Actor::new(UserName::new("root").expect("a good name"), Role::Admin)
}

/// Sites, and what waits for them.
fn made(size: Size) -> (State, Timestamp) {
    let (mut state, mut dice, now) = (State::default(), Dice::new(1), Timestamp(HOUR));
    for number in 0..size.sites {
        let spec = Box::new(site(number));
        let add = Command::AddSite { by: root(), spec };
        step(&mut state, now, &add).expect("a good site");
    }
    let jobs = size.tasks / size.tasks_each;
    for job in 0..jobs {
        // A few shapes have most of the jobs; each has some.
        let shape = if job < size.shapes { job } else { skewed(&mut dice, size.shapes) };
        let user = user(skewed_user(&mut dice, 100));
        let limit = Some(Millis(HOUR * u64::from(1 + shape / 1_952)));
        let wish = Wish { user, resources: resources(shape), tasks: size.tasks_each, limit };
        submit(&mut state, Timestamp(now.0 + u64::from(job)), &wish);
    }
    (state, Timestamp(now.0 + u64::from(jobs)))
}

fn skewed(dice: &mut Dice, shapes: u32) -> u32 {
    let most = 1 + dice.below(u64::from(shapes));
    u32::try_from(dice.below(most)).unwrap_or(0)
}

/// Of a few kinds of nodes each, at prices of its own.
fn site(number: u32) -> SiteSpec {
    let class = |at: u32| {
        let kind = kind(number, at);
        let gpus = serde_json::json!({
            "count": kind.gpus, "model": kind.model, "memory": kind.gpu_memory_gb * GB,
        });
        let mut class = serde_json::json!({
            "name": format!("class{at}"), "pilots": 200, "cpus": kind.cpus,
            "memory": kind.memory_gb * GB, "disk": 1_000 * GB, "cost": f64::from(1 + number % 7),
        });
        if kind.gpus > 0 {
            class["gpus"] = gpus;
        }
        class
    };
    let classes: Vec<_> = (0..CLASSES).map(class).collect();
    let site = serde_json::json!({
        "name": format!("site{number}"), "kind": "slurm", "program": "/opt/shipway",
        "server": "https://shipway.example.org:7447", "shared": ["/"], "classes": classes,
        "wall": format!("{}h", 12 + number % 5 * 12),
        "limits": {"pending": 10, "running": 200, "starts_per_hour": 1_000},
    });
    serde_json::from_value(site).expect("a good site")
}

fn kind(site: u32, class: u32) -> Kind {
    let at = site.wrapping_mul(5).wrapping_add(class * 4 + site / 12) as usize;
    KINDS[at % KINDS.len()]
}

/// Asks for what is proposed; the pilots that will come, with the kinds of their nodes.
fn ask(state: &mut State, now: &mut Timestamp) -> Vec<(PilotId, Kind)> {
    let (proposal, _) = propose(state, *now);
    let mut pilots = Vec::new();
    for broker::Ask { site, class, count, .. } in proposal.asks {
        let number = |name: &str, before: &str| -> u32 {
            name.strip_prefix(before).and_then(|rest| rest.parse().ok()).unwrap_or(0)
        };
        let kind = kind(number(site.as_str(), "site"), number(&class, "class"));
        let mut allocations = Vec::new();
        for _ in 0..count {
            let name = format!("batch-{}", pilots.len());
            let pilot = PilotId::new(&name).expect("a good id");
            let allocation = AllocationId::new(&name).expect("a good id");
            allocations.push((allocation, vec![Awaited { pilot: pilot.clone(), hash: name }]));
            pilots.push((pilot, kind));
        }
        let ask = Command::AskBatch(Box::new(AskBatch { site, class, allocations }));
        step(state, *now, &ask).expect("an ask is never refused");
    }
    now.0 += 1;
    pilots
}

/// Pilots have come, and each that ends a task gets the next one.
pub fn matched(size: Size) -> Matched {
    let (mut state, mut now) = made(size);
    let pilots = ask(&mut state, &mut now);
    for (number, (pilot, kind)) in (0_u32..).zip(&pilots) {
        let joined = PilotJoined {
            pilot: pilot.clone(),
            connection: ConnectionNumber(1),
            ad: ad(number, *kind),
            lease: Some(Millis(HOUR)),
            held: Vec::new(),
            folder: None,
        };
        let joined = Command::PilotJoined(Box::new(joined));
        step(&mut state, now, &joined).expect("a pilot that was asked for");
    }
    while place(&mut state, now) > 0 {}
    let mut dice = Dice::new(2);
    let running: Vec<TaskId> = state.active().keys().copied().collect();
    let mut running: std::collections::VecDeque<TaskId> = running.into();
    let ((placed, reasons), took) = timed(|| {
        let (mut placed, mut reasons) = (0_usize, 0);
        for at in 0..MATCHES {
            now.0 += 1;
            let Some(task) = running.pop_front() else { break };
            ended(&mut state, now, task);
            let before = placed;
            placed += place(&mut state, now);
            if placed > before {
                let new = state.active().iter().filter(|(_, active)| active.placed == now);
                running.extend(new.map(|(task, _)| *task));
            }
            if at.is_multiple_of(WHY_EVERY) {
                let job = JobId(1 + dice.below(u64::from(size.tasks / size.tasks_each)));
                reasons += explain(&state, job, now).len();
            }
        }
        (placed, reasons)
    });
    let micros = took.as_micros().max(1);
    let per_second = u64::try_from(placed as u128 * 1_000_000 / micros).unwrap_or(u64::MAX);
    Matched { per_second, pilots: pilots.len(), reasons }
}

fn ended(state: &mut State, now: Timestamp, task: TaskId) {
    let Some(active) = state.active().get(&task) else { return };
    let outcome = Outcome::Exit { code: 0 };
    let ended = Ended { outcome, started: Some(now), ended: now, ran: Millis(600_000) };
    let report = PilotReported {
        pilot: active.pilot.clone(),
        held: vec![Held::own(task.attempt(active.attempt), HeldPhase::Ended(ended))],
    };
    step(state, now, &Command::PilotReported(report)).expect("a report is taken");
}

/// How many were placed.
fn place(state: &mut State, now: Timestamp) -> usize {
    let plan = schedule(state, now);
    let placed = plan.len();
    if placed > 0 {
        step(state, now, &Command::ApplyPlan(plan)).expect("a plan made just now fits");
    }
    placed
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Size { tasks, shapes, sites, .. } = self.size;
        let (whole, held) = (part(&self.whole, 50), part(&self.held, 50));
        let (asked, pending) = (self.asked, self.pending);
        writeln!(f, "{tasks} tasks of {shapes} shapes over {sites} sites")?;
        writeln!(f, "  a broker's cycle     {whole:?}, {held:?} of it with the state in hand")?;
        writeln!(f, "  worst                {:?}", part(&self.whole, 100))?;
        writeln!(f, "  pilots               {asked} asked for at first, {pending} allocations")
    }
}

impl fmt::Display for Matched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Matched { per_second, pilots, reasons } = self;
        writeln!(f, "{per_second} requests of {pilots} pilots matched each second (goal: 10000)")?;
        writeln!(f, "  with {reasons} reasons told in between")
    }
}
