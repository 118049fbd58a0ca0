//! Torn and flipped files. Whatever happens to the bytes, a home either opens with a prefix of
//! what was written, and says so, or is refused. It never shows an event that was not written.

use shipway_server::journal::{
    EventSeq, Journal, JournalError, RecoveryKind, RecoveryNote, SqliteJournal,
};

use crate::support::{Image, NOW, append, check_events, open};

const BATCHES: [u64; 12] = [1, 2, 1, 3, 1, 1, 4, 1, 2, 1, 1, 2];

fn total() -> u64 {
    BATCHES.iter().sum()
}

fn append_all(journal: &mut SqliteJournal, batches: &[u64]) {
    for count in batches {
        append(journal, *count).unwrap();
    }
}

/// A home with some commits in its database, the rest in its log, and no clean stop.
fn crashed() -> Image {
    let home = tempfile::tempdir().unwrap();
    let mut journal = open(home.path());
    append_all(&mut journal, &BATCHES[..4]);
    drop(journal);
    let mut journal = open(home.path());
    append_all(&mut journal, &BATCHES[4..]);
    Image::take(home.path())
}

/// A home that was stopped cleanly: everything is in the database.
fn stopped() -> Image {
    let home = tempfile::tempdir().unwrap();
    let mut journal = open(home.path());
    append_all(&mut journal, &BATCHES);
    drop(journal);
    Image::take(home.path())
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Whole,
    /// A prefix ending with this event; whether a note called it damage.
    Prefix(u64, bool),
    Refused,
}

/// Opens a damaged home, checks all it shows, and that it can go on from there.
fn outcome(image: &Image, what: &str) -> Outcome {
    let dir = image.lay_out();
    let Ok(mut journal) = SqliteJournal::open(dir.path(), NOW) else {
        let after = Image::take(dir.path());
        assert!(after.db == image.db && after.wal == image.wal, "{what}: touched");
        return Outcome::Refused;
    };
    let noted = journal.notes().iter().any(RecoveryNote::may_be_loss);
    let last = check_events(&mut journal, 0).unwrap();
    let ends: Vec<u64> = (0..=BATCHES.len()).map(|n| BATCHES[..n].iter().sum()).collect();
    assert!(ends.contains(&last), "{what}: event {last} is not the end of a commit");
    if last == total() {
        return Outcome::Whole;
    }
    append(&mut journal, 2).unwrap_or_else(|error| panic!("{what}: cannot go on: {error}"));
    drop(journal);
    let mut journal = open(dir.path());
    assert_eq!(check_events(&mut journal, 0).unwrap(), last + 2, "{what}");
    Outcome::Prefix(last, noted)
}

#[test]
fn a_log_cut_anywhere_gives_a_prefix() {
    let image = crashed();
    let in_database: u64 = BATCHES[..4].iter().sum();
    let mut reached = in_database;
    for len in (0..=image.used()).step_by(512).chain([image.used(), image.wal.len()]) {
        let cut = Image { db: image.db.clone(), wal: image.wal[..len].to_vec() };
        let last = match outcome(&cut, &format!("log cut at {len}")) {
            Outcome::Whole => total(),
            Outcome::Prefix(last, _) => last,
            Outcome::Refused => panic!("a cut log is an ordinary crash (at {len})"),
        };
        assert!(last >= reached, "a longer log gave less");
        reached = last;
    }
    assert_eq!(reached, total());
}

#[test]
fn a_flip_in_the_log_is_recovered_or_refused() {
    let image = crashed();
    let mut seen = [0; 3];
    let used = image.used();
    assert!(used < image.wal.len(), "there is room behind the log, as there is in life");
    for at in (0..used).step_by(211).chain(used - 40..used) {
        let mut wal = image.wal.clone();
        wal[at] ^= 0x41;
        let flipped = Image { db: image.db.clone(), wal };
        match outcome(&flipped, &format!("log flipped at {at}")) {
            Outcome::Whole => panic!("a flip at {at} went unnoticed"),
            Outcome::Prefix(_, noted) => {
                assert!(noted, "a flip at {at} lost something silently");
                seen[1] += 1;
            }
            Outcome::Refused => seen[2] += 1,
        }
    }
    assert!(seen[1] > 0 && seen[2] > 0, "both outcomes occur: {seen:?}");
}

#[test]
fn a_torn_tail_is_set_aside() {
    let mut image = crashed();
    let used = image.used();
    image.wal[used - 1] ^= 1;
    let dir = image.lay_out();
    let journal = open(dir.path());
    let [note] = journal.notes() else { panic!("one note expected: {:?}", journal.notes()) };
    let RecoveryKind::TornTail { set_aside, .. } = &note.kind else { panic!("{note}") };
    assert_eq!(std::fs::read(set_aside).unwrap(), image.wal);
    assert_eq!(note.recovered_to, EventSeq(total() - BATCHES[11]));
    assert!(note.to_string().starts_with("recovered to event 18; "), "{note}");
}

