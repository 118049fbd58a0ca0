//! What a full pass, one freed node and one `why` cost, with a million jobs waiting.

use super::bare::Bare;
use super::cluster::{join, kind_at};
use super::workload::{Wish, resources, skewed_user, submit, user};
use crate::dice::Dice;
use shipway_core::State;
use shipway_core::command::{Command, PilotReported};
use shipway_core::engine::step;
use shipway_core::explain::{explain, prospect};
use shipway_core::schedule::schedule;
use shipway_model::{Ended, Held, HeldPhase, JobId, Millis, Outcome, TaskId, Timestamp};
use std::fmt;
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub jobs: u32,
    pub shapes: u32,
    pub nodes: u32,
    pub users: u32,
}

#[derive(Debug)]
pub struct Cost {
    size: Size,
    pub bare: Duration,
    bare_placed: u64,
    pub pass: Duration,
    placed: usize,
    plans: usize,
    /// Sorted.
    pub freed: Vec<Duration>,
    pub event: Vec<Duration>,
    pub why: Vec<Duration>,
}

/// Nodes freed, and questions asked.
const FREED: usize = 5_000;
const ASKED: u64 = 500;

pub fn measure(size: Size) -> Cost {
    let each = size.jobs / size.shapes;
    let mut bare = Bare::new(size.nodes, size.shapes, each);
    let (bare_placed, bare) = timed(|| bare.pass());
    let mut dice = Dice::new(1);
    let mut state = State::default();
    for node in 0..size.nodes {
        join(&mut state, node, kind_at(node));
    }
    for job in 0..size.jobs {
        let user = user(skewed_user(&mut dice, size.users));
        let wish = Wish { user, resources: resources(job % size.shapes), tasks: 1, limit: None };
        submit(&mut state, Timestamp(2 + u64::from(job)), &wish);
    }
    let now = Timestamp(10 + u64::from(size.jobs));
    let (mut pass, mut placed, mut plans) = (Duration::ZERO, 0, 0);
    loop {
        let (plan, took) = timed(|| schedule(&mut state, now));
        pass += took;
        plans += 1;
        placed += plan.len();
        if plan.is_empty() {
            break;
        }
        step(&mut state, now, &Command::ApplyPlan(plan)).expect("a plan made just now fits");
    }
    let (freed, event) = free_nodes(&mut state, &mut dice, now);
    let why = ask_why(&state, &mut dice, size, now);
    Cost { size, bare, bare_placed, pass, placed, plans, freed, event, why }
}

pub(super) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    let done = work();
    (done, began.elapsed())
}

/// One task after the other ends; the next plan is timed, and the command that tells of the end.
fn free_nodes(
    state: &mut State,
    dice: &mut Dice,
    now: Timestamp,
) -> (Vec<Duration>, Vec<Duration>) {
    let running: Vec<TaskId> = state.active().keys().copied().collect();
    let (mut plans, mut events) = (Vec::new(), Vec::new());
    for at in 0..FREED.min(running.len()) {
        let task = running[usize::try_from(dice.below(running.len() as u64)).unwrap_or(0)];
        let Some(active) = state.active().get(&task) else { continue };
        let at = Timestamp(now.0 + at as u64);
        let outcome = Outcome::Exit { code: 0 };
        let ended = Ended { outcome, started: Some(now), ended: at, ran: Millis(60_000) };
        let report = PilotReported {
            pilot: active.pilot.clone(),
            held: vec![Held::own(task.attempt(active.attempt), HeldPhase::Ended(ended))],
        };
        let report = Command::PilotReported(report);
        let (told, took) = timed(|| step(state, at, &report));
        told.expect("a report is taken");
        events.push(took);
        let (plan, took) = timed(|| schedule(state, at));
        plans.push(took);
        if !plan.is_empty() {
            step(state, at, &Command::ApplyPlan(plan)).expect("a plan made just now fits");
        }
    }
    plans.sort_unstable();
    events.sort_unstable();
    (plans, events)
}

fn ask_why(state: &State, dice: &mut Dice, size: Size, now: Timestamp) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..ASKED)
        .map(|_| {
            let job = JobId(1 + dice.below(u64::from(size.jobs)));
            timed(|| (explain(state, job, now), prospect(state, job, now))).1
        })
        .collect();
    times.sort_unstable();
    times
}

pub fn part(sorted: &[Duration], percent: usize) -> Duration {
    let at = sorted.len().saturating_sub(1) * percent / 100;
    sorted.get(at).copied().unwrap_or_default()
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Size { jobs, shapes, nodes, users } = self.size;
        writeln!(f, "{jobs} jobs of {shapes} shapes and {users} users on {nodes} nodes")?;
        let ratio = self.pass.as_nanos() * 100 / self.bare.as_nanos().max(1);
        let (whole, rest) = (ratio / 100, ratio % 100);
        let (bare, pass) = (self.bare, self.pass);
        writeln!(f, "  bare first-fit loop  {bare:?}, {} placed", self.bare_placed)?;
        writeln!(
            f,
            "  full pass            {pass:?}, {} placed in {} plans",
            self.placed, self.plans
        )?;
        writeln!(f, "  ratio                {whole}.{rest:02} (goal: at most 3)")?;
        let line = |f: &mut fmt::Formatter<'_>, name: &str, times: &[Duration], goal: &str| {
            let (half, most, worst) = (part(times, 50), part(times, 99), part(times, 100));
            writeln!(f, "  {name:<20} p50 {half:?}, p99 {most:?}, worst {worst:?} ({goal})")
        };
        line(f, "a freed node", &self.freed, "goal: p50 at most 50µs")?;
        line(f, "an end, told", &self.event, "deciding and evolving")?;
        line(f, "why", &self.why, "goal: at most 5ms")
    }
}
