//! How attempts went over time: a small table of its own beside the journal, written by a thread
//! of its own. Nobody waits for it and nothing depends on it: what does not fit into its queue is
//! left out, and a file that cannot be read is begun anew. The sums are in the journal and in
//! history; see `journal/`.
//!
//! A series is kept as it came for a week, then with a quarter of its points, and for ninety days
//! in all; and never more than so many of them, of which the oldest go first.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

use crate::locks::Locked as _;
use rusqlite::{Connection, OptionalExtension as _, params};
use shipway_api::link::SeriesOf;
use shipway_model::{Attempt, Millis, TaskId, Timestamp};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

/// The file in the home.
const FILE: &str = "series.db";
/// Messages that wait to be written, and points in them: some fifty megabytes. A message of a pilot
/// has as many as fit into its bytes, which are few for each.
const WAITING: usize = 4_096;
const POINTS_WAITING: usize = 1_000_000;

/// As it came for so long.
pub const WHOLE_FOR: Millis = Millis(7 * 24 * 3_600_000);
/// Points that are left after that.
pub const THIN_POINTS: usize = 60;
/// Then it goes.
pub const KEPT_FOR: Millis = Millis(90 * 24 * 3_600_000);
/// A gigabyte or two, thinned as most of them are.
pub const MOST_KEPT: u64 = 2_000_000;
/// Rows that are thinned or removed at once: the thread writes again after that.
const AT_ONCE: u64 = 2_000;
/// Rows written between two looks at what has aged.
const LOOK_EVERY: u64 = 500;

