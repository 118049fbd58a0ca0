//! Random nodes, requests and requirements: nothing panics, and what the explanation says is what
//! the matcher does. Where something is placed, it fits; where it is not, each obstacle that is
//! named is one: without it the job would go to such a node.

use proptest::prelude::*;
use shipway_core::command::{AskSite, Command, NewJob, PilotJoined, Submit};
use shipway_core::engine::step;
use shipway_core::explain::{explain, explain_need, prospect, prospect_of_new};
use shipway_core::job::Terms;
use shipway_core::schedule::schedule;
use shipway_core::shape::{Gang, Shape};
use shipway_core::site::SiteKind;
use shipway_core::{Event, State};
use shipway_model::gpu::Version;
use shipway_model::prospect::Fit;
use shipway_model::{
    Actor, Bytes, Capacity, ConnectionNumber, Cores, DeviceId, GpuDevice, GpuSource, GpuVendor,
    JobId, JobSpec, NodeAd, NodeName, PilotId, Reason, Role, Timestamp, UserName,
};

const NOW: Timestamp = Timestamp(1_000);

/// Nodes of one make: those are of one class.
#[derive(Debug, Clone)]
struct Make {
    cpus: u64,
    /// How many GPUs of each kind of `GPUS`.
    gpus: Vec<usize>,
    rack: u32,
    has_avx: bool,
}

/// Model, capability, gigabytes.
const GPUS: [(&str, u32, u64); 4] =
    [("NVIDIA A100", 8, 40), ("NVIDIA H100", 9, 80), ("Tesla V100", 7, 16), ("Tesla K80", 3, 12)];

fn make() -> impl Strategy<Value = Make> {
    let gpus = prop::collection::vec(0usize..3, 0..=GPUS.len());
    (1u64..6, gpus, 0u32..3, any::<bool>()).prop_map(|(cpus, gpus, rack, has_avx)| Make {
        cpus,
        gpus,
        rack,
        has_avx,
    })
}

/// The memory tells makes apart, also in the text that names a class.
fn memory_of(make: usize) -> Bytes {
    Bytes((16 + make as u64) * 1_000_000_000)
}

fn node(at: usize, nth: usize, make: &Make) -> NodeAd {
    let kinds = make.gpus.iter().zip(GPUS).enumerate();
    let gpus = kinds.flat_map(|(kind, (count, (model, capability, gigabytes)))| {
        (0..*count).map(move |device| GpuDevice {
            id: DeviceId::new(&format!("gpu-{at}-{kind}-{device}")).expect("good"),
            model: model.into(),
            memory: Bytes(gigabytes << 30),
            vendor: GpuVendor::Nvidia,
            source: GpuSource::Declared,
            capability: Some(Version::new(&[capability, 0])),
            driver: None,
            slice: None,
        })
    });
    let attributes = [("Rack", make.rack.to_string()), ("HasAVX2", make.has_avx.to_string())];
    NodeAd {
        node: NodeName::new(&format!("n{at}")).expect("good"),
        capacity: Capacity {
            cpus: Cores::whole(make.cpus),
            memory: memory_of(nth),
            ..Capacity::default()
        },
        gpus: gpus.collect(),
        notes: Vec::new(),
        unfit: Vec::new(),
        withheld: Vec::new(),
        people: None,
        attributes: attributes.map(|(name, text)| (name.to_owned(), text)).into(),
    }
}

