//! `shipway relay`, through the real binary: a node in a network namespace of its own, from which
//! nothing but the relay can be reached, and a registry from Debian on this machine's loopback.
//!
//! A namespace needs root, and the registry its package. Without them it is a skip that is
//! explained, in CI a failure.

#[path = "../image/archive.rs"]
mod archive;
#[path = "../common/mod.rs"]
mod common;

mod content;
mod lying;
mod node;
mod registry;
mod routeless;
mod strangers;

use common::{World, as_myself, wait_for, wait_some};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server with TLS that runs nothing itself.
fn server() -> World {
    let world = World::new();
    world.launch(&["--no-pilot", "--tls"], |_| {});
    wait_for("the server answers", || world.cli(&["nodes"]).code == 0);
    world
}

fn certificate(world: &World) -> PathBuf {
    world.home().join("certificate.pem")
}

/// A relay, ended with the test.
struct Relay {
    child: Child,
    /// `HOST:PORT`.
    at: String,
}

impl Relay {
    /// At an address of this machine, with a shelf in the world's folder of work.
    fn start(world: &World, listen: &str, options: &[&str]) -> Relay {
        Relay::leading_to(world, &world.url(), listen, options)
    }

    fn leading_to(world: &World, server: &str, listen: &str, options: &[&str]) -> Relay {
        let mut command = world.command(&["relay", "--server", server, "--listen", listen]);
        // Where the tests' registries are.
        command.env("SHIPWAY_PRIVATE_REGISTRIES", "127.0.0.1").args(options);
        Relay::of(world, command)
    }

    fn of(world: &World, mut command: Command) -> Relay {
        command.arg("--images").arg(shelf(world)).arg("--ca").arg(certificate(world));
        let mut child =
            command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let first = lines.next().expect("a line").expect("text");
        let at = first.strip_prefix("shipway: relaying ").expect(&first);
        let at = at.split(' ').next().expect("an address").to_owned();
        // Read to its end, so that whatever it says later has somewhere to go.
        std::thread::spawn(move || lines.for_each(drop));
        Relay { child, at }
    }

    /// `kill -9`.
    fn kill(mut self) -> String {
        self.child.kill().expect("a child of ours");
        self.child.wait().expect("a child of ours");
        self.at.clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn shelf(world: &World) -> PathBuf {
    world.work().join("shelf")
}

/// A pilot by a relay, started by `by` where it is not to be on this machine's own network.
struct Pilot {
    child: Child,
    log: PathBuf,
}

impl Pilot {
    fn start(world: &World, name: &str, relay: &str, by: &[String]) -> Pilot {
        let file = world.work().join(format!("{name}.json"));
        std::fs::write(&file, world.ok(&["token", "pilot", "--json"])).expect("written");
        let log = world.work().join(format!("{name}.log"));
        let program = env!("CARGO_BIN_EXE_shipway").to_owned();
        let words = [by, &[program]].concat();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("pilot").current_dir(world.work());
        command.arg("--dir").arg(world.work().join(name)).arg("--token-file").arg(&file);
        command.args(["--server", &world.url(), "--relay", relay]).arg("--ca");
        command.arg(certificate(world)).args(["--default-image", "none"]).args(as_myself());
        let out = std::fs::File::create(&log).expect("a log");
        command.env_remove("SHIPWAY_URL").env("SHIPWAY_HOME", world.home());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(out);
        Pilot { child: command.spawn().expect("started"), log }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// In order: it says goodbye.
    fn stop(&mut self) {
        common::terminate(self.child.id());
        wait_some("the pilot ends", || self.child.try_wait().expect("a child"));
    }
}

impl Drop for Pilot {
    fn drop(&mut self) {
        common::terminate(self.child.id());
        let _ = self.child.wait();
        if std::thread::panicking() {
            #[expect(clippy::print_stderr, reason = "why a test failed must be seen")]
            let () = eprintln!("--- {} said:\n{}", self.log.display(), self.log());
        }
    }
}

/// Those that are in touch.
fn connected(world: &World) -> usize {
    let nodes = world.json(&["nodes"])["nodes"].as_array().expect("nodes").clone();
    nodes.iter().filter(|node| node["link"] == "connected").count()
}

/// The files on a shelf, by size.
fn on_shelf(dir: &Path) -> Vec<(PathBuf, u64)> {
    let entries = std::fs::read_dir(dir.join("fetched")).expect("a shelf").flatten();
    let mut found: Vec<_> =
        entries.map(|entry| (entry.path(), entry.metadata().expect("a file").len())).collect();
    found.sort_by_key(|(_, size)| *size);
    found
}

fn task(world: &World, id: &str) -> Value {
    world.json(&["show", id])["task"].clone()
}
