//! Every event's encoding, held still: what is in a journal must stay readable.
//!
//! A changed line in the snapshot means a changed journal. A new field needs a default; a changed
//! meaning needs a new version and a step in `event/older.rs`.

use shipway_core::command::{PilotJoined, Token};
use shipway_core::event::{
    AttemptEnded, Awaited, CancelReason, EVENT_VERSION, Event, Joined, Part, Placement, Recorded,
    StopReason, Submitted, Unreadable, Verdict, Which,
};
use shipway_core::job::{Job, JobRecord, Terms};
use shipway_core::reach::Paths;
use shipway_core::shape::Gang;
use shipway_core::site::{Phase, SiteKind};
use shipway_core::task_table::TaskTable;
use shipway_model::{
    Advice, AllocationEnd, AllocationId, Attempt, Bytes, Capacity, ConnectionNumber, Cores,
    DeviceId, EngineTrouble, GpuDevice, GpuShare, GpuSource, GpuVendor, IndexSet, JobId, JobSpec,
    JobState, Lost, Millis, NodeAd, NodeName, Ordinal, Outcome, PilotId, Resources, RetryPolicy,
    Role, SiteSpec, TaskId, TaskIndex, Timestamp, Usage, UserName, UserNumber,
};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

fn job() -> JobId {
    JobId(7)
}
fn task() -> TaskId {
    job().task(TaskIndex(3))
}
fn pilot() -> PilotId {
    PilotId::new("p-1").expect("good")
}
fn node() -> NodeName {
    NodeName::new("node-1").expect("good")
}
fn user() -> UserName {
    UserName::new("ada").expect("good")
}

fn submitted() -> Event {
    let json = r#"{"name":"fit","command":["fit","{seed}"],"env":{"A":"1"},"workdir":"/data",
        "labels":{"team":"x"},"priority":5,"each":[{"seed":1},{"seed":2}],"after":["3:any",4],
        "retries":{"limit":2,"delay":"10s","on":[75,"signal"]},
        "time_limit":{"limit":"1h","warn":"USR1","grace":"5m"},"max_running":2,
        "resources":{"cpus":0.5,"memory":"2GB","disk":"1GB","gpu":{"share":"0.25","model":"a100",
        "memory":"40GiB..","capability":8.0},"named":{"licence":1}}}"#;
    let spec: JobSpec = serde_json::from_str(json).expect("good");
    let (key, met) = (Some("key-1".to_string()), vec![JobId(3)]);
    let owner = user();
    let gang = Gang::default();
    Event::JobSubmitted(Box::new(Submitted { job: job(), owner, spec, key, digest: 99, gang, met }))
}

fn ended(outcome: Outcome, started: Option<Timestamp>, verdict: Verdict) -> Event {
    Event::AttemptEnded(Box::new(AttemptEnded {
        task: task(),
        attempt: Attempt(2),
        pilot: pilot(),
        node: node(),
        placed: Timestamp(900),
        outcome,
        started,
        ended: Timestamp(2_000),
        ran: Millis(1_000),
        verdict,
        usage: None,
        advice: None,
    }))
}

fn used() -> Usage {
    Usage::of_values((1..).map(Some).take(Usage::NAMES.len()))
}

/// With what it has used, and what to ask for instead.
fn ended_and_used() -> Event {
    let Event::AttemptEnded(mut event) =
        ended(Outcome::Exit { code: 0 }, Some(Timestamp(1_000)), Verdict::Succeeded)
    else {
        panic!("an end");
    };
    event.usage = Some(Box::new(used()));
    event.advice = Some(Box::new(Advice::SmallerGpu {
        busy: 600,
        used: Bytes(3_000_000_000),
        of: Bytes(141_000_000_000),
        over: Millis(7_200_000),
        slice: Some("1g.18gb".into()),
        share: Some(GpuShare(1_000)),
    }));
    Event::AttemptEnded(event)
}

