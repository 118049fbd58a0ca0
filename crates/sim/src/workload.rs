//! Work for a seed: nodes of several kinds, bursts of jobs of all sorts, people who interfere.

use crate::behaviour::Behaviour;
use crate::node::{Kind, Node};
use crate::world::{Happening, Settings, World};
use shipway_core::Command;
use shipway_core::command::{Pick, Select};
use shipway_model::{
    Actor, After, Bytes, Condition, Cores, GpuRequest, GpuShare, JobId, JobSpec, Millis, Resources,
    RetryPolicy, Role, TaskState, TimeLimit, UserName,
};

const KINDS: [Kind; 5] = [
    Kind::plain(4, 16),
    Kind::plain(32, 128),
    Kind { gpus: 4, model: "NVIDIA A100", gpu_memory: Bytes(40 << 30), ..Kind::plain(16, 256) },
    Kind { gpus: 1, model: "Tesla T4", gpu_memory: Bytes(16 << 30), ..Kind::plain(8, 32) },
    Kind { licences: 2, ..Kind::plain(2, 8) },
];
/// Nodes of a seed.
const NODES: (u64, u64) = (100, 300);
const LEASE: (u64, u64) = (20_000, 60_000);
/// More than any node has.
const HOPELESS_GPUS: u32 = 64;
/// Jobs of one burst; most are small.
const BURST: (u64, u64) = (1, 8);

pub fn settings(dice: &mut crate::dice::Dice) -> Settings {
    Settings {
        delay: (1, 1 + dice.below(200)),
        commit: (5, 5 + dice.below(100)),
        redial: (100, 3_000),
        process_start: (1, 50),
        dying: (1, 1_500),
        duplicate: dice.below(100),
        lose_reply: dice.below(100),
        crash: dice.below(4),
        disk_fails: dice.below(10),
        server_down: (100, 40_000),
        snapshot_every: 60,
        replies_too_early: false,
    }
}

pub fn add_nodes(world: &mut World) {
    let count = world.dice.between(NODES);
    for at in 0..count {
        let kind = world.dice.pick(&KINDS).expect("there are kinds").clone();
        let lease = world.dice.chance(500).then(|| Millis(world.dice.between(LEASE)));
        world.nodes.push(Node::new(&format!("n{at}"), &kind, lease));
        let node = world.nodes.len() - 1;
        let wait = world.dice.below(20_000);
        world.after(wait, Happening::StartPilot { node });
    }
}

fn user(world: &mut World) -> Actor {
    let name = if world.dice.chance(500) { "ada" } else { "bob" };
    Actor::new(UserName::new(name).expect("a plain name"), Role::User)
}

pub fn burst(world: &mut World) {
    let jobs = world.dice.between(BURST);
    for _ in 0..jobs {
        let by = user(world);
        let (spec, hopeless) = any_job(world, &by);
        let number = world.wishes.len();
        let key = (!world.dice.chance(50)).then(|| format!("wish-{number}"));
        world.wish(by, spec, key, hopeless);
    }
}

fn any_job(world: &mut World, by: &Actor) -> (JobSpec, bool) {
    let hopeless = world.dice.chance(10);
    let after = dependencies(world, by);
    let dice = &mut world.dice;
    // Short ones are sent ahead; long ones outlive a lease, and must not outlive it alive.
    let run = match dice.below(10) {
        0..=2 => (1, 40),
        3..=7 => (100, 100 + dice.below(30_000)),
        _ => (60_000, 180_000),
    };
    let behaviour = Behaviour {
        run,
        exits: vec![0],
        fail: if dice.chance(300) { dice.below(600) } else { 0 },
        crash: if dice.chance(100) { dice.below(300) } else { 0 },
        absent: if dice.chance(50) { dice.below(1_000) } else { 0 },
        oom: if dice.chance(50) { dice.below(500) } else { 0 },
        stubborn: dice.chance(200),
    };
    let limit = dice.chance(150).then(|| TimeLimit {
        grace: Millis(dice.below(3_000)),
        ..TimeLimit::new(Millis(1 + dice.below(15_000)))
    });
    let tasks = if dice.chance(300) { 1 + dice.below(60) } else { 1 };
    let array = (tasks > 1).then(|| format!("1-{tasks}").parse().expect("a good array"));
    let spec = JobSpec {
        command: behaviour.command(),
        array,
        after,
        priority: i32::try_from(dice.below(5)).unwrap_or(0) - 2,
        retries: RetryPolicy {
            limit: u32::try_from(dice.below(4)).unwrap_or(0),
            delay: Millis(1 + dice.below(5_000)),
            ..RetryPolicy::default()
        },
        time_limit: limit,
        max_running: dice.chance(200).then(|| 1 + u32::try_from(dice.below(5)).unwrap_or(0)),
        resources: needs(dice, hopeless),
        ..JobSpec::default()
    };
    (spec, hopeless)
}

