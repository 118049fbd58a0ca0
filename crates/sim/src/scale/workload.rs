//! What people submit: a thousand shapes, a hundred users of whom a few do most of it.

use crate::dice::Dice;
use shipway_core::Event;
use shipway_core::State;
use shipway_core::event::Submitted;
use shipway_core::evolve::evolve;
use shipway_core::shape::Gang;
use shipway_model::{
    Bytes, Cores, GpuRequest, JobId, JobSpec, Millis, Resources, TimeLimit, Timestamp, UserName,
};

const GB: u64 = 1_000_000_000;

/// A shape for every number; half of them want GPUs, a few want many.
pub fn resources(shape: u32) -> Resources {
    let cpus = u64::from(1 + shape % 32);
    let memory = Bytes(u64::from(1 + shape / 32 % 61) * 2 * GB);
    let gpus = match shape % 16 {
        0..8 => 0,
        8..12 => 1,
        12 | 13 => 2,
        14 => 4,
        _ => 8,
    };
    let models: [&[&str]; 4] = [&[], &["a100"], &["h100", "h200"], &["v100"]];
    let gpu = (gpus > 0).then(|| GpuRequest {
        models: models[shape as usize / 16 % 4].iter().map(ToString::to_string).collect(),
        ..GpuRequest::devices(gpus)
    });
    Resources { cpus: Cores::whole(cpus), memory, gpu, ..Resources::default() }
}

pub fn user(number: u32) -> UserName {
    UserName::new(&format!("user{number}")).expect("a good name")
}

/// One in two jobs is of the busiest user, one in four of the next, and so on.
pub fn skewed_user(dice: &mut Dice, users: u32) -> u32 {
    (0..users - 1).find(|_| dice.below(2) == 0).unwrap_or(users - 1)
}

#[derive(Debug, Clone)]
pub struct Wish {
    pub user: UserName,
    pub resources: Resources,
    pub tasks: u32,
    pub limit: Option<Millis>,
}

pub fn submit(state: &mut State, at: Timestamp, wish: &Wish) -> JobId {
    let job = state.next_job();
    let array = (wish.tasks > 1).then(|| format!("1-{}", wish.tasks).parse().expect("an array"));
    let limit = wish.limit.map(|limit| {
        let text = format!("{}ms", limit.0);
        serde_json::from_value::<TimeLimit>(text.into()).expect("a time limit")
    });
    let spec = JobSpec {
        command: vec!["work".into()],
        array,
        time_limit: limit.map(|limit| TimeLimit { grace: Millis(0), ..limit }),
        resources: wish.resources.clone(),
        ..JobSpec::default()
    };
    let owner = wish.user.clone();
    let (gang, met) = (Gang::default(), Vec::new());
    let submitted = Submitted { job, owner, spec, key: None, digest: 0, gang, met };
    evolve(state, at, &Event::JobSubmitted(Box::new(submitted)));
    job
}
