//! Every route against every role. The list of routes is read from the router's own source: one
//! that is not in the table below fails the test.

use super::common::{World, wait_for};
use super::{act, person};
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

const ROUTER: &str = include_str!("../../../server/src/http/mod.rs");
const ROUTES: &str = include_str!("../../../api/src/routes.rs");
const HOLD: &str = "echo words; until [ -e go ]; do sleep 0.02; done";

/// Method, route, body, and what each hears: nobody, a monitor, another user, the owner of the
/// job or token, an operator, an admin. `{fresh-user}` and `{fresh-token}` are made for each call.
type Row = (&'static str, &'static str, &'static str, [u16; 6]);

const TABLE: &[Row] = &[
    ("GET", "/api/v1/jobs", "", [401, 200, 200, 200, 200, 200]),
    ("GET", "/api/v1/jobs?owner=ada", "", [401, 403, 403, 200, 200, 200]),
    ("POST", "/api/v1/jobs", JOB, [401, 403, 201, 201, 201, 201]),
    ("POST", "/api/v1/dry-run", JOB, [401, 403, 200, 200, 200, 200]),
    ("GET", "/api/v1/jobs/{job}", "", [401, 404, 404, 200, 200, 200]),
    ("GET", "/api/v1/jobs/{job}/wait?seconds=0", "", [401, 404, 404, 200, 200, 200]),
    ("GET", "/api/v1/jobs/{job}/why", "", [401, 404, 404, 200, 200, 200]),
    ("GET", "/api/v1/jobs/{job}/tasks", "", [401, 404, 404, 200, 200, 200]),
    ("GET", "/api/v1/jobs/{job}/tasks/{index}/log", "", [401, 404, 404, 200, 200, 200]),
    ("POST", "/api/v1/cancel", SELECT, [401, 403, 404, 200, 200, 200]),
    ("POST", "/api/v1/retry", SELECT, [401, 403, 404, 409, 409, 409]),
    ("GET", "/api/v1/events", "", [401, 200, 200, 200, 200, 200]),
    ("GET", "/api/v1/nodes", "", [401, 200, 200, 200, 200, 200]),
    ("POST", "/api/v1/pilots", "", [401, 403, 403, 403, 403, 200]),
    ("GET", "/api/v1/users", "", [401, 200, 200, 200, 200, 200]),
    ("POST", "/api/v1/users", USER, [401, 403, 403, 403, 403, 200]),
    ("DELETE", "/api/v1/users/{user}", "", [401, 403, 403, 403, 403, 200]),
    ("PUT", "/api/v1/users/{user}/share", SHARE, [401, 403, 403, 403, 403, 200]),
    ("GET", "/api/v1/tokens", "", [401, 200, 200, 200, 200, 200]),
    ("POST", "/api/v1/tokens", "{}", [401, 403, 200, 200, 200, 200]),
    ("POST", "/api/v1/tokens", FOR_ADA, [401, 403, 403, 200, 403, 200]),
    ("DELETE", "/api/v1/tokens/{id}", "", [401, 403, 404, 200, 404, 200]),
    ("GET", "/api/v1/registries", "", [401, 200, 200, 200, 200, 200]),
    ("PUT", "/api/v1/registries/{host}", LOGIN, [401, 403, 200, 200, 200, 200]),
    ("DELETE", "/api/v1/registries/{host}", "", [401, 403, 200, 200, 200, 200]),
    ("GET", "/api/v1/whoami", "", [401, 200, 200, 200, 200, 200]),
    ("GET", "/healthz", "", [200; 6]),
    ("GET", "/readyz", "", [200; 6]),
    ("GET", "/metrics", "", [401, 200, 403, 403, 200, 200]),
];

const JOB: &str = r#"{"spec":{"command":["true"]}}"#;
const SELECT: &str = r#"{"jobs":[{job}]}"#;
const USER: &str = r#"{"user":"somebody","role":"user"}"#;
const SHARE: &str = r#"{"share":50}"#;
const FOR_ADA: &str = r#"{"user":"ada"}"#;
const LOGIN: &str = r#"{"user":"me","password":"secret"}"#;

/// Every method and path that the router has.
fn known() -> BTreeSet<(String, String)> {
    let path = |name: &str| {
        let declared = format!("pub const {name}: &str = \"");
        let rest = ROUTES.split_once(&declared).unwrap_or_else(|| panic!("no route {name}")).1;
        rest.split('"').next().unwrap_or_default().to_string()
    };
    let mut found = BTreeSet::new();
    for part in ROUTER.split(".route(routes::").skip(1) {
        let (name, handlers) = part.split_once(',').expect("a handler");
        let handlers = handlers.split("\n        .").next().unwrap_or_default();
        for method in ["get", "post", "put", "delete", "patch", "any"] {
            let called = |mark: &str| handlers.contains(&format!("{mark}{method}("));
            if called(" ") || called("::") || called(".") {
                found.insert((method.to_uppercase(), path(name)));
            }
        }
    }
    found
}

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

#[test]
fn every_route_asks_who_it_is() {
    let listed = |row: &Row| {
        let path = row.1.split('?').next().unwrap_or_default();
        (row.0.to_string(), path.to_string())
    };
    assert_eq!(TABLE.iter().map(listed).collect::<BTreeSet<_>>(), known());

    let world = World::started();
    let roles = [("eye", "monitor"), ("bob", "user"), ("ada", "user"), ("olga", "operator")];
    let mut tokens = vec![None];
    tokens.extend(roles.map(|(name, role)| Some(person(&world, name, role))));
    tokens.push(Some(person(&world, "root-too", "admin")));
    let ada = tokens[3].clone().expect("ada's");
    let (mut fresh, mut wrong) = (0, Vec::new());
    for (method, route, body, wanted) in TABLE {
        for (token, wanted) in tokens.iter().zip(wanted) {
            let mut path = (*route).to_string();
            let mut body = (*body).to_string();
            if path.contains("{user}") {
                fresh += 1;
                let name = format!("spare{fresh}");
                world.ok(&["user", "add", &name]);
                path = path.replace("{user}", &name);
            }
            if path.contains("{id}") {
                let made = world.json(&["token", "new", "--user", "ada"]);
                path = path.replace("{id}", made["id"].as_str().expect("an id"));
            }
            if path.contains("{job}") || body.contains("{job}") {
                let made = act(&world, &ada, &["run", "-d", "--", "sh", "-c", HOLD]);
                let job = made.stdout.trim().to_string();
                if path.contains("log") {
                    wait_for("it runs", || act(&world, &ada, &["logs", &job]).stdout == "words\n");
                }
                path = path.replace("{job}", &job).replace("{index}", "0");
                body = body.replace("{job}", &job);
                let heard = status(&world, token.as_deref(), (method, &path, &body));
                check(&mut wrong, (method, route), token.as_deref(), (heard, *wanted));
                act(&world, &ada, &["cancel", &job]);
                continue;
            }
            path = path.replace("{host}", "registry.example.org");
            let heard = status(&world, token.as_deref(), (method, &path, &body));
            check(&mut wrong, (method, route), token.as_deref(), (heard, *wanted));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn check(
    wrong: &mut Vec<String>,
    (method, route): (&str, &str),
    token: Option<&str>,
    (heard, wanted): (u16, u16),
) {
    if heard != wanted {
        let whose = token.unwrap_or("nobody");
        wrong.push(format!("{method} {route} for {whose}: {heard}, and should be {wanted}"));
    }
}
