//! What becomes of the folders of tasks.

use super::*;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use shipway_model::{Attempt, JobId, TaskIndex};
use std::time::{Duration, Instant};

/// Far beyond what a stack of two megabytes takes with a call for each.
const DEPTH: usize = 20_000;

fn dig(top: &Path) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut at = openat(CWD, top, flags, Mode::empty()).unwrap();
    for _ in 0..DEPTH {
        mkdirat(&at, "d", Mode::RWXU).unwrap();
        at = openat(&at, "d", flags, Mode::empty()).unwrap();
    }
}

fn wait_gone(path: &Path) {
    let deadline = Instant::now() + Duration::from_mins(5);
    while path.exists() {
        assert!(Instant::now() < deadline, "{} is still there", path.display());
        std::thread::yield_now();
    }
}

/// In memory where that can be had: disks take their time for so many folders.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Nobody here is kept apart by ids.
fn hands() -> Arc<Hands> {
    Arc::new(Hands::new(String::new(), None))
}

#[test]
fn a_folder_of_any_depth_is_removed_when_its_task_has_ended() {
    let dir = folder();
    let mut tasks = Tasks::new(dir.path(), false, false, &hands());
    let task = JobId(1).task(TaskIndex(0));
    let id = AttemptKey { task, attempt: Attempt(1) };
    let work = tasks.private_dir(id, "work", &Whom::Pilot).unwrap();
    dig(&work);
    tasks.clean(id);
    wait_gone(&work);
}

#[test]
fn a_folder_of_any_depth_does_not_keep_the_next_pilot_from_starting() {
    let dir = folder();
    let work = dir.path().join("work");
    std::fs::create_dir(&work).unwrap();
    dig(&work);
    Tasks::new(dir.path(), false, false, &hands());
    assert!(!work.join("d").exists());
    let aside = || std::fs::read_dir(dir.path().join("removing")).unwrap().next();
    let deadline = Instant::now() + Duration::from_mins(5);
    while aside().is_some() {
        assert!(Instant::now() < deadline, "it is still there");
        std::thread::yield_now();
    }
}
