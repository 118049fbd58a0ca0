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
    let id = AttemptId { task, attempt: Attempt(1) };
    let work = tasks.private_dir(Own { id, user: "ada" }, "work", &Whom::Pilot).unwrap();
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

const ADA: u32 = 64_001;
const BOB: u32 = 64_002;

/// What is Ada's in a folder of the pilot's, with something in it that she could only move there.
fn filled(work: &Path) {
    std::fs::create_dir_all(work.join("own")).unwrap();
    let theirs = work.join("bob");
    std::fs::create_dir(&theirs).unwrap();
    std::fs::write(theirs.join("thesis"), "years").unwrap();
    for (path, id) in [(theirs.as_path(), BOB), (&work.join("own"), ADA), (work, ADA)] {
        std::os::unix::fs::chown(path, Some(id), Some(id)).unwrap();
    }
}

fn ada() -> Whom {
    let user = shipway_runtime::plan::User { uid: ADA, gid: ADA, groups: Vec::new() };
    let (home, shell) = ("/".into(), "/bin/sh".into());
    Whom::Account(crate::accounts::Account { name: "ada".into(), user, home, shell })
}

#[test]
fn what_is_not_the_accounts_is_kept_when_its_task_has_ended() {
    if !crate::skips::is_root() {
        return;
    }
    let dir = folder();
    let mut tasks = Tasks::new(dir.path(), false, false, &hands());
    let id = AttemptId { task: JobId(1).task(TaskIndex(0)), attempt: Attempt(1) };
    let work = tasks.private_dir(Own { id, user: "ada" }, "work", &ada()).unwrap();
    filled(&work);
    tasks.clean(id);
    wait_gone(&work);
    let kept = dir.path().join("kept/1.0.1/work");
    assert_eq!(std::fs::read_to_string(kept.join("bob/thesis")).unwrap(), "years");
    assert!(!kept.join("own").exists());
}

#[test]
fn what_is_not_the_accounts_is_kept_when_the_next_pilot_starts() {
    if !crate::skips::is_root() {
        return;
    }
    let dir = folder();
    let work = dir.path().join("work/1.0.1/work");
    std::fs::create_dir_all(&work).unwrap();
    filled(&work);
    Tasks::new(dir.path(), false, false, &hands());
    let aside = || std::fs::read_dir(dir.path().join("removing")).unwrap().next();
    let deadline = Instant::now() + Duration::from_mins(5);
    while aside().is_some() {
        assert!(Instant::now() < deadline, "it is still there");
        std::thread::yield_now();
    }
    let kept = std::fs::read_dir(dir.path().join("kept")).unwrap().next().unwrap().unwrap();
    let thesis = kept.path().join("work/bob/thesis");
    assert_eq!(std::fs::read_to_string(thesis).unwrap(), "years");
}
