//! The server's log as a machine reads it: one JSON object a line, every request in it with who
//! asked for what and how it went, and never a secret, however much is logged.

use super::common::{World, wait_some};
use super::curl::{anonymous, ask, get};
use serde_json::Value;

fn lines(world: &World) -> Vec<Value> {
    let log = world.server_log();
    let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn line_of(world: &World, request: &str) -> Value {
    wait_some("the request is in the log", || {
        lines(world).into_iter().find(|line| line["fields"]["request"] == request)
    })
}

#[test]
fn every_request_is_one_line_with_who_what_and_how() {
    let world = World::new();
    world.up_with(&["--no-pilot", "--log-format", "json", "--log-level", "debug"], |_| {});
    for line in lines(&world) {
        let at = line["timestamp"].as_str().unwrap_or_else(|| panic!("no timestamp: {line}"));
        // 2026-11-15T12:20:51.611862Z: lines can be sorted as texts.
        assert!(at.len() == 27 && at.ends_with('Z') && at.as_bytes()[10] == b'T', "{line}");
    }
    let answered = get(&world, "/api/v1/jobs?name=secret-name");
    let line = line_of(&world, answered.header("x-request-id").expect("an id"));
    let fields = &line["fields"];
    assert_eq!((&line["level"], &fields["message"]), (&"DEBUG".into(), &"answered".into()));
    assert_eq!((&fields["route"], &fields["method"]), (&"/api/v1/jobs".into(), &"GET".into()));
    assert!(fields["status"] == 200 && fields["millis"].is_u64(), "{line}");
    assert_eq!(fields["user"], world.json(&["user", "list"])["users"][0]["user"], "{line}");
    assert!(!line.to_string().contains("secret-name"), "queries are not told: {line}");

    let refused = get(&world, "/api/v1/jobs/99/why");
    let line = line_of(&world, refused.header("x-request-id").expect("an id"));
    let fields = &line["fields"];
    assert_eq!((&line["level"], &fields["code"]), (&"INFO".into(), &"no_such_job".into()));
    assert_eq!(
        (&fields["route"], &fields["path"]),
        (&"/api/v1/jobs/{job}/why".into(), &"/api/v1/jobs/99/why".into())
    );
    let nobody = anonymous(&world, &format!("/{}", "x".repeat(9_000)), &[]);
    let line = line_of(&world, nobody.header("x-request-id").expect("an id"));
    assert!(line["fields"]["user"] == "" && line.to_string().len() < 1_000, "{line}");
}

#[test]
fn nothing_that_is_logged_is_a_secret() {
    let world = World::new();
    world.up_with(&["--log-format", "json", "--log-level", "trace"], |_| {});
    world.ok(&["user", "add", "alice"]);
    let alice = world.ok(&["token", "new", "--user", "alice"]).trim().to_string();
    let pilot = world.ok(&["token", "pilot"]);
    let pilot =
        pilot.split('"').find(|word| word.starts_with("shp_")).expect("a token").to_string();
    assert_eq!(world.cli(&["run", "--env", "PASSWORD=of-a-task", "--", "true"]).code, 0);
    let header = format!("Authorization: Bearer {alice}");
    for words in [&["--header", &header][..], &["--http2-prior-knowledge", "--header", &header]] {
        assert_eq!(anonymous(&world, "/api/v1/jobs", words).status, 200);
        assert_eq!(anonymous(&world, "/api/v1/users/x", words).status, 405);
    }
    ask(&world, &format!("/api/v1/jobs?name={alice}"), &[], None);
    world.ok(&["token", "list"]);
    assert!(lines(&world).len() > 10, "something is logged at this level");
    let log = world.server_log();
    for secret in [&*alice, &*pilot, &*world.token(), "of-a-task"] {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret} is in the log");
    }
}