const TABLE: &str = "
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS series(
    job INTEGER NOT NULL, idx INTEGER NOT NULL, attempt INTEGER NOT NULL, at_ms INTEGER NOT NULL,
    thin INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY(job, idx, attempt)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS series_by_age ON series(at_ms);
CREATE INDEX IF NOT EXISTS series_to_thin ON series(at_ms) WHERE thin = 0;
";

/// What was reported at a time.
type Told = (Timestamp, Vec<SeriesOf>);

#[derive(Debug)]
pub struct SeriesStore {
    /// `None`: they are not kept.
    to_write: Option<SyncSender<Told>>,
    points_waiting: Arc<AtomicUsize>,
    reading: Mutex<Option<Connection>>,
}

impl SeriesStore {
    /// Where it cannot be kept, that is said once, and nothing else is the worse for it.
    pub fn open(home: &Path) -> Self {
        let file = home.join(FILE);
        let opened = open(&file).or_else(|_| {
            let _damaged = std::fs::remove_file(&file);
            open(&file)
        });
        let both = opened.and_then(|writing| Ok((writing, open(&file)?)));
        let (writing, reading) = match both {
            Ok(both) => both,
            Err(error) => {
                tracing::warn!(%error, "how tasks go over time is not kept: {}", file.display());
                let (points_waiting, reading) = (Arc::default(), Mutex::new(None));
                return SeriesStore { to_write: None, points_waiting, reading };
            }
        };
        let (to_write, told) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("series".into());
        let points_waiting = Arc::<AtomicUsize>::default();
        let waiting = Arc::clone(&points_waiting);
        let started = thread.spawn(move || write_all(&writing, &told, &waiting));
        let to_write = started.is_ok().then_some(to_write);
        SeriesStore { to_write, points_waiting, reading: Mutex::new(Some(reading)) }
    }

    /// Takes the place of what was said of the same attempts before.
    pub fn put(&self, at: Timestamp, series: Vec<SeriesOf>) {
        let Some(to_write) = self.to_write.as_ref().filter(|_| !series.is_empty()) else { return };
        let points = points_of(&series);
        let before = self.points_waiting.fetch_add(points, Ordering::Relaxed);
        let is_too_much = before.saturating_add(points) > POINTS_WAITING;
        if is_too_much || to_write.try_send((at, series)).is_err() {
            self.points_waiting.fetch_sub(points, Ordering::Relaxed);
        }
    }

    /// Of this attempt, or of the newest that has one. Waits for the disk.
    pub fn get(&self, task: TaskId, attempt: Option<Attempt>) -> Option<SeriesOf> {
        let reading = self.reading.locked();
        let conn = reading.as_ref()?;
        let found = conn.prepare_cached(
            "SELECT body FROM series WHERE job = ?1 AND idx = ?2
             AND (?3 IS NULL OR attempt = ?3) ORDER BY attempt DESC LIMIT 1",
        );
        let (job, index) = (task.job.0.cast_signed(), task.index.0.cast_signed());
        let attempt = attempt.map(|attempt| i64::from(attempt.0));
        let body = found.and_then(|mut query| {
            query.query_row(params![job, index, attempt], |row| row.get(0)).optional()
        });
        let body: Vec<u8> = body.ok().flatten()?;
        SeriesOf::unpacked(&body)
    }
}

/// Only its owner may read it.
fn open(file: &Path) -> rusqlite::Result<Connection> {
    let mut private = std::fs::OpenOptions::new();
    // Should that fail, what follows says why.
    let _made = private.create(true).append(true).mode(0o600).open(file);
    let conn = Connection::open(file)?;
    conn.execute_batch(TABLE)?;
    Ok(conn)
}

/// Until nobody can say anything more: what has come meanwhile is one transaction.
fn write_all(conn: &Connection, told: &Receiver<Told>, points_waiting: &AtomicUsize) {
    let mut written = 0;
    while let Ok(first) = told.recv() {
        let at = first.0;
        let all: Vec<Told> = std::iter::once(first).chain(told.try_iter().take(WAITING)).collect();
        let points: usize = all.iter().map(|(_, series)| points_of(series)).sum();
        written += all.iter().map(|(_, series)| series.len() as u64).sum::<u64>();
        let done = write(conn, all).and_then(|()| {
            if written < LOOK_EVERY {
                return Ok(());
            }
            written = 0;
            age(conn, at, MOST_KEPT)
        });
        // Until then they were here.
        points_waiting.fetch_sub(points, Ordering::Relaxed);
        if let Err(error) = done {
            tracing::debug!(%error, "how some tasks went over time is lost");
        }
    }
}

fn points_of(series: &[SeriesOf]) -> usize {
    series.iter().map(|one| one.series.points.len().max(1)).sum()
}

fn write(conn: &Connection, all: Vec<Told>) -> rusqlite::Result<()> {
    let change = conn.unchecked_transaction()?;
    let mut insert =
        change.prepare_cached("INSERT OR REPLACE INTO series VALUES (?1, ?2, ?3, ?4, 0, ?5)")?;
    for (at, series) in all {
        for one in series {
            let (task, attempt) = (one.id.task, i64::from(one.id.attempt.0));
            let (job, index) = (task.job.0.cast_signed(), task.index.0.cast_signed());
            insert.execute(params![job, index, attempt, at.0.cast_signed(), one.packed()])?;
        }
    }
    drop(insert);
    change.commit()
}

/// Makes room, a little at a time.
fn age(conn: &Connection, now: Timestamp, most: u64) -> rusqlite::Result<()> {
    let before = |span: Millis| now.0.saturating_sub(span.0).cast_signed();
    let change = conn.unchecked_transaction()?;
    let key = "(job, idx, attempt) IN (SELECT job, idx, attempt FROM series";
    change.execute(
        &format!("DELETE FROM series WHERE {key} WHERE at_ms < ?1 LIMIT {AT_ONCE})"),
        [before(KEPT_FOR)],
    )?;
    let count: i64 = change.query_row("SELECT count(*) FROM series", [], |row| row.get(0))?;
    let over = count.saturating_sub(most.cast_signed()).clamp(0, AT_ONCE.cast_signed());
    if over > 0 {
        let sql = format!("DELETE FROM series WHERE {key} ORDER BY at_ms LIMIT ?1)");
        change.execute(&sql, [over])?;
    }
    let old = format!(
        "SELECT job, idx, attempt, body FROM series WHERE thin = 0 AND at_ms < ?1 LIMIT {AT_ONCE}"
    );
    let mut query = change.prepare(&old)?;
    let rows = query.query_map([before(WHOLE_FOR)], |row| {
        let key: (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok((key, row.get::<_, Vec<u8>>(3)?))
    })?;
    let rows: Vec<_> = rows.collect::<Result<_, _>>()?;
    drop(query);
    for ((job, index, attempt), body) in rows {
        let thin = SeriesOf::unpacked(&body).map(|SeriesOf { id, series }| {
            SeriesOf { id, series: series.thinned(THIN_POINTS) }.packed()
        });
        change.execute(
            "UPDATE series SET thin = 1, body = ?4 WHERE job = ?1 AND idx = ?2 AND attempt = ?3",
            params![job, index, attempt, thin.unwrap_or(body)],
        )?;
    }
    change.commit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_model::series::Point;
    use shipway_model::{JobId, Series, TaskIndex};
    use std::os::unix::fs::PermissionsExt as _;

    fn one(index: u64, attempt: u32, points: u32) -> SeriesOf {
        let id = JobId(1).task(TaskIndex(index)).attempt(Attempt(attempt));
        let points = (0..points).map(|cpu| Point { cpu, ..Point::default() }).collect();
        SeriesOf { id, series: Series { step_ms: 1_000, points, has_gpu: false } }
    }

    fn task(index: u64) -> TaskId {
        JobId(1).task(TaskIndex(index))
    }

    fn wait(store: &SeriesStore, wanted: &SeriesOf) {
        let clock = std::time::Instant::now();
        while store.get(wanted.id.task, None).as_ref() != Some(wanted) {
            assert!(clock.elapsed().as_secs() < 60, "it is not written");
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_was_said_last_of_an_attempt_is_kept() {
        let home = tempfile::tempdir().expect("a directory");
        let store = SeriesStore::open(home.path());
        store.put(Timestamp(1), vec![one(0, 1, 3), one(0, 2, 5)]);
        store.put(Timestamp(2), vec![one(0, 2, 9)]);
        wait(&store, &one(0, 2, 9));
        assert_eq!(store.get(task(0), Some(Attempt(1))), Some(one(0, 1, 3)));
        assert_eq!((store.get(task(0), Some(Attempt(3))), store.get(task(7), None)), (None, None));
        drop(store);
        // The next server has it too, and a damaged file keeps nobody from starting.
        let store = SeriesStore::open(home.path());
        assert_eq!(store.get(task(0), None), Some(one(0, 2, 9)));
        let file = home.path().join(FILE);
        let mode = std::fs::metadata(&file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(store);
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(home.path().join(format!("{FILE}{suffix}")));
        }
        std::fs::write(&file, b"no database").expect("written");
        let store = SeriesStore::open(home.path());
        store.put(Timestamp(3), vec![one(4, 1, 1)]);
        wait(&store, &one(4, 1, 1));
    }

    #[test]
    fn what_waits_for_a_slow_disk_has_a_bound() {
        let home = tempfile::tempdir().expect("a directory");
        let store = SeriesStore::open(home.path());
        let other = open(&home.path().join(FILE)).expect("a database");
        other.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes");
        for index in 0..2_000 {
            store.put(Timestamp(index), vec![one(index, 1, 1_000)]);
        }
        let waiting = store.points_waiting.load(Ordering::Relaxed);
        assert!(waiting <= POINTS_WAITING, "{waiting}");
        other.execute_batch("ROLLBACK").expect("over");
        // What did not fit is lost, and what comes later is kept.
        let clock = std::time::Instant::now();
        while store.get(task(9_999), None).is_none() {
            assert!(clock.elapsed().as_secs() < 60, "it is not written");
            store.put(Timestamp(1), vec![one(9_999, 1, 1)]);
            std::thread::yield_now();
        }
    }

    #[test]
    fn series_get_thinner_and_go() {
        let home = tempfile::tempdir().expect("a directory");
        let conn = open(&home.path().join(FILE)).expect("a database");
        let now = Timestamp(KEPT_FOR.0 * 2);
        let ago = |span: u64| Timestamp(now.0 - span);
        let told = [(KEPT_FOR.0 + 1, 1), (WHOLE_FOR.0 + 1, 2), (WHOLE_FOR.0 - 1, 3), (0, 4)];
        let told = told.map(|(span, index)| (ago(span), vec![one(index, 1, 240)]));
        write(&conn, told.to_vec()).expect("written");
        age(&conn, now, 100).expect("aged");
        let kept = |index: i64| -> Option<usize> {
            let sql = "SELECT body FROM series WHERE idx = ?1";
            let body: Option<Vec<u8>> =
                conn.query_row(sql, [index], |row| row.get(0)).optional().expect("a row");
            Some(SeriesOf::unpacked(&body?).expect("a series").series.points.len())
        };
        let points = [1, 2, 3, 4].map(kept);
        assert_eq!(points, [None, Some(THIN_POINTS), Some(240), Some(240)]);
        age(&conn, now, 2).expect("aged");
        assert_eq!([2, 3, 4].map(kept), [None, Some(240), Some(240)], "the oldest goes");
    }
}
