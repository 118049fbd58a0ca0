//! Good messages of a pilot, and what becomes of them.

use crate::chance::Chance;
use crate::mutate;
use crate::world::{Input, World};
use axum::http::Request;
use prost::Message;
use shipway_api::link::{CONNECTION_NUMBER, PROTOCOL};
use shipway_api::wire::{self, to_server};
use shipway_model::NodeAd;
use std::sync::atomic::{AtomicU64, Ordering};

/// A little more than the server takes.
const LARGEST: usize = 20 << 20;
const CONTROL: &str = "/shipway.pilot.v1.Link/Attach";
const LOGS: &str = "/shipway.pilot.v1.Logs/Show";
const AD: &str = r#"{"node":"n","capacity":{"cpus":4,"memory":8000000000,"disk":1,"named":{"x":1}},
"gpus":[{"id":"GPU-1","model":"H200","memory":140000000000,"vendor":"nvidia","source":"declared",
"capability":"9.0","driver":"550.54"}],"attributes":{"HasAVX2":"true","A":"B","B":"A + 1"},
"notes":["x"],"unfit":[],"withheld":[],"people":{"apart":"refused","why":"w","fix":"f"}}"#;

fn attempt(chance: &mut Chance) -> Option<wire::AttemptId> {
    let id = wire::AttemptId {
        job: chance.next() % 5,
        index: chance.next() % 3,
        attempt: u32::try_from(chance.below(3)).unwrap_or_default(),
    };
    (!chance.one_in(20)).then_some(id)
}

fn number(chance: &mut Chance) -> u64 {
    chance.next() >> chance.below(64)
}

/// Of an enumeration, or of none.
fn one_of_few(chance: &mut Chance) -> i32 {
    i32::try_from(chance.below(6)).unwrap_or_default() - 1
}

fn outcome(chance: &mut Chance) -> wire::ended::Outcome {
    use wire::ended::Outcome;
    let why = |chance: &mut Chance| "é".repeat(if chance.one_in(20) { 5_000 } else { 5 });
    match chance.below(8) {
        0 => Outcome::Exit(one_of_few(chance)),
        1 => Outcome::Signal(one_of_few(chance).wrapping_mul(i32::MAX)),
        2 => {
            let (limit, used) = (Some(number(chance)), Some(number(chance)));
            Outcome::OutOfMemory(wire::OutOfMemory { limit, used, on_gpu: chance.one_in(2) })
        }
        3 => Outcome::TimedOutMs(number(chance)),
        4 => Outcome::NotStarted(why(chance)),
        5 => Outcome::OutputsFailed(why(chance)),
        6 => Outcome::Lost(one_of_few(chance)),
        _ => Outcome::Cancelled(true),
    }
}

fn ended(chance: &mut Chance) -> wire::Ended {
    wire::Ended {
        outcome: (!chance.one_in(20)).then(|| outcome(chance)),
        started_ms: chance.one_in(2).then(|| number(chance)),
        ended_ms: number(chance),
        ran_ms: number(chance),
    }
}

fn held(chance: &mut Chance) -> wire::Held {
    let phase = match chance.below(4) {
        0 => Some(wire::held::Phase::Queued(true)),
        1 => Some(wire::held::Phase::RunningSinceMs(chance.next())),
        2 => Some(wire::held::Phase::Ended(ended(chance))),
        _ => None,
    };
    let of = ["", "pilot-x", "not an id"][chance.below(3)].into();
    let usage = chance.one_in(4).then(|| Box::new(usage(chance)));
    wire::Held { id: attempt(chance), phase, of, usage }
}

/// Sums that nothing comes to.
fn usage(chance: &mut Chance) -> wire::Usage {
    wire::Usage {
        wall_ms: Some(number(chance)),
        looks: Some(number(chance)),
        gpus: Some(number(chance)),
        gpus_idle: Some(number(chance)),
        gpu_busy: Some(number(chance)),
        gpu_memory: Some(number(chance)),
        gpu_memory_of: Some(number(chance)),
        waited_ms: Some(number(chance)),
        ..wire::Usage::default()
    }
}

fn series(chance: &mut Chance) -> wire::Series {
    wire::Series {
        id: attempt(chance),
        step_ms: number(chance),
        cpu: many(7, 1, chance),
        memory: many(7, 1, chance),
        gpu: many(u32::MAX, 5, chance),
        ..wire::Series::default()
    }
}

/// Seldom as many as a message has room for, and more.
fn many<T: Clone>(one: T, size: usize, chance: &mut Chance) -> Vec<T> {
    let most = (LARGEST / (size + 2)).min(400_000);
    let count = if chance.one_in(mutate::SELDOM) { most } else { chance.below(4) };
    vec![one; count]
}

fn next_connection() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(100);
    LAST.fetch_add(1, Ordering::Relaxed)
}

fn gpu(chance: &mut Chance) -> wire::GpuDevice {
    wire::GpuDevice {
        id: if chance.one_in(8) { "no id".into() } else { format!("GPU-{}", chance.next() % 9) },
        memory: number(chance),
        vendor: one_of_few(chance),
        source: one_of_few(chance),
        capability: many(7, 1, chance),
        ..wire::GpuDevice::default()
    }
}

