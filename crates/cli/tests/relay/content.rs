//! Who gets content: pilots of the relay's server, with a ticket for that very digest. And where a
//! relay fetches from: where the operator lets it, wherever a registry sends it.

use crate::common::{World, wait_for};
use crate::registry::Registry;
use crate::strangers::ask;
use crate::{Pilot, Relay, connected, on_shelf, server, shelf, task};
use sha2::Digest as _;
use shipway_api::ticket;
use shipway_model::{Digest, ImageRef};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};

const LOOPBACK: &str = "127.0.0.1:0";

/// The token of a new pilot, and its id.
fn pilot_token(world: &World) -> (String, String) {
    let made: serde_json::Value =
        serde_json::from_str(&world.ok(&["token", "pilot", "--json"])).expect("JSON");
    let text = |key: &str| made[key].as_str().expect("text").to_owned();
    (text("token"), text("pilot"))
}

fn add(world: &World, image: &str, login: Option<&Path>) -> Result<ImageRef, String> {
    let shelf = shelf(world);
    let words = ["relay", "add", image, "--images", shelf.to_str().expect("text")];
    let mut command = world.command(&words);
    command.env("DOCKER_CONFIG", login.unwrap_or(Path::new("/nowhere")));
    let done = command.output().expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if !done.status.success() {
        return Err(text(&done.stderr));
    }
    Ok(text(&done.stdout).parse().expect("an image"))
}

#[test]
fn a_private_image_is_put_there_by_a_person_and_had_by_pilots_alone() {
    let Some(registry) = Registry::start(true) else { return };
    let world = server();
    let relay = Relay::start(&world, LOOPBACK, &[]);
    let image = registry.image("tool:1");
    let refused = add(&world, &image, None).expect_err("it needs a login");
    assert!(refused.contains("does not let us have"), "{refused}");
    let added = add(&world, &image, Some(registry.login())).expect("added");
    let digest = &added.digest().expect("a digest");
    let path = format!("/v2/{}/tool/manifests/{digest}", registry.host);

    let (token, pilot) = pilot_token(&world);
    let with = |ticket: String| ask(&relay.at, &path, &format!("shipway-ticket: {ticket}\r\n")).0;
    assert_eq!(ask(&relay.at, &path, "").0, 401, "to know a digest is nothing");
    assert_eq!(with(ticket::ticket("shp_guessed", digest)), 401);
    assert_eq!(with(ticket::ticket(&world.token(), digest)), 401, "not even the owner: no pilot");
    assert_eq!(with(ticket::ticket(&token, &Digest([7; 32]))), 401, "a ticket for something else");
    assert_eq!(with(token.clone()), 401, "a token is no ticket");
    // Somebody else's pilot, of another server.
    let other = server();
    assert_eq!(with(ticket::ticket(&pilot_token(&other).0, digest)), 401);
    let (status, _, body) = ask_all(&relay.at, &path, &ticket::ticket(&token, digest));
    assert_eq!(status, 200);
    assert!(String::from_utf8_lossy(&body).contains("config"), "a manifest");
    // A part of a part, and its end.
    let (_, layer) = kept(&world).pop().expect("a layer");
    let path = format!("/v2/{}/tool/blobs/{layer}", registry.host);
    let shown =
        format!("shipway-ticket: {}\r\nrange: bytes=1-3\r\n", ticket::ticket(&token, &layer));
    assert_eq!(ask(&relay.at, &path, &shown).0, 206);
    world.ok(&["token", "revoke", &pilot]);
    let (_, config) = kept(&world).remove(0);
    let path = format!("/v2/{}/tool/blobs/{config}", registry.host);
    let shown = format!("shipway-ticket: {}\r\n", ticket::ticket(&token, &config));
    assert_eq!(ask(&relay.at, &path, &shown).0, 401, "it was a pilot, and is none any more");

    // Whose task it is does not matter: whoever put it there has said that all may have it.
    let _pilot = Pilot::start(&world, "pilot", &relay.at, &[]);
    wait_for("the pilot is there", || connected(&world) == 1);
    let words = ["run", "--workdir", "private", "--image", &added.to_string(), "--"];
    let ran = world.cli(&[&words[..], &["sh", "-c", "echo $WHO"]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "image\n"), "{}", ran.stderr);
    assert!(on_shelf(&shelf(&world)).is_empty(), "nothing had to be fetched");
}

/// What a person put there, the smallest first.
fn kept(world: &World) -> Vec<(u64, Digest)> {
    let entries = std::fs::read_dir(shelf(world).join("kept")).expect("a shelf").flatten();
    let mut all: Vec<(u64, Digest)> = entries
        .map(|entry| {
            let name = entry.file_name().into_string().expect("text");
            let digest = format!("sha256:{name}").parse().expect("a digest");
            (entry.metadata().expect("a file").len(), digest)
        })
        .collect();
    all.sort();
    all
}

fn ask_all(at: &str, path: &str, ticket: &str) -> (u16, String, Vec<u8>) {
    ask(at, path, &format!("shipway-ticket: {ticket}\r\n"))
}