fn needs(dice: &mut crate::dice::Dice, hopeless: bool) -> Resources {
    let gpu = match dice.below(10) {
        0 => Some(GpuRequest::devices(1 + u32::try_from(dice.below(2)).unwrap_or(0))),
        1 => Some(GpuRequest { share: GpuShare(2_500), ..GpuRequest::default() }),
        2 => Some(GpuRequest { models: vec!["a100".into()], ..GpuRequest::default() }),
        _ => None,
    };
    let gpu = if hopeless { Some(GpuRequest::devices(HOPELESS_GPUS)) } else { gpu };
    let licence = dice.chance(50).then(|| ("licence".to_string(), 1));
    Resources {
        cpus: Cores { milli: if licence.is_some() { 500 } else { 500 * (1 + dice.below(6)) } },
        memory: Bytes(dice.below(4) * 1_000_000_000),
        named: licence.filter(|_| gpu.is_none()).into_iter().collect(),
        gpu,
        ..Resources::default()
    }
}

/// Waits for one or two of the user's own jobs, some of which ended long ago.
fn dependencies(world: &mut World, by: &Actor) -> Vec<After> {
    if !world.dice.chance(250) {
        return Vec::new();
    }
    let own: Vec<JobId> = world
        .accepted()
        .filter(|(_, wish)| wish.by == *by && !wish.hopeless)
        .map(|(job, _)| job)
        .collect();
    let mut after: Vec<After> = Vec::new();
    for _ in 0..=world.dice.below(2) {
        let condition = match world.dice.below(3) {
            0 => Condition::Ok,
            1 => Condition::Failed,
            _ => Condition::Any,
        };
        let job = world.dice.pick(&own).copied();
        let new = job.filter(|job| after.iter().all(|after| after.job != *job));
        after.extend(new.map(|job| After { job, condition }));
    }
    after
}

/// Somebody cancels or retries something.
pub fn interfere(world: &mut World) {
    let accepted: Vec<JobId> = world.accepted().map(|(job, _)| job).collect();
    let Some(job) = world.dice.pick(&accepted).copied() else { return };
    let ops = UserName::new("ops").expect("a plain name");
    let by = Actor::new(ops, Role::Operator);
    let pick = match world.dice.below(4) {
        0 => Pick::State(TaskState::Running),
        1 => Pick::State(TaskState::Failed),
        _ => Pick::All,
    };
    let select = Select { by, jobs: vec![(job, pick)] };
    let hopeless = world.accepted().any(|(id, wish)| id == job && wish.hopeless);
    let command = if world.dice.chance(500) || hopeless {
        Command::Cancel(select)
    } else {
        Command::Retry { select, revived: Vec::new() }
    };
    world.after(1, Happening::Asked { command });
}

/// What could never run is taken back, so that everything can come to an end.
pub fn cancel_hopeless(world: &mut World) {
    let ops = UserName::new("ops").expect("a plain name");
    let by = Actor::new(ops, Role::Operator);
    // Looked up on the disk: of a job without a key the client may never have heard.
    let wants_all =
        |spec: &JobSpec| spec.resources.gpu.as_ref().is_some_and(|gpu| gpu.count == HOPELESS_GPUS);
    let is_hopeless = |job: &JobId| world.disk.spec(*job).is_some_and(|spec| wants_all(&spec));
    let hopeless: Vec<JobId> = world.disk.jobs().into_iter().filter(is_hopeless).collect();
    for job in hopeless {
        let select = Select { by: by.clone(), jobs: vec![(job, Pick::All)] };
        world.after(1, Happening::Asked { command: Command::Cancel(select) });
    }
}
