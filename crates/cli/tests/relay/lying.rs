//! Relays that lie: they lead elsewhere, take TLS apart, or change content. Each is found out, with
//! words that say what it was.

use crate::common::{wait_for, wait_some};
use crate::registry::Registry;
use crate::{Pilot, Relay, connected, on_shelf, server, shelf, task};
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;

const LOOPBACK: &str = "127.0.0.1:0";

#[test]
fn a_relay_that_leads_to_another_server_gets_nothing_from_a_pilot() {
    let (world, other) = (server(), server());
    // What ends TLS there has a good certificate for this very address, of its own.
    let lying = Relay::leading_to(&world, &other.url(), LOOPBACK, &[]);
    let pilot = Pilot::start(&world, "pilot", &lying.at, &[]);
    let said = wait_some("the pilot says why", || {
        pilot.log().lines().find(|line| line.contains("no connection")).map(str::to_owned)
    });
    let expected = format!("not by the relay at {}: ", lying.at);
    assert!(said.contains(&expected) && said.contains("certificate"), "{said}");
    assert_eq!((connected(&world), connected(&other)), (0, 0));
    // When it tells the truth the pilot comes, by itself.
    let at = lying.kill();
    let _honest = Relay::start(&world, &at, &[]);
    wait_for("the pilot is there", || connected(&world) == 1);
}

#[test]
fn a_relay_that_hangs_up_or_is_none_is_named() {
    let world = server();
    let listener = TcpListener::bind(LOOPBACK).expect("a port");
    let at = listener.local_addr().expect("bound").to_string();
    let speaks = std::thread::spawn(move || {
        // One that hangs up, one that says something else, and then nobody is there.
        drop(listener.accept().expect("a pilot"));
        let (mut stream, _) = listener.accept().expect("a pilot");
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n");
    });
    let pilot = Pilot::start(&world, "pilot", &at, &[]);
    speaks.join().expect("both came");
    let expected = format!("not by the relay at {at}: ");
    let said = |what: &'static str| {
        wait_some(what, || {
            let log = pilot.log();
            let found = log.lines().find(|line| line.contains(&expected) && line.contains(what));
            found.map(str::to_owned)
        })
    };
    said("refused");
    let _relay = Relay::start(&world, &at, &[]);
    wait_for("the pilot is there", || connected(&world) == 1);
}

#[test]
fn changed_content_is_found_out_and_never_run() {
    let Some(registry) = Registry::start(false) else { return };
    let world = server();
    let relay = Relay::start(&world, LOOPBACK, &[]);
    let image = registry.image("tool:1");
    let words = ["--workdir", "private", "--image", &image, "--", "sh", "-c", "echo $WHO"];
    let mut first = Pilot::start(&world, "first", &relay.at, &[]);
    wait_for("the pilot is there", || connected(&world) == 1);
    assert_eq!(world.cli(&[&["run"], &words[..]].concat()).stdout, "image\n");
    first.stop();

    let _second = Pilot::start(&world, "second", &relay.at, &[]);
    wait_for("the second is there", || connected(&world) == 1);
    // Each part of it: the configuration, the manifest, the layer.
    let parts = on_shelf(&shelf(&world));
    assert_eq!(parts.len(), 3);
    for (path, size) in parts {
        flip(&path, size / 2);
        let job = world.submit(&words);
        assert_ne!(world.cli(&["wait", &job]).code, 0, "{path:?} was changed");
        let why = task(&world, &format!("{job}/0"))["outcome"].to_string();
        let is_named = why.contains(&format!("by the relay at {}", relay.at));
        assert!(is_named && why.contains("digest"), "{why}");
        flip(&path, size / 2);
    }
    let ran = world.cli(&[&["run"], &words[..]].concat());
    assert_eq!(ran.stdout, "image\n", "{}", ran.stderr);
}

fn flip(path: &std::path::Path, at: u64) {
    let file = std::fs::File::options().read(true).write(true).open(path).expect("a file");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("a byte");
    file.write_all_at(&[byte[0] ^ 1], at).expect("written");
}

#[test]
fn tokens_go_through_no_relay_without_tls() {
    let world = crate::common::World::new();
    let relay = world.cli(&["relay", "--listen", LOOPBACK, "--server", "http://127.0.0.1:7447"]);
    assert_eq!(relay.code, 2, "{}", relay.stderr);
    assert!(
        relay.stderr.contains("has no TLS") && relay.stderr.contains("--tls"),
        "{}",
        relay.stderr
    );
    let pilot = ["pilot", "--dir", "p", "--token-file", "t", "--server", "http://127.0.0.1:1"];
    let pilot = world.cli(&[&pilot[..], &["--relay", "127.0.0.1:2"]].concat());
    assert_eq!(pilot.code, 2, "{}", pilot.stderr);
    assert!(pilot.stderr.contains("tokens could be read on the way"), "{}", pilot.stderr);
    let _ = TcpStream::connect("127.0.0.1:2");
}
