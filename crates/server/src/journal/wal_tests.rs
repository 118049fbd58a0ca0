//! Checks `wal.rs` against logs that SQLite itself wrote.

use rusqlite::Connection;

use super::*;

const FRAME: usize = FRAME_HEADER + 4096;

/// A real log of three transactions, with SQLite's connection still open.
fn real_log() -> (tempfile::TempDir, Connection, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let conn = Connection::open(dir.path().join("db")).unwrap();
    conn.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;").unwrap();
    conn.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2);")
        .unwrap();
    let wal = std::fs::read(dir.path().join("db-wal")).unwrap();
    (dir, conn, wal)
}

fn tail(wal: &[u8]) -> Tail {
    inspect(wal).tail
}

#[test]
fn a_whole_log_is_clean_and_shows_page_one() {
    let (_dir, _conn, wal) = real_log();
    let report = inspect(&wal);
    assert_eq!(report.tail, Tail::Clean);
    let page = report.page_one.unwrap();
    assert!(wal[page..].starts_with(b"SQLite format 3\0"));
}

#[test]
fn frames_of_an_earlier_use_are_clean() {
    let (dir, conn, before) = real_log();
    conn.execute_batch("PRAGMA wal_checkpoint(RESTART); INSERT INTO t VALUES (3);").unwrap();
    let wal = std::fs::read(dir.path().join("db-wal")).unwrap();
    assert_eq!(wal.len(), before.len(), "the log was reused, not cut");
    assert_ne!(wal[16..24], before[16..24], "with new salts");
    assert_eq!(tail(&wal), Tail::Clean);
}

#[test]
fn an_uncommitted_tail_is_unfinished_not_damaged() {
    let (dir, conn, _) = real_log();
    conn.execute_batch(
        "PRAGMA cache_size = 2; BEGIN;
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
         INSERT INTO t SELECT randomblob(3000) FROM n;",
    )
    .unwrap();
    let wal = std::fs::read(dir.path().join("db-wal")).unwrap();
    assert!(matches!(tail(&wal), Tail::Unfinished { .. }), "{:?}", tail(&wal));
}

#[test]
fn every_flip_in_the_last_frame_is_seen() {
    let (_dir, _conn, wal) = real_log();
    let last = wal.len() - FRAME;
    for at in last..wal.len() {
        let mut flipped = wal.clone();
        flipped[at] ^= 0x10;
        let seen = tail(&flipped);
        assert!(matches!(seen, Tail::Torn { bytes: FRAME }), "flip at {at}: {seen:?}");
    }
}

#[test]
fn a_flip_before_confirmed_commits_is_damage_within() {
    let (_dir, _conn, wal) = real_log();
    for at in (HEADER..HEADER + FRAME).step_by(7) {
        let mut flipped = wal.clone();
        flipped[at] ^= 0x10;
        let seen = tail(&flipped);
        assert!(matches!(seen, Tail::DamagedWithin { .. }), "flip at {at}: {seen:?}");
    }
    for at in 0..HEADER {
        let mut flipped = wal.clone();
        flipped[at] ^= 0x10;
        // Byte 4 to 8 hold the version, which nothing but the checksum covers.
        assert!(matches!(tail(&flipped), Tail::DamagedWithin { .. }), "flip at {at}");
    }
}

#[test]
fn a_cut_within_a_frame_is_torn_and_between_commits_clean() {
    let (_dir, _conn, wal) = real_log();
    for len in 0..wal.len() {
        let seen = tail(&wal[..len]);
        let into_frame = len.checked_sub(HEADER).map_or(0, |behind| behind % FRAME);
        if into_frame == 0 || into_frame == FRAME_HEADER {
            assert!(!matches!(seen, Tail::Torn { .. } | Tail::DamagedWithin { .. }), "{len}");
        } else {
            assert!(matches!(seen, Tail::Torn { .. }), "cut at {len}: {seen:?}");
        }
    }
}

#[test]
fn a_blank_tail_is_torn() {
    let (_dir, _conn, mut wal) = real_log();
    wal.resize(wal.len() + FRAME, 0);
    assert_eq!(tail(&wal), Tail::Torn { bytes: FRAME });
}

#[test]
fn room_made_ahead_is_clean_and_damage_before_it_is_seen() {
    let (_dir, _conn, wal) = real_log();
    let with_room = |mut wal: Vec<u8>| {
        wal.resize(wal.len() + 10 * FRAME + 7, FILL);
        wal
    };
    assert_eq!(tail(&with_room(wal.clone())), Tail::Clean);
    assert_eq!(tail(&with_room(Vec::new())), Tail::Clean);
    assert_eq!(tail(&with_room(vec![0; HEADER])), Tail::Clean, "nothing was written yet");
    // A process killed between the two writes of a frame.
    let only_header = with_room(wal[..wal.len() - 4096].to_vec());
    assert!(matches!(tail(&only_header), Tail::Unfinished { .. }), "{:?}", tail(&only_header));
    let mut flipped = with_room(wal.clone());
    flipped[wal.len() - 9] ^= 0x10;
    assert!(matches!(tail(&flipped), Tail::Torn { .. }));
    let mut lost = with_room(wal.clone());
    lost[HEADER..HEADER + FRAME].fill(FILL);
    assert!(matches!(tail(&lost), Tail::DamagedWithin { .. }), "{:?}", tail(&lost));
    let mut no_header = with_room(wal);
    no_header[..HEADER].fill(FILL);
    assert!(matches!(tail(&no_header), Tail::DamagedWithin { .. }));
}
