//! The same image by other ways and by another tool: all make the same tree.

use crate::common::{Fixture, Layer, Tar, member};
use crate::engines::{have, run};
use crate::listing::listing;
use shipway_images::tar::{Kind, Member, Time};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Effective `cap_net_raw`, as the kernel stores it.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Three layers with everything layers may have.
fn layers() -> Vec<Layer> {
    let with = |path: &str, change: &dyn Fn(&mut Member)| {
        let mut member = member(path, Kind::File);
        change(&mut member);
        member
    };
    let long = format!("usr/{}/{}", "d".repeat(120), "n".repeat(200));
    let base = Tar::new()
        .dir("./")
        .dir("usr/lib")
        .link("lib", "usr/lib")
        .with(with("bin/tool", &|m| m.mode = 0o755), &b"tool".repeat(100_000))
        .with(with("bin/su", &|m| m.mode = 0o4755), b"su")
        .with(
            with("bin/ping", &|m| {
                m.mode = 0o755;
                m.xattrs = vec![(b"security.capability".to_vec(), CAPABILITY.to_vec())];
            }),
            b"ping",
        )
        .with(with("etc/owned", &|m| (m.uid, m.gid, m.mode) = (1234, 5678, 0o640)), b"owned")
        .with(
            with("etc/marked", &|m| m.xattrs = vec![(b"user.mark".to_vec(), b"x\0y".to_vec())]),
            b"m",
        )
        .with(with("etc/old", &|m| m.mtime = Time { seconds: -1000, nanos: 0 }), b"old")
        .with(with("etc/precise", &|m| m.mtime.nanos = 123_456_789), b"precise")
        .file(&long, "long names")
        .file("opt/a/1", "1")
        .file("opt/a/2", "2")
        .file("opt/b/1", "1")
        .dir("turns/into/a/file")
        .file("becomes", "a directory")
        .hard("etc/hard", "etc/owned")
        .with(Member { mode: 0o1777, ..member("tmp", Kind::Dir) }, b"")
        .with(member("run/pipe", Kind::Fifo), b"");
    let middle = Tar::new()
        .file("opt/a/.wh..wh..opq", "")
        .file("opt/a/3", "3")
        .file("opt/.wh.b", "")
        .file("lib/through", "a link in a lower layer")
        .file("turns", "a file")
        .dir("becomes")
        .file("becomes/a", "directory")
        .hard("etc/from-below", "bin/tool")
        .with(Member { mode: 0o700, ..member("usr/lib", Kind::Dir) }, b"");
    let top = Tar::new().file("etc/.wh.owned", "").file("opt/b/2", "again").link("bin/tool", "su");
    [base, middle, top].map(|tar| Layer::new(&tar.end())).to_vec()
}

fn assert_equal(ours: &Path, theirs: &Path) {
    let (ours, theirs) = (listing(ours), listing(theirs));
    assert!(ours.len() >= 25, "{} names", ours.len());
    for (path, line) in &theirs {
        assert_eq!(ours.get(path), Some(line), "{path}");
    }
    assert_eq!(ours.len(), theirs.len());
}

#[test]
fn our_tree_is_the_one_umoci_makes() {
    if !have(&["umoci"]) {
        return;
    }
    let fixture = Fixture::new();
    let ours = fixture.unpack("image", &layers()).expect("unpacked");
    let bundle = fixture.path("bundle");
    let mut umoci = Command::new("umoci");
    umoci.arg("unpack");
    if !rustix::process::geteuid().is_root() {
        umoci.arg("--rootless");
    }
    umoci.arg("--image").arg(format!("{}:latest", fixture.path("image").display()));
    run(umoci.arg(&bundle));
    assert_equal(&ours, &bundle.join("rootfs"));
    fixture.assert_whole();
}

#[test]
fn a_docker_archive_gives_the_same_tree() {
    if !have(&["skopeo"]) {
        return;
    }
    let fixture = Fixture::new();
    let tree = fixture.unpack("image", &layers()).expect("unpacked");
    let file = fixture.path("saved.tar");
    let mut skopeo = Command::new("skopeo");
    skopeo.args(["--insecure-policy", "copy", "-q"]);
    skopeo.arg(format!("oci:{}:latest", fixture.path("image").display()));
    run(skopeo.arg(format!("docker-archive:{}:test:1", file.display())));
    let other = Fixture::new();
    let reference = format!("docker-archive:{}", file.display()).parse().expect("reference");
    let image = other.pull(&reference).expect("pulled").image;
    assert_equal(&other.store.tree(&image), &tree);
}

#[test]
fn a_sif_gives_the_same_files() {
    if !have(&["mksquashfs", "unsquashfs"]) {
        return;
    }
    let fixture = Fixture::new();
    let tree = fixture.unpack("image", &layers()).expect("unpacked");
    let squashed = fixture.path("root.squashfs");
    run(Command::new("mksquashfs").arg(&tree).arg(&squashed).args(["-no-progress", "-noappend"]));
    let file = fixture.path("image.sif");
    fs::write(&file, sif(&fs::read(&squashed).expect("read"))).expect("written");
    let reference = format!("sif:{}", file.display()).parse().expect("reference");
    let image = fixture.pull(&reference).expect("pulled").image;
    let names = |root: &Path| {
        let lines = listing(root).into_iter();
        // A squashfs has whole seconds and, as we unpack it, no attributes.
        lines
            .map(|(path, line)| (path, line.split(' ').next().map(str::to_owned)))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&fixture.store.tree(&image)), names(&tree));
    let other = fs::read(fixture.store.tree(&image).join("becomes/a")).expect("read");
    assert_eq!(other, b"directory");
    fixture.assert_whole();
}

/// A SIF image with one primary partition, as Apptainer lays it out.
pub(crate) fn sif(partition: &[u8]) -> Vec<u8> {
    const START: usize = 32_768;
    let mut file = vec![0u8; START];
    let put = |file: &mut Vec<u8>, at: usize, bytes: &[u8]| {
        file[at..at + bytes.len()].copy_from_slice(bytes);
    };
    put(&mut file, 0, b"#!/usr/bin/env run-singularity\n");
    put(&mut file, 32, b"SIF_MAGIC\x0001\x0002\0");
    let length = i64::try_from(partition.len()).expect("small");
    for (at, value) in [(88, 48), (96, 4096), (104, 48 * 585), (112, 32_176), (120, length)] {
        put(&mut file, at, &i64::to_le_bytes(value));
    }
    put(&mut file, 4096, &0x4004i32.to_le_bytes());
    put(&mut file, 4096 + 4, &[1, 1, 0, 0, 0]);
    put(&mut file, 4096 + 17, &32_768i64.to_le_bytes());
    put(&mut file, 4096 + 25, &length.to_le_bytes());
    put(&mut file, 4096 + 201, &[1, 0, 0, 0, 2, 0, 0, 0]);
    put(&mut file, 4096 + 209, if cfg!(target_arch = "aarch64") { b"04\0" } else { b"02\0" });
    file.extend_from_slice(partition);
    file
}