/// Positions all over the file, and every bit of what a page says about itself at its start.
fn flips(db: &[u8]) -> impl Iterator<Item = (usize, u8)> {
    const PAGE: usize = 4096;
    let anywhere = (0..db.len()).step_by(97).map(|at| (at, 0x41));
    let starts = (0..db.len()).step_by(PAGE).map(|page| if page == 0 { 100 } else { page });
    let page_headers = starts.flat_map(|start| start..start + 12);
    let each_bit = |at| (0..8).map(move |bit| (at, 1 << bit));
    anywhere.chain(page_headers.flat_map(each_bit))
}

#[test]
fn a_flip_anywhere_in_the_database_is_never_a_wrong_event() {
    let image = stopped();
    let mut refused = 0;
    for (at, mask) in flips(&image.db) {
        let mut db = image.db.clone();
        db[at] ^= mask;
        let flipped = Image { db, wal: Vec::new() };
        match outcome(&flipped, &format!("database flipped at {at} by {mask:#x}")) {
            Outcome::Prefix(_, noted) => assert!(noted, "a flip at {at} lost something silently"),
            Outcome::Refused => refused += 1,
            Outcome::Whole => {}
        }
    }
    assert!(refused > 0);
}

/// Flips one byte of the event with this number where it lies in the database.
fn flip_event(image: &mut Image, seq: u64) {
    let needle = format!("{{\"n\":{seq},");
    let found: Vec<usize> = (0..image.db.len() - needle.len())
        .filter(|at| image.db[*at..].starts_with(needle.as_bytes()))
        .collect();
    let [at] = found[..] else { panic!("event {seq} lies {} times in the file", found.len()) };
    image.db[at + 1] ^= 1;
}

#[test]
fn a_damaged_last_commit_is_taken_out_and_kept() {
    let mut image = stopped();
    flip_event(&mut image, total());
    let dir = image.lay_out();
    let mut journal = open(dir.path());
    let last = total() - BATCHES[11];
    assert_eq!(check_events(&mut journal, 0).unwrap(), last);
    assert!(matches!(journal.notes()[0].kind, RecoveryKind::DamagedCommit { .. }));
    let conn = rusqlite::Connection::open(dir.path().join("shipway.db")).unwrap();
    let count = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM damaged WHERE seq_first = 19"), 1);
    assert_eq!(count("SELECT count(*) FROM jobs WHERE seq > 18"), 0);
    assert_eq!(count("SELECT count(*) FROM jobs"), 11);
}

#[test]
fn a_damaged_commit_within_is_refused_by_number() {
    let mut image = stopped();
    flip_event(&mut image, 5);
    let dir = image.lay_out();
    let error = SqliteJournal::open(dir.path(), NOW).unwrap_err();
    let JournalError::Damaged { after: Some(EventSeq(4)), .. } = &error else { panic!("{error}") };
    assert!(error.hint().unwrap().contains("backup"));
    assert!(Image::take(dir.path()).db == image.db, "a refused home was touched");
}

#[test]
fn a_damaged_last_commit_under_a_snapshot_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let mut journal = open(home.path());
    append(&mut journal, 2).unwrap();
    append(&mut journal, 1).unwrap();
    journal.save_snapshot(EventSeq(3), b"made from all three").unwrap();
    drop(journal);
    let mut image = Image::take(home.path());
    flip_event(&mut image, 3);
    let error = SqliteJournal::open(image.lay_out().path(), NOW).unwrap_err();
    assert!(matches!(error, JournalError::Damaged { after: Some(EventSeq(2)), .. }), "{error}");
}

#[test]
fn a_missing_commit_is_damage() {
    let home = tempfile::tempdir().unwrap();
    let mut journal = open(home.path());
    append_all(&mut journal, &BATCHES);
    drop(journal);
    let conn = rusqlite::Connection::open(home.path().join("shipway.db")).unwrap();
    conn.execute("DELETE FROM commits WHERE seq_first = 5", []).unwrap();
    drop(conn);
    let error = SqliteJournal::open(home.path(), NOW).unwrap_err();
    assert!(matches!(error, JournalError::Damaged { after: Some(EventSeq(4)), .. }), "{error}");
}

#[test]
fn a_damaged_snapshot_falls_back_to_the_older_or_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let mut journal = open(home.path());
    append(&mut journal, 9).unwrap();
    journal.save_snapshot(EventSeq(4), b"four").unwrap();
    journal.save_snapshot(EventSeq(8), b"eight").unwrap();
    let spoil = |seq: u64| {
        let conn = rusqlite::Connection::open(home.path().join("shipway.db")).unwrap();
        let sql = format!("UPDATE snapshots SET body = x'00' WHERE seq = {seq}");
        assert_eq!(conn.execute(&sql, []).unwrap(), 1);
    };
    spoil(8);
    assert_eq!(journal.load_snapshot().unwrap().unwrap().seq, EventSeq(4));
    let note = journal.notes().last().unwrap();
    assert_eq!(note.kind, RecoveryKind::DamagedSnapshot { seq: EventSeq(8) });
    spoil(4);
    assert_eq!(journal.load_snapshot().unwrap(), None, "all events are there from the first");
    let conn = rusqlite::Connection::open(home.path().join("shipway.db")).unwrap();
    conn.execute("UPDATE meta SET value = 2 WHERE key = 'base_seq'", []).unwrap();
    assert!(matches!(journal.load_snapshot(), Err(JournalError::Damaged { .. })));
}