fn ends() -> Vec<Event> {
    let at = Some(Timestamp(1_000));
    let retry = Verdict::Retry { at: Timestamp(3_000), counted: true };
    let (limit, used) = (Some(Bytes(10)), Some(Bytes(11)));
    vec![
        ended(Outcome::Exit { code: 0 }, at, Verdict::Succeeded),
        ended(Outcome::Signal { signal: 11 }, at, Verdict::Failed),
        ended(Outcome::OutOfMemory { limit, used, on_gpu: false }, at, retry),
        ended(Outcome::OutOfMemory { limit: None, used: None, on_gpu: false }, at, retry),
        ended(Outcome::TimedOut { limit: Millis(60_000) }, at, Verdict::Failed),
        ended(Outcome::OutputsFailed { message: "no x".into() }, None, Verdict::Failed),
        ended(Outcome::NotStarted { message: "no such file".into() }, None, Verdict::Failed),
        ended(Outcome::Lost { why: Lost::PilotDied }, None, retry),
        ended(Outcome::Lost { why: Lost::LeaseRanOut }, at, retry),
        ended(Outcome::Lost { why: Lost::SiteTookBack }, at, retry),
        ended(Outcome::Lost { why: Lost::MadeRoom }, at, retry),
        ended(Outcome::Lost { why: Lost::TimeOver }, at, retry),
        ended(Outcome::Lost { why: Lost::Preempted }, at, retry),
        ended(Outcome::Lost { why: Lost::PilotCancelled }, at, retry),
        ended(Outcome::Lost { why: Lost::NodeFailed }, at, retry),
        ended(Outcome::Lost { why: Lost::PilotOutOfMemory }, at, retry),
        ended(Outcome::Cancelled, None, Verdict::Cancelled),
        ended_and_used(),
    ]
}

fn ad() -> NodeAd {
    let gpu = GpuDevice {
        id: DeviceId::new("GPU-1").expect("good"),
        model: "NVIDIA A100".into(),
        memory: Bytes(42_949_672_960),
        vendor: GpuVendor::Nvidia,
        source: GpuSource::Nvml,
        capability: Some("8.0".parse().expect("good")),
        driver: Some("550.54".parse().expect("good")),
        slice: Some("1g.10gb".into()),
    };
    let mut capacity = Capacity {
        cpus: Cores { milli: 7_500 },
        memory: Bytes(1 << 34),
        disk: Bytes(1 << 40),
        ..Capacity::default()
    };
    capacity.named.insert("licence".to_string(), 2);
    NodeAd {
        node: node(),
        capacity,
        gpus: vec![gpu],
        notes: vec!["no NVML".to_string()],
        unfit: Vec::new(),
        withheld: Vec::new(),
        people: None,
        attributes: std::collections::BTreeMap::default(),
    }
}

fn joined() -> Event {
    let from = PilotJoined {
        pilot: pilot(),
        connection: ConnectionNumber(4),
        ad: ad(),
        lease: Some(Millis(60_000)),
        held: Vec::new(),
        folder: Some("f01de2".into()),
    };
    let stale = vec![task().attempt(Attempt(1))];
    Event::PilotJoined(Box::new(Joined::new(&from, vec![task()], stale)))
}

/// A table in which something of every kind has happened.
fn used_table() -> TaskTable {
    let json = r#"{"len":3,"fresh":3,"states":"0e","cancelled":"01","again":[],
        "later":{"2":3000},"tries":{"1":{"placed":3,"failed":2,"lost":0}},
        "counts":{"waiting":1,"active":0,"succeeded":0,"failed":1,"cancelled":1}}"#;
    serde_json::from_str(json).expect("good")
}

fn revived() -> Event {
    let indices: IndexSet = "1-3".parse().expect("good");
    let job = Job {
        owner: user(),
        shape: serde_json::from_str("0").expect("a shape's id is a number"),
        priority: 0,
        tasks: used_table(),
        indices,
        terms: Arc::new(Terms {
            max_running: Some(2),
            retries: RetryPolicy::default(),
            paths: Paths::default(),
            tags: Box::default(),
        }),
        after: Box::default(),
        submitted: Timestamp(100),
        ended: Some(Timestamp(200)),
        revision: 1,
        pace: Some(Millis(50)),
    };
    let resources = Resources::default();
    Event::JobRevived {
        record: Box::new(JobRecord {
            id: JobId(7),
            resources,
            at_most: None,
            expressions: shipway_core::shape::Expressions::default(),
            gang: Gang::of(NonZeroU32::new(3).expect("three")),
            given: None,
            job,
        }),
    }
}

fn of_jobs() -> Vec<Event> {
    let devices = vec![DeviceId::new("GPU-1").expect("good")];
    let placed = Placement { task: task(), attempt: Attempt(2), devices };
    let bare = Placement { devices: Vec::new(), ..placed.clone() };
    let dependency = CancelReason::Dependency { on: JobId(3), ended: JobState::Failed };
    let removed = CancelReason::OwnerRemoved;
    let these = Which::These([Ordinal(0), Ordinal(2), Ordinal(3)].into_iter().collect());
    vec![
        submitted(),
        Event::DependencyMet { job: job(), on: JobId(3) },
        Event::TasksPlaced { parts: vec![Part { pilot: pilot(), tasks: vec![placed, bare] }] },
        Event::AttemptsStarted { tasks: vec![(task(), Attempt(2), Timestamp(1_000))] },
        Event::AttemptsUsed { tasks: vec![(task(), Attempt(2), Box::new(used()))] },
        Event::TasksReady { tasks: vec![task()] },
        Event::TasksCancelled { job: job(), which: Which::AllWaiting, why: dependency },
        Event::TasksCancelled { job: job(), which: these, why: CancelReason::Asked },
        Event::TasksCancelled { job: job(), which: Which::AllWaiting, why: removed },
        Event::StopRequested { tasks: vec![task()], why: StopReason::Together },
        Event::TasksRequeued { job: job(), tasks: [Ordinal(2)].into_iter().collect() },
        Event::JobEnded { job: job(), state: JobState::Failed },
        revived(),
        Event::JobsArchived { jobs: vec![job()] },
    ]
}

