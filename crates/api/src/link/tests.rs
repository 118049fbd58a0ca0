//! What is said is what is read, and what should not be said is refused by name.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use super::*;
use shipway_model::gpu::Version;
use shipway_model::limits::MAX_WHY_BYTES;
use shipway_model::node::{MAX_ATTRIBUTES, MAX_DEVICES, MAX_REMARKS};
use shipway_model::series::Point;
use shipway_model::usage::{LARGEST, WHOLE};
use shipway_model::{
    Attempt, Bytes, Capacity, ConnectionNumber, Cores, DeviceId, Ended, FileMap, GpuDevice,
    GpuSource, GpuVendor, HeldPhase, JobId, JobSpec, Lost, NodeName, Outcome, Outputs, People,
    Series, TakenOn, TaskIndex, Timestamp, Usage, Withheld,
};
use std::collections::BTreeMap;

fn id(index: u64) -> AttemptId {
    JobId(7).task(TaskIndex(index)).attempt(Attempt(2))
}

fn gpu(name: &str) -> GpuDevice {
    GpuDevice {
        id: DeviceId::new(name).unwrap(),
        model: "H200".into(),
        memory: Bytes(140_000_000_000),
        vendor: GpuVendor::Nvidia,
        source: GpuSource::Nvml,
        capability: Some(Version::new(&[9, 0])),
        driver: None,
        slice: Some("1g.10gb".into()),
    }
}

fn ad() -> NodeAd {
    let amd = GpuDevice { vendor: GpuVendor::Amd, source: GpuSource::Sysfs, ..gpu("GPU-2") };
    let intel = GpuDevice { vendor: GpuVendor::Intel, source: GpuSource::Declared, ..gpu("G-3") };
    NodeAd {
        node: NodeName::new("n1").unwrap(),
        capacity: Capacity {
            cpus: Cores { milli: 3_500 },
            memory: Bytes(8),
            disk: Bytes(9),
            named: BTreeMap::from([("licence".into(), 2)]),
        },
        gpus: vec![gpu("GPU-1"), amd],
        attributes: BTreeMap::from([("HasAVX2".into(), "true".into())]),
        notes: vec!["a note".into()],
        unfit: vec!["no clock".into()],
        withheld: vec![Withheld { gpu: intel, name: "GPU 0".into(), why: Some("hot".into()) }],
        people: None,
    }
}

fn outcomes() -> Vec<Outcome> {
    let lost = [
        Lost::PilotDied,
        Lost::LeaseRanOut,
        Lost::NoRoom,
        Lost::SiteTookBack,
        Lost::MadeRoom,
        Lost::TimeOver,
        Lost::Preempted,
        Lost::PilotCancelled,
        Lost::NodeFailed,
        Lost::PilotOutOfMemory,
    ];
    let some = [
        Outcome::Exit { code: -3 },
        Outcome::Signal { signal: 11 },
        Outcome::OutOfMemory { limit: Some(Bytes(0)), used: None, on_gpu: true },
        Outcome::TimedOut { limit: Millis(5) },
        Outcome::NotStarted { message: "no such file".into() },
        Outcome::OutputsFailed { message: String::new() },
        Outcome::Cancelled,
    ];
    some.into_iter().chain(lost.map(|why| Outcome::Lost { why })).collect()
}

/// All that a pilot says of it: what it was given is not among that.
fn used() -> Usage {
    let all = Usage::of_values((1..).map(Some).take(Usage::NAMES.len()));
    let (gpus_idle, waited_ms, throttled_ms) = (Some(1), Some(1), Some(1));
    Usage { gpus_idle, waited_ms, throttled_ms, gpu_given_ms: None, ..all }
}

fn series(points: u32, has_gpu: bool) -> SeriesOf {
    let point = |at| {
        let gpu = if has_gpu { at } else { 0 };
        Point { cpu: at, memory: at + 1, gpu, gpu_memory: 2 * gpu, power: 3 * gpu }
    };
    let points = (0..points).map(point).collect();
    SeriesOf { id: id(6), series: Series { step_ms: 2_000, points, has_gpu } }
}