/// A good one as often as not; then one with something wrong or too much of something.
fn ad(chance: &mut Chance) -> wire::NodeAd {
    let good: NodeAd = serde_json::from_str(AD).expect("an ad");
    let mut ad = wire::NodeAd::from(good);
    let text = |chance: &mut Chance| "x".repeat(chance.below(9));
    match chance.below(18) {
        0 => ad.node = ["", "a b", "n".repeat(300).as_str()][chance.below(3)].into(),
        1 => ad.capacity = None,
        2 => {
            let gpu = gpu(chance);
            ad.gpus = many(gpu.clone(), gpu.encoded_len(), chance);
        }
        3 => {
            let gpu = (!chance.one_in(4)).then(|| gpu(chance));
            let withheld = wire::Withheld { gpu, name: text(chance), why: None };
            ad.withheld = many(withheld.clone(), withheld.encoded_len(), chance);
        }
        4 => ad.notes = many(text(chance), 9, chance),
        5 => ad.unfit = many(text(chance), 9, chance),
        6 => {
            let names = many((), 8, chance).len();
            let value = text(chance);
            ad.attributes = (0..names).map(|at| (format!("A{at}"), value.clone())).collect();
        }
        7 => {
            let names = many((), 8, chance).len();
            let (cpus_milli, memory, disk) = (number(chance), number(chance), number(chance));
            let named = (0..names).map(|at| (format!("r{at}"), number(chance))).collect();
            ad.capacity = Some(wire::Amounts { cpus_milli, memory, disk, named });
        }
        8 => ad.people = Some(wire::People::default()),
        _ => {}
    }
    ad
}

fn hello(world: &World, chance: &mut Chance) -> wire::Hello {
    let held = held(chance);
    wire::Hello {
        protocol: if chance.one_in(20) { 9 } else { PROTOCOL },
        pilot: world.pilot.0.clone(),
        // Mostly newer than the last one: any other greeting is refused.
        session: if chance.one_in(8) { chance.next() % 100 } else { next_connection() },
        version: "1".into(),
        ad: (!chance.one_in(40)).then(|| ad(chance)),
        lease_ms: number(chance),
        held: many(held.clone(), held.encoded_len(), chance),
        folder_key: if chance.one_in(20) { "k".repeat(chance.below(300)) } else { "key".into() },
    }
}

fn body(world: &World, chance: &mut Chance) -> to_server::Body {
    match chance.below(8) {
        0 => to_server::Body::Hello(hello(world, chance)),
        7 => {
            let series = series(chance);
            let series = many(series.clone(), series.encoded_len(), chance);
            to_server::Body::Series(wire::SeriesReport { series })
        }
        1 | 2 => {
            let held = held(chance);
            let held = many(held.clone(), held.encoded_len(), chance);
            to_server::Body::Report(wire::Report { number: chance.next(), held })
        }
        3 => to_server::Body::Ping(wire::Ping { number: chance.next() }),
        4 => to_server::Body::Ad(ad(chance)),
        // Very seldom: it is the last that is heard with this token.
        5 if chance.one_in(2_000) => to_server::Body::Goodbye(wire::Goodbye {}),
        _ => to_server::Body::Leaving(wire::Leaving {}),
    }
}

fn piece(chance: &mut Chance) -> wire::LogChunk {
    let size = if chance.one_in(mutate::SELDOM) { LARGEST } else { 1 << 12 };
    let data = vec![7; chance.below(size)];
    wire::LogChunk { id: chance.next() % 9, data, ..wire::LogChunk::default() }
}

/// On the control call a greeting, mostly a good one, then up to three messages; on the logs call
/// as many pieces.
pub(crate) fn input(world: &World, chance: &mut Chance) -> Input {
    let mut stream = Vec::new();
    let of_logs = chance.one_in(5);
    for at in 0..=chance.below(4) {
        let good = if of_logs {
            piece(chance).encode_to_vec()
        } else if at == 0 {
            let body = Some(to_server::Body::Hello(hello(world, chance)));
            wire::ToServer { body }.encode_to_vec()
        } else {
            wire::ToServer { body: Some(body(world, chance)) }.encode_to_vec()
        };
        let message = if chance.one_in(3) { mutate::bytes(good, chance) } else { good };
        let told = if chance.one_in(50) { chance.next() >> 32 } else { message.len() as u64 };
        stream.push(u8::from(chance.one_in(100)));
        stream.extend(u32::try_from(told).unwrap_or(u32::MAX).to_be_bytes());
        stream.extend(message);
    }
    let path = if of_logs { LOGS } else { CONTROL };
    let mut request = Request::post(path).body(()).expect("a request");
    let connection = chance.next() >> chance.below(64);
    request.headers_mut().insert(CONNECTION_NUMBER, connection.into());
    let token = format!("Bearer {}", world.pilot.1);
    for (name, value) in [
        ("authorization", token.as_str()),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        request.headers_mut().insert(name, value.parse().expect("a header"));
    }
    Input::new(request, stream)
}