fn of_the_rest() -> Vec<Event> {
    let token = Token {
        id: "t1".into(),
        user: user(),
        hash: "abc".into(),
        expires: Timestamp(9_000),
        note: "laptop".into(),
    };
    vec![
        Event::ServerStarted,
        joined(),
        Event::PilotAway { pilot: pilot() },
        Event::PilotChanged { pilot: pilot(), ad: Box::new(ad()) },
        Event::PilotLeaving { pilot: pilot() },
        Event::PilotLost { pilot: pilot() },
        Event::PilotEnded { pilot: pilot() },
        Event::UserAdded { user: user(), role: Role::Operator, number: None },
        Event::UserAdded { user: user(), role: Role::User, number: Some(UserNumber(3)) },
        Event::UserRemoved { user: user(), before: None },
        Event::UserRemoved { user: user(), before: Some(JobId(8)) },
        Event::JobsGiven { jobs: vec![job()], to: user(), since: JobId(8) },
        Event::TokenIssued { token },
        Event::TokenRevoked { id: "t1".into() },
        Event::TokensExpired { before: Timestamp(5) },
        Event::AllocationAsked {
            allocation: AllocationId::new("a-1").expect("good"),
            site: SiteKind::ByHand.only().expect("one"),
            pilots: vec![Awaited { pilot: pilot(), hash: "def".into() }],
            expires: Some(Timestamp(9_000)),
            class: None,
        },
        Event::PilotTokenEnded { pilot: pilot() },
        Event::KeysExpired { before: Timestamp(5) },
        Event::HalfLifeSet { half_life: Millis(60_000) },
        Event::ShareSet { user: user(), share: 200 },
    ]
}

fn of_sites() -> Vec<Event> {
    let spec = r#"{"name":"hpc","kind":"slurm","program":"/opt/shipway","server":"https://h:7447",
        "reach":{"ssh":{"host":"ada@login"}},"shared":["/home"],"classes":[{"name":"a100",
        "partition":"gpu","pilots":4,"cpus":8,"memory":"32GB","gpus":{"count":1,
        "model":"NVIDIA A100","memory":"40GB","kind":"a100","capability":"8.0"}}]}"#;
    let spec: Box<SiteSpec> = serde_json::from_str(spec).expect("good");
    let (site, class) = (spec.name.clone(), String::from("a100"));
    let allocation = AllocationId::new("a-2").expect("good");
    let pilots = vec![Awaited { pilot: pilot(), hash: "def".into() }];
    let changed = |phase, words: &str| Event::AllocationChanged {
        allocation: allocation.clone(),
        phase,
        engine_id: Some("17".into()),
        words: words.into(),
    };
    vec![
        Event::SiteAdded { spec: spec.clone(), by: None },
        Event::SiteAdded { spec, by: Some(user()) },
        Event::AllocationAsked {
            allocation: allocation.clone(),
            site: site.clone(),
            pilots,
            expires: None,
            class: Some(class.clone()),
        },
        changed(Phase::Queued, "PENDING (Resources)"),
        changed(Phase::GivenUp, ""),
        changed(Phase::Ended(AllocationEnd::TimeLimit), "TIMEOUT"),
        Event::SiteTroubled {
            site: site.clone(),
            class,
            words: "invalid partition".into(),
            kind: EngineTrouble::Refused,
            until: Timestamp(9_000),
        },
        Event::SiteReached { site: site.clone(), class: String::new() },
        Event::SiteDrained { site: site.clone(), draining: true, by: None },
        Event::SiteRemoved { site: site.clone(), by: None },
        Event::SiteDrained { site: site.clone(), draining: false, by: Some(user()) },
        Event::SiteRemoved { site: site.clone(), by: Some(user()) },
        Event::SiteDiffers {
            site,
            class: "a100".into(),
            node: NodeName::new("n4").expect("good"),
            words: "asked for 2 GPUs, found 1".into(),
        },
    ]
}

