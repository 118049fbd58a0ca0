//! Every endpoint of the table against every role: what the table says is what holds. And what it
//! does not say, row by row.

use super::common::{World, wait_for};
use super::{act, person};
use shipway_api::routes::{ENDPOINTS, Endpoint, Who};
use shipway_model::{May, Role};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

const HOLD: &str = "echo words; until [ -e go ]; do sleep 0.02; done";

/// Method, address, body, and what each hears: nobody, a monitor, another user, the owner of the
/// job or token, an operator, an admin.
type Row = (&'static str, &'static str, &'static str, [u16; 6]);

/// What is not to be seen from the table.
const EXACTLY: &[Row] = &[
    ("GET", "/api/v1/jobs?owner=ada", "", [401, 403, 403, 200, 200, 200]),
    ("POST", "/api/v1/jobs", JOB, [401, 403, 201, 201, 201, 201]),
    ("POST", "/api/v1/dry-run", JOB, [401, 403, 200, 200, 200, 200]),
    ("GET", "/api/v1/jobs/{job}/tasks/0/log", "", [401, 404, 404, 200, 200, 200]),
    ("POST", "/api/v1/cancel", SELECT, [401, 403, 404, 200, 200, 200]),
    ("POST", "/api/v1/retry", SELECT, [401, 403, 404, 409, 409, 409]),
    ("POST", "/api/v1/users", USER, [401, 403, 403, 403, 403, 200]),
    ("PUT", "/api/v1/users/{user}/share", SHARE, [401, 403, 403, 403, 403, 200]),
    ("POST", "/api/v1/tokens", "{}", [401, 403, 200, 200, 200, 200]),
    ("POST", "/api/v1/tokens", FOR_ADA, [401, 403, 403, 200, 403, 200]),
    ("DELETE", "/api/v1/tokens/{id}", "", [401, 403, 404, 200, 404, 200]),
    ("PUT", "/api/v1/registries/{host}", LOGIN, [401, 403, 200, 200, 200, 200]),
    ("DELETE", "/api/v1/registries/{host}", "", [401, 403, 200, 200, 200, 200]),
];

const JOB: &str = r#"{"spec":{"command":["true"]}}"#;
const SELECT: &str = r#"{"jobs":[{job}]}"#;
const USER: &str = r#"{"user":"somebody","role":"user"}"#;
const SHARE: &str = r#"{"share":50}"#;
const FOR_ADA: &str = r#"{"user":"ada"}"#;
const LOGIN: &str = r#"{"user":"me","password":"secret"}"#;

/// The status alone: an event stream has no end.
pub(crate) fn status(
    world: &World,
    token: Option<&str>,
    (method, path, body): (&str, &str, &str),
) -> u16 {
    let url = world.url();
    let mut stream = TcpStream::connect(url.strip_prefix("http://").expect("plain")).expect("up");
    stream.set_read_timeout(Some(Duration::from_mins(1))).expect("a time limit");
    let who = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\n{who}{kind}");
    write!(stream, "{head}content-length: {length}\r\n\r\n{body}").expect("sent");
    let mut line = [0; 12];
    stream.read_exact(&mut line).expect("an answer");
    String::from_utf8_lossy(&line[9..]).parse().expect("a status")
}

/// Who asks: a name, a role and a token. Nobody has none of them.
type Asker = Option<(&'static str, Role, String)>;

fn askers(world: &World) -> [Asker; 6] {
    let one = |name, role: Role| Some((name, role, person(world, name, role.as_str())));
    let (eye, bob) = (one("eye", Role::Monitor), one("bob", Role::User));
    let (ada, olga) = (one("ada", Role::User), one("olga", Role::Operator));
    [None, eye, bob, ada, olga, one("root-too", Role::Admin)]
}

fn token(asker: &Asker) -> Option<&str> {
    asker.as_ref().map(|(_, _, token)| token.as_str())
}

/// An address with names of things that are there: a fresh user, a fresh token of ada's.
fn filled(world: &World, text: &str, job: &str, fresh: &mut u32) -> String {
    let mut text = text.replace("{job}", job).replace("{index}", "0");
    if text.contains("{user}") {
        *fresh += 1;
        let name = format!("spare{fresh}");
        world.ok(&["user", "add", &name]);
        text = text.replace("{user}", &name);
    }
    if text.contains("{id}") {
        let made = world.json(&["token", "new", "--user", "ada"]);
        text = text.replace("{id}", made["id"].as_str().expect("an id"));
    }
    let text = text.replace("{digest}", &format!("sha256:{}", "0".repeat(64)));
    text.replace("{host}", "registry.example.org")
}

/// What the table says that somebody hears. None: whatever it is, they are let in.
fn said(endpoint: &Endpoint, asker: &Asker) -> Option<u16> {
    let Some((name, role, _)) = asker else {
        return (endpoint.who != Who::Anybody).then_some(401);
    };
    let is_others = endpoint.path.contains("{job}") && *name != "ada";
    match endpoint.who {
        Who::May(act) if !role.may(act) => Some(403),
        _ if is_others && !role.may(May::TouchAllJobs) => Some(404),
        Who::Anybody | Who::SignedIn | Who::May(_) => None,
    }
}

#[test]
fn every_endpoint_lets_in_whom_the_table_says() {
    let world = World::started();
    let askers = askers(&world);
    let ada = token(&askers[3]).expect("ada's").to_owned();
    let job = act(&world, &ada, &["run", "-d", "--", "true"]).stdout.trim().to_string();
    assert_eq!(act(&world, &ada, &["wait", &job]).code, 0);
    let (mut fresh, mut wrong) = (0, Vec::new());
    for endpoint @ Endpoint { method, path, most_bytes, .. } in ENDPOINTS {
        for asker in &askers {
            let path = filled(&world, path, &job, &mut fresh);
            let body = if *most_bytes > 0 { "{}" } else { "" };
            let heard = status(&world, token(asker), (method, &path, body));
            let is_right = match said(endpoint, asker) {
                Some(said) => heard == said,
                None => ![401, 403, 405].contains(&heard) && heard < 500,
            };
            if !is_right {
                wrong.push(format!("{method} {path} for {asker:?}: {heard}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_the_table_does_not_say_holds_too() {
    let world = World::started();
    let askers = askers(&world);
    let ada = token(&askers[3]).expect("ada's").to_owned();
    let (mut fresh, mut wrong) = (0, Vec::new());
    for (method, path, body, wanted) in EXACTLY {
        for (asker, wanted) in askers.iter().zip(wanted) {
            let needs_job = path.contains("{job}") || body.contains("{job}");
            let mut job = String::new();
            if needs_job {
                job = act(&world, &ada, &["run", "-d", "--", "sh", "-c", HOLD]).stdout;
                job.truncate(job.trim_end().len());
                if path.contains("log") {
                    wait_for("it runs", || act(&world, &ada, &["logs", &job]).stdout == "words\n");
                }
            }
            let path = filled(&world, path, &job, &mut fresh);
            let body = body.replace("{job}", &job);
            let heard = status(&world, token(asker), (method, &path, &body));
            if heard != *wanted {
                wrong.push(format!("{method} {path} for {asker:?}: {heard}, not {wanted}"));
            }
            if needs_job {
                act(&world, &ada, &["cancel", &job]);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
