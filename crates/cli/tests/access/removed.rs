//! What a removed user or a revoked token had open ends with them, and what they had not finished.

use super::common::{World, wait_for};
use super::{act, person};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const HOLD: &str = "echo words; until [ -e go ]; do sleep 0.02; done";
/// Far beyond what an end takes; only an answer that stays open reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

/// An answer that has begun, or is waited for.
struct Open(BufReader<TcpStream>);

impl Open {
    fn get(world: &World, token: &str, path: &str) -> Open {
        let url = world.url();
        let address = url.strip_prefix("http://").expect("plain text");
        let mut stream = TcpStream::connect(address).expect("a server");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n");
        write!(stream, "{head}\r\n").expect("it takes a request");
        Open(BufReader::new(stream))
    }

    /// Reads up to a line that ends so.
    fn until(&mut self, end: &str) -> String {
        let mut seen = String::new();
        while !seen.trim_end().ends_with(end) {
            assert!(self.0.read_line(&mut seen).expect("in time") > 0, "it ended: {seen}");
        }
        seen
    }

    /// What comes until it ends.
    fn rest(mut self, what: &str) -> String {
        let (mut rest, mut piece) = (Vec::new(), [0; 4096]);
        // Signs of life come in between: all of it has a limit, not only each of its pieces.
        let deadline = Instant::now() + PATIENCE;
        loop {
            let read = self.0.read(&mut piece);
            assert!(read.is_ok() && Instant::now() < deadline, "{what} is still open: {read:?}");
            match read.unwrap_or_default() {
                0 => return String::from_utf8_lossy(&rest).into_owned(),
                count => rest.extend_from_slice(&piece[..count]),
            }
        }
    }
}

/// The same over HTTP/2, whose connections carry many requests.
fn follow_by_http2(world: &World, token: &str, path: &str) -> Child {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "-N", "--http2-prior-knowledge", "--max-time", "30"]);
    curl.args(["-H", &format!("authorization: Bearer {token}")]).arg(world.url() + path);
    curl.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("curl is installed")
}

struct Opened {
    events: Open,
    log: Open,
    wait: Open,
    by_http2: Child,
}

/// Everything that stays open, opened.
fn open_all(world: &World, token: &str, job: &str) -> Opened {
    let log = format!("/api/v1/jobs/{job}/tasks/0/log?follow=true");
    let mut events = Open::get(world, token, "/api/v1/events?after=0");
    events.until("job_submitted\",\"job\":1}");
    let mut followed = Open::get(world, token, &log);
    followed.until("words");
    let wait = Open::get(world, token, &format!("/api/v1/jobs/{job}/wait?seconds=60"));
    let mut by_http2 = follow_by_http2(world, token, &log);
    let mut first = [0; 6];
    by_http2.stdout.as_mut().expect("a pipe").read_exact(&mut first).expect("the log comes");
    Opened { events, log: followed, wait, by_http2 }
}

fn all_end(opened: Opened) {
    let Opened { events, log, wait, by_http2 } = opened;
    // Cut off: the last piece of an answer that is whole has no length.
    for (what, open) in [("the event stream", events), ("the log", log)] {
        let rest = open.rest(what);
        assert!(!rest.ends_with("0\r\n\r\n"), "{what} must not look whole: {rest}");
    }
    let mut wait = wait;
    assert_eq!(wait.until("401 Unauthorized"), "HTTP/1.1 401 Unauthorized\r\n");
    let ended = by_http2.wait_with_output().expect("curl");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    // 28 is its own time limit.
    assert!(!ended.status.success() && ended.status.code() != Some(28), "{said}");
}

