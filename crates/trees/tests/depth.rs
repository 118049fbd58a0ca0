//! A tree that is deeper than any stack, path or number of descriptors. Alone in its program,
//! because it counts descriptors.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use shipway_trees::{Progress, Removal};
use std::path::Path;

/// A function that called itself for each of these would need many times the stack below.
const DEPTH: usize = 20_000;
const STACK: usize = 128 << 10;

/// Longer names together than any path may be.
const NAME: &str = "a-name-that-is-long-enough-to-make-the-path-longer-than-the-kernel-takes";

/// Folders in one another, and a file in every hundredth, both beside the way down.
fn dig(top: &Path) {
    std::fs::create_dir(top).unwrap();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut at = openat(CWD, top, flags, Mode::empty()).unwrap();
    for level in 0..DEPTH {
        if level % 100 == 0 {
            let file = OFlags::CREATE | OFlags::WRONLY;
            openat(&at, "file", file, Mode::RUSR).unwrap();
            mkdirat(&at, "beside", Mode::RWXU).unwrap();
        }
        mkdirat(&at, NAME, Mode::RWXU).unwrap();
        at = openat(&at, NAME, flags, Mode::empty()).unwrap();
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn depth_costs_neither_stack_nor_descriptors() {
    // In memory where that can be had: disks take their time for so many folders.
    let memory = tempfile::tempdir_in("/dev/shm");
    let dir = memory.or_else(|_| tempfile::tempdir()).unwrap();
    let top = dir.path().join("deep");
    dig(&top);
    let before = descriptors();
    let removing = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        let mut removal = Removal::new(&top);
        let mut most = 0;
        loop {
            match removal.go_on(1_000) {
                Progress::More => most = most.max(descriptors()),
                Progress::Over(result) => return (result, most),
            }
        }
    });
    let (result, most) = removing.unwrap().join().unwrap();
    result.unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    assert!(most <= before + 12, "{most} descriptors, {before} before");
}
