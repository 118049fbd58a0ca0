//! Pulling from a registry: the real one, and doors that lie, break off or ask too much.

use crate::common::{Fixture, Layer, Tar, layout, pull, sha256, told};
use crate::engines::{Door, Registry, have, pass, reply};
use shipway_images::Holder;
use shipway_images::pull::{partial_name, pin};
use shipway_images::sources::settled;
use shipway_model::ImageRef;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Bytes that do not pack: a layer stays as large as it is.
pub(crate) fn noise(length: usize, mut seed: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(length + 8);
    while out.len() < length {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        out.extend_from_slice(&seed.to_le_bytes());
    }
    out.truncate(length);
    out
}

pub(crate) fn noisy(name: &str, length: usize) -> Layer {
    let seed = name.bytes().fold(7, |seed, byte| seed * 31 + u64::from(byte));
    let member = crate::common::member(name, shipway_images::tar::Kind::File);
    Layer::new(&Tar::new().with(member, &noise(length, seed)).end())
}

fn reference(port: u16, name: &str) -> ImageRef {
    format!("docker://127.0.0.1:{port}/{name}").parse().expect("reference")
}

#[test]
fn an_image_comes_from_a_real_registry_once() {
    if !have(&["docker-registry", "skopeo"]) {
        return;
    }
    let fixture = Fixture::new();
    let registry = Registry::start(fixture.dir.path());
    let base = noisy("base", 3 << 20);
    layout(&fixture.path("a"), &[base.clone(), noisy("a", 1 << 20)]);
    layout(&fixture.path("b"), &[base, noisy("b", 1 << 20)]);
    registry.push(&fixture.path("a"), "test/a:1");
    registry.push(&fixture.path("b"), "test/b:1");
    let door = Door::before(registry.port);
    // Four at once, as four pilots would: two want the same, two another.
    thread::scope(|scope| {
        for name in ["test/a:1", "test/b:1", "test/a:1", "test/b:1"] {
            let (fixture, port) = (&fixture, door.port);
            scope.spawn(move || {
                let holder = Holder::begin(&fixture.store).expect("holder");
                pull(&holder, &fixture.settings, &reference(port, name)).expect("pulled")
            });
        }
    });
    for digest in [noisy("base", 3 << 20), noisy("a", 1 << 20), noisy("b", 1 << 20)] {
        let digest = digest.descriptor["digest"].as_str().expect("digest").to_owned();
        assert_eq!(door.count(&format!("/blobs/{digest}")), 1, "fetched once");
    }
    assert_eq!(fixture.store.images().expect("listed").len(), 2);
    let image = fixture.store.find(&reference(door.port, "test/b:1").to_string()).expect("named");
    let tree = fixture.store.tree(&image);
    assert_eq!(fs::read(tree.join("base")).expect("read").len(), 3 << 20);
    assert!(tree.join("b").is_file() && !tree.join("a").exists());
    // By digest, nothing is asked at all.
    let before = door.asked.lock().expect("held").len();
    let pinned = format!("docker://127.0.0.1:{}/test/b@{image}", door.port);
    let holder = Holder::begin(&fixture.store).expect("holder");
    let again = pull(&holder, &fixture.settings, &pinned.parse().expect("reference"));
    assert!(!again.expect("there").fetched);
    assert_eq!(door.asked.lock().expect("held").len(), before);
    fixture.assert_whole();
}

#[test]
fn what_breaks_off_is_gone_on_with() {
    if !have(&["docker-registry", "skopeo"]) {
        return;
    }
    let fixture = Fixture::new();
    let registry = Registry::start(fixture.dir.path());
    let layer = noisy("large", 12 << 20);
    let digest = layer.descriptor["digest"].as_str().expect("digest").to_owned();
    layout(&fixture.path("a"), std::slice::from_ref(&layer));
    registry.push(&fixture.path("a"), "test/a:1");
    let port = registry.port;
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let layer_path = format!("/blobs/{digest}");
    let part = layer_path.clone();
    let door = Door::open(Arc::new(move |head, client| {
        let broken = head.contains(&part) && counted.fetch_add(1, Ordering::Relaxed) < 2;
        pass(port, head, client, if broken { 5 << 20 } else { u64::MAX });
    }));
    let image = fixture.pull(&reference(door.port, "test/a:1")).expect("pulled").image;
    let tree = fixture.store.tree(&image);
    assert_eq!(fs::read(tree.join("large")).expect("read").len(), 12 << 20);
    let asked = door.asked.lock().expect("held").clone();
    let ranges: Vec<_> = asked.iter().filter(|head| head.contains(&layer_path)).collect();
    assert_eq!(ranges.len(), 3);
    assert!(
        ranges[1..].iter().all(|head| head.to_lowercase().contains("range: bytes=")),
        "{ranges:?}"
    );
    assert_eq!(fs::read_dir(fixture.store.root().join("partial")).expect("listed").count(), 0);
}

