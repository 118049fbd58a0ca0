//! The tables, their format number, and the way from an older format to this one.
//! Not here: deciding whether a home may be opened at all (`recover.rs`).

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _};

use super::chain::Tip;
use super::error::{JournalError, during, on_file};

/// The format this binary writes. Raise it with every change of `TABLES`, and add a step.
pub(super) const FORMAT: u32 = 5;
pub(super) const THIS_VERSION: &str = env!("CARGO_PKG_VERSION");

/// A step brings a home from format `from` to `from + 1`.
struct Step {
    from: u32,
    sql: &'static str,
}

/// Every step there is, in order. Format 2 has the same tables; its snapshots are written as lines.
/// Format 3 knows of jobs that were given to another owner. Format 4 has the same tables, with
/// events and snapshots that earlier versions cannot read. Format 5 has what attempts have used.
const STEPS: &[Step] = &[
    Step { from: 1, sql: "" },
    Step { from: 2, sql: GIVEN },
    Step { from: 3, sql: "" },
    Step { from: 4, sql: USED },
];

/// What attempts have used, in the order of `shipway_model::Usage`, and what was said of it: sums,
/// so that a report over a year is one question. A row is as long as before where nothing is known.
const USED: &str = "
ALTER TABLE attempts ADD COLUMN ran_ms INTEGER;
ALTER TABLE attempts ADD COLUMN advice TEXT;
ALTER TABLE attempts ADD COLUMN wall_ms INTEGER;
ALTER TABLE attempts ADD COLUMN looks INTEGER;
ALTER TABLE attempts ADD COLUMN cpu_ms INTEGER;
ALTER TABLE attempts ADD COLUMN memory INTEGER;
ALTER TABLE attempts ADD COLUMN read INTEGER;
ALTER TABLE attempts ADD COLUMN written INTEGER;
ALTER TABLE attempts ADD COLUMN waited_ms INTEGER;
ALTER TABLE attempts ADD COLUMN gpu_given_ms INTEGER;
ALTER TABLE attempts ADD COLUMN gpus INTEGER;
ALTER TABLE attempts ADD COLUMN gpus_idle INTEGER;
ALTER TABLE attempts ADD COLUMN gpu_busy INTEGER;
ALTER TABLE attempts ADD COLUMN gpu_busy_max INTEGER;
ALTER TABLE attempts ADD COLUMN gpu_memory_busy INTEGER;
ALTER TABLE attempts ADD COLUMN gpu_memory INTEGER;
ALTER TABLE attempts ADD COLUMN gpu_memory_of INTEGER;
ALTER TABLE attempts ADD COLUMN energy_mj INTEGER;
ALTER TABLE attempts ADD COLUMN power_max_mw INTEGER;
ALTER TABLE attempts ADD COLUMN temperature_max INTEGER;
ALTER TABLE attempts ADD COLUMN throttled_ms INTEGER;
ALTER TABLE attempts ADD COLUMN throttle_reasons INTEGER;
ALTER TABLE attempts ADD COLUMN ecc_errors INTEGER;
ALTER TABLE attempts ADD COLUMN occupancy INTEGER;
";

/// Whose a job is since it was submitted by somebody else; the row with the largest `seq` counts.
const GIVEN: &str = "
CREATE TABLE given(
    job INTEGER NOT NULL, seq INTEGER NOT NULL, owner TEXT NOT NULL, since INTEGER NOT NULL,
    PRIMARY KEY(job, seq)) WITHOUT ROWID;
CREATE INDEX given_by_owner ON given(owner);
";

/// `crc` stands before `body`: SQLite walks a long value's overflow pages to reach what follows.
/// In the history tables, `seq` is the first event of the commit that wrote the row.
const TABLES: &str = "
CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE commits(
    seq_first INTEGER PRIMARY KEY, count INTEGER NOT NULL, at_ms INTEGER NOT NULL,
    crc INTEGER NOT NULL, body TEXT NOT NULL);