#[test]
fn an_image_nobody_may_have_is_refused_with_the_registrys_reason() {
    let Some(registry) = Registry::start(true) else { return };
    let world = server();
    let relay = Relay::start(&world, LOOPBACK, &[]);
    let added = add(&world, &registry.image("tool:1"), Some(registry.login())).expect("added");
    std::fs::remove_dir_all(shelf(&world).join("kept")).expect("taken away again");
    std::fs::create_dir(shelf(&world).join("kept")).expect("a folder");
    let _pilot = Pilot::start(&world, "pilot", &relay.at, &[]);
    wait_for("the pilot is there", || connected(&world) == 1);
    let job = world.submit(&["--workdir", "private", "--image", &added.to_string(), "--", "sh"]);
    assert_ne!(world.cli(&["wait", &job]).code, 0);
    let why = task(&world, &format!("{job}/0"))["outcome"].to_string();
    let words = format!("{} does not let us have", registry.host);
    assert!(why.contains(&words) && why.contains(&relay.at), "{why}");
}

/// A registry that sends whoever asks to another address.
fn sends_elsewhere(to: String) -> String {
    let listener = TcpListener::bind(LOOPBACK).expect("a port");
    let at = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = write!(
                stream,
                "HTTP/1.1 307 Temporary Redirect\r\nlocation: {to}\r\n\
                 content-length: 0\r\nconnection: close\r\n\r\n"
            );
        }
    });
    at
}

#[test]
fn a_registry_sends_a_relay_to_no_private_address() {
    let world = server();
    let (token, _) = pilot_token(&world);
    let secret = TcpListener::bind(LOOPBACK).expect("a port");
    let inside = secret.local_addr().expect("bound");
    let visits = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&visits);
    std::thread::spawn(move || {
        for _ in secret.incoming() {
            seen.fetch_add(1, Ordering::Relaxed);
        }
    });
    let digest = Digest([9; 32]);
    for to in [format!("http://{inside}/x"), "http://169.254.169.254/latest/meta-data".into()] {
        let registry = sends_elsewhere(to);
        // This port is listed, and no other.
        let mut command = world.command(&["relay", "--server", &world.url(), "--listen", LOOPBACK]);
        command.env("SHIPWAY_PRIVATE_REGISTRIES", &registry);
        let relay = Relay::of(&world, command);
        for kind in ["blobs", "manifests"] {
            let path = format!("/v2/{registry}/x/{kind}/{digest}");
            let (status, _, body) = ask_all(&relay.at, &path, &ticket::ticket(&token, &digest));
            let words = String::from_utf8_lossy(&body).into_owned();
            assert_eq!(status, 403, "{words}");
            assert!(words.contains("is not asked") || words.contains("is refused"), "{words}");
        }
        let path = format!("/v2/{inside}/x/blobs/{digest}");
        let (status, ..) = ask_all(&relay.at, &path, &ticket::ticket(&token, &digest));
        assert_eq!(status, 403, "nor does a pilot");
    }
    assert_eq!(visits.load(Ordering::Relaxed), 0);
}

/// A registry that sends half of something, and the rest when it is told what that is.
fn sends_halves(size: usize) -> (String, Sender<Vec<u8>>) {
    let listener = TcpListener::bind(LOOPBACK).expect("a port");
    let at = listener.local_addr().expect("bound").to_string();
    let (rest, told) = channel::<Vec<u8>>();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a relay");
        let _ = stream.read(&mut [0; 4096]);
        let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n");
        let _ = stream.write_all(&vec![1; size / 2]);
        let rest = told.recv().expect("the rest");
        let _ = stream.write_all(&rest);
        // What breaks off is asked for again; there is no more of it.
        drop((stream, listener));
    });
    (at, rest)
}

#[test]
fn content_is_handed_on_as_it_comes_and_broken_off_when_it_is_something_else() {
    const SIZE: usize = 3 << 20;
    let world = server();
    let relay = Relay::start(&world, LOOPBACK, &[]);
    let (token, _) = pilot_token(&world);
    let whole = vec![1; SIZE];
    let digest = Digest(sha2::Sha256::digest(&whole).into());
    let shown = ticket::ticket(&token, &digest);
    for rest in [vec![2; SIZE / 2], vec![1; SIZE / 2]] {
        let (registry, send) = sends_halves(SIZE);
        let mut stream = TcpStream::connect(&relay.at).expect("connected");
        write!(
            stream,
            "GET /v2/{registry}/x/blobs/{digest} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             shipway-ticket: {shown}\r\n\r\n"
        )
        .expect("written");
        let mut first = vec![0; SIZE / 2];
        stream.read_exact(&mut first).expect("half of it, before there is more");
        assert!(on_shelf(&shelf(&world)).is_empty(), "it is not there yet");
        let is_right = rest.iter().all(|byte| *byte == 1);
        send.send(rest).expect("it waits");
        let _ = stream.read_to_end(&mut first);
        let head = first.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let came = first.len() - head - 4;
        assert_eq!(came == SIZE, is_right, "{came} bytes");
        if is_right {
            wait_for("it is kept", || on_shelf(&shelf(&world)).len() == 1);
        } else {
            assert!(on_shelf(&shelf(&world)).is_empty(), "nothing is kept of it");
        }
    }
}