#[test]
fn kept_bytes_of_an_earlier_try_are_used_and_wrong_ones_are_not() {
    if !have(&["docker-registry", "skopeo"]) {
        return;
    }
    let registry_dir = tempfile::tempdir().expect("directory");
    let registry = Registry::start(registry_dir.path());
    let layer = noisy("large", 12 << 20);
    let hex = layer.descriptor["digest"].as_str().expect("digest").replace("sha256:", "");
    layout(&registry_dir.path().join("a"), std::slice::from_ref(&layer));
    registry.push(&registry_dir.path().join("a"), "test/a:1");
    let mut wrong = layer.packed[..9 << 20].to_vec();
    wrong[5 << 20] ^= 1;
    for (kept, wanted) in [
        (layer.packed[..9 << 20].to_vec(), vec![9 << 20]),
        (layer.packed.clone(), vec![]),
        (wrong, vec![9 << 20, 0]),
    ] {
        let fixture = Fixture::new();
        let door = Door::before(registry.port);
        let ImageRef::Registry(at) = reference(door.port, "test/a:1") else { panic!("a registry") };
        let digest = format!("sha256:{hex}").parse().expect("a digest");
        let partial = fixture.store.root().join("partial").join(partial_name(&at, &digest));
        fs::write(partial, &kept).expect("written");
        fixture.pull(&reference(door.port, "test/a:1")).expect("pulled");
        let asked = door.asked.lock().expect("held").clone();
        let from: Vec<usize> = asked
            .iter()
            .filter(|head| head.contains(&format!("/blobs/sha256:{hex}")))
            .map(|head| range_start(head))
            .collect();
        assert_eq!(from, wanted);
        fixture.assert_whole();
    }
}

fn range_start(head: &str) -> usize {
    let head = head.to_lowercase();
    let range = head.lines().find_map(|line| line.strip_prefix("range: bytes="));
    range.map_or(0, |range| range.trim_end_matches('-').parse().expect("a number"))
}

/// A layout's documents and layers as a registry would serve them, by path.
pub(crate) fn serve(dir: &Path, head: &str, stream: &mut std::net::TcpStream) {
    let path = head.split(' ').nth(1).expect("a path");
    let blobs = dir.join("blobs/sha256");
    let index = fs::read_to_string(dir.join("index.json")).expect("read");
    let index: serde_json::Value = serde_json::from_str(&index).expect("JSON");
    let manifest = index["manifests"][0]["digest"].as_str().expect("digest").to_owned();
    let (digest, kind) = match path.rsplit_once('/') {
        Some((_, "latest")) => (manifest, "application/vnd.oci.image.manifest.v1+json"),
        Some((_, digest)) => (digest.to_owned(), "application/octet-stream"),
        None => panic!("{path}"),
    };
    match fs::read(blobs.join(digest.trim_start_matches("sha256:"))) {
        Ok(bytes) => reply(stream, "200 OK", &format!("Content-Type: {kind}\r\n"), &bytes),
        Err(_) => reply(stream, "404 Not Found", "", b""),
    }
}