#[test]
fn a_revoked_token_ends_what_it_has_open() {
    let world = World::started();
    let alice = person(&world, "alice", "user");
    let job = act(&world, &alice, &["run", "-d", "--", "sh", "-c", HOLD]).stdout;
    let job = job.trim();
    let opened = open_all(&world, &alice, job);
    let other = world.ok(&["token", "new", "--user", "alice"]);
    let tokens = world.json(&["token", "list"])["tokens"].clone();
    let first = tokens.as_array().expect("tokens").iter().min_by_key(|t| t["expires"].as_u64());
    world.ok(&["token", "revoke", first.expect("alice's")["id"].as_str().expect("an id")]);
    all_end(opened);
    // Hers still, and with another token she follows it.
    std::fs::write(world.work().join("go"), "").expect("a file");
    assert_eq!(act(&world, other.trim(), &["wait", job]).code, 0);
}

#[test]
fn a_token_whose_time_is_over_ends_what_it_has_open() {
    let world = World::started();
    person(&world, "alice", "user");
    let short = world.ok(&["token", "new", "--user", "alice", "--lasts", "5s"]);
    let events = Open::get(&world, short.trim(), "/api/v1/events?after=0");
    let wholly = events.rest("the event stream");
    assert!(wholly.starts_with("HTTP/1.1 200"), "{wholly}");
}

#[test]
fn with_a_user_ends_what_they_have_open_and_had_not_finished() {
    let world = World::started();
    let alice = person(&world, "alice", "user");
    let job = act(&world, &alice, &["run", "-d", "--", "sh", "-c", HOLD]).stdout;
    let job = job.trim();
    let waiting = act(&world, &alice, &["run", "-d", "--gpus", "900", "--", "true"]).stdout;
    let opened = open_all(&world, &alice, job);
    assert_eq!(world.ok(&["user", "remove", "alice"]), "user alice is removed; 2 jobs cancelled\n");
    all_end(opened);
    for job in [job, waiting.trim()] {
        assert_eq!(world.cli(&["wait", job]).code, 130, "{job} is cancelled");
    }
    // The name is free; what was under it is not its next holder's.
    let alice = person(&world, "alice", "user");
    assert_eq!(act(&world, &alice, &["jobs"]).stdout, "no jobs\n");
    assert_eq!(act(&world, &alice, &["show", job]).code, 3);
    assert_eq!(act(&world, &alice, &["logs", job]).code, 3);
    assert_eq!(world.cli(&["retry", job]).code, 3, "it would run for somebody else");
    world.kill_server();
    world.up();
    assert_eq!(act(&world, &alice, &["show", job]).code, 3, "after a restart as well");
    assert!(world.ok(&["jobs", "--all"]).contains("alice"), "it is in history");
}

#[test]
fn jobs_may_be_given_to_another_user() {
    let world = World::started();
    let (alice, bob) = (person(&world, "alice", "user"), person(&world, "bob", "user"));
    let job = act(&world, &alice, &["run", "-d", "--", "sh", "-c", HOLD]).stdout;
    let job = job.trim();
    wait_for("it runs", || act(&world, &alice, &["logs", job]).stdout == "words\n");
    let owner = world.ok(&["--json", "user", "list"]);
    let owner: serde_json::Value = serde_json::from_str(&owner).expect("JSON");
    let users = owner["users"].as_array().or(owner.as_array()).expect("users");
    let owner = users.iter().find(|user| user["role"] == "admin").expect("who started it");
    let owner = owner["user"].as_str().expect("a name").to_owned();
    let refused = world.cli(&["user", "remove", "alice", "--give-jobs-to", &owner]);
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(refused.stderr.contains("would run as its account"), "{}", refused.stderr);
    let said = world.ok(&["user", "remove", "alice", "--give-jobs-to", "bob"]);
    assert_eq!(said, "user alice is removed; 1 job is now bob's\n");
    assert!(act(&world, &bob, &["jobs"]).stdout.contains("running"));
    world.kill_server();
    world.up();
    let shown = act(&world, &bob, &["--json", "show", job]).stdout;
    assert!(shown.contains("\"owner\": \"bob\""), "{shown}");
    std::fs::write(world.work().join("go"), "").expect("a file");
    assert_eq!(act(&world, &bob, &["wait", job]).code, 0, "it was not stopped");
    let alice = person(&world, "alice", "user");
    assert_eq!(act(&world, &alice, &["show", job]).code, 3);
}
