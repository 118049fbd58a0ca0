//! Connections in great number that are nobody's, and those of one user: neither keeps others out.

use super::common::{World, wait_for};
use super::curl::{ask, post};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What the server may have open: fewer connections than these tests make.
const FILES: u32 = 256;
const CONNECTIONS: usize = 300;
/// Outputs that one user may read at once.
const FOLLOWED: usize = 256;

/// The beginning of HTTP/2, with empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const FRAME_HEADER: usize = 9;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;

/// A client that says it speaks HTTP/2, answers every ping, and asks for nothing.
struct Stranger {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Stranger {
    fn new(address: &str) -> Option<Stranger> {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.write_all(PREFACE).ok()?;
        stream.set_nonblocking(true).ok()?;
        Some(Stranger { stream, unread: Vec::new() })
    }

    /// Answers what has come. False: the connection is closed.
    fn go_on(&mut self) -> bool {
        let mut piece = [0; 1_024];
        match self.stream.read(&mut piece) {
            Ok(0) => return false,
            Ok(read) => self.unread.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(_) => return false,
        }
        while self.unread.len() >= FRAME_HEADER {
            let size = usize::from(self.unread[1]) << 8 | usize::from(self.unread[2]);
            if self.unread.len() < FRAME_HEADER + size {
                break;
            }
            let mut frame: Vec<u8> = self.unread.drain(..FRAME_HEADER + size).collect();
            let (kind, flags) = (frame[3], frame[4]);
            if (kind == PING || kind == SETTINGS) && flags & ACK == 0 {
                frame[4] = ACK;
                if kind == SETTINGS {
                    frame.truncate(FRAME_HEADER);
                    frame[1..3].fill(0);
                }
                let _ = self.stream.write_all(&frame);
            }
        }
        true
    }
}

/// Keeps as many strangers connected as there can be, until it is dropped.
struct Crowd {
    stop: Arc<AtomicBool>,
    made: Arc<AtomicUsize>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Crowd {
    fn gather(world: &World) -> Crowd {
        let address = world.url().strip_prefix("http://").expect("plain").to_string();
        let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (ends, counts) = (Arc::clone(&stop), Arc::clone(&made));
        let thread = std::thread::spawn(move || {
            let mut all: Vec<Stranger> = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                all.retain_mut(Stranger::go_on);
                if all.len() < CONNECTIONS
                    && let Some(stranger) = Stranger::new(&address)
                {
                    all.push(stranger);
                    counts.fetch_add(1, Ordering::Relaxed);
                }
                std::thread::yield_now();
            }
        });
        let crowd = Crowd { stop, made, thread: Some(thread) };
        wait_for("the crowd is there", || crowd.made.load(Ordering::Relaxed) >= CONNECTIONS);
        crowd
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// They answer pings, show no token, and come back when they are let go.
#[test]
fn a_crowd_of_strangers_keeps_nobody_out() {
    let world = World::new();
    world.up_with_files(FILES);
    assert_eq!(world.cli(&["run", "--", "true"]).code, 0);
    let crowd = Crowd::gather(&world);
    let patient = &["--max-time", "100"];
    for _ in 0..2 {
        assert_eq!(ask(&world, "/api/v1/whoami", patient, None).status, 200);
        assert_eq!(ask(&world, "/healthz", patient, None).status, 200);
    }
    assert_eq!(world.cli(&["run", "--", "true"]).code, 0, "and the pilot has its place");
    drop(crowd);
    let page = ask(&world, "/metrics", patient, None).body;
    assert!(page.contains("shipway_http_connections_closed_total{why=\"made_way\"}"), "{page}");
}

/// There is room for everybody, and it has to go all the same.
#[test]
fn a_stranger_who_answers_pings_and_shows_no_token_is_let_go() {
    let world = World::new();
    world.up_with_files(FILES);
    let address = world.url().strip_prefix("http://").expect("plain").to_string();
    let mut stranger = Stranger::new(&address).expect("there is room");
    wait_for("it is closed", || !stranger.go_on());
    let page = ask(&world, "/metrics", &[], None).body;
    let closed = "shipway_http_connections_closed_total{why=\"no_token\"} ";
    let count = page.lines().find_map(|line| line.strip_prefix(closed));
    assert!(count.is_some_and(|count| count != "0"), "{page}");
}

/// Each of them waits for output that never comes.
#[test]
fn one_user_who_follows_much_output_is_told_what_to_do() {
    let world = World::new();
    world.up_with_files(8 * u32::try_from(FOLLOWED).expect("few"));
    // It ends, or one that is not refused would wait for ever.
    let job = world.submit(&["--", "sleep", "100"]);
    let token = world.ok(&["token", "new"]).trim().to_string();
    let address = world.url().strip_prefix("http://").expect("plain").to_string();
    let mut open = Vec::new();
    for stream in ["stdout", "stderr"].iter().cycle().take(FOLLOWED) {
        let path = format!("/api/v1/jobs/{job}/tasks/0/log?follow=true&stream={stream}");
        let mut follower = TcpStream::connect(&address).expect("the kernel takes it");
        let heading = format!("host: x\r\nauthorization: Bearer {token}");
        write!(follower, "GET {path} HTTP/1.1\r\n{heading}\r\n\r\n").expect("it is sent");
        open.push(follower);
    }
    for follower in &mut open {
        let mut start = [0; 12];
        follower.read_exact(&mut start).expect("an answer begins");
        assert_eq!(&start, b"HTTP/1.1 200");
    }
    let refused = world.cli(&["logs", "-f", &job]);
    assert_ne!(refused.code, 0);
    let said = &refused.stderr;
    assert!(said.contains("256 requests of") && said.contains("end some of them"), "{said}");
    let unseen = world.cli(&["run", "--", "sh", "-c", "exit 7"]);
    assert_eq!((unseen.code, unseen.stdout.as_str()), (7, ""), "the job runs all the same");
    assert!(unseen.stderr.contains("the output is not shown: 256 requests"), "{}", unseen.stderr);
    // With one `logs -f` closed there is room for another, that of `run`.
    open.truncate(FOLLOWED - 2);
    wait_for("there is room again", || world.cli(&["run", "--", "echo", "hi"]).stdout == "hi\n");
}

/// All of them signed in, and each waits for an answer.
#[test]
fn one_user_with_many_connections_keeps_nobody_out() {
    let world = World::new();
    world.up_with_files(FILES);
    world.ok(&["user", "add", "eve"]);
    let token = world.ok(&["token", "new", "--user", "eve"]).trim().to_string();
    let address = world.url().strip_prefix("http://").expect("plain").to_string();
    let watch =
        format!("GET /api/v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n");
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(&address).expect("the kernel takes it");
        let _ = stream.write_all(watch.as_bytes());
        open.push(stream);
    }
    let refused = open.iter_mut().any(|stream| {
        let mut start = [0; 12];
        stream.read_exact(&mut start).is_ok() && &start == b"HTTP/1.1 429"
    });
    assert!(refused, "some of them are told that they are too many");
    let patient = &["--max-time", "100"];
    assert_eq!(ask(&world, "/api/v1/whoami", patient, None).status, 200);
    assert_eq!(world.cli(&["run", "--", "true"]).code, 0);
    let body = br#"{"spec": {"command": ["true"]}}"#;
    assert_eq!(post(&world, "/api/v1/jobs", body).status, 201);
}
