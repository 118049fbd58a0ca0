//! Processes of their own: killed at any moment of a pull or a removal, and four at once in one
//! store.
//!
//! A child is this same test program, told by a variable what to do.

use crate::common::{Fixture, Layer, Tar, layout, member, pull};
use crate::engines::{Door, Registry, have, wait_for};
use crate::registry::noise;
use shipway_images::store::{Keep, StoreError};
use shipway_images::tar::Kind;
use shipway_images::{Holder, Settings, Store};
use shipway_model::{Bytes, ImageRef, Timestamp};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TASK: &str = "SHIPWAY_IMAGES_TEST_TASK";

/// What a child does; nothing when this runs as an ordinary test.
#[test]
fn child() {
    let Ok(task) = std::env::var(TASK) else { return };
    let (store, what) = task.split_once('|').expect("a store and a task");
    let store = Store::create(Path::new(store)).expect("store");
    let holder = Holder::begin(&store).expect("holder");
    if what == "clear" {
        let keep = Keep { used_within: None, at_most: Some(Bytes(0)) };
        holder.collect(keep, Timestamp(u64::MAX)).expect("cleared");
        return;
    }
    let reference: ImageRef = what.parse().expect("reference");
    pull(&holder, &Settings::default(), &reference).expect("pulled");
}

fn start(store: &Path, what: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["killed::child", "--exact", "--quiet"]);
    command.env(TASK, format!("{}|{what}", store.display())).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started")
}

fn layers() -> Vec<Layer> {
    let layer = |mark: usize| {
        let files = (0..300).fold(Tar::new(), |tar, n| {
            tar.with(member(format!("dir{}/f{mark}-{n}", n % 20), Kind::File), &noise(9000, n + 1))
        });
        Layer::new(&files.end())
    };
    (0..3).map(layer).collect()
}

/// Kills a child after a while; a moment that is different each time.
fn kill_after(mut child: Child, delay: Duration) -> bool {
    let start = Instant::now();
    let mut done = false;
    wait_for("the moment to kill", || {
        done = child.try_wait().expect("asked").is_some();
        done || start.elapsed() >= delay
    });
    let _ = child.kill();
    child.wait().expect("waited");
    done
}

#[test]
fn a_kill_at_any_moment_leaves_a_whole_store() {
    let rounds = if std::env::var_os("SHIPWAY_TEST_QUICK").is_some() { 12 } else { 40 };
    let fixture = Fixture::new();
    let root = fixture.store.root().to_path_buf();
    let reference = layout(&fixture.path("image"), &layers());
    let began = Instant::now();
    start(&root, &reference.to_string()).wait().expect("ended");
    let whole = began.elapsed();
    let image = fixture.store.find(&reference.to_string()).expect("pulled");
    let (mut finished, mut published) = (0, 0);
    for round in 0..rounds {
        let there = fixture.store.image(&image).expect("read").is_some();
        let task = if there { "clear".to_owned() } else { reference.to_string() };
        // Spread over a whole run and a bit more, in a scattered order.
        let moment = whole * ((round * 17 + 5) % 40) / 36;
        finished += u32::from(kill_after(start(&root, &task), moment));
        let holder = Holder::begin(&fixture.store).expect("holder");
        fixture.assert_whole();
        if let Some(record) = fixture.store.image(&image).expect("read") {
            published += 1;
            assert_eq!(count(&fixture.store.tree(&image)), record.files, "round {round}");
        }
        drop(holder);
        let left = |name: &str| fs::read_dir(root.join(name)).expect("listed").count();
        assert_eq!((left("work"), left("claims"), left("leases")), (0, 0, 0), "round {round}");
    }
    assert!(finished < rounds, "nothing was killed");
    assert!(published > 0, "nothing was published");
    let holder = Holder::begin(&fixture.store).expect("holder");
    pull(&holder, &fixture.settings, &reference).expect("pulled");
    assert_eq!(count(&fixture.store.tree(&image)), 900);
    holder.remove(&image).expect("removed");
    assert_eq!(holder.size().expect("size"), Bytes(0));
    assert!(matches!(holder.lease(&image), Err(StoreError::NoImage { .. })));
}

fn count(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).expect("listed").map(|entry| entry.expect("entry").path());
    entries.map(|path| if path.is_dir() { count(&path) } else { 1 }).sum()
}

#[test]
fn four_processes_fetch_each_layer_once() {
    if !have(&["docker-registry", "skopeo"]) {
        return;
    }
    let fixture = Fixture::new();
    let registry = Registry::start(fixture.dir.path());
    let mut all = layers();
    layout(&fixture.path("a"), &all[..2]);
    layout(&fixture.path("b"), &[all[0].clone(), all[2].clone()]);
    registry.push(&fixture.path("a"), "test/a:1");
    registry.push(&fixture.path("b"), "test/b:1");
    let door = Door::before(registry.port);
    let of = |name: &str| format!("docker://127.0.0.1:{}/test/{name}:1", door.port);
    let root = fixture.store.root().to_path_buf();
    let children: Vec<Child> = ["a", "b", "a", "b"].map(|name| start(&root, &of(name))).into();
    for mut child in children {
        assert!(child.wait().expect("ended").success());
    }
    for layer in all.drain(..) {
        let digest = layer.descriptor["digest"].as_str().expect("digest").to_owned();
        assert_eq!(door.count(&format!("/blobs/{digest}")), 1, "fetched once");
    }
    for name in ["a", "b"] {
        let image = fixture.store.find(&of(name)).expect("named");
        assert_eq!(count(&fixture.store.tree(&image)), 600);
    }
    fixture.assert_whole();
}
