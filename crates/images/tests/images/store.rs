//! Images into a store: what the tree holds, what is shared, what is kept and what goes.

use crate::common::{Fixture, Layer, NOW, Tar, layout, member, pull, told};
use shipway_images::progress::{Phase, Progress};
use shipway_images::store::{Keep, StoreError};
use shipway_images::tar::{Kind, Member};
use shipway_images::{Holder, ImageError, Pull, Store};
use shipway_model::{Bytes, Millis, Timestamp};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

fn base() -> Layer {
    let run = Member { mode: 0o755, ..member("bin/run", Kind::File) };
    let locked = Member { mode: 0o555, ..member("locked/", Kind::Dir) };
    let tar = Tar::new()
        .dir("./")
        .with(run, b"#!/bin/sh\n")
        .with(locked, b"")
        .file("locked/inside", "x")
        .file("etc/a", "one")
        .file("etc/b", "two")
        .hard("etc/c", "etc/a")
        .link("lib", "usr/lib");
    Layer::new(&tar.end())
}

fn read(tree: &Path, name: &str) -> Option<String> {
    fs::read_to_string(tree.join(name)).ok()
}

#[test]
fn layers_become_a_tree_with_modes_times_and_links() {
    let fixture = Fixture::new();
    let upper = Tar::new().file("etc/.wh.b", "").file("etc/a", "new").file("lib/x", "through");
    let layers = [base(), Layer::new(&upper.end())];
    let tree = fixture.unpack("image", &layers).expect("unpacked");
    assert_eq!(read(&tree, "etc/a").as_deref(), Some("new"));
    assert_eq!(read(&tree, "etc/b"), None);
    assert_eq!(read(&tree, "etc/c").as_deref(), Some("one"));
    assert_eq!(read(&tree, "usr/lib/x").as_deref(), Some("through"));
    let run = fs::metadata(tree.join("bin/run")).expect("there");
    assert_eq!((run.mode() & 0o7777, run.mtime()), (0o755, 1_700_000_000));
    let locked = fs::metadata(tree.join("locked")).expect("there");
    assert_eq!((locked.mode() & 0o7777, locked.mtime()), (0o555, 1_700_000_000));
    fixture.assert_whole();
}

#[test]
fn a_second_image_brings_only_what_is_new() {
    let fixture = Fixture::new();
    let upper = |text: &str| Layer::new(&Tar::new().file("new", text).end());
    let first = fixture.unpack("first", &[base(), upper("1")]).expect("unpacked");
    let objects = |store: &Store| {
        let holder = Holder::begin(store).expect("holder");
        holder.size().expect("size").0
    };
    let before = objects(&fixture.store);
    // Its base is not even read: the layout has no such blob.
    let reference = layout(&fixture.path("second"), &[base(), upper("22")]);
    let digest = base().descriptor["digest"].as_str().expect("digest").replace("sha256:", "");
    fs::remove_file(fixture.path("second/blobs/sha256").join(digest)).expect("removed");
    let second = fixture.pull(&reference).expect("pulled");
    assert_eq!(objects(&fixture.store) - before, 2);
    let second = fixture.store.tree(&second.image);
    let inode = |tree: &Path| fs::metadata(tree.join("bin/run")).expect("there").ino();
    assert_eq!(inode(&first), inode(&second));
    let records = fixture.store.images().expect("listed");
    let usage = fixture.store.usage(&records[0]).expect("usage");
    assert!(usage.shared > usage.own && usage.own.0 > 0, "{usage:?}");
}

#[test]
fn pulling_again_does_nothing_and_names_lead_to_the_image() {
    let fixture = Fixture::new();
    let reference = layout(&fixture.path("image"), &[base()]);
    let first = fixture.pull(&reference).expect("pulled");
    let again = fixture.pull(&reference).expect("pulled");
    assert_eq!((first.fetched, again.fetched, first.image), (true, false, again.image));
    let found = |text: &str| fixture.store.find(text).ok();
    assert_eq!(found(&reference.to_string()), Some(first.image));
    assert_eq!(found(&first.image.to_string()), Some(first.image));
    assert_eq!(found(&first.image.hex()[..8]), Some(first.image));
    assert_eq!((found("docker://nothing"), found("zz")), (None, None));
    let record = fixture.store.image(&first.image).expect("read").expect("there");
    assert_eq!((record.files, record.config.cuda()), (4, Some("12.4.1")));
}

#[test]
fn what_somebody_runs_is_not_removed() {
    let fixture = Fixture::new();
    let reference = layout(&fixture.path("image"), &[base()]);
    let holder = Holder::begin(&fixture.store).expect("holder");
    let image = pull(&holder, &fixture.settings, &reference).expect("pulled").image;
    let other = Holder::begin(&fixture.store).expect("holder");
    let lease = other.lease(&image).expect("leased");
    let keep = Keep { used_within: Some(Millis(0)), at_most: Some(Bytes(0)) };
    let later = Timestamp(u64::MAX);
    assert!(matches!(holder.remove(&image), Err(StoreError::InUse { .. })));
    assert_eq!(holder.collect(keep, later).expect("collected").images, []);
    drop(lease);
    let cleared = holder.collect(keep, later).expect("collected");
    assert_eq!((cleared.images.as_slice(), cleared.files), (&[image][..], 4));
    assert_eq!(holder.size().expect("size"), Bytes(0));
    assert!(matches!(other.lease(&image), Err(StoreError::NoImage { .. })));
    assert_eq!(fixture.store.find(&reference.to_string()).ok(), None);
    fixture.assert_whole();
}