pub(crate) fn login(fixture: &mut Fixture, host: &str) {
    let file = fixture.path("login.json");
    // ada:secret
    let text = format!(r#"{{"auths": {{"{host}": {{"auth": "YWRhOnNlY3JldA=="}}}}}}"#);
    fs::write(&file, text).expect("written");
    fixture.settings.credentials.add(&file).expect("read");
}

#[test]
fn a_redirect_elsewhere_is_not_told_who_we_are() {
    let mut fixture = Fixture::new();
    let dir = fixture.path("a");
    layout(&dir, &[noisy("f", 1000)]);
    let elsewhere_dir = dir.clone();
    let elsewhere = Door::open(Arc::new(move |head, stream| serve(&elsewhere_dir, head, stream)));
    let port = elsewhere.port;
    let door = Door::open(Arc::new(move |head, stream| {
        let known = head.to_lowercase().contains("authorization: basic ywrhonnly3jlda==");
        if !known {
            return reply(
                stream,
                "401 Unauthorized",
                "WWW-Authenticate: Basic realm=\"x\"\r\n",
                b"",
            );
        }
        let path = head.split(' ').nth(1).expect("a path");
        if path.contains("/blobs/") {
            let to = format!("Location: http://127.0.0.1:{port}{path}\r\n");
            return reply(stream, "307 Temporary Redirect", &to, b"");
        }
        serve(&dir, head, stream);
    }));
    login(&mut fixture, &format!("127.0.0.1:{}", door.port));
    fixture.pull(&reference(door.port, "test/a")).expect("pulled");
    let asked = elsewhere.asked.lock().expect("held").clone();
    assert_eq!(asked.len(), 2, "the configuration and a layer");
    assert!(asked.iter().all(|head| !head.to_lowercase().contains("authorization")), "{asked:?}");
}

#[test]
fn a_token_is_fetched_with_the_password_and_used() {
    let mut fixture = Fixture::new();
    let dir = fixture.path("a");
    layout(&dir, &[noisy("f", 1000)]);
    let tokens = Door::open(Arc::new(|head, stream| {
        let good = head.contains("scope=repository%3Atest%2Fa%3Apull")
            && head.to_lowercase().contains("authorization: basic");
        let status = if good { "200 OK" } else { "403 Forbidden" };
        reply(stream, status, "", br#"{"token": "opensesame"}"#);
    }));
    let realm = format!("http://127.0.0.1:{}/token", tokens.port);
    let door = Door::open(Arc::new(move |head, stream| {
        if head.contains("Bearer opensesame") {
            return serve(&dir, head, stream);
        }
        let ask = format!(
            "WWW-Authenticate: Bearer realm=\"{realm}\",service=\"r\",\
             scope=\"repository:test/a:pull\"\r\n"
        );
        reply(stream, "401 Unauthorized", &ask, b"");
    }));
    login(&mut fixture, &format!("127.0.0.1:{}", door.port));
    fixture.pull(&reference(door.port, "test/a")).expect("pulled");
    assert_eq!(tokens.asked.lock().expect("held").len(), 1);
}

#[test]
fn lies_and_temptations_of_a_registry_are_refused() {
    let tempt = |status: &'static str, header: &'static str, body: &'static [u8]| {
        let mut fixture = Fixture::new();
        let door = Door::open(Arc::new(move |_, stream| reply(stream, status, header, body)));
        login(&mut fixture, &format!("127.0.0.1:{}", door.port));
        let error = fixture.pull(&reference(door.port, "test/a")).expect_err("refused");
        assert_eq!(fixture.store.images().expect("listed"), []);
        told(&error)
    };
    let bearer = "WWW-Authenticate: Bearer realm=\"https://token.evil.test/t\"\r\n";
    assert!(tempt("401 No", bearer, b"").contains("with our password, which is refused"));
    let plain = "WWW-Authenticate: Bearer realm=\"http://10.0.0.1/t\"\r\n";
    assert!(tempt("401 No", plain, b"").contains("which is refused"));
    let away = "Location: http://169.254.169.254/latest/meta-data\r\n";
    assert!(tempt("302 Found", away, b"").contains("plain text"));
    let encrypted = "Location: https://127.0.0.1:1/x\r\n";
    assert!(tempt("302 Found", encrypted, b"").contains("cannot reach 127.0.0.1:1"));
    let file = "Location: file:///etc/passwd\r\n";
    assert!(tempt("302 Found", file, b"").contains("not an address"));
    assert!(tempt("302 Found", "Location: /again\r\n", b"").contains("too many times"));
    assert!(tempt("404 Not Found", "", b"").contains("does not have the image test/a:latest"));
    assert!(tempt("403 No", "", b"").contains("does not let us have"));
    assert!(tempt("200 OK", "", b"<html>").contains("not JSON"));
    let endless = vec![b' '; 5 << 20].leak();
    assert!(tempt("200 OK", "", endless).contains("larger than"));
}

#[test]
fn a_digest_that_was_asked_for_is_what_comes() {
    let fixture = Fixture::new();
    let dir = fixture.path("a");
    layout(&dir, &[noisy("f", 1000)]);
    // It sends the manifest whatever is asked for.
    let door = Door::open(Arc::new(move |head, stream| {
        let latest = head.replacen(&sha256(b"wanted"), "latest", 1);
        serve(&dir, &latest, stream);
    }));
    let pinned = format!("docker://127.0.0.1:{}/test/a@{}", door.port, sha256(b"wanted"));
    let error = fixture.pull(&pinned.parse().expect("reference")).expect_err("refused");
    assert!(told(&error).contains("the digest of the document is"), "{}", told(&error));
}

#[test]
fn a_pinned_tag_means_the_same_image_when_it_has_moved_on() {
    if !have(&["docker-registry", "skopeo"]) {
        return;
    }
    let fixture = Fixture::new();
    let registry = Registry::start(fixture.dir.path());
    let (old, new) = (fixture.path("old"), fixture.path("new"));
    layout(&old, &[noisy("f", 1000)]);
    layout(&new, &[noisy("g", 2000)]);
    registry.push(&old, "test/a");
    let tag = reference(registry.port, "test/a");
    let pinned = pin(tag.clone(), &fixture.settings).expect("resolved");
    assert!(pinned.is_pin_of(&settled(tag.clone())), "{pinned}");
    assert_eq!(pin(pinned.clone(), &fixture.settings).expect("nobody asked"), pinned);
    registry.push(&new, "test/a");
    assert_ne!(pin(tag.clone(), &fixture.settings).expect("resolved"), pinned);
    let first = fixture.pull(&pinned).expect("pulled").image;
    assert_eq!(Some(first), pinned.digest());
    assert_ne!(fixture.pull(&tag).expect("pulled").image, first);
    // Known by its digest: the registry is not needed any more.
    drop(registry);
    assert!(!fixture.pull(&pinned).expect("there").fetched);
    assert!(told(&pin(tag, &fixture.settings).expect_err("gone")).contains("cannot reach"));
}
