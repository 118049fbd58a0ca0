//! Good requests to every route, and what becomes of them.

use crate::chance::Chance;
use crate::mutate;
use crate::world::{Input, World};
use axum::http::{HeaderName, HeaderValue, Request, Uri};
use shipway_api::routes;

const JOB: &str = r#"{"spec":{"name":"n","command":["echo","{a}"],"env":{"A":"b"},
"image":"host","binds":["/a:/b:rw"],"network":"none","stdin":"/i","stdout":"/o","stderr":"/e",
"inputs":["/a:b"],"basedir":"/b","outputs":{"files":"new","renamed":["a:b"],"to":"/t","on":"exit"},
"labels":{"l":"1"},"priority":1,"each":[{"a":1,"b":"x"},{"a":true}],"after":[],
"retries":{"limit":1,"delay":"1s","on":[75,"signal"]},
"time_limit":{"limit":"1h","warn":"USR1","grace":"1s"},"max_running":1,
"resources":{"cpus":1.5,"memory":"2GB","disk":1,"named":{"x":1},"gpu":{"count":1,"model":["a"],
"memory":"1GB..","capability":"8.0..","driver":"550..","vendor":"nvidia","slice":"1g.10gb"}},
"requirements":"Cpus >= 1 && regexp(\"a.*\", Machine)","rank":"Memory","log_limit":1}}"#;
const PLAIN: &str = r#"{"spec":{"command":["true"],"array":"1-1000,2000-3000:7"}}"#;
const ROWS: &str = r#"{"spec":{"command":"echo $line","each":["a","b","c"]}}"#;
const SELECTION: &str =
    r#"{"jobs":[1,2,3],"tasks":["1/1","2/7"],"labels":{"l":"1"},"state":"failed"}"#;
const USER: &str = r#"{"user":"ada","role":"user","share":100}"#;
const SHARE: &str = r#"{"share":100}"#;
const TOKEN: &str = r#"{"user":"ada","note":"for a script","lasts":"1h"}"#;
const LOGIN: &str = r#"{"user":"ada","password":"secret"}"#;

const QUERIES: &[&str] = &[
    "",
    "limit=10&owner=*&state=waiting",
    "before=3&name=n&label=a=b,c=d",
    "from=0&limit=1000",
    "seconds=0",
    "stream=stderr&attempt=1&offset=0&follow=false",
    "job=1&after=0",
    "x=y",
];

/// Method, route, good bodies, whether an admin asks.
type Route = (&'static str, &'static str, &'static [&'static str], bool);
const ROUTES: &[Route] = &[
    ("POST", routes::JOBS, &[JOB, PLAIN, ROWS], false),
    ("POST", routes::JOBS, &[JOB, PLAIN, ROWS], false),
    ("POST", routes::DRY_RUN, &[JOB, PLAIN, ROWS], false),
    ("POST", routes::DRY_RUN, &[JOB, PLAIN, ROWS], false),
    ("POST", routes::CANCEL, &[SELECTION], false),
    ("POST", routes::RETRY, &[SELECTION], false),
    ("GET", routes::JOBS, &[], true),
    ("GET", routes::JOB, &[], true),
    ("GET", routes::JOB_WAIT, &[], true),
    ("GET", routes::JOB_WHY, &[], true),
    ("GET", routes::JOB_TASKS, &[], true),
    ("GET", routes::TASK_LOG, &[], true),
    ("GET", routes::EVENTS, &[], true),
    ("GET", routes::NODES, &[], false),
    ("POST", routes::PILOTS, &[""], true),
    ("GET", routes::USERS, &[], true),
    ("POST", routes::USERS, &[USER], true),
    ("DELETE", routes::USER, &[], true),
    ("PUT", routes::USER_SHARE, &[SHARE], true),
    ("GET", routes::TOKENS, &[], true),
    ("POST", routes::TOKENS, &[TOKEN], true),
    ("DELETE", routes::TOKEN, &[], true),
    ("GET", routes::REGISTRIES, &[], false),
    ("PUT", routes::REGISTRY, &[LOGIN], false),
    ("DELETE", routes::REGISTRY, &[], false),
    ("GET", routes::WHO_AM_I, &[], false),
    ("GET", routes::HEALTHZ, &[], false),
    ("GET", routes::READYZ, &[], false),
    ("GET", routes::METRICS, &[], true),
];

pub(crate) fn input(world: &World, chance: &mut Chance) -> Input {
    let (method, route, bodies, is_admins) = *chance.pick(ROUTES);
    let body = if bodies.is_empty() {
        Vec::new()
    } else {
        mutate::text(chance.pick::<&str>(bodies), chance)
    };
    let uri = address(route, chance);
    let mut request = Request::new(());
    *request.method_mut() = method.parse().expect("a method");
    *request.uri_mut() = uri;
    let token = if is_admins { &world.owner } else { &world.user };
    headers(&mut request, token, chance);
    Input::new(request, body)
}

/// What a mutated address is not, stays as it was.
fn address(route: &str, chance: &mut Chance) -> Uri {
    let ids = ["1", "2", "0", "+1", "99999999999999999999", "ada", "fuzz", "registry.example:5000"];
    let mut path = String::new();
    for (at, part) in route.split(['{', '}']).enumerate() {
        path.push_str(if at % 2 == 0 { part } else { chance.pick::<&str>(&ids) });
    }
    let good = format!("{path}?{}", chance.pick(QUERIES));
    let changed = if chance.one_in(3) { mutate::text(&good, chance) } else { good.clone().into() };
    let changed: Vec<u8> = changed.into_iter().take(60_000).collect();
    let changed = String::from_utf8_lossy(&changed).into_owned();
    changed.parse().or_else(|_| good.parse()).expect("a good address")
}

fn headers(request: &mut Request<()>, token: &str, chance: &mut Chance) {
    let good = [
        ("authorization", format!("Bearer {token}")),
        ("content-type", "application/json".to_string()),
        ("idempotency-key", format!("key-{}", chance.below(50))),
        ("last-event-id", "1".to_string()),
    ];
    for (name, value) in good {
        let wanted = !name.starts_with('i') && !name.starts_with('l') || chance.one_in(3);
        let value =
            if chance.one_in(20) { mutate::text(&value, chance) } else { value.into_bytes() };
        let value: Vec<u8> = value.into_iter().take(16 << 10).collect();
        if let (true, Ok(value)) = (wanted, HeaderValue::from_bytes(&value)) {
            request.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
}
