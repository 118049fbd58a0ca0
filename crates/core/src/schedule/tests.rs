//! Whatever waits, whoever stands where: a plan is what the plainest way of making it gives.

mod plain;

use super::schedule;
use crate::command::{AskSite, Command, NewJob, PilotJoined, PilotReported, Submit};
use crate::engine::step;
use crate::shape::Gang;
use crate::site::SiteKind;
use crate::state::State;
use proptest::prelude::*;
use shipway_model::{
    Actor, Bytes, Capacity, ConnectionNumber, Cores, DeviceId, Ended, GpuDevice, GpuSource,
    GpuVendor, Held, HeldPhase, JobId, JobSpec, Millis, NodeAd, NodeName, Outcome, PilotId, Role,
    TaskId, Timestamp, UserName,
};
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
struct Wish {
    user: u32,
    shape: usize,
    tasks: u32,
    priority: i32,
    at_once: u32,
    /// How many are placed together.
    gang: u32,
}

/// What they ask for, in the order of the numbers in `Wish::shape`.
const SHAPES: [&str; 14] = [
    r#""cpus":1"#,
    r#""cpus":3,"memory":"2GB""#,
    r#""cpus":1,"memory":"11GB""#,
    r#""cpus":7,"memory":"4GB""#,
    r#""cpus":16,"memory":"60GB""#,
    r#""cpus":1,"named":{"licences":2}"#,
    r#""gpu":1"#,
    r#""cpus":2,"gpu":2"#,
    r#""gpu":{"model":"a100"}"#,
    r#""cpus":4,"gpu":{"count":4,"model":"a100"}"#,
    r#""gpu":{"count":2,"model":"v100"}"#,
    r#""gpu":{"share":"0.25"}"#,
    r#""gpu":{"share":"0.6"}"#,
    r#""cpus":8,"gpu":8"#,
];

fn wish() -> impl Strategy<Value = Wish> {
    let tasks = prop_oneof![3 => Just(1u32), 1 => 2u32..9];
    let gang = prop_oneof![4 => Just(1u32), 1 => 2u32..5];
    (0u32..4, 0usize..SHAPES.len() * 2, tasks, 0i32..3, 1u32..6, gang).prop_map(
        |(user, shape, tasks, priority, at_once, gang)| {
            let (tasks, at_once) = (tasks * gang, at_once.max(gang));
            Wish { user, shape, tasks, priority, at_once, gang }
        },
    )
}

fn apply(state: &mut State, now: u64, command: &Command) {
    step(state, Timestamp(now), command).unwrap_or_else(|no| panic!("{command:?}: {no}"));
}

