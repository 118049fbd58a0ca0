//! Gangs: tasks that are placed together or not at all, whatever happens to nodes and jobs between
//! a plan and its application. Random histories, each from a seed that is named when one fails.

use shipway_core::command::{
    AskSite, Command, NewJob, Pick, PilotJoined, PilotReported, Select, Submit,
};
use shipway_core::engine::{Step, step};
use shipway_core::event::{Event, Part};
use shipway_core::schedule::schedule;
use shipway_core::shape::Gang;
use shipway_core::site::SiteKind;
use shipway_core::{State, invariants};
use shipway_model::{
    Actor, Bytes, Capacity, ConnectionNumber, Cores, Ended, Held, HeldPhase, JobId, JobSpec,
    Millis, NodeAd, NodeName, Ordinal, Outcome, PilotId, Role, TaskId, TaskState, Timestamp,
    UserName,
};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

const SEEDS: u64 = 500;
const STEPS: usize = 60;
const NODES: usize = 4;
const CPUS: u64 = 2;

/// Numbers that depend on nothing but the seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let end = u64::try_from(end).expect("fits");
        usize::try_from((mixed ^ (mixed >> 31)) % end).expect("less than a usize")
    }
}

struct World {
    seed: u64,
    dice: Dice,
    state: State,
    now: Timestamp,
    /// How often each pilot was started.
    lives: [u64; NODES],
    gangs_placed: usize,
    plans_cut: usize,
}

fn ada() -> Actor {
    Actor::new(UserName::new("ada").expect("good"), Role::User)
}

fn pilot(at: usize) -> PilotId {
    PilotId::new(&format!("p{at}")).expect("good")
}

fn ad(at: usize) -> NodeAd {
    let node = NodeName::new(&format!("n{at}")).expect("good");
    let capacity =
        Capacity { cpus: Cores::whole(CPUS), memory: Bytes(1 << 34), ..Capacity::default() };
    NodeAd {
        node,
        capacity,
        gpus: Vec::new(),
        notes: Vec::new(),
        unfit: Vec::new(),
        withheld: Vec::new(),
        people: None,
        attributes: BTreeMap::new(),
    }
}

impl World {
    fn new(seed: u64) -> World {
        let (state, now) = (State::default(), Timestamp(1_000));
        let (dice, lives) = (Dice(seed), [0; NODES]);
        let mut world = World { seed, dice, state, now, lives, gangs_placed: 0, plans_cut: 0 };
        (0..NODES).for_each(|at| world.join(at));
        world
    }

    /// Carries a command out and looks at all that must hold.
    fn step(&mut self, command: &Command) -> Option<Step> {
        let done = step(&mut self.state, self.now, command).ok()?;
        for recorded in &done.events {
            if let Event::TasksPlaced { parts } = &recorded.event {
                self.is_whole(parts);
            }
        }
        let seed = self.seed;
        assert_eq!(invariants::check(&self.state), [], "seed {seed}");
        for (id, job) in self.state.jobs().iter() {
            let gang = self.state.shapes().get(job.shape).gang;
            for first in (0..job.tasks.len()).step_by(gang.size() as usize) {
                let states = gang.around(Ordinal(first)).map(|task| job.tasks.state(task));
                let waiting = states.filter(|state| *state == TaskState::Waiting).count();
                let is_whole = waiting == 0 || waiting == gang.size() as usize;
                assert!(is_whole || gang.is_one(), "seed {seed}: {waiting} wait of {id}'s {first}");
            }
        }
        Some(done)
    }

    fn is_whole(&mut self, parts: &[Part]) {
        let placed = parts.iter().flat_map(|part| &part.tasks).map(|placed| placed.task);
        let placed: BTreeSet<TaskId> = placed.collect();
        for task in &placed {
            let job = self.state.job(task.job).expect("a job");
            let gang = self.state.shapes().get(job.shape).gang;
            let mut others = gang.around(job.indices.ordinal(task.index).expect("a task"));
            let is_there =
                |at| placed.contains(&task.job.task(job.indices.index(at).expect("one")));
            assert!(others.all(is_there), "seed {}: {task} without its others", self.seed);
            self.gangs_placed += usize::from(!gang.is_one());
        }
    }