fn term() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        (3u32..10).prop_map(|least| format!("CUDACapability >= {least}.0")),
        (3u32..10).prop_map(|most| format!("GPUs_Capability < {most}")),
        (0u32..90).prop_map(|least| format!("GPUs_GlobalMemoryMb > {least}000")),
        (0u32..6).prop_map(|at| format!("Machine == \"n{at}\"")),
        (0u32..6).prop_map(|at| format!("Machine != \"N{at}\"")),
        (0u32..6).prop_map(|at| format!("regexp(\"^n[{at}-9]\", Machine)")),
        (0u32..6).prop_map(|at| format!("regexp(strcat(\"[\", \"{at}\", \"]$\"), TARGET.Name)")),
        (0u32..6).prop_map(|at| format!("stringListMember(Machine, \"n{at}, n1, n3\")")),
        (0u32..3).prop_map(|rack| format!("Rack is {rack}")),
        (0u32..7).prop_map(|least| format!("Cpus >= {least}")),
        (0u32..4).prop_map(|least| format!(
            "countMatches(Capability >= 8.0, TARGET.AvailableGPUs) >= {least}"
        )),
        Just("HasAVX2".to_owned()),
        Just("NoSuch =?= undefined".to_owned()),
        Just("NoSuch > 3".to_owned()),
        Just("DetectedGPUs != \"\"".to_owned()),
        Just("TotalDisk / 0 == 1".to_owned()),
        Just("member(Machine, split(\"n0 n2 n4\"))".to_owned()),
        // A few of these together take more than an evaluation may.
        Just(heavy()),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            3 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} && {b}")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} || {b})")),
            1 => inner.clone().prop_map(|a| format!("!({a})")),
            1 => (inner.clone(), inner.clone(), inner)
                .prop_map(|(a, b, c)| format!("(({a}) ? ({b}) : ({c}))")),
        ]
    })
}

fn heavy() -> String {
    let doubled: Vec<String> =
        (0..8).map(|at| format!("a{at} = strcat(a{}, a{})", at + 1, at + 1)).collect();
    format!("size([{}; a8 = \"{}\"].a0) > 0", doubled.join("; "), "x".repeat(700))
}

