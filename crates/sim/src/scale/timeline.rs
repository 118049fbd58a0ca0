//! A cluster at work in simulated time: tasks run as long as they are told to, and whenever one
//! ends or comes the scheduler is asked. Who used how much is noted as it goes.

use super::chart::{Chart, Line};
use super::cluster::{self, Kind};
use super::cost::Size;
use super::workload::{Wish, resources, skewed_user, submit, user};
use crate::dice::Dice;
use shipway_core::State;
use shipway_core::command::{Command, PilotReported};
use shipway_core::engine::step;
use shipway_core::schedule::schedule;
use shipway_model::{
    Ended, Held, HeldPhase, JobId, Millis, Outcome, PilotId, TaskId, Timestamp, UserName,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::time::{Duration, Instant};

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

/// Whoever comes at a time: what, and how long each task of it runs.
#[derive(Debug, Clone)]
pub struct Arrival {
    pub at: u64,
    pub wish: Wish,
    pub runs: u64,
}

#[derive(Debug)]
pub struct Timeline {
    pub state: State,
    pub now: u64,
    arrivals: BinaryHeap<Reverse<(u64, usize)>>,
    wishes: Vec<Arrival>,
    ends: BinaryHeap<Reverse<(u64, TaskId, PilotId)>>,
    runs: BTreeMap<JobId, (u64, UserName, u64)>,
    /// Device-milliseconds given to each user so far.
    pub given: BTreeMap<UserName, u64>,
    /// When each job started first.
    pub started: BTreeMap<JobId, u64>,
    pub busy_gpus: u64,
    /// Device-milliseconds given to anybody so far.
    pub gpu_time: u64,
    last: u64,
    pub passes: u64,
    pub events: u64,
    pub pass_time: Duration,
    pub event_time: Duration,
}

impl Timeline {
    pub fn new(nodes: impl Iterator<Item = Kind>) -> Timeline {
        let mut state = State::default();
        for (kind, node) in nodes.zip(0..) {
            cluster::join(&mut state, node, kind);
        }
        Timeline {
            state,
            now: 1,
            arrivals: BinaryHeap::new(),
            wishes: Vec::new(),
            ends: BinaryHeap::new(),
            runs: BTreeMap::new(),
            given: BTreeMap::new(),
            started: BTreeMap::new(),
            busy_gpus: 0,
            gpu_time: 0,
            last: 1,
            passes: 0,
            events: 0,
            pass_time: Duration::ZERO,
            event_time: Duration::ZERO,
        }
    }

    pub fn expect(&mut self, arrival: Arrival) {
        self.arrivals.push(Reverse((arrival.at, self.wishes.len())));
        self.wishes.push(arrival);
    }

    /// Goes on to the next moment at which something happens. False: nothing is left to happen.
    pub fn advance(&mut self) -> bool {
        let arrival = self.arrivals.peek().map(|Reverse((at, _))| *at);
        let end = self.ends.peek().map(|Reverse((at, ..))| *at);
        let Some(next) = [arrival, end].into_iter().flatten().min() else { return false };
        self.now = self.now.max(next);
        self.gpu_time += self.busy_gpus * (self.now - self.last);
        self.last = self.now;
        self.end_what_is_due();
        self.submit_what_comes();
        self.place();
        true
    }

    fn end_what_is_due(&mut self) {
        while let Some(Reverse((_, task, pilot))) = self.ends.pop_if_due(self.now) {
            let Some(active) = self.state.active().get(&task) else { continue };
            let (runs, user, gpus) = self.runs[&task.job].clone();
            self.busy_gpus -= gpus;
            *self.given.entry(user).or_default() += runs * gpus;
            let started = Some(Timestamp(self.now - runs));
            let outcome = Outcome::Exit { code: 0 };
            let ended = Timestamp(self.now);
            let ended = Ended { outcome, started, ended, ran: Millis(runs) };
            let id = task.attempt(active.attempt);
            let held = vec![Held::own(id, HeldPhase::Ended(ended))];
            let report = PilotReported { pilot, held };
            self.apply(&Command::PilotReported(report));
        }
    }

    fn submit_what_comes(&mut self) {
        while let Some(Reverse((at, which))) = self.arrivals.peek().copied() {
            if at > self.now {
                return;
            }
            self.arrivals.pop();
            let Arrival { wish, runs, .. } = &self.wishes[which];
            let gpus = wish.resources.gpu.as_ref().map_or(0, |gpu| u64::from(gpu.count));
            let job = submit(&mut self.state, Timestamp(self.now), wish);
            self.runs.insert(job, (*runs, wish.user.clone(), gpus));
        }
    }

    fn place(&mut self) {
        loop {
            let began = Instant::now();
            let plan = schedule(&mut self.state, Timestamp(self.now));
            self.pass_time += began.elapsed();
            self.passes += 1;
            if plan.is_empty() {
                return;
            }
            for (pilot, placements) in plan.by_pilot() {
                for placement in placements {
                    self.start(pilot, placement.task);
                }
            }
            self.apply(&Command::ApplyPlan(plan));
        }
    }

    fn start(&mut self, pilot: &PilotId, task: TaskId) {
        let (runs, _, gpus) = self.runs[&task.job];
        self.busy_gpus += gpus;
        self.started.entry(task.job).or_insert(self.now);
        self.ends.push(Reverse((self.now + runs, task, pilot.clone())));
    }

    fn apply(&mut self, command: &Command) {
        let began = Instant::now();
        step(&mut self.state, Timestamp(self.now), command).expect("what happened is taken");
        self.event_time += began.elapsed();
        self.events += 1;
        let over = self.state.archivable(1_000, u64::MAX);
        if over.len() > 1_000 {
            step(&mut self.state, Timestamp(self.now), &Command::Archive { jobs: over })
                .expect("jobs that are over may go");
        }
    }
}

/// A cluster at work on bursts of tasks until all of them are over.
#[derive(Debug)]
pub struct Work {
    tasks: u64,
    passes: u64,
    events: u64,
    pass_time: Duration,
    event_time: Duration,
    hours: u64,
    pub chart: String,
}

/// As many tasks as the size says, from skewed users, in bursts of arrays through one day.
pub fn at_work(size: Size) -> Work {
    let mut line = Timeline::new((0..size.nodes).map(cluster::kind_at));
    let mut dice = Dice::new(3);
    let (mut tasks, mut burst) = (0, 0);
    while tasks < u64::from(size.jobs) {
        if dice.chance(20) {
            burst = dice.below(DAY);
        }
        let shape = u32::try_from(dice.below(u64::from(size.shapes))).unwrap_or(0);
        let array = 1 + u32::try_from(dice.below(200)).unwrap_or(0);
        let user = user(skewed_user(&mut dice, size.users));
        let wish = Wish { user, resources: resources(shape), tasks: array, limit: None };
        let runs = 60_000 + dice.below(HOUR);
        line.expect(Arrival { at: 1 + burst + dice.below(HOUR / 4), wish, runs });
        tasks += u64::from(array);
    }
    let (mut busy, mut waiting) = (Vec::new(), Vec::new());
    let all = u64::from((0..size.nodes).map(|node| cluster::kind_at(node).gpus).sum::<u32>());
    while line.advance() {
        let at = line.now / 60_000;
        if busy.last().is_none_or(|(last, _)| *last < at) {
            busy.push((at, line.busy_gpus * 1_000 / all.max(1)));
            waiting.push((at, (line.state.ready().len() as u64).min(1_000)));
        }
    }
    let chart = Chart {
        title: "A cluster through bursts: devices in use, and jobs that wait",
        across: "minutes",
        up: "thousandths of all devices; jobs waiting (at most 1,000 shown)",
        top: 1_000,
        lines: vec![
            Line { name: "devices in use", points: busy },
            Line { name: "jobs waiting", points: waiting },
        ],
    };
    Work {
        tasks,
        passes: line.passes,
        events: line.events,
        pass_time: line.pass_time,
        event_time: line.event_time,
        hours: line.now / HOUR,
        chart: chart.svg(),
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Work { tasks, passes, events, hours, .. } = self;
        let mean = |time: Duration, of: u64| time / u32::try_from(of.max(1)).unwrap_or(u32::MAX);
        writeln!(f, "{tasks} tasks in bursts, done after {hours} simulated hours")?;
        writeln!(f, "  {passes} passes       {:?} each", mean(self.pass_time, *passes))?;
        writeln!(f, "  {events} commands     {:?} each", mean(self.event_time, *events))
    }
}

trait PopDue<T> {
    fn pop_if_due(&mut self, now: u64) -> Option<T>;
}

impl<A: Ord, B: Ord> PopDue<Reverse<(u64, A, B)>> for BinaryHeap<Reverse<(u64, A, B)>> {
    fn pop_if_due(&mut self, now: u64) -> Option<Reverse<(u64, A, B)>> {
        let due = self.peek().is_some_and(|Reverse((at, ..))| *at <= now);
        if due { self.pop() } else { None }
    }
}