/// Every second shape has a time limit, and may go before a reservation.
fn submit(state: &mut State, now: u64, wish: &Wish) {
    let (shape, limited) = (SHAPES[wish.shape / 2], wish.shape % 2 == 1);
    let limit = if limited { r#""time_limit":"20m","# } else { "" };
    let array = format!(r#""array":"1-{}","max_running":{},"#, wish.tasks, wish.at_once);
    let array = if wish.tasks > 1 { array } else { String::new() };
    let json = format!(
        r#"{{"command":["true"],{limit}{array}"priority":{},"resources":{{{shape}}}}}"#,
        wish.priority
    );
    let spec: JobSpec = serde_json::from_str(&json).expect(&json);
    let user = UserName::new(&format!("user{}", wish.user)).expect("good");
    let (by, job) = (Actor::new(user, Role::User), state.next_job());
    let gang = Gang::of(wish.gang.try_into().expect("at least one"));
    let submit = Submit::one(by, NewJob { gang, ..NewJob::new(job, spec) });
    apply(state, now, &Command::Submit(Box::new(submit)));
}

fn join(state: &mut State, at: usize, kind: usize) {
    let kinds: [(u64, u64, &[&str]); 6] = [
        (4, 8, &[]),
        (16, 64, &[]),
        (8, 32, &["Tesla V100"; 2]),
        (16, 64, &["NVIDIA A100"; 4]),
        (32, 128, &["NVIDIA A100"; 8]),
        (8, 32, &["NVIDIA A100", "Tesla V100", "NVIDIA A100"]),
    ];
    let (cpus, gigabytes, gpus) = kinds[kind];
    let device = |(nth, model): (usize, &&str)| GpuDevice {
        id: DeviceId::new(&format!("gpu-{at}-{nth}")).expect("good"),
        model: (*model).into(),
        memory: Bytes(40 << 30),
        vendor: GpuVendor::Nvidia,
        source: GpuSource::Declared,
        capability: None,
        driver: None,
        slice: None,
    };
    let named = BTreeMap::from([("licences".to_owned(), 3)]);
    let ad = NodeAd {
        node: NodeName::new(&format!("n{at}")).expect("good"),
        capacity: Capacity {
            cpus: Cores::whole(cpus),
            memory: Bytes(gigabytes * 1_000_000_000),
            named: if at.is_multiple_of(3) { named } else { BTreeMap::new() },
            ..Capacity::default()
        },
        gpus: gpus.iter().enumerate().map(device).collect(),
        notes: Vec::new(),
        unfit: Vec::new(),
        withheld: Vec::new(),
        people: None,
        attributes: BTreeMap::new(),
    };
    let pilot = PilotId::new(&format!("p{at:02}")).expect("good");
    let ask = AskSite::named_after(&pilot, SiteKind::ByHand);
    apply(state, 1, &Command::AskSite(Box::new(ask)));
    let (lease, held, folder) = (None, Vec::new(), None);
    let joined = PilotJoined { pilot, connection: ConnectionNumber(1), ad, lease, held, folder };
    apply(state, 1, &Command::PilotJoined(Box::new(joined)));
}

fn nodes(kinds: &[usize]) -> State {
    let mut state = State::default();
    for (at, kind) in kinds.iter().enumerate() {
        join(&mut state, at, *kind);
    }
    state
}

/// One after the other; the time when all are there.
fn submit_all(state: &mut State, mut now: u64, wishes: &[Wish]) -> u64 {
    for wish in wishes {
        now += 1_000;
        submit(state, now, wish);
    }
    now
}

/// Some of what runs ends, after long enough that nothing counts as short.
fn end(state: &mut State, now: u64, which: &[usize]) {
    for nth in which {
        let running = state.active().len().max(1);
        let Some((task, active)) = state.active().iter().nth(nth % running) else { return };
        let (outcome, ran) = (Outcome::Exit { code: 0 }, Millis(600_000));
        let ended = Ended { outcome, started: None, ended: Timestamp(now), ran };
        let held = vec![Held::own(task.attempt(active.attempt), HeldPhase::Ended(ended))];
        let report = PilotReported { pilot: active.pilot.clone(), held };
        apply(state, now, &Command::PilotReported(report));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn a_plan_is_what_the_plainest_way_gives(
        kinds in prop::collection::vec(0usize..6, 1..14),
        rounds in prop::collection::vec(
            (prop::collection::vec(wish(), 0..24), prop::collection::vec(0usize..99, 0..12)),
            1..5,
        ),
    ) {
        let (mut state, mut now) = (nodes(&kinds), 1_000);
        for (wishes, ends) in &rounds {
            now = submit_all(&mut state, now, wishes);
            // Without what it remembers, which is not the plain way's.
            state.rebuild();
            let expected = plain::plan(&state, Timestamp(now));
            let plan = schedule(&mut state, Timestamp(now));
            let found: Vec<_> =
                plan.by_pilot().map(|(pilot, tasks)| (pilot.clone(), tasks.to_vec())).collect();
            let held = state.planner().reservations().iter();
            let held = held.map(|held| (held.job, held.nodes().collect(), held.behind_own));
            prop_assert_eq!((found, held.collect::<Vec<_>>()), expected);
            if !plan.is_empty() {
                apply(&mut state, now, &Command::ApplyPlan(plan));
            }
            now += 600_000;
            end(&mut state, now, ends);
        }
    }
}

/// What a scheduler that remembers nothing would place, of users for whom nothing is kept. Where
/// nodes are kept from everybody, the two may differ.
fn missed(state: &State, now: u64) -> Option<TaskId> {
    let held = state.planner().reservations();
    if held.iter().any(|held| !held.behind_own) {
        return None;
    }
    let owner = |job: JobId| &state.job(job).expect("in memory").owner;
    let is_kept = |user: &UserName| held.iter().any(|held| owner(held.job) == user);
    let mut fresh = state.clone();
    fresh.rebuild();
    let plan = schedule(&mut fresh, Timestamp(now));
    let placed = plan.by_pilot().flat_map(|(_, tasks)| tasks).map(|placed| placed.task);
    placed.into_iter().find(|task| !is_kept(owner(task.job)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn what_is_remembered_hides_no_room(
        kinds in prop::collection::vec(0usize..6, 1..5),
        rounds in prop::collection::vec(
            (prop::collection::vec(wish(), 0..9), prop::collection::vec(0usize..99, 0..6)),
            1..12,
        ),
    ) {
        let (mut state, mut now) = (nodes(&kinds), 1_000);
        for (wishes, ends) in &rounds {
            now = submit_all(&mut state, now, wishes);
            loop {
                let plan = schedule(&mut state, Timestamp(now));
                if plan.is_empty() {
                    break;
                }
                apply(&mut state, now, &Command::ApplyPlan(plan));
            }
            prop_assert_eq!(missed(&state, now), None);
            now += 100_000;
            end(&mut state, now, ends);
        }
    }
}