CREATE TABLE snapshots(seq INTEGER PRIMARY KEY, crc INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE damaged(found_ms INTEGER, seq_first, count, at_ms, crc, body);
CREATE TABLE jobs(
    job INTEGER PRIMARY KEY, seq INTEGER NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL,
    labels TEXT NOT NULL, spec TEXT NOT NULL, tasks INTEGER NOT NULL, priority INTEGER NOT NULL,
    submitted_ms INTEGER NOT NULL);
CREATE INDEX jobs_by_owner ON jobs(owner);
CREATE TABLE job_ends(
    job INTEGER NOT NULL, seq INTEGER NOT NULL, revision INTEGER NOT NULL, state TEXT NOT NULL,
    ended_ms INTEGER NOT NULL, ok INTEGER NOT NULL, failed INTEGER NOT NULL,
    cancelled INTEGER NOT NULL, record TEXT NOT NULL, PRIMARY KEY(job, revision));
CREATE TABLE attempts(
    job INTEGER NOT NULL, idx INTEGER NOT NULL, attempt INTEGER NOT NULL, seq INTEGER NOT NULL,
    state TEXT NOT NULL, outcome TEXT NOT NULL, node TEXT, pilot TEXT, placed_ms INTEGER,
    started_ms INTEGER, ended_ms INTEGER NOT NULL,
    PRIMARY KEY(job, idx, attempt)) WITHOUT ROWID;
";

/// The tables whose rows go when the commit that wrote them goes.
pub(super) const HISTORY_TABLES: [&str; 4] = ["jobs", "job_ends", "attempts", "given"];

/// Makes the database under another name first: a file called `shipway.db` is always complete.
pub(super) fn create(db: &Path) -> Result<(), JournalError> {
    let draft = db.with_extension("db.new");
    match std::fs::remove_file(&draft) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(on_file("removing", &draft)(error));
        }
        _ => {}
    }
    // Jobs' variables are in there: only the owner may read it, whatever the folder's mode is.
    // SQLite gives its log and index the mode of the database.
    let mut private = std::fs::OpenOptions::new();
    private.create_new(true).write(true).mode(0o600);
    private.open(&draft).map_err(on_file("creating", &draft))?;
    let creating = || during("creating the tables");
    let conn = Connection::open(&draft).map_err(creating())?;
    conn.execute_batch(&format!(
        "PRAGMA synchronous = FULL; BEGIN; {TABLES} {GIVEN} {USED}
         INSERT INTO meta VALUES ('format', {FORMAT}), ('written_by', '{THIS_VERSION}'),
             ('base_seq', 0), ('base_crc', 0), ('probe', 0);
         PRAGMA user_version = {FORMAT}; COMMIT; PRAGMA journal_mode = WAL;"
    ))
    .map_err(creating())?;
    conn.close().map_err(|(_, error)| creating()(error))?;
    std::fs::rename(&draft, db).map_err(on_file("renaming", &draft))?;
    sync_directory_of(db)
}

/// Makes names in the directory durable, not only the files they name.
pub(super) fn sync_directory_of(path: &Path) -> Result<(), JournalError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    std::fs::File::open(directory)
        .and_then(|opened| opened.sync_all())
        .map_err(on_file("syncing", directory))
}

/// Brings an older home forward in one transaction, and notes who wrote here last.
pub(super) fn migrate(conn: &mut Connection, found: u32) -> Result<(), JournalError> {
    let migrating = || during("bringing the tables to the current format");
    let written_by = written_by(conn)?;
    if found == FORMAT && written_by.as_deref() == Some(THIS_VERSION) {
        return Ok(());
    }
    let change = conn.transaction().map_err(migrating())?;
    for step in STEPS.iter().filter(|step| step.from >= found) {
        change.execute_batch(step.sql).map_err(migrating())?;
    }
    change
        .execute_batch(&format!(
            "UPDATE meta SET value = {FORMAT} WHERE key = 'format';
             UPDATE meta SET value = '{THIS_VERSION}' WHERE key = 'written_by';
             PRAGMA user_version = {FORMAT};"
        ))
        .map_err(migrating())?;
    change.commit().map_err(migrating())
}

pub(super) fn written_by(conn: &Connection) -> Result<Option<String>, JournalError> {
    conn.query_row("SELECT value FROM meta WHERE key = 'written_by'", [], |row| row.get(0))
        .optional()
        .map_err(during("reading who wrote the home"))
}

/// Where the chain begins: the last commit that was pruned, or nothing.
pub(super) fn base(conn: &Connection) -> Result<Tip, JournalError> {
    let number = |key: &str| -> Result<u64, JournalError> {
        conn.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get::<_, i64>(0))
            .map(i64::cast_unsigned)
            .map_err(during("reading where the journal begins"))
    };
    // A value that does not fit is damage; the first commit's checksum then says so.
    let crc = u32::try_from(number("base_crc")?).unwrap_or(u32::MAX);
    Ok(Tip { seq: number("base_seq")?, crc })
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_model::Usage;

    /// A sum that is new in the model needs a column, and with it a format.
    #[test]
    fn every_sum_has_its_column() {
        let conn = Connection::open_in_memory().expect("memory");
        conn.execute_batch(&format!("{TABLES} {USED}")).expect("tables");
        let query = conn.prepare("SELECT * FROM attempts").expect("attempts");
        let columns: Vec<&str> = query.column_names().collect();
        assert_eq!(columns[..13].last(), Some(&"advice"));
        assert_eq!(&columns[13..], Usage::NAMES);
    }
}