fn held() -> Vec<Held> {
    let end = |outcome| Ended { outcome, started: None, ended: Timestamp(9), ran: Millis(4) };
    let ends =
        outcomes().into_iter().map(|outcome| Held::own(id(3), HeldPhase::Ended(end(outcome))));
    let early = Ended { started: Some(Timestamp(0)), ..end(Outcome::Cancelled) };
    let of = Some(PilotId::new("before").unwrap());
    let running = HeldPhase::Running { started: Timestamp(0) };
    let some = [
        Held::own(id(1), HeldPhase::Queued),
        Held::own(id(2), running),
        Held { of, ..Held::own(id(4), HeldPhase::Ended(early)) },
        Held { usage: Some(Box::new(used())), ..Held::own(id(5), HeldPhase::Queued) },
    ];
    some.into_iter().chain(ends).collect()
}

fn hello() -> Hello {
    Hello {
        pilot: PilotId::new("p1").unwrap(),
        connection: ConnectionNumber(5),
        version: "1".into(),
        ad: ad(),
        lease: Some(Millis(6)),
        held: held(),
        folder_key: "key".into(),
    }
}

#[test]
fn what_a_pilot_says_is_what_is_read() {
    let apart = [
        None,
        Some(People::ByAccount),
        Some(People::BySubordinateId),
        Some(People::No { user: "u".into(), why: "w".into(), fix: "f".into() }),
        Some(People::Refused { why: "w".into(), fix: "f".into() }),
    ];
    let mut said: Vec<_> =
        apart.map(|people| FromPilot::Ad(Box::new(NodeAd { people, ..ad() }))).into();
    said.extend([
        FromPilot::Hello(Box::new(hello())),
        FromPilot::Hello(Box::new(Hello { lease: None, ..hello() })),
        FromPilot::Report(Report { number: 8, held: held() }),
        FromPilot::Ping { number: 9 },
        FromPilot::Leaving,
        FromPilot::Goodbye,
        FromPilot::Series(vec![series(240, true), series(3, false), series(0, false)]),
    ]);
    for message in said {
        assert_eq!(FromPilot::read(message.clone().into()), Ok(Some(message)));
    }
    assert_eq!(FromPilot::read(wire::ToServer::default()), Ok(None), "of a newer pilot");
}

fn spec() -> JobSpec {
    let text = r#"{"command":["a"],"script":"s","env":{"A":"b"},"workdir":"/w","log_limit":"1MB",
        "resources":{"cpus":1.5,"memory":"1GB","disk":"2GB","named":{"licence":1},"gpu":"0.25"},
        "time_limit":{"limit":"1h","warn":"USR1","grace":"5s"},"image":"docker://debian:12",
        "binds":["/a:/b:rw","/c"],"network":"private","stdin":"in","stdout":"out",
        "inputs":["x:y"],"basedir":"/base"}"#;
    serde_json::from_str(text).unwrap()
}

#[test]
fn what_a_job_needs_is_what_is_read() {
    let map = || vec![FileMap::to("a:b", "c"), FileMap::plain("d")];
    let renamed = Outputs { renamed: map(), on: TakenOn::Success, ..Outputs::new_ones() };
    let listed = Outputs { to: Some("/t".into()), ..Outputs::listed(map()) };
    for outputs in [None, Some(renamed), Some(listed)] {
        let template = Template {
            is_owner: true,
            user_number: Some(shipway_model::UserNumber(3)),
            registry_login: Some(shipway_model::Login { user: "u".into(), password: "p".into() }),
            ..Template::of("ada", &JobSpec { outputs, ..spec() })
        };
        let task = Task {
            id: id(1),
            devices: vec![DeviceId::new("GPU-1").unwrap()],
            fields: BTreeMap::from([("seed".into(), "7".into())]),
        };
        let mut message = Assigning::default();
        message.template(JobId(7), template.clone());
        message.template(JobId(8), Template::of("", &JobSpec::default()));
        message.task(task.clone());
        let message = message.done();
        let size = prost::Message::encoded_len(&message);
        assert!(size > 200, "{size}");
        let Ok(Some(FromServer::Assign(read))) = FromServer::read(message) else { panic!() };
        assert_eq!(read.templates[&JobId(7)], template);
        assert_eq!(read.templates[&JobId(8)], Template::of("", &JobSpec::default()));
        assert_eq!((read.tasks, read.unreadable.len()), (vec![task], 0));
    }
}

