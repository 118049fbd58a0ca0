//! Which homes open at all: one server at a time, and never one that a newer shipway wrote.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::SystemTime;

use shipway_server::journal::{JournalError, SqliteJournal};

use crate::support::{Image, NOW, append, check_events, open};

#[test]
fn a_second_server_is_told_who_holds_the_home() {
    let home = tempfile::tempdir().unwrap();
    let mut first = open(home.path());
    let error = SqliteJournal::open(home.path(), NOW).unwrap_err();
    let pid = std::process::id();
    assert!(matches!(error, JournalError::InUse { pid: Some(found), .. } if found == pid));
    assert!(error.to_string().starts_with(&format!("another shipway server (pid {pid}) uses")));
    append(&mut first, 1).unwrap();
    drop(first);
    assert_eq!(check_events(&mut open(home.path()), 0).unwrap(), 1);
}

/// Variables of jobs are in there, and the folder may be one that everybody can enter.
#[test]
fn only_the_owner_may_read_the_database_and_its_log() {
    let home = tempfile::tempdir().unwrap();
    let everybody = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(home.path(), everybody).unwrap();
    append(&mut open(home.path()), 1).unwrap();
    let _open = open(home.path());
    for name in ["shipway.db", "shipway.db-wal", "shipway.db-shm"] {
        let mode = std::fs::metadata(home.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

type Listing = BTreeMap<String, (Vec<u8>, SystemTime)>;

/// Every file with its bytes and time, and the directory's own time.
fn listing(home: &Path) -> Listing {
    let time = |path: &Path| std::fs::metadata(path).unwrap().modified().unwrap();
    let mut files: Listing = std::fs::read_dir(home)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, (std::fs::read(&path).unwrap(), time(&path)))
        })
        .collect();
    files.insert(".".into(), (Vec::new(), time(home)));
    files
}

fn refuses_untouched(home: &Path, written_by: &str) {
    let before = listing(home);
    let error = SqliteJournal::open(home, NOW).unwrap_err();
    let JournalError::NewerHome { found: 7, known: 4, .. } = &error else {
        panic!("not refused as newer: {error}");
    };
    assert!(error.to_string().contains(written_by), "{error}");
    assert!(error.hint().unwrap().contains("or newer"));
    assert!(listing(home) == before, "a refused home was touched");
}

const FROM_THE_FUTURE: &str =
    "PRAGMA user_version = 7; UPDATE meta SET value = '9.9' WHERE key = 'written_by';";

#[test]
fn a_newer_home_is_left_untouched() {
    let home = tempfile::tempdir().unwrap();
    append(&mut open(home.path()), 3).unwrap();
    let conn = rusqlite::Connection::open(home.path().join("shipway.db")).unwrap();
    conn.execute_batch(FROM_THE_FUTURE).unwrap();
    drop(conn);
    refuses_untouched(home.path(), "9.9");
    std::fs::remove_file(home.path().join("lock")).unwrap();
    refuses_untouched(home.path(), "9.9");
}

#[test]
fn a_newer_format_that_is_only_in_the_log_is_seen() {
    let home = tempfile::tempdir().unwrap();
    append(&mut open(home.path()), 3).unwrap();
    let conn = rusqlite::Connection::open(home.path().join("shipway.db")).unwrap();
    conn.execute_batch(FROM_THE_FUTURE).unwrap();
    let crashed = Image::take(home.path());
    assert_eq!(crashed.db[63], 4, "the database file still says 4");
    refuses_untouched(crashed.lay_out().path(), "");
}

#[test]
fn what_is_not_ours_is_refused() {
    for bytes in [&b""[..], b"hello", &[0; 8192]] {
        let home = Image { db: bytes.to_vec(), wal: Vec::new() };
        let dir = home.lay_out();
        if bytes.is_empty() {
            std::fs::write(dir.path().join("shipway.db"), b"").unwrap();
        }
        let error = SqliteJournal::open(dir.path(), NOW).unwrap_err();
        assert!(matches!(error, JournalError::Damaged { .. }), "{error}");
        assert_eq!(std::fs::read(dir.path().join("shipway.db")).unwrap(), bytes);
    }
}