/// One number per variant: a new one does not compile until it is counted here and shown above.
fn variant(event: &Event) -> u32 {
    match event {
        Event::ServerStarted => 0,
        Event::JobSubmitted(_) => 1,
        Event::DependencyMet { .. } => 2,
        Event::TasksPlaced { .. } => 3,
        Event::AttemptsStarted { .. } => 4,
        Event::AttemptEnded(_) => 5,
        Event::TasksReady { .. } => 6,
        Event::TasksCancelled { .. } => 7,
        Event::StopRequested { .. } => 8,
        Event::TasksRequeued { .. } => 9,
        Event::JobEnded { .. } => 10,
        Event::JobRevived { .. } => 11,
        Event::JobsArchived { .. } => 12,
        Event::PilotJoined(_) => 13,
        Event::PilotAway { .. } => 14,
        Event::PilotLost { .. } => 15,
        Event::PilotEnded { .. } => 16,
        Event::UserAdded { .. } => 17,
        Event::UserRemoved { .. } => 18,
        Event::TokenIssued { .. } => 19,
        Event::TokenRevoked { .. } => 20,
        Event::AllocationAsked { .. } => 21,
        Event::KeysExpired { .. } => 22,
        Event::HalfLifeSet { .. } => 23,
        Event::ShareSet { .. } => 24,
        Event::PilotLeaving { .. } => 25,
        Event::JobsGiven { .. } => 26,
        Event::TokensExpired { .. } => 27,
        Event::PilotTokenEnded { .. } => 28,
        Event::PilotChanged { .. } => 29,
        Event::SiteAdded { .. } => 30,
        Event::SiteDrained { .. } => 31,
        Event::SiteRemoved { .. } => 32,
        Event::SiteTroubled { .. } => 33,
        Event::SiteReached { .. } => 34,
        Event::AllocationChanged { .. } => 35,
        Event::SiteDiffers { .. } => 36,
        Event::AttemptsUsed { .. } => 37,
    }
}
const VARIANTS: u32 = 38;

#[test]
fn every_event_is_written_as_it_always_was() {
    let rest = of_the_rest().into_iter().chain(of_sites());
    let events: Vec<Event> = of_jobs().into_iter().chain(ends()).chain(rest).collect();
    let seen: BTreeSet<u32> = events.iter().map(variant).collect();
    assert_eq!(seen, (0..VARIANTS).collect(), "every variant is shown");
    let mut lines = String::new();
    for event in events {
        let recorded = Recorded { v: EVENT_VERSION, at: Timestamp(1_700_000_000_000), event };
        let text = serde_json::to_string(&recorded).expect("plain data");
        let read: Recorded = serde_json::from_str(&text).expect("reads back");
        assert_eq!(read, recorded, "{text}");
        lines.push_str(&text);
        lines.push('\n');
    }
    insta::assert_snapshot!(lines);
}

#[test]
fn an_event_of_a_later_version_is_refused() {
    let found = u64::from(EVENT_VERSION) + 1;
    for rest in [r#""type":"server_started""#, r#""type":"something_new","much":[1]"#] {
        let later = format!(r#"{{"v":{found},"at":1,{rest}}}"#);
        let error = Recorded::read(later.as_bytes()).expect_err("refused");
        assert!(matches!(error, Unreadable::Newer { found: it } if it == found), "{error:?}");
    }
}

/// What the first version wrote in another form than today's.
#[test]
fn events_of_the_first_version_are_read_as_what_they_were() {
    let read = |text: &str| Recorded::read(text.as_bytes()).expect("an event").event;
    let placed = r#"{"v":1,"at":5,"type":"tasks_placed","pilot":"p-1",
        "tasks":[{"task":"7/3","attempt":2,"devices":["GPU-1"]}]}"#;
    let devices = vec![DeviceId::new("GPU-1").expect("good")];
    let tasks = vec![Placement { task: task(), attempt: Attempt(2), devices }];
    assert_eq!(read(placed), Event::TasksPlaced { parts: vec![Part { pilot: pilot(), tasks }] });
    let issued = r#"{"v":1,"at":5,"type":"pilot_token_issued","pilot":"local-1","hash":"ab"}"#;
    let pilot = PilotId::new("local-1").expect("good");
    assert_eq!(
        read(issued),
        Event::AllocationAsked {
            allocation: AllocationId::new("local-1").expect("good"),
            site: SiteKind::ThisMachine.only().expect("one"),
            pilots: vec![Awaited { pilot, hash: "ab".into() }],
            expires: None,
            class: None,
        }
    );
    let stop = r#"{"v":1,"at":5,"type":"stop_requested","tasks":["7/3"]}"#;
    let asked = Event::StopRequested { tasks: vec![task()], why: StopReason::Asked };
    assert_eq!(read(stop), asked);
}
