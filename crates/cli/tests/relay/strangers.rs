//! Whoever can reach a relay and is no pilot: what they say is read within limits, what they hold
//! is counted, and they keep nobody else out.

use crate::common::wait_for;
use crate::{Pilot, Relay, connected, server};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

const LOOPBACK: &str = "127.0.0.1:0";

/// One request: status, headings, body. Status 0: it hung up.
pub(crate) fn ask(at: &str, path: &str, headings: &str) -> (u16, String, Vec<u8>) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headings}\r\n");
    say(at, request.as_bytes())
}

fn say(at: &str, bytes: &[u8]) -> (u16, String, Vec<u8>) {
    let mut stream = TcpStream::connect(at).expect("connected");
    stream.set_read_timeout(Some(Duration::from_mins(1))).expect("set");
    // It may hang up before all is said.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(answer.len());
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (status, head, answer.get(end + 4..).unwrap_or_default().to_vec())
}

#[test]
fn what_is_no_request_for_content_is_refused() {
    let world = server();
    let relay = Relay::start(&world, LOOPBACK, &[]);
    let zeros = format!("sha256:{}", "0".repeat(64));
    for path in [
        "/".to_owned(),
        "/v2/".into(),
        "/../../etc/passwd".into(),
        "/v2/../../../../etc/passwd".into(),
        format!("/v2/a.example/../../x/blobs/{zeros}"),
        format!("/v2/a.example/%2e%2e/%2e%2e/blobs/{zeros}"),
        "/v2/a.example/x/blobs/..%2f..%2flock".into(),
        format!("/v2/a.example/x/blobs/{zeros}/../../../lock"),
        "/api/v1/jobs".into(),
        "/healthz".into(),
        "http://127.0.0.1:1/v2/".into(),
    ] {
        assert_eq!(ask(&relay.at, &path, "").0, 404, "{path}");
    }
    for (what, bytes) in [
        ("another method", format!("GETX /v2/a.example/x/blobs/{zeros} HTTP/1.1\r\n\r\n")),
        ("a giant heading", format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(1 << 20))),
        ("a giant path", format!("GET /{} HTTP/1.1\r\n\r\n", "y".repeat(1 << 20))),
        ("many headings", format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100_000))),
        ("no HTTP", format!("G{}", "\0".repeat(1 << 20))),
        ("a proxy's word", "CONNECT 127.0.0.1:22 HTTP/1.1\r\n\r\n".into()),
        ("another protocol", "SSH-2.0-x\r\n".into()),
    ] {
        let (status, ..) = say(&relay.at, bytes.as_bytes());
        assert!(![200, 206].contains(&status) && status < 500, "{what}: {status}");
    }
    assert_eq!(ask(&relay.at, &format!("/v2/a.example/x/blobs/{zeros}"), "").0, 401, "it lives");
}

#[test]
fn who_holds_many_connections_holds_no_more_than_theirs() {
    let world = server();
    let options = ["--connections", "40", "--connections-each", "30"];
    let relay = Relay::start(&world, "0.0.0.0:0", &options);
    let port = relay.at.rsplit_once(':').expect("a port").1.to_owned();
    let here = format!("127.0.0.1:{port}");
    // Silent ones of this address: more than it may have.
    let held: Vec<_> = (0..200).map(|_| TcpStream::connect(&here).expect("taken")).collect();
    let is_open = |stream: &TcpStream| {
        stream.set_nonblocking(true).expect("set");
        let peeked = stream.peek(&mut [0]);
        peeked.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    wait_for("the rest is turned away", || held.iter().filter(|one| is_open(one)).count() <= 30);
    // A pilot from elsewhere comes in while they hold on.
    let by = ["env".to_owned()];
    let _pilot = Pilot::start(&world, "pilot", &format!("127.0.0.2:{port}"), &by);
    let other = || {
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::STREAM,
            None,
        );
        let socket = socket.expect("a socket");
        let from: std::net::SocketAddr = "127.0.0.3:0".parse().expect("an address");
        rustix::net::bind(&socket, &from).expect("bound");
        let to: std::net::SocketAddr = here.parse().expect("an address");
        rustix::net::connect(&socket, &to).expect("connected");
        TcpStream::from(socket)
    };
    let mut stream = other();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    // Who says nothing is left after ten seconds, and the pilot has a place.
    wait_for("the pilot is there", || connected(&world) == 1);
    wait_for("silent ones are left", || held.iter().all(|one| !is_open(one)));
}