#[test]
fn room_is_made_by_last_use() {
    let fixture = Fixture::new();
    let of = |name: &str, text: &str| {
        let reference =
            layout(&fixture.path(name), &[Layer::new(&Tar::new().file("f", text).end())]);
        fixture.pull(&reference).expect("pulled").image
    };
    let (old, new) = (of("old", "12345678"), of("new", "1234"));
    let used = |image: &shipway_model::Digest, seconds: u64| {
        let file = fixture.store.root().join("images").join(image.hex()).join("used");
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        fs::File::options().write(true).open(file).expect("there").set_modified(time).expect("set");
    };
    used(&old, 1000);
    used(&new, 2000);
    let holder = Holder::begin(&fixture.store).expect("holder");
    let keep = Keep { used_within: None, at_most: Some(Bytes(5)) };
    assert_eq!(holder.collect(keep, NOW).expect("collected").images, [old]);
    let keep = Keep { used_within: Some(Millis(5_000)), at_most: None };
    assert_eq!(holder.collect(keep, Timestamp(2_004_000)).expect("collected").images, []);
    assert_eq!(holder.collect(keep, Timestamp(2_006_000)).expect("collected").images, [new]);
}

#[test]
fn a_layer_whose_objects_are_gone_is_fetched_again() {
    let fixture = Fixture::new();
    fixture.unpack("first", &[base()]).expect("unpacked");
    let objects = fixture.store.root().join("objects");
    for prefix in fs::read_dir(&objects).expect("listed") {
        for object in fs::read_dir(prefix.expect("entry").path()).expect("listed") {
            fs::remove_file(object.expect("entry").path()).expect("removed");
        }
    }
    let upper = Layer::new(&Tar::new().file("new", "x").end());
    let tree = fixture.unpack("second", &[base(), upper]).expect("unpacked");
    assert_eq!(read(&tree, "etc/a").as_deref(), Some("one"));
    fixture.assert_whole();
}

#[test]
fn leftovers_of_the_dead_are_cleared_and_the_living_are_left_alone() {
    let fixture = Fixture::new();
    let alive = Holder::begin(&fixture.store).expect("holder");
    let claim = alive.claim("image-x").expect("claimed").expect("free");
    let work = fixture.store.root().join("work");
    let owner = fs::read_dir(&work).expect("listed").next().expect("one").expect("entry").path();
    let text = fs::read_to_string(owner.join("owner")).expect("read");
    // The same machine, and a process that cannot be.
    let mut dead: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    dead["pid"] = 4_000_000_000u32.into();
    dead["session"] = "dead".into();
    let left = work.join("dead");
    fs::create_dir_all(left.join("stage/0")).expect("made");
    fs::set_permissions(left.join("stage"), fs::Permissions::from_mode(0o500)).expect("set");
    fs::write(left.join("owner"), dead.to_string()).expect("written");
    let claims = fixture.store.root().join("claims");
    fs::hard_link(left.join("owner"), claims.join("image-y")).expect("linked");
    let holder = Holder::begin(&fixture.store).expect("holder");
    assert!(!left.exists() && !claims.join("image-y").exists());
    assert!(holder.claim("image-x").expect("asked").is_none());
    drop(claim);
    assert!(holder.claim("image-x").expect("asked").is_some());
}

#[test]
fn a_claim_of_the_dead_is_taken_over() {
    let fixture = Fixture::new();
    let holder = Holder::begin(&fixture.store).expect("holder");
    let text = {
        let other = Holder::begin(&fixture.store).expect("holder");
        let _claim = other.claim("probe").expect("asked").expect("free");
        fs::read_to_string(fixture.store.root().join("claims/probe")).expect("read")
    };
    let mut dead: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    dead["pid"] = 4_000_000_000u32.into();
    fs::write(fixture.store.root().join("claims/image-z"), dead.to_string()).expect("written");
    assert!(holder.claim("image-z").expect("asked").is_some());
}

#[test]
fn another_users_store_is_not_written_to() {
    let dir = tempfile::tempdir().expect("directory");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    std::os::unix::fs::chown(dir.path(), Some(12_345), None).expect("root may");
    assert!(matches!(Store::create(dir.path()), Err(StoreError::Foreign { uid: 12_345, .. })));
}

#[test]
fn trees_and_the_host_are_not_pulled() {
    let fixture = Fixture::new();
    for text in ["host", "dir:/"] {
        let error = fixture.pull(&text.parse().expect("reference")).expect_err("refused");
        assert!(matches!(error, ImageError::NotPulled(_)), "{}", told(&error));
    }
}

#[test]
fn a_pull_that_nobody_waits_for_ends_and_leaves_nothing() {
    struct Unwanted;
    impl Progress for Unwanted {
        fn phase(&self, _: Phase) {}
        fn bytes(&self, _: usize, _: u64) {}
        fn layer_done(&self, _: usize) {}
        fn is_wanted(&self) -> bool {
            false
        }
    }
    let fixture = Fixture::new();
    let reference = layout(&fixture.path("image"), &[base()]);
    let holder = Holder::begin(&fixture.store).expect("holder");
    let settings = &fixture.settings;
    let pull = Pull { holder: &holder, settings, progress: &Unwanted, now: NOW };
    let error = pull.run(&reference).expect_err("called off");
    assert!(told(&error).contains("nobody waits for it any more"), "{}", told(&error));
    assert_eq!(fixture.store.images().expect("listed"), []);
    drop(holder);
    assert!(fixture.pull(&reference).expect("pulled").fetched);
    fixture.assert_whole();
}
