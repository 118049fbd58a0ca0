//! Looks at a home before it is believed: its format, its `-wal` tail, its commit chain.
//! Everything here only reads, except `set_aside`, which makes a copy, and `trim`, which takes a
//! damaged last commit out after keeping it in the table `damaged`.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::chain::{self, BadRow, Tip, Walked};
use super::error::{JournalError, during, on_file};
use super::wal::{self, Tail, WalReport};
use super::{EventSeq, schema};

/// Something that was not as a clean stop would have left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryNote {
    pub kind: RecoveryKind,
    /// The last event that is whole.
    pub recovered_to: EventSeq,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryKind {
    /// A crash in the middle of a commit that nobody was told about. Ordinary.
    Unfinished { bytes: usize },
    /// The write-ahead log ended in bytes that do not check out: a crash in the middle of writing
    /// a page, or damage to the last commit. The bytes do not say which.
    TornTail { bytes: usize, set_aside: PathBuf },
    /// The last commit did not check out; it is kept in the table `damaged`.
    DamagedCommit { what: &'static str },
    /// A snapshot did not check out; an older one and the events since were used.
    DamagedSnapshot { seq: EventSeq },
}

impl RecoveryNote {
    /// Whether something that had been confirmed may be gone, rather than never finished.
    pub fn may_be_loss(&self) -> bool {
        !matches!(self.kind, RecoveryKind::Unfinished { .. })
    }
}

impl std::fmt::Display for RecoveryNote {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "recovered to event {}; ", self.recovered_to)?;
        match &self.kind {
            RecoveryKind::Unfinished { bytes } => {
                write!(out, "{bytes} bytes of an unfinished commit were dropped")
            }
            RecoveryKind::TornTail { bytes, set_aside } => {
                let copy = set_aside.display();
                write!(out, "{bytes} bytes of an unfinished or damaged tail set aside in {copy}")
            }
            RecoveryKind::DamagedCommit { what } => {
                write!(out, "the commit after it was damaged ({what}), see the table `damaged`")
            }
            RecoveryKind::DamagedSnapshot { seq } => {
                write!(out, "the snapshot at event {seq} was damaged and not used")
            }
        }
    }
}

/// The files of a home as they lie there, before SQLite has seen them.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) format: u32,
    pub(super) tail: Tail,
    wal_is_empty: bool,
}

/// Reads the format and the `-wal` tail from the bytes alone: not even SQLite's side files appear.
/// `None`: there is no database yet.
pub(super) fn look(home: &Path, db: &Path) -> Result<Option<Found>, JournalError> {
    let wal = read_or_empty(&wal_path(db))?;
    let report = wal::inspect(&wal);
    let Some(header) = read_db_header(db)? else {
        if wal.is_empty() {
            return Ok(None);
        }
        return Err(damaged(db, None, "the file is missing, but its -wal file is there"));
    };
    let format = format_of(&header, &wal, &report)
        .ok_or_else(|| damaged(db, None, "it is not a shipway journal"))?;
    if format > schema::FORMAT {
        return Err(JournalError::NewerHome {
            home: home.to_owned(),
            found: format,
            written_by: writer_of(db),
            known: schema::FORMAT,
            this: schema::THIS_VERSION,
        });
    }
    if let Tail::DamagedWithin { bytes } = report.tail {
        let what = format!(
            "{bytes} bytes of its -wal file do not check out, and confirmed commits are among them"
        );
        return Err(damaged(db, None, what));
    }
    Ok(Some(Found { format, tail: report.tail, wal_is_empty: wal.is_empty() }))
}

/// Follows the whole commit chain without changing a byte of the database or its log.
pub(super) fn verify(db: &Path, found: &Found) -> Result<Walked, JournalError> {
    let conn = if found.wal_is_empty { open_immutable(db) } else { open_untouched(db) }
        .map_err(during("opening"))?;
    check_structure(&conn, db)?;
    let walked = schema::base(&conn).and_then(|base| chain::walk(&conn, base, |_| true));
    let walked = walked.map_err(|error| as_damage(db, error))?;
    if let Some(bad) = &walked.bad {
        refuse_if_within(&conn, db, walked.tip, bad)?;
    }
    Ok(walked)
}

/// The chain cannot miss rows at its end that the tree no longer shows; the tree's own books can.
fn check_structure(conn: &Connection, db: &Path) -> Result<(), JournalError> {
    let verdict: String = conn
        .query_row("PRAGMA quick_check('commits')", [], |row| row.get(0))
        .map_err(|error| as_damage(db, during("checking the table of commits")(error)))?;
    if verdict == "ok" { Ok(()) } else { Err(damaged(db, None, verdict)) }
}

/// A bad last commit can be taken out; anything else would leave a hole.
fn refuse_if_within(
    conn: &Connection,
    db: &Path,
    tip: Tip,
    bad: &BadRow,
) -> Result<(), JournalError> {
    // A snapshot beyond the bad commit was made from it: its loss would be a hole as well.
    let covered = conn
        .query_row(
            "SELECT count(*) FROM snapshots WHERE seq > ?1",
            [tip.seq.cast_signed()],
            |row| row.get::<_, i64>(0),
        )
        .map_err(|error| as_damage(db, during("reading the snapshots")(error)))?;
    if bad.is_last && covered == 0 {
        return Ok(());
    }
    let what = format!("the commit there does not check out: {}", bad.what);
    Err(damaged(db, Some(EventSeq(tip.seq)), what))
}