/// A job that needs something this pilot has never heard of costs no other job of the message.
#[test]
fn what_a_pilot_does_not_know_of_a_job_is_said_of_that_job() {
    let good = || Template::of("ada", &spec()).into_wire(JobId(1));
    let limit = wire::TimeLimit { warn_signal: 63, ..Default::default() };
    let up = wire::Bind { source: "/a/../b".into(), target: "/b".into(), writable: true };
    let bad: [(&str, wire::Template); 7] = [
        ("network", wire::Template { network: 9, ..good() }),
        ("network", wire::Template { network: 0, ..good() }),
        ("need", wire::Template { need: None, ..good() }),
        ("warning signal", wire::Template { time_limit: Some(limit), ..good() }),
        ("`/a/../b`", wire::Template { binds: vec![up], ..good() }),
        ("image", wire::Template { image: Some("podman:x".into()), ..good() }),
        ("share", wire::Template { gpu_share: 20_000, ..good() }),
    ];
    for (what, template) in bad {
        let other = wire::Template { job: 2, ..good() };
        let assign = wire::Assign { templates: vec![template, other], tasks: Vec::new() };
        let read = Assign::read(assign).unwrap();
        let error = read.unreadable[&JobId(1)].to_string();
        assert!(error.contains(what), "{what}: {error}");
        assert!(read.templates.contains_key(&JobId(2)), "{what}");
    }
}

fn read_ad(change: impl FnOnce(&mut wire::NodeAd)) -> Result<NodeAd, BadMessage> {
    let mut ad = wire::NodeAd::from(ad());
    change(&mut ad);
    node::read(ad)
}

#[test]
fn an_ad_that_says_too_much_is_refused() {
    let long = |what| Err(BadMessage::TooLong(what));
    let one = || wire::GpuDevice::from(gpu("G"));
    assert_eq!(read_ad(|ad| ad.gpus = vec![one(); MAX_DEVICES + 1]), long("list of GPUs"));
    let withheld = wire::Withheld { gpu: Some(one()), ..Default::default() };
    let withheld = vec![withheld; MAX_DEVICES + 1];
    assert_eq!(read_ad(|ad| ad.withheld = withheld), long("list of GPUs that are not offered"));
    let names = || (0..=MAX_ATTRIBUTES).map(|name| name.to_string());
    let attributes = names().map(|name| (name, String::new())).collect();
    assert_eq!(read_ad(|ad| ad.attributes = attributes), long("list of attributes"));
    let notes = vec![String::new(); MAX_REMARKS + 1];
    assert_eq!(read_ad(|ad| ad.notes = notes.clone()), long("list of notes"));
    assert_eq!(read_ad(|ad| ad.unfit = notes), long("list of reasons"));
    let named = names().map(|name| (name, 1)).collect();
    let capacity = Some(wire::Amounts { named, ..Default::default() });
    assert_eq!(read_ad(|ad| ad.capacity = capacity), long("list of named resources"));
    assert_eq!(read_ad(|ad| ad.notes = vec!["x".repeat(1 << 20)]), long("ad"));
    let many = wire::GpuDevice { driver: vec![1; 33], ..one() };
    assert_eq!(read_ad(|ad| ad.gpus = vec![many]), long("version"));
}

#[test]
fn an_ad_that_lacks_something_or_has_something_unknown_is_refused() {
    assert_eq!(read_ad(|ad| ad.capacity = None), Err(BadMessage::Missing("capacity")));
    let of = |gpu: wire::GpuDevice| read_ad(|ad| ad.gpus = vec![gpu]);
    let one = || wire::GpuDevice::from(gpu("G"));
    for number in [0, 77, -1] {
        let vendor = of(wire::GpuDevice { vendor: number, ..one() });
        assert_eq!(vendor, Err(BadMessage::Unknown("vendor of a GPU")));
        let source = of(wire::GpuDevice { source: number, ..one() });
        assert_eq!(source, Err(BadMessage::Unknown("source of a GPU")));
    }
    assert!(matches!(of(wire::GpuDevice { id: "a b".into(), ..one() }), Err(BadMessage::Id(_))));
    assert!(matches!(read_ad(|ad| ad.node = String::new()), Err(BadMessage::Id(_))));
    let people = Some(wire::People::default());
    let apart = BadMessage::Unknown("way to keep people apart");
    assert_eq!(read_ad(|ad| ad.people = people), Err(apart));
    let bare = wire::Withheld::default();
    assert_eq!(read_ad(|ad| ad.withheld = vec![bare]), Err(BadMessage::Missing("GPU")));
}

fn read_hello(change: impl FnOnce(&mut wire::Hello)) -> Option<BadMessage> {
    let mut hello = wire::Hello::from(hello());
    change(&mut hello);
    let body = Some(to_server::Body::Hello(hello));
    FromPilot::read(wire::ToServer { body }).err()
}

