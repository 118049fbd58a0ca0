//! Which homes open at all, and who writes there: one server at a time, and never where a newer
//! shipway wrote.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::SystemTime;

use shipway_server::journal::{EventSeq, Journal as _, JournalError, SqliteJournal};

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

/// As where the lock's file was removed, or the file system has no locks.
fn open_past_the_lock(home: &Path) -> SqliteJournal {
    std::fs::remove_file(home.join("lock")).unwrap();
    open(home)
}

/// Whatever it tries first. A journal that is reopened takes out what it did not write itself.
#[test]
fn a_server_that_was_taken_over_writes_nothing() {
    type Act = fn(&mut SqliteJournal) -> Result<(), JournalError>;
    let acts: [Act; 3] = [
        |first| append(first, 3).map(drop),
        |first| first.save_snapshot(EventSeq(2), b"old"),
        |first| first.reopen(),
    ];
    for act in acts {
        let home = tempfile::tempdir().unwrap();
        let mut first = open(home.path());
        append(&mut first, 2).unwrap();
        let mut second = open_past_the_lock(home.path());
        append(&mut second, 1).unwrap();
        for act in [act, acts[0]] {
            let error = act(&mut first).unwrap_err();
            assert!(matches!(error, JournalError::TakenOver { .. }), "{error}");
            let said = "another server has taken over the journal: \
                        its epoch is 2, that of this one 1";
            assert_eq!(error.to_string(), said);
        }
        assert!(first.is_taken_over() && !second.is_taken_over());
        append(&mut second, 1).unwrap();
        drop((first, second));
        let mut third = open(home.path());
        assert_eq!(third.notes(), []);
        assert_eq!(check_events(&mut third, 0).unwrap(), 4, "the second's, and nothing else");
        assert_eq!(third.load_snapshot().unwrap(), None);
    }
}

/// Also a home of a version that knew of none.
#[test]
fn every_opening_takes_the_next_epoch() {
    let home = tempfile::tempdir().unwrap();
    let epoch = |home: &Path| {
        let conn = rusqlite::Connection::open(home.join("shipway.db")).unwrap();
        let sql = "SELECT value FROM meta WHERE key = 'epoch'";
        conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    for expected in [1, 2, 3] {
        append(&mut open(home.path()), 1).unwrap();
        assert_eq!(epoch(home.path()), expected);
    }
    let conn = rusqlite::Connection::open(home.path().join("shipway.db")).unwrap();
    conn.execute("DELETE FROM meta WHERE key = 'epoch'", []).unwrap();
    drop(conn);
    append(&mut open(home.path()), 1).unwrap();
    assert_eq!(epoch(home.path()), 1);
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
    let JournalError::NewerHome { found: 7, known: 5, .. } = &error else {
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
    assert_eq!(crashed.db[63], 5, "the database file still says 5");
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