    fn join(&mut self, at: usize) {
        self.lives[at] += 1;
        let pilot = pilot(at);
        let ask = AskSite::named_after(&pilot, SiteKind::ByHand);
        self.step(&Command::AskSite(Box::new(ask)));
        let connection = ConnectionNumber(self.lives[at]);
        let (lease, held, folder) = (None, Vec::new(), None);
        let joined = PilotJoined { pilot, connection, ad: ad(at), lease, held, folder };
        self.step(&Command::PilotJoined(Box::new(joined)));
    }

    fn submit(&mut self, size: u32, gangs: u32) -> JobId {
        self.submit_as("ada", [size, gangs], r#""resources":{"cpus":1}"#)
    }

    fn submit_as(&mut self, user: &str, [size, gangs]: [u32; 2], rest: &str) -> JobId {
        let tasks = size * gangs;
        let text = format!(r#"{{"command":["true"],{rest},"array":"1-{tasks}"}}"#);
        let spec: JobSpec = serde_json::from_str(&text).expect("good");
        let gang = Gang::of(NonZeroU32::new(size).expect("at least one"));
        let by = Actor::new(UserName::new(user).expect("good"), Role::User);
        let job = self.state.next_job();
        let submit = Submit::one(by, NewJob { gang, ..NewJob::new(job, spec) });
        self.step(&Command::Submit(Box::new(submit))).expect("taken");
        job
    }

    /// Plans, lets something happen, and carries out the plan that may be old by then.
    fn plan(&mut self) {
        let plan = schedule(&mut self.state, self.now);
        let planned = plan.len();
        if self.dice.below(2) == 0 {
            self.something_else();
        }
        if let Some(done) = self.step(&Command::ApplyPlan(plan)) {
            let placed = done.events.iter().map(|recorded| match &recorded.event {
                Event::TasksPlaced { parts } => parts.iter().map(|part| part.tasks.len()).sum(),
                _ => 0,
            });
            self.plans_cut += usize::from(placed.sum::<usize>() < planned);
        }
    }

    fn something_else(&mut self) {
        match self.dice.below(4) {
            0 => {
                let at = self.dice.below(NODES);
                self.step(&Command::PilotEnded { pilot: pilot(at) });
            }
            1 => {
                let at = self.dice.below(NODES);
                self.join(at);
            }
            2 => self.cancel(),
            _ => {
                let plan = schedule(&mut self.state.clone(), self.now);
                self.step(&Command::ApplyPlan(plan));
            }
        }
    }

    /// A task of some job that is there.
    fn cancel(&mut self) {
        let jobs: Vec<JobId> = self.state.jobs().iter().map(|(id, _)| id).collect();
        let Some(id) = jobs.get(self.dice.below(jobs.len().max(1))) else { return };
        let job = self.state.job(*id).expect("it is there");
        let at = Ordinal(u32::try_from(self.dice.below(job.tasks.len() as usize)).expect("few"));
        let pick = Pick::Tasks(vec![job.indices.index(at).expect("a task")]);
        let select = Select { by: ada(), jobs: vec![(*id, pick)] };
        self.step(&Command::Cancel(select));
    }

    /// One of those that run ends, well or not.
    fn end_one(&mut self) {
        let active: Vec<TaskId> = self.state.active().keys().copied().collect();
        let nth = self.dice.below(active.len().max(1));
        let code = i32::from(self.dice.below(4) == 0);
        if let Some(task) = active.get(nth) {
            self.end(*task, code);
        }
    }

    fn end(&mut self, task: TaskId, code: i32) {
        let Some(active) = self.state.active().get(&task) else { return };
        let (started, ended) = (Some(self.now), self.now);
        let outcome = Outcome::Exit { code };
        let end = Ended { outcome, started, ended, ran: Millis(5) };
        let held = vec![Held::own(task.attempt(active.attempt), HeldPhase::Ended(end))];
        let pilot = active.pilot.clone();
        self.step(&Command::PilotReported(PilotReported { pilot, held }));
    }

    fn go(&mut self) {
        for _ in 0..STEPS {
            self.now = self.now.plus(Millis(1_000));
            match self.dice.below(8) {
                0 => drop(self.submit(1, 1)),
                1 => drop(self.submit(3, 1)),
                2 => {
                    let (size, gangs) = (2 + self.dice.below(4), 1 + self.dice.below(3));
                    let few = |number: usize| u32::try_from(number).expect("few");
                    self.submit(few(size), few(gangs));
                }
                3 | 4 => self.plan(),
                5 => self.end_one(),
                6 => self.something_else(),
                _ => drop(self.step(&Command::Tick)),
            }
        }
    }

    /// With all nodes there and everything going well, nothing waits for ever.
    fn finish(&mut self) {
        (0..NODES).for_each(|at| self.join(at));
        for _ in 0..1_000 {
            self.now = self.now.plus(Millis(1_000_000));
            self.step(&Command::Tick);
            let plan = schedule(&mut self.state, self.now);
            self.step(&Command::ApplyPlan(plan));
            let active: Vec<TaskId> = self.state.active().keys().copied().collect();
            for task in active {
                self.end(task, 0);
            }
            if self.state.jobs().iter().all(|(_, job)| job.ended.is_some()) {
                return;
            }
        }
        panic!("seed {}: something waits for ever", self.seed);
    }
}

#[test]
fn gangs_are_placed_whole_or_not_at_all() {
    let (mut placed, mut cut) = (0, 0);
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        world.go();
        world.finish();
        (placed, cut) = (placed + world.gangs_placed, cut + world.plans_cut);
    }
    // A run in which nothing was at stake would show nothing.
    assert!(placed > 1_000 && cut > 50, "{placed} tasks of gangs placed, {cut} plans cut");
}

#[test]
fn a_gang_of_three_waits_until_there_is_room_for_all() {
    let mut world = World::new(1);
    world.submit(1, 6);
    world.plan_now();
    world.submit(3, 1);
    world.plan_now();
    let gang = JobId(2);
    assert_eq!(world.active_of(gang), 0, "two places are free, and it needs three");
    let first = *world.state.active().keys().next().expect("it runs");
    world.end(first, 0);
    world.plan_now();
    assert_eq!(world.active_of(gang), 3);
    // One that ends badly takes the others along, and none of them is tried again.
    let first = *world.state.active_of(gang).next().expect("it runs").0;
    world.end(first, 1);
    let stopping = world.state.active_of(gang).filter(|(_, active)| active.stopping.is_some());
    assert_eq!(stopping.count(), 2);
    let rest: Vec<TaskId> = world.state.active_of(gang).map(|(task, _)| *task).collect();
    for task in rest {
        world.end(task, 143);
    }
    assert!(world.state.job(gang).is_some_and(|job| job.ended.is_some()));
}

impl World {
    fn plan_now(&mut self) {
        let plan = schedule(&mut self.state, self.now);
        self.step(&Command::ApplyPlan(plan));
    }