#[test]
fn a_greeting_is_whole_or_refused() {
    assert_eq!(read_hello(|_| {}), None);
    assert_eq!(read_hello(|hello| hello.ad = None), Some(BadMessage::Missing("ad")));
    let older = |hello: &mut wire::Hello| (hello.protocol, hello.ad) = (1, None);
    assert_eq!(read_hello(older), Some(BadMessage::Protocol(1)), "before all else");
    let key = read_hello(|hello| hello.folder_key = "k".repeat(129));
    assert_eq!(key, Some(BadMessage::TooLong("key of a folder")));
    assert!(matches!(read_hello(|hello| hello.pilot = "a b".into()), Some(BadMessage::Id(_))));
}

#[test]
fn a_word_on_an_attempt_is_whole_or_refused() {
    let of = |held: wire::Held| read_hello(|hello| hello.held = vec![held]);
    let good = || wire::Held::from(Held::own(id(1), HeldPhase::Queued));
    assert_eq!(of(wire::Held { id: None, ..good() }), Some(BadMessage::Missing("attempt")));
    assert_eq!(of(wire::Held { phase: None, ..good() }), Some(BadMessage::Missing("phase")));
    assert!(matches!(of(wire::Held { of: "a b".into(), ..good() }), Some(BadMessage::Id(_))));
    let end = |outcome| {
        let ended = wire::Ended { outcome, ..Default::default() };
        of(wire::Held { phase: Some(wire::held::Phase::Ended(ended)), ..good() })
    };
    assert_eq!(end(None), Some(BadMessage::Missing("outcome")));
    let lost = end(Some(wire::ended::Outcome::Lost(99)));
    assert_eq!(lost, Some(BadMessage::Unknown("way to be lost")));
    let long = "x".repeat(MAX_WHY_BYTES + 1);
    let not_started = end(Some(wire::ended::Outcome::NotStarted(long.clone())));
    assert_eq!(not_started, Some(BadMessage::TooLong("reason")));
    let failed = end(Some(wire::ended::Outcome::OutputsFailed(long)));
    assert_eq!(failed, Some(BadMessage::TooLong("reason")));
}

#[test]
fn what_a_pilot_says_was_used_is_held_to_what_can_be() {
    let wild = wire::Usage { gpu_busy: Some(u64::MAX), memory: Some(u64::MAX), ..used().into() };
    let read = usage::read_usage(&wild);
    assert_eq!((read.gpu_busy, read.memory), (Some(WHOLE), Some(LARGEST)));
    let mine = Usage { gpu_given_ms: Some(1 << 40), ..used() };
    assert_eq!(usage::read_usage(&mine.into()), used(), "what it was given is not its to say");
}

#[test]
fn a_series_is_a_table_or_refused() {
    let of = |change: &dyn Fn(&mut wire::Series)| {
        let mut series = wire::Series::from(series(3, true));
        change(&mut series);
        let body = Some(to_server::Body::Series(wire::SeriesReport { series: vec![series] }));
        FromPilot::read(wire::ToServer { body }).err()
    };
    assert_eq!(of(&|_| {}), None);
    assert_eq!(of(&|series| series.id = None), Some(BadMessage::Missing("attempt")));
    let ragged = Some(BadMessage::Missing("point of a series"));
    assert_eq!(of(&|series| series.memory.push(1)), ragged);
    assert_eq!(of(&|series| series.step_ms = 0), ragged);
    let long = |series: &mut wire::Series| series.cpu = vec![0; 241];
    assert_eq!(of(&long), Some(BadMessage::TooLong("series")));
    let kept = series(240, true);
    let packed = kept.clone().packed();
    assert!(packed.len() < 4_000, "{} bytes", packed.len());
    assert_eq!(SeriesOf::unpacked(&packed), Some(kept));
    assert_eq!(SeriesOf::unpacked(b"?"), None);
}

#[test]
fn the_longest_reason_is_taken() {
    for message in ["\u{1}€".repeat(1 << 20), "x".repeat(MAX_WHY_BYTES)] {
        let outcome = Outcome::NotStarted { message }.brief();
        let end = Ended { outcome, started: None, ended: Timestamp(1), ran: Millis(0) };
        let held = vec![Held::own(id(1), HeldPhase::Ended(end))];
        let report = FromPilot::Report(Report { number: 1, held });
        assert_eq!(FromPilot::read(report.clone().into()), Ok(Some(report)));
    }
}