/// Copies the `-wal` file beside the database before SQLite drops its tail.
pub(super) fn set_aside(db: &Path, now_ms: u64) -> Result<PathBuf, JournalError> {
    let mut name = db.as_os_str().to_owned();
    name.push(format!(".damaged-{now_ms}"));
    let copy = PathBuf::from(name);
    std::fs::copy(wal_path(db), &copy).map_err(on_file("copying the damaged log to", &copy))?;
    let file = std::fs::File::open(&copy).map_err(on_file("opening", &copy))?;
    file.sync_all().map_err(on_file("syncing", &copy))?;
    schema::sync_directory_of(&copy)?;
    Ok(copy)
}

/// Takes out a damaged last commit and the history rows it wrote.
pub(super) fn trim(
    conn: &mut Connection,
    tip: Tip,
    bad: &BadRow,
    now_ms: u64,
) -> Result<(), JournalError> {
    let trimming = || during("taking out a damaged commit");
    let change = conn.transaction().map_err(trimming())?;
    change
        .execute(
            "INSERT INTO damaged SELECT ?1, seq_first, count, at_ms, crc, body
             FROM commits WHERE seq_first = ?2",
            [now_ms.cast_signed(), bad.rowid],
        )
        .map_err(trimming())?;
    change.execute("DELETE FROM commits WHERE seq_first = ?1", [bad.rowid]).map_err(trimming())?;
    delete_rows_after(&change, tip)?;
    // A damaged row number can hide the row from the delete: look again before it is final.
    let again = chain::walk(&change, schema::base(&change)?, |_| true)?;
    if again != (Walked { tip, bad: None }) {
        let what = "the last commit does not check out and cannot be taken out";
        return Err(damaged(Path::new(super::DB_FILE), Some(EventSeq(tip.seq)), what));
    }
    change.commit().map_err(trimming())
}

pub(super) fn delete_rows_after(conn: &Connection, tip: Tip) -> Result<(), JournalError> {
    for table in schema::HISTORY_TABLES {
        conn.execute(&format!("DELETE FROM {table} WHERE seq > ?1"), [tip.seq.cast_signed()])
            .map_err(during("taking out history rows"))?;
    }
    Ok(())
}

pub(super) fn damaged(db: &Path, after: Option<EventSeq>, what: impl Into<String>) -> JournalError {
    JournalError::Damaged { path: db.to_owned(), after, what: what.into(), source: None }
}

/// While verifying, whatever SQLite cannot make sense of is damage.
fn as_damage(db: &Path, error: JournalError) -> JournalError {
    match error {
        JournalError::Database { act, source } => JournalError::Damaged {
            path: db.to_owned(),
            after: None,
            what: format!("SQLite cannot make sense of it ({act})"),
            source: Some(source),
        },
        other => other,
    }
}

fn wal_path(db: &Path) -> PathBuf {
    let mut name = db.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

fn read_or_empty(path: &Path) -> Result<Vec<u8>, JournalError> {
    match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(on_file("reading", path)),
    }
}

const DB_HEADER: usize = 100;

/// Must not run while this process has the database open: closing any handle of a file drops
/// the POSIX locks SQLite holds on it. The home lock sees to that.
fn read_db_header(db: &Path) -> Result<Option<Vec<u8>>, JournalError> {
    let file = match std::fs::File::open(db) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(on_file("opening", db))?,
    };
    let mut header = Vec::with_capacity(DB_HEADER);
    file.take(DB_HEADER as u64).read_to_end(&mut header).map_err(on_file("reading", db))?;
    Ok(Some(header))
}

/// The `user_version` in SQLite's header, from the newest committed copy of page 1.
fn format_of(header: &[u8], wal: &[u8], report: &WalReport) -> Option<u32> {
    const MAGIC: &[u8] = b"SQLite format 3\0";
    let page = report.page_one.and_then(|at| wal.get(at..at + DB_HEADER)).unwrap_or(header);
    if !header.starts_with(MAGIC) || page.len() < DB_HEADER {
        return None;
    }
    let format = u32::from_be_bytes(page.get(60..64)?.try_into().ok()?);
    (format > 0).then_some(format)
}

/// For a message only: what the newer home says about itself, as far as we can tell.
fn writer_of(db: &Path) -> String {
    let conn = open_immutable(db).ok();
    conn.and_then(|conn| schema::written_by(&conn).ok().flatten())
        .unwrap_or_else(|| "of an unknown version".into())
}

/// Reads the database file alone, and makes no side files.
fn open_immutable(db: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(format!("file:{}?immutable=1", uri_path(db)), flags)
}

/// Reads database and log, and leaves both as they are when it closes.
fn open_untouched(db: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(db, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    conn.pragma_update(None, "query_only", true)?;
    Ok(conn)
}

fn uri_path(path: &Path) -> String {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt as _;
    path.as_os_str().as_bytes().iter().fold(String::new(), |mut uri, byte| {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
        uri
    })
}