    fn active_of(&self, job: JobId) -> usize {
        self.state.active_of(job).count()
    }
}

/// Who has used less than all who submit small tasks all the time, so that the nodes are never
/// free together, and wants three of the four nodes at once.
fn starts_in_the_end(seed: u64) -> Option<usize> {
    let mut world = World::new(seed);
    let mut left: BTreeMap<TaskId, u64> = BTreeMap::new();
    for round in 0..120 {
        world.now = world.now.plus(Millis(60_000));
        if round == 10 {
            world.submit_as("ada", [3, 1], r#""resources":{"cpus":2}"#);
        }
        // Some say how long they may take, and all are done within ten minutes.
        for user in ["bob", "cleo"] {
            let limit = ["", r#","time_limit":"10m""#][world.dice.below(2)];
            let few = u32::try_from(1 + world.dice.below(3)).expect("few");
            world.submit_as(user, [1, few], &format!(r#""resources":{{"cpus":1}}{limit}"#));
        }
        world.step(&Command::Tick);
        world.plan_now();
        let active: Vec<TaskId> = world.state.active().keys().copied().collect();
        for task in active {
            let rounds = u64::try_from(1 + world.dice.below(9)).expect("few");
            let rounds = left.entry(task).or_insert(rounds);
            *rounds -= 1;
            if *rounds == 0 {
                world.end(task, 0);
            }
        }
        if world.gangs_placed > 0 {
            return Some(round);
        }
    }
    None
}

#[test]
fn a_gang_is_not_starved_by_small_tasks() {
    for seed in 0..SEEDS {
        assert!(starts_in_the_end(seed).is_some(), "seed {seed}: three nodes are never free");
    }
}

const HOUR: &str = r#","time_limit":"1h""#;

impl World {
    /// Each node has a task that leaves half a core: the first of one user, the others of another.
    fn begun(first: (&str, &str), others: (&str, &str)) -> World {
        let mut world = World::new(1);
        for (user, tasks, limit) in [(first.0, 1, first.1), (others.0, 3, others.1)] {
            let rest = format!(r#""resources":{{"cpus":1.5}}{limit}"#);
            world.submit_as(user, [1, tasks], &rest);
            world.plan_now();
        }
        assert_eq!(world.state.active().len(), NODES);
        world
    }

    /// As many small tasks as there are nodes, one of which fits on each.
    fn small(&mut self, user: &str, limit: &str) -> JobId {
        let rest = format!(r#""resources":{{"cpus":0.5}}{limit}"#);
        let few = u32::try_from(NODES).expect("few");
        self.submit_as(user, [1, few], &rest)
    }

    fn large(&mut self, user: &str, nodes: u32) -> JobId {
        self.submit_as(user, [nodes, 1], r#""resources":{"cpus":2}"#)
    }

    fn kept(&self, job: JobId) -> Option<(usize, bool)> {
        let held = self.state.planner().reservation_of(job)?;
        Some((held.node_count(), held.behind_own))
    }
}

#[test]
fn only_what_ends_in_time_goes_before_a_gang() {
    let mut world = World::begun(("bob", HOUR), ("bob", HOUR));
    let gang = world.large("ada", 3);
    let long = world.small("cleo", r#","time_limit":"2h""#);
    world.plan_now();
    assert_eq!(world.kept(gang), Some((3, false)));
    assert_eq!(world.active_of(long), 1, "on the node that is not kept");
    let short = world.small("dora", r#","time_limit":"30m""#);
    world.plan_now();
    assert_eq!((world.active_of(long), world.active_of(short)), (1, 3));
    // One node after the other is free, and not given away.
    let not_kept = world.state.active_of(long).next().expect("it runs").1.pilot.clone();
    while world.active_of(gang) == 0 {
        let mut active = world.state.active().iter();
        let there = active.find(|(_, active)| active.pilot != not_kept).map(|(task, _)| *task);
        world.end(there.expect("one is in its way"), 0);
        world.plan_now();
        assert_eq!(world.active_of(long), 1);
    }
    assert_eq!(world.active_of(gang), 3);
}

#[test]
fn nodes_are_kept_from_nobody_else_behind_ones_own_tasks() {
    let two = r#","time_limit":"2h""#;
    // The one that leaves last of all is hers; or it is not, though hers is in the way as well.
    for (hers, theirs, is_own) in [(two, HOUR, true), (HOUR, HOUR, true), (HOUR, two, false)] {
        let mut world = World::begun(("ada", hers), ("bob", theirs));
        let gang = world.large("ada", 4);
        let own = world.small("ada", "");
        let other = world.small("bob", "");
        world.plan_now();
        assert_eq!(world.kept(gang), Some((4, is_own)), "{hers} {theirs}");
        let placed = (world.active_of(own), world.active_of(other));
        assert_eq!(placed, (0, if is_own { 4 } else { 0 }), "{hers} {theirs}");
    }
}

#[test]
fn without_a_moment_by_which_all_are_free_others_have_their_turn() {
    // One of the nodes is enough.
    for limit in ["", r#","time_limit":"30d""#] {
        let mut world = World::begun(("bob", limit), ("bob", HOUR));
        let gang = world.large("ada", 4);
        let small = world.small("cleo", "");
        world.plan_now();
        assert_eq!((world.kept(gang), world.active_of(small)), (Some((4, false)), 0));
        let held = world.state.planner().reservation_of(gang).expect("kept");
        assert_eq!(held.latest, None);
        world.now = world.state.next_deadline().expect("looked at again");
        world.plan_now();
        assert_eq!((world.kept(gang), world.active_of(small)), (None, 4), "it is they who rest");
    }
}

/// More at once than may run, or a gang that lacks some, would wait for ever.
#[test]
fn a_gang_that_could_never_be_whole_is_refused() {
    let mut world = World::new(1);
    for text in [
        r#"{"command":["true"],"array":"1-4"}"#,
        r#"{"command":["true"],"array":"1-3","max_running":2}"#,
    ] {
        let spec: JobSpec = serde_json::from_str(text).expect("good");
        let gang = Gang::of(NonZeroU32::new(3).expect("three"));
        let new = NewJob { gang, ..NewJob::new(world.state.next_job(), spec) };
        let submit = Submit::one(ada(), new);
        assert!(world.step(&Command::Submit(Box::new(submit))).is_none(), "{text}");
    }
}
