//! Disks that are full and disks that fail. A full one is a small tmpfs; a failing sync comes from
//! `tests/faults/fail_sync.c`, loaded in front of the C library.

use std::path::{Path, PathBuf};
use std::process::Command;

use shipway_server::journal::{EventsPage, Journal, JournalError, NotDurable, SqliteJournal};

use crate::support::{Image, append, cannot, check_events, child, child_home, open};

/// A tmpfs of its own, gone with the value.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "none"])
            .arg(dir.path())
            .stderr(std::process::Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_loses_nothing_and_goes_on_with_room() {
    let Some(disk) = SmallDisk::mount() else { return cannot("mounting a tmpfs needs root") };
    let filler = disk.0.path().join("filler");
    std::fs::write(&filler, vec![1; 400 << 10]).unwrap();
    let home = disk.0.path().join("home");
    let mut journal = open(&home);
    let mut confirmed = 0;
    let error = loop {
        match append(&mut journal, 20) {
            Ok(last) => confirmed = last,
            Err(error) => break error,
        }
    };
    assert!(confirmed > 0);
    let JournalError::NotDurable { what: NotDurable::DiskFull, .. } = error else {
        panic!("not called a full disk: {error}");
    };
    assert!(matches!(append(&mut journal, 1), Err(JournalError::NeedsReopen)));
    assert_eq!(journal.tip().0, confirmed);

    std::fs::remove_file(&filler).unwrap();
    journal.reopen().unwrap();
    assert_eq!(check_events(&mut journal, 0).unwrap(), confirmed);
    let last = append(&mut journal, 20).unwrap();
    drop(journal);
    let mut journal = open(&home);
    assert_eq!(journal.notes(), []);
    assert_eq!(check_events(&mut journal, 0).unwrap(), last);
}

#[test]
fn a_disk_that_stays_full_is_not_believed() {
    let Some(disk) = SmallDisk::mount() else { return cannot("mounting a tmpfs needs root") };
    let home = disk.0.path().join("home");
    let mut journal = open(&home);
    while append(&mut journal, 20).is_ok() {}
    let confirmed = journal.tip().0;
    while let Err(error) = journal.reopen() {
        assert!(matches!(error, JournalError::NotDurable { .. }), "{error}");
        assert!(matches!(append(&mut journal, 1), Err(JournalError::NeedsReopen)));
        grow(disk.0.path());
    }
    assert_eq!(check_events(&mut journal, 0).unwrap(), confirmed);
}

fn grow(disk: &Path) {
    let status = Command::new("mount").args(["-o", "remount,size=8m"]).arg(disk).status();
    assert!(status.expect("mount runs").success());
}

/// Compiles the shim; `None` where there is no C compiler.
fn shim(dir: &Path) -> Option<PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/fail_sync.c");
    let library = dir.join("fail_sync.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .args([source, "-ldl"])
        .status();
    built.is_ok_and(|status| status.success()).then_some(library)
}

#[test]
fn a_failed_sync_is_never_confirmed() {
    let dir = tempfile::tempdir().unwrap();
    let Some(shim) = shim(dir.path()) else { return cannot("building the shim needs cc") };
    let home = dir.path().join("home");
    let status = child("faults::child_meets_a_failing_sync", &home)
        .env("LD_PRELOAD", shim)
        .env("FAIL_SYNC_WHILE", dir.path().join("failing"))
        .status()
        .unwrap();
    assert!(status.success(), "the child says what went wrong");
    let mut journal = open(&home);
    assert_eq!(check_events(&mut journal, 0).unwrap(), 25);
    assert_eq!(journal.notes(), []);
}

#[test]
// tidy: allow(ignored-test) because the test above starts it with the shim in front of it
#[ignore = "runs with the shim in front of it, started by the test above"]
fn child_meets_a_failing_sync() {
    let (Some(home), Some(flag)) = (child_home(), std::env::var_os("FAIL_SYNC_WHILE")) else {
        return;
    };
    let mut journal = open(&home);
    let reader = journal.history().unwrap();
    append(&mut journal, 10).unwrap();

    std::fs::write(&flag, b"").unwrap();
    let error = append(&mut journal, 5).unwrap_err();
    let JournalError::NotDurable { what: NotDurable::FsyncFailed, .. } = error else {
        panic!("not called a failed sync: {error}");
    };
    assert_eq!(journal.tip().0, 10);
    assert!(
        matches!(reader.events_after(journal.tip(), 9), Ok(EventsPage::Events(e)) if e.is_empty())
    );
    assert!(matches!(append(&mut journal, 5), Err(JournalError::NeedsReopen)));
    for _ in 0..3 {
        let error = journal.reopen().unwrap_err();
        assert!(matches!(error, JournalError::NotDurable { .. }), "{error}");
    }

    std::fs::remove_file(&flag).unwrap();
    journal.reopen().unwrap();
    assert_eq!(check_events(&mut journal, 0).unwrap(), 10, "the failed batch never happened");
    assert_eq!(append(&mut journal, 15).unwrap(), 25);
    dies_before_reopening(Path::new(&flag), &home);
}

/// A server that ends right after the failure: its last batch may be there or not, but whole.
fn dies_before_reopening(flag: &Path, home: &Path) {
    let other = home.with_file_name("other");
    let mut journal: SqliteJournal = open(&other);
    append(&mut journal, 10).unwrap();
    std::fs::write(flag, b"").unwrap();
    assert!(append(&mut journal, 5).is_err());
    let crashed = Image::take(&other);
    std::fs::remove_file(flag).unwrap();
    let dir = crashed.lay_out();
    let last = check_events(&mut open(dir.path()), 0).unwrap();
    assert!(last == 10 || last == 15, "{last}");
}
