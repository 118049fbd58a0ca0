//! What is no request, sent by hand: garbled, cut off, lying about its size, slow on purpose, with
//! addresses that try to climb. None gets more than a refusal, and the server goes on.

use super::common::{World, quick};
use super::curl::{anonymous, ask};
use super::resident;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// What a few hundred open connections and their buffers may cost, with room for the allocator.
const MAY_GROW_BY: u64 = 256 << 20;
/// Longer than the server waits for anybody; nothing that works comes near it.
const PATIENCE: Duration = Duration::from_mins(2);

fn connect(world: &World) -> TcpStream {
    let url = world.url();
    let stream = TcpStream::connect(url.strip_prefix("http://").expect("plain")).expect("a server");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream
}

/// Sends bytes, says that no more come, and reads all that is answered.
fn talk(world: &World, bytes: &[u8]) -> String {
    let mut stream = connect(world);
    // A server that has read enough closes early.
    let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> Option<u16> {
    answer.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}

#[test]
fn garbled_requests_get_no_more_than_a_refusal() {
    let world = World::started();
    let before = resident(world.server_pid());
    let token = world.token();
    let post = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\n"
    );
    let with = |rest: &str| format!("{post}{rest}").into_bytes();
    let header = |line: &str| format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{line}\r\n\r\n");
    let many = "x: y\r\n".repeat(500);
    for (what, bytes, allowed) in [
        ("nothing", Vec::new(), &[][..]),
        ("noise", vec![0xff; 4_096], &[400]),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), &[400]),
        ("no version", b"GET /healthz\r\n\r\n".to_vec(), &[400]),
        ("version 9", b"GET /healthz HTTP/9.9\r\n\r\n".to_vec(), &[400]),
        ("a NUL in a header", header("x: a\0b").into_bytes(), &[400]),
        ("a header without a name", header(": x").into_bytes(), &[400]),
        ("500 headers", header(many.trim_end()).into_bytes(), &[400, 431]),
        ("a long header", header(&format!("x: {}", "y".repeat(1 << 20))).into_bytes(), &[400, 431]),
        ("a negative size", with("content-length: -1\r\n\r\n{}"), &[400]),
        ("a size beyond all", with("content-length: 99999999999999999999\r\n\r\n{}"), &[400]),
        ("two sizes", with("content-length: 2\r\ncontent-length: 9\r\n\r\n{}"), &[400]),
        ("more promised than sent", with("content-length: 500\r\n\r\n{}"), &[400]),
        ("an endless promise", with("content-length: 9999999999999\r\n\r\n{}"), &[400]),
        (
            "less promised than sent",
            with("content-length: 2\r\n\r\n{}GARBAGE\r\n\r\n"),
            &[400, 422],
        ),
        ("no chunk", with("transfer-encoding: chunked\r\n\r\nzzz\r\n"), &[400]),
        ("a huge chunk", with("transfer-encoding: chunked\r\n\r\nfffffffffffffff\r\nx"), &[400]),
        ("a chunk cut off", with("transfer-encoding: chunked\r\n\r\n5\r\nab"), &[400]),
        (
            "both ways at once",
            with("content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
            &[400, 422],
        ),
        ("an unknown coding", with("transfer-encoding: gzip\r\n\r\nxx"), &[400, 501]),
        ("a preface and noise", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff".to_vec(), &[]),
    ] {
        let answer = talk(&world, &bytes);
        let fits = status(&answer).is_none_or(|status| allowed.contains(&status));
        assert!(fits, "{what}: {answer:.300}");
    }
    let grown = resident(world.server_pid()).saturating_sub(before);
    assert!(grown < MAY_GROW_BY, "the server has grown by {grown} bytes");
    assert_eq!(world.json(&["jobs"])["jobs"], serde_json::json!([]), "none made a job");
    assert_eq!(world.cli(&["run", "--", "true"]).code, 0, "and it still works");
}

#[test]
fn addresses_that_climb_lead_nowhere() {
    let world = World::started();
    assert_eq!(world.cli(&["run", "--", "true"]).code, 0);
    for path in [
        "/api/v1/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/api/v1/jobs/%2e%2e/users",
        "/api/v1/jobs/1%2f..%2f..%2fusers",
        "/api/v1/jobs/1/tasks/..%2f..%2f..%2fserver.json/log",
        "/api/v1/jobs/1/tasks/0/log%00",
        "/api/v1/jobs/%c0%ae%c0%ae/x",
        "/api/v1/jobs/1;x=1",
        "/api/v1/jobs/１",
        "/api/v1/jobs/-1",
        "/api/v1/jobs/0x1",
        "/api/v1/jobs/18446744073709551616",
        "//api/v1/jobs",
        "/api/v1/jobs/",
        "/API/v1/jobs",
        "/api/v1/users/%2e%2e",
        "/api/v1/jobs/%ff",
    ] {
        let answer = ask(&world, path, &["--path-as-is"], None);
        assert!([400, 404, 405].contains(&answer.status), "{path}: {answer:?}");
        assert!(answer.json()["hint"].is_string(), "{path}: {answer:?}");
    }
    for method in ["PUT", "PATCH", "TRACE", "CONNECT", "BREW", "get"] {
        let answer = anonymous(&world, "/api/v1/jobs", &["-X", method]);
        assert!([400, 404, 405].contains(&answer.status), "{method}: {answer:?}");
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/xml", "x"] {
        let header = format!("Content-Type: {kind}");
        let answer = ask(&world, "/api/v1/jobs", &["--header", &header], Some(b"{}"));
        assert_eq!(answer.status, 415, "{kind}: {answer:?}");
    }
}

/// Whoever keeps connections open and says little is let go, and holds up nobody meanwhile.
#[test]
fn slow_clients_are_let_go() {
    if quick() {
        return;
    }
    let world = World::started();
    let before = resident(world.server_pid());
    let token = world.token();
    let slow_header = b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: ".to_vec();
    let slow_body = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: 1000\r\n\r\n{{"
    );
    let mut open = Vec::new();
    for _ in 0..100 {
        for bytes in [&slow_header[..], slow_body.as_bytes(), b""] {
            let mut stream = connect(&world);
            stream.write_all(bytes).expect("it takes the beginning");
            open.push((bytes.len(), stream));
        }
    }
    assert_eq!(world.cli(&["run", "--", "true"]).code, 0, "others are served");
    for (sent, mut stream) in open {
        let mut answer = String::new();
        // One that made way before it was read is reset.
        let ended = stream.read_to_string(&mut answer);
        let reset = |error: &std::io::Error| error.kind() == ErrorKind::ConnectionReset;
        assert!(ended.is_ok() || ended.is_err_and(|error| reset(&error)), "it is ended");
        let expected = if sent == slow_body.len() { Some(408) } else { status(&answer) };
        assert_eq!(status(&answer), expected, "{answer}");
    }
    let grown = resident(world.server_pid()).saturating_sub(before);
    assert!(grown < MAY_GROW_BY, "the server has grown by {grown} bytes");
    assert_eq!(world.cli(&["run", "--", "true"]).code, 0, "and it still works");
}
