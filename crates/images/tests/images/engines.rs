//! Tools of others: found or not, started on loopback in directories of the test's own, and ended
//! by what started them.

#![allow(clippy::print_stderr, reason = "a skipped test must be seen")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// For a machine that is busy with other tests; nothing that works comes near it.
const DEADLINE: Duration = Duration::from_mins(2);

pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited too long for this: {what}");
        // tidy: allow(sleep-in-test) because this is the helper that pauses between two looks
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether all these programs are there. In CI a missing one fails the test.
pub(crate) fn have(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = |name: &str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    let missing: Vec<&&str> = programs.iter().filter(|name| !there(name)).collect();
    if missing.is_empty() {
        return true;
    }
    assert!(std::env::var("CI").is_err(), "this must run in CI: {missing:?} missing");
    eprintln!("skipped: {missing:?} not installed");
    false
}

pub(crate) fn run(command: &mut Command) -> Output {
    let done = command.stdin(Stdio::null()).output().expect("started");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {said}");
    done
}

/// A registry from Debian, with its data in a directory of the test.
pub(crate) struct Registry {
    child: Child,
    pub(crate) port: u16,
}

impl Registry {
    pub(crate) fn start(dir: &Path) -> Registry {
        let port = free_port();
        let data = dir.join("registry-data");
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage:\n  filesystem: {{rootdirectory: {}}}\n\
             http: {{addr: 127.0.0.1:{port}}}\n",
            data.display()
        );
        let file = dir.join("registry.yml");
        std::fs::write(&file, config).expect("written");
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(&file).stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
        wait_for("the registry answers", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Registry { child, port }
    }

    /// Puts an image of a layout into it.
    pub(crate) fn push(&self, layout: &Path, name: &str) {
        let mut skopeo = Command::new("skopeo");
        skopeo.args(["--insecure-policy", "copy", "-q", "--dest-tls-verify=false"]);
        skopeo.arg(format!("oci:{}:latest", layout.display()));
        run(skopeo.arg(format!("docker://127.0.0.1:{}/{name}", self.port)));
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    listener.local_addr().expect("address").port()
}

/// What to do with a request: its whole head is given.
pub(crate) type Answer = dyn Fn(&str, &mut TcpStream) + Send + Sync;

/// A small server on loopback that answers as a test says, and writes down what it was asked.
pub(crate) struct Door {
    pub(crate) port: u16,
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
    closed: Arc<AtomicBool>,
}

impl Door {
    pub(crate) fn open(answer: Arc<Answer>) -> Door {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let port = listener.local_addr().expect("address").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let closed = Arc::new(AtomicBool::new(false));
        let (heard, gone) = (Arc::clone(&asked), Arc::clone(&closed));
        thread::spawn(move || {
            for stream in listener.incoming() {
                if gone.load(Ordering::Relaxed) {
                    return;
                }
                let (answer, heard) = (Arc::clone(&answer), Arc::clone(&heard));
                thread::spawn(move || {
                    let mut stream = stream.expect("connected");
                    let Some(head) = read_head(&mut stream) else { return };
                    heard.lock().expect("held").push(head.clone());
                    answer(&head, &mut stream);
                });
            }
        });
        Door { port, asked, closed }
    }

    /// A door in front of a registry: everything goes through, one request a connection.
    pub(crate) fn before(port: u16) -> Door {
        Door::open(Arc::new(move |head, client| pass(port, head, client, u64::MAX)))
    }

    pub(crate) fn count(&self, part: &str) -> usize {
        self.asked.lock().expect("held").iter().filter(|head| head.contains(part)).count()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Hands a request on, and at most so many bytes of the answer back.
pub(crate) fn pass(port: u16, head: &str, client: &mut TcpStream, limit: u64) {
    let mut server = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    let head = head.trim_end().to_owned() + "\r\nConnection: close\r\n\r\n";
    server.write_all(head.as_bytes()).expect("sent");
    let _ = std::io::copy(&mut server.take(limit), client);
}

fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    // One request a connection keeps the counting plain.
    let head = String::from_utf8(head).ok()?;
    let kept = head.lines().filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    Some(kept.collect::<Vec<_>>().join("\r\n"))
}

/// Answers with a document.
pub(crate) fn reply(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8]) {
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}
