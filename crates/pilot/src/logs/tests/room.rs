//! Tests of what is kept on a disk that gets full: nobody takes what others need.

use crate::logs::*;
use shipway_model::ids::{Attempt, JobId, TaskIndex};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const MIB: u64 = 1 << 20;

/// What others than this pilot take of a disk of 100 MiB; what it takes itself is counted.
fn on_disk(root: &Path, others: &Arc<AtomicU64>) -> Arc<Logs> {
    let (folder, others) = (root.to_owned(), Arc::clone(others));
    Logs::on_disk(root.join("logs"), move || {
        let free = 100 * MIB - others.load(Ordering::Relaxed) - size(&folder);
        Some(Disk { size: 100 * MIB, free, files: 10_000, files_free: 10_000 })
    })
}

fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let of = |entry: std::fs::DirEntry| {
        let found = entry.metadata().unwrap();
        if found.is_dir() { size(&entry.path()) } else { found.len().next_multiple_of(4096) }
    };
    entries.map(of).sum()
}

/// Files, folders and links.
fn count(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let of = |entry: std::fs::DirEntry| {
        let is_dir = entry.file_type().unwrap().is_dir();
        1 + if is_dir { count(&entry.path()) } else { 0 }
    };
    entries.map(of).sum()
}

fn name(job: u64) -> AttemptId {
    AttemptId { task: JobId(job).task(TaskIndex(0)), attempt: Attempt(1) }
}

fn keep(user: &str) -> Keep<'_> {
    Keep { limit: 1 << 36, user }
}

/// Prints so many MiB, and says how many of them are kept.
fn print(logs: &Arc<Logs>, job: u64, user: &str, amount: u64) -> u64 {
    let (mut out, _err) = logs.writers(name(job), keep(user));
    let block = vec![b'x'; usize::try_from(MIB).unwrap()];
    (0..amount).for_each(|_| out.append(&block));
    drop(out);
    let path = logs.path(name(job), Stream::Out);
    path.metadata().map_or(0, |found| found.len() / MIB)
}

fn dir() -> (tempfile::TempDir, Arc<AtomicU64>) {
    (tempfile::tempdir().unwrap(), Arc::default())
}

#[test]
fn one_user_leaves_as_much_as_they_take_and_others_are_kept() {
    let (dir, others) = dir();
    let logs = on_disk(dir.path(), &others);
    let first = print(&logs, 1, "ada", 200);
    assert!((43..=45).contains(&first), "half of what is above the floor: {first} MiB");
    assert_eq!(print(&logs, 2, "ada", 1), 0, "another job of the same user");
    let second = print(&logs, 3, "bob", 200);
    assert!((21..=23).contains(&second), "half of the rest: {second} MiB");
    assert_eq!(print(&logs, 4, "eve", 5), 5);
    // It is said in place how much is missing, and stays said.
    let again = on_disk(dir.path(), &others);
    let mut reader = again.reader(name(2), Stream::Out).unwrap();
    let chunk = reader.read(0, 10).unwrap();
    assert!(chunk.is_unkept() && chunk.dropped == MIB && chunk.end, "{chunk:?}");
}

#[test]
fn what_is_kept_counts_after_a_restart_and_no_more_when_it_is_removed() {
    let (dir, others) = dir();
    let first = print(&on_disk(dir.path(), &others), 1, "ada", 200);
    assert!(first >= 43, "{first}");
    let logs = on_disk(dir.path(), &others);
    logs.recount().unwrap();
    assert_eq!(print(&logs, 2, "ada", 1), 0, "it counts");
    assert_eq!(print(&logs, 3, "bob", 5), 5);
    shipway_trees::remove(&dir.path().join("logs/1")).unwrap();
    logs.recount().unwrap();
    assert_eq!(print(&logs, 4, "ada", 5), 5, "it is gone");
}

#[test]
fn no_output_goes_below_the_floor_and_all_is_well_with_room() {
    let (dir, others) = dir();
    let logs = on_disk(dir.path(), &others);
    others.store(91 * MIB, Ordering::Relaxed);
    assert_eq!(print(&logs, 1, "ada", 1), 0);
    assert!(dir.path().join("logs/1/0.1.out.tail").exists(), "a few words");
    others.store(96 * MIB, Ordering::Relaxed);
    let logs = on_disk(dir.path(), &others);
    assert_eq!(print(&logs, 2, "ada", 1), 0);
    assert!(!dir.path().join("logs/2").exists(), "not even those");
    others.store(0, Ordering::Relaxed);
    assert_eq!(print(&logs, 3, "ada", 5), 5, "noticed at once");
}

#[test]
fn a_spool_is_held_to_the_same_and_gives_its_room_back() {
    let (dir, others) = dir();
    let logs = on_disk(dir.path(), &others);
    let block = vec![b'x'; usize::try_from(MIB).unwrap()];
    let path = dir.path().join("stdout.all");
    // The log itself keeps next to nothing.
    let little = Keep { limit: 100, user: "ada" };
    let (mut out, _err) = logs.writers(name(1), little);
    let spool = out.also_to(std::fs::File::create(&path).unwrap());
    (0..40).for_each(|_| out.append(&block));
    assert_eq!((spool.problem(), path.metadata().unwrap().len()), (None, 40 * MIB));
    assert!(print(&logs, 2, "ada", 20) < 5, "it counts while it is there");
    (0..100).for_each(|_| out.append(&block));
    let problem = spool.problem().expect("it is told");
    assert!(problem.contains("as is left there for everybody else"), "{problem}");
    assert_eq!(path.metadata().unwrap().len(), 0, "half of it is of no use to anybody");
    drop((out, spool));
    assert_eq!(print(&logs, 3, "ada", 20), 20);
}

#[test]
fn many_small_files_count_as_what_they_take_from_others() {
    let (dir, _) = dir();
    // Files run out long before bytes: each counts as its part of the disk.
    let folder = dir.path().to_owned();
    let logs = Logs::on_disk(dir.path().join("logs"), move || {
        let (size, files_free) = (1000 * MIB, 100 - count(&folder));
        Some(Disk { size, free: size, files: 100, files_free })
    });
    let kept = |user: &str, jobs: std::ops::Range<u64>| {
        let keep = |job| {
            let (mut out, _err) = logs.writers(name(job), Keep { limit: 100, user });
            out.append(b"x");
            logs.path(name(job), Stream::Out).exists()
        };
        jobs.filter(|job| keep(*job)).count()
    };
    let (ada, bob) = (kept("ada", 0..100), kept("bob", 100..105));
    assert!((14..=16).contains(&ada) && bob == 5, "{ada} of one, {bob} of the other");
}
