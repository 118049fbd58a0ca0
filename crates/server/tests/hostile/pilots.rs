//! Good messages of a pilot, and what becomes of them.

use crate::chance::Chance;
use crate::mutate;
use crate::world::{Input, World};
use axum::http::Request;
use prost::Message;
use shipway_api::link::{PROTOCOL, SESSION};
use shipway_api::wire::{self, to_server};
use std::sync::atomic::{AtomicU64, Ordering};

/// A little more than the server takes.
const LARGEST: usize = 20 << 20;
const CONTROL: &str = "/shipway.pilot.v1.Link/Attach";
const LOGS: &str = "/shipway.pilot.v1.Logs/Show";
const AD: &str = r#"{"node":"n","capacity":{"cpus":4,"memory":8000000000,"disk":1,"named":{"x":1}},
"gpus":[{"id":"GPU-1","model":"H200","memory":140000000000,"vendor":"nvidia","source":"declared",
"capability":"9.0","driver":"550.54"}],"attributes":{"HasAVX2":"true","A":"B","B":"A + 1"},
"notes":["x"],"unfit":[],"withheld":[]}"#;
const OUTCOME: &str = r#"{"kind":"exit","code":0}"#;

fn attempt(chance: &mut Chance) -> Option<wire::AttemptId> {
    let id = wire::AttemptId {
        job: chance.next() % 5,
        index: chance.next() % 3,
        attempt: u32::try_from(chance.below(3)).unwrap_or_default(),
    };
    (!chance.one_in(20)).then_some(id)
}

fn ended(chance: &mut Chance) -> wire::Ended {
    let outcome = mutate::text(OUTCOME, chance);
    wire::Ended {
        id: attempt(chance),
        outcome_json: String::from_utf8_lossy(&outcome).into_owned(),
        started_ms: chance.next() >> chance.below(64),
        ended_ms: chance.next() >> chance.below(64),
        ran_ms: chance.next() >> chance.below(64),
        pilot: ["", "pilot-x", "not an id"][chance.below(3)].into(),
    }
}

fn held(chance: &mut Chance) -> wire::Held {
    let phase = match chance.below(4) {
        0 => Some(wire::held::Phase::Queued(true)),
        1 => Some(wire::held::Phase::RunningSinceMs(chance.next())),
        2 => Some(wire::held::Phase::Ended(ended(chance))),
        _ => None,
    };
    wire::Held { id: attempt(chance), phase }
}

/// Seldom as many as a message has room for, and more.
fn many<T: Clone>(one: T, size: usize, chance: &mut Chance) -> Vec<T> {
    let most = (LARGEST / (size + 2)).min(400_000);
    let count = if chance.one_in(mutate::SELDOM) { most } else { chance.below(4) };
    vec![one; count]
}

fn next_session() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(100);
    LAST.fetch_add(1, Ordering::Relaxed)
}

fn hello(world: &World, chance: &mut Chance) -> wire::Hello {
    let ad = if chance.one_in(2) { AD.as_bytes().to_vec() } else { mutate::text(AD, chance) };
    let held = held(chance);
    wire::Hello {
        protocol: if chance.one_in(20) { 9 } else { PROTOCOL },
        pilot: world.pilot.0.clone(),
        // Mostly newer than the last one: any other greeting is refused.
        session: if chance.one_in(8) { chance.next() % 100 } else { next_session() },
        version: "1".into(),
        ad_json: String::from_utf8_lossy(&ad).into_owned(),
        lease_ms: chance.next() >> chance.below(64),
        held: many(held.clone(), held.encoded_len(), chance),
        folder_key: if chance.one_in(20) { "k".repeat(chance.below(300)) } else { "key".into() },
    }
}

fn body(world: &World, chance: &mut Chance) -> to_server::Body {
    match chance.below(7) {
        0 => to_server::Body::Hello(hello(world, chance)),
        1 | 2 => {
            let start = wire::Started { id: attempt(chance), started_ms: chance.next() };
            let end = ended(chance);
            let (start_size, end_size) = (start.encoded_len(), end.encoded_len());
            let started = many(start, start_size, chance);
            let ended = many(end, end_size, chance);
            to_server::Body::Report(wire::Report { number: chance.next(), started, ended })
        }
        3 => to_server::Body::Ping(wire::Ping { number: chance.next() }),
        4 => {
            let ad = mutate::text(AD, chance);
            to_server::Body::Ad(wire::Ad { ad_json: String::from_utf8_lossy(&ad).into_owned() })
        }
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
    let session = chance.next() >> chance.below(64);
    request.headers_mut().insert(SESSION, session.into());
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