fn resources() -> impl Strategy<Value = String> {
    let gpu = prop_oneof![
        2 => Just(String::new()),
        2 => (1u32..4).prop_map(|count| format!(r#","gpu":{count}"#)),
        1 => (1u32..3).prop_map(|count| format!(r#","gpu":{{"count":{count},"model":"a100"}}"#)),
        1 => (1u32..3).prop_map(|count| format!(r#","gpu":{{"count":{count},"memory":"16GB.."}}"#)),
        1 => Just(r#","gpu":{"share":"0.5"}"#.to_owned()),
    ];
    (1u32..6, gpu).prop_map(|(cpus, gpu)| format!(r#"{{"cpus":{cpus}{gpu}}}"#))
}

fn spec(resources: &str, requirements: Option<&str>) -> JobSpec {
    let text = format!(r#"{{"command":["true"],"resources":{resources}}}"#);
    let mut spec: JobSpec = serde_json::from_str(&text).expect(&text);
    spec.requirements = requirements.map(ToOwned::to_owned);
    spec
}

fn ada() -> UserName {
    UserName::new("ada").expect("good")
}

fn submit(state: &mut State, spec: JobSpec) -> Option<JobId> {
    let (by, job) = (Actor::new(ada(), Role::User), state.next_job());
    let submit = Submit::one(by, NewJob::new(job, spec));
    let done = step(state, NOW, &Command::Submit(Box::new(submit))).ok()?;
    assert!(done.events.iter().any(|one| matches!(one.event, Event::JobSubmitted(_))));
    Some(job)
}

/// Whether a job of this state is placed now.
fn is_placed(state: &State, job: JobId) -> bool {
    let plan = schedule(&mut state.clone(), NOW);
    plan.by_pilot().any(|(_, placed)| placed.iter().any(|one| one.task.job == job))
}

fn world<'a>(nodes: impl Iterator<Item = (usize, usize, &'a Make)>) -> State {
    let mut state = State::default();
    for (at, nth, make) in nodes {
        let pilot = PilotId::new(&format!("p{at}")).expect("good");
        let ad = node(at, nth, make);
        let ask = AskSite::named_after(&pilot, SiteKind::ByHand);
        step(&mut state, NOW, &Command::AskSite(Box::new(ask))).expect("a token");
        let (lease, held, folder) = (None, Vec::new(), None);
        let joined =
            PilotJoined { pilot, connection: ConnectionNumber(1), ad, lease, held, folder };
        step(&mut state, NOW, &Command::PilotJoined(Box::new(joined))).expect("joins");
    }
    state
}

/// Whether a job with these wishes would be placed on empty nodes of one make.
fn fits_alone(makes: &[Make], nodes: &[usize], nth: usize, spec: JobSpec) -> bool {
    let same = nodes.iter().enumerate().filter(|(_, make)| **make == nth);
    let mut state = world(same.map(|(at, make)| (at, *make, &makes[*make])));
    let job = submit(&mut state, spec).expect("taken before");
    is_placed(&state, job)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn the_explanation_says_what_the_matcher_does(
        makes in prop::collection::vec(make(), 1..4),
        nodes in prop::collection::vec(0usize..9, 1..6),
        running in prop::collection::vec(resources(), 0..5),
        wanted in resources(),
        requirements in prop::option::weighted(0.9, term()),
    ) {
        let nodes: Vec<usize> = nodes.iter().map(|make| make % makes.len()).collect();
        let all = nodes.iter().enumerate().map(|(at, make)| (at, *make, &makes[*make]));
        let mut state = world(all);
        for resources in &running {
            submit(&mut state, spec(resources, None));
            let plan = schedule(&mut state, NOW);
            if !plan.is_empty() {
                step(&mut state, NOW, &Command::ApplyPlan(plan)).expect("it was just made");
            }
        }
        // Those that found no place are not to stand before it.
        let waiting: Vec<JobId> = state.jobs().iter().map(|(id, _)| id)
            .filter(|id| !explain(&state, *id, NOW).is_empty()).collect();
        prop_assume!(waiting.is_empty());
        let asked = spec(&wanted, requirements.as_deref());
        let shape = Shape::of(&asked, &ada(), Gang::default());
        let before = state.clone();
        let Some(job) = submit(&mut state, asked.clone()) else { return Ok(()) };
        let placed = is_placed(&state, job);
        let reasons = explain(&state, job, NOW);
        let new = explain_need(&before, &shape, (&ada(), &Terms::default()), NOW);
        prop_assert_eq!(placed, reasons == [Reason::Next], "{:?}", &reasons);
        prop_assert_eq!(placed, new.is_empty(), "{:?}", &new);
        let waiting = prospect(&state, job, NOW).expect("it waits");
        let new = prospect_of_new(&before, &shape, &ada(), NOW);
        for prospect in [waiting, new] {
            let fits = prospect.classes.iter().any(|class| class.fit == Fit::Now);
            prop_assert_eq!(fits, placed, "{:?}", prospect.classes);
        }
        if placed {
            let plan = schedule(&mut state, NOW);
            prop_assert!(step(&mut state, NOW, &Command::ApplyPlan(plan)).is_ok(), "checked again");
            return Ok(());
        }
        let without = JobSpec { requirements: None, ..asked.clone() };
        for (nth, _) in makes.iter().enumerate().filter(|(nth, _)| nodes.contains(nth)) {
            let memory = format!("{} of memory", memory_of(nth));
            let named = reasons.iter().find(|reason| reason.to_string().contains(&memory));
            prop_assert!(named.is_some(), "nothing is said of {}: {:?}", memory, &reasons);
            let fits = |spec: &JobSpec| fits_alone(&makes, &nodes, nth, spec.clone());
            match named {
                Some(Reason::TooSmall { .. }) => prop_assert!(!fits(&without), "{:?}", named),
                Some(Reason::Requires { .. }) => {
                    prop_assert!(fits(&without) && !fits(&asked), "{:?}", named);
                }
                Some(Reason::Busy { .. }) => prop_assert!(fits(&asked), "{:?}", named),
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}
