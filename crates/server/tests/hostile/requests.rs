//! Good requests to every endpoint of the table, and what becomes of them.

use crate::chance::Chance;
use crate::mutate;
use crate::world::{Input, World};
use axum::http::{HeaderName, HeaderValue, Request, Uri};
use shipway_api::routes::{self, ENDPOINTS, Endpoint, Who};
use shipway_model::Role;

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
const TOGETHER: &str = r#"{"jobs":[{"spec":{"name":"a","command":["true"]}},
{"spec":{"name":"b","command":["true"],"after":[1]},"after":["a:any"]},
{"spec":{"command":["true"],"array":"1-10"},"after":["a","b:failed"]}]}"#;
const SELECTION: &str =
    r#"{"jobs":[1,2,3],"tasks":["1/1","2/7"],"labels":{"l":"1"},"state":"failed"}"#;
const USER: &str = r#"{"user":"ada","role":"user","share":100}"#;
const SHARE: &str = r#"{"share":100}"#;
const TOKEN: &str = r#"{"user":"ada","note":"for a script","lasts":"1h"}"#;
const SLURM: &str = r#"{"name":"fuzz","kind":"slurm",
"reach":{"ssh":{"host":"ada@login.example","options":["-p","22"]}},
"env":{"SLURM_CONF":"/etc/slurm/slurm.conf"},"program":"/opt/shipway","server":"https://h:7447",
"relay":"relay.example:7448","limits":{"pending":6,"running":12,"starts_per_hour":100},
"wall":"1h","idle":"1m","warning":"1m","submit":["--account=ada"],"users":["ada"],
"shared":["/home","/data"],"classes":[
{"name":"a100","partition":"gpu","pilots":4,"cpus":8,"memory":"16GB","cost":2.5,
"submit":["--exclusive"],"guests":"1m","attributes":{"Arch":"\"X86_64\""},
"gpus":{"count":2,"model":"NVIDIA A100","memory":"40GB","kind":"a100","capability":"8.0"}},
{"name":"cpu","pilots":10,"cpus":4,"memory":"16GB"}]}"#;
const CONDOR: &str = r#"{"name":"ada","kind":"htcondor","program":"/opt/shipway",
"server":"http://h:7447","classes":[{"name":"cpu","pilots":10,"cpus":4,"memory":"16GB"}]}"#;
const DRAINING: &str = r#"{"draining":true}"#;
const LOGIN: &str = r#"{"user":"ada","password":"secret"}"#;

const QUERIES: &[&str] = &[
    "",
    "limit=10&owner=*&state=waiting",
    "before=3&name=n&label=a=b,c=d",
    "from=0&limit=1000",
    "seconds=0",
    "stream=stderr&attempt=1&offset=0&follow=false",
    "job=1&after=0",
    "request=A100:40GB..:2",
    "x=y",
];

/// Good bodies of an endpoint. One that is not known here has those of all others.
fn bodies(endpoint: &Endpoint) -> &'static [&'static str] {
    match endpoint.path {
        _ if endpoint.most_bytes == 0 => &[],
        routes::JOBS | routes::DRY_RUN => &[JOB, PLAIN, ROWS],
        routes::SUBMISSIONS => &[TOGETHER],
        routes::CANCEL | routes::RETRY => &[SELECTION],
        routes::USERS => &[USER],
        routes::USER_SHARE => &[SHARE],
        routes::TOKENS => &[TOKEN],
        routes::REGISTRY => &[LOGIN],
        routes::SITES => &[SLURM, CONDOR],
        routes::SITE_DRAINING => &[DRAINING],
        _ => &[JOB, PLAIN, ROWS, SELECTION, USER, SHARE, TOKEN, SLURM, DRAINING, LOGIN],
    }
}

/// Those that others may not ask are asked by an admin, and what looks by either.
fn is_admins(endpoint: &Endpoint, chance: &mut Chance) -> bool {
    match endpoint.who {
        Who::Anybody => false,
        Who::SignedIn => chance.one_in(2),
        Who::May(act) => !Role::User.may(act),
    }
}

/// Any of them, and those that take a job more often: there is most to say.
fn endpoint(chance: &mut Chance) -> &'static Endpoint {
    let picked = chance.pick(ENDPOINTS);
    let takes_a_job = |one: &&Endpoint| [routes::JOBS, routes::DRY_RUN].contains(&one.path);
    let often = ENDPOINTS.iter().filter(takes_a_job).find(|one| one.most_bytes > 0);
    if chance.one_in(10) { often.unwrap_or(picked) } else { picked }
}

pub(crate) fn input(world: &World, chance: &mut Chance) -> Input {
    let endpoint = endpoint(chance);
    let bodies = bodies(endpoint);
    let body = if bodies.is_empty() {
        Vec::new()
    } else {
        mutate::text(chance.pick::<&str>(bodies), chance)
    };
    let uri = address(endpoint.path, chance);
    let mut request = Request::new(());
    *request.method_mut() = endpoint.method.parse().expect("a method");
    *request.uri_mut() = uri;
    let token = if is_admins(endpoint, chance) { &world.owner } else { &world.user };
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

/// They are good, or what is made of them would be refused at the first look.
#[test]
fn sites_are_good_before_they_are_changed() {
    for body in [SLURM, CONDOR] {
        let spec: shipway_model::SiteSpec = serde_json::from_str(body).expect(body);
        assert!(!spec.classes.is_empty());
    }
}
