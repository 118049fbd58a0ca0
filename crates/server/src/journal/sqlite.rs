//! `SqliteJournal`: the embedded journal, one writing connection to `<home>/shipway.db`.
//! The order of opening is here; each judgement is in `recover.rs`.

use std::ops::ControlFlow;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, params};

use super::chain::{self, Tip, Walked};
use super::connection::{checkpoint, connect};
use super::error::{JournalError, NotDurable, during, on_file};
use super::lock::HomeLock;
use super::log_space::LogSpace;
use super::recover::{self, Found, RecoveryKind, RecoveryNote, damaged};
use super::reopen::reconnect;
use super::sqlite_history::SqliteHistory;
use super::wal::Tail;
use super::{
    Commit, Committed, DB_FILE, Epoch, EventSeq, HistoryReader, Journal, Lines, MAX_COMMIT_BYTES,
    Snapshot, Stored, Tenure, rows, schema, snapshots,
};

#[derive(Debug)]
pub struct SqliteJournal {
    conn: Connection,
    db: PathBuf,
    tip: Tip,
    epoch: Epoch,
    room: LogSpace,
    needs_reopen: bool,
    /// Whose it is since another server took it over.
    newer: Option<Epoch>,
    notes: Vec<RecoveryNote>,
    /// Last: the connection closes before another server may come.
    _lock: HomeLock,
}

impl SqliteJournal {
    /// Opens the journal of `home`, making both if they are not there. `now_ms` only names and
    /// dates what is set aside.
    pub fn open(home: &Path, now_ms: u64) -> Result<Self, JournalError> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(home)
            .map_err(on_file("creating", home))?;
        let db = home.join(DB_FILE);
        // A home we may not open must not change: its lock file is used if there is one, and made
        // only after the look.
        let held = HomeLock::take_existing(home)?;
        let found = recover::look(home, &db)?;
        let mut lock = held.map_or_else(|| HomeLock::create(home), Ok)?;
        let walked = found.as_ref().map(|found| recover::verify(&db, found)).transpose()?;
        lock.sign()?;
        let Some((found, walked)) = found.zip(walked) else {
            schema::create(&db)?;
            return Self::ready(db, lock, Tip::default(), Vec::new());
        };
        Self::open_found(db, lock, &found, walked, now_ms)
    }

    fn open_found(
        db: PathBuf,
        lock: HomeLock,
        found: &Found,
        walked: Walked,
        now_ms: u64,
    ) -> Result<Self, JournalError> {
        let tip = walked.tip;
        let mut notes = Vec::new();
        let mut note = |kind| notes.push(RecoveryNote { kind, recovered_to: EventSeq(tip.seq) });
        match found.tail {
            Tail::Torn { bytes } => {
                let set_aside = recover::set_aside(&db, now_ms)?;
                note(RecoveryKind::TornTail { bytes, set_aside });
            }
            Tail::Unfinished { bytes } => note(RecoveryKind::Unfinished { bytes }),
            Tail::Clean | Tail::DamagedWithin { .. } => {}
        }
        let mut conn = connect(&db)?;
        schema::migrate(&mut conn, found.format)?;
        if let Some(bad) = walked.bad {
            recover::trim(&mut conn, tip, &bad, now_ms)?;
            note(RecoveryKind::DamagedCommit { what: bad.what });
        }
        drop(conn);
        Self::ready(db, lock, tip, notes)
    }

    fn ready(
        db: PathBuf,
        lock: HomeLock,
        tip: Tip,
        notes: Vec<RecoveryNote>,
    ) -> Result<Self, JournalError> {
        let mut conn = connect(&db)?;
        let Some(epoch) = Epoch::take(&mut conn, tip)? else {
            let home = db.parent().unwrap_or(&db).to_owned();
            return Err(JournalError::InUse { home, pid: None });
        };
        // An empty log to start with: a leftover tail would look like damage after the next crash.
        // A foreign reader may keep the log busy; that is no reason not to start.
        match checkpoint(&conn) {
            Ok(()) | Err(JournalError::NotDurable { what: NotDurable::Busy, .. }) => {}
            Err(error) => return Err(error),
        }
        let room = LogSpace::of(&db);
        let (needs_reopen, newer) = (false, None);
        Ok(Self { conn, db, tip, epoch, room, needs_reopen, newer, notes, _lock: lock })
    }

    /// Reads what is in it, while it is written.
    pub fn history(&self) -> Result<Box<dyn HistoryReader>, JournalError> {
        Ok(Box::new(SqliteHistory::open(self.db.clone())?))
    }

    /// For what is written beside it.
    pub fn tenure(&self) -> Result<Tenure, JournalError> {
        Tenure::new(connect(&self.db)?, self.epoch)
    }

    /// What was repaired or left behind so far. For the log and for `doctor`.
    pub fn notes(&self) -> &[RecoveryNote] {
        &self.notes
    }

    fn commit(&mut self, batch: &Commit<'_>) -> Result<Tip, JournalError> {
        const APPENDING: &str = "appending a batch";
        let appending = || during(APPENDING);
        let count = batch.events.len() as u64;
        let first = self.tip.seq + 1;
        let body = batch.events.text();
        let crc = chain::crc(self.tip.crc, first, count, batch.at_ms, body);
        let change = self.epoch.begin(&mut self.conn, APPENDING)?;
        change
            .prepare_cached("INSERT INTO commits VALUES (?1, ?2, ?3, ?4, ?5)")
            .and_then(|mut insert| {
                insert.execute(params![
                    first.cast_signed(),
                    count.cast_signed(),
                    batch.at_ms.cast_signed(),
                    i64::from(crc),
                    ToSqlOutput::Borrowed(ValueRef::Text(body)),
                ])
            })
            .map_err(appending())?;
        rows::insert(&change, first, batch).map_err(appending())?;
        change.commit().map_err(appending())?;
        Ok(Tip { seq: self.tip.seq + count, crc })
    }

    /// Remembers a failed write: what the disk holds is unknown until `reopen` has looked.
    fn watch<T>(&mut self, result: Result<T, JournalError>) -> Result<T, JournalError> {
        if let Err(error) = &result {
            self.needs_reopen |= !matches!(error, JournalError::DuplicateRow(_));
            if let JournalError::TakenOver { newest, .. } = error {
                self.newer = Some(*newest);
            }
        }
        result
    }

    fn writable(&self) -> Result<(), JournalError> {
        match self.newer {
            Some(newest) => Err(JournalError::TakenOver { own: self.epoch, newest }),
            None if self.needs_reopen => Err(JournalError::NeedsReopen),
            None => Ok(()),
        }
    }
}

impl Journal for SqliteJournal {
    type Error = JournalError;
    type History = Box<dyn HistoryReader>;

    fn append(&mut self, batch: &Commit<'_>) -> Result<Committed, JournalError> {
        self.writable()?;
        if batch.events.is_empty() {
            return Err(JournalError::Refused { what: "a batch without events" });
        }
        if batch.events.text().len() > MAX_COMMIT_BYTES {
            return Err(JournalError::Refused { what: "a batch over the size limit" });
        }
        check(batch.events)?;
        let result = self.commit(batch);
        let tip = self.watch(result)?;
        let first = EventSeq(self.tip.seq + 1);
        self.tip = tip;
        self.room.make();
        Ok(Committed { first, last: EventSeq(tip.seq) })
    }

    fn save_snapshot(&mut self, seq: EventSeq, body: &[u8]) -> Result<(), JournalError> {
        self.writable()?;
        if seq.0 > self.tip.seq {
            return Err(JournalError::Refused { what: "a snapshot of events not yet committed" });
        }
        let result = snapshots::save(&mut self.conn, self.epoch, seq.0, body);
        self.watch(result)
    }

    fn load_snapshot(&mut self) -> Result<Option<Snapshot>, JournalError> {
        let choice = snapshots::choose(&self.conn)?;
        let recovered_to = EventSeq(self.tip.seq);
        let found_damage = choice.damaged.iter().map(|seq| RecoveryNote {
            kind: RecoveryKind::DamagedSnapshot { seq: *seq },
            recovered_to,
        });
        self.notes.extend(found_damage);
        let base = schema::base(&self.conn)?.seq;
        let from = choice.usable.as_ref().map_or(0, |snapshot| snapshot.seq.0);
        if from < base || from > self.tip.seq {
            let what = "no snapshot checks out from which all later events are kept";
            return Err(damaged(&self.db, None, what));
        }
        Ok(choice.usable)
    }

    fn replay(
        &mut self,
        after: EventSeq,
        visit: &mut dyn FnMut(Stored<'_>) -> ControlFlow<()>,
    ) -> Result<(), JournalError> {
        let base = schema::base(&self.conn)?;
        if after.0 < base.seq {
            return Err(JournalError::Refused { what: "a replay of events that were pruned" });
        }
        let walked = chain::walk(&self.conn, base, |commit| {
            (commit.seq_first..).zip(chain::lines(commit.body)).all(|(seq, body)| {
                let event = Stored { seq: EventSeq(seq), at_ms: commit.at_ms, body };
                seq <= after.0 || visit(event).is_continue()
            })
        })?;
        walked
            .bad
            .map_or(Ok(()), |bad| Err(damaged(&self.db, Some(EventSeq(walked.tip.seq)), bad.what)))
    }

    fn prune(&mut self) -> Result<u64, JournalError> {
        self.writable()?;
        let keep = snapshots::KEPT_EVENTS;
        let result = snapshots::prune(&mut self.conn, self.epoch, self.tip, keep);
        self.watch(result)
    }

    fn reopen(&mut self) -> Result<(), JournalError> {
        // The old connection stays until the new one stands: closing the last one would itself
        // write to a disk we do not trust.
        self.needs_reopen = true;
        let reconnected = reconnect(&self.db, self.tip, self.epoch);
        self.conn = self.watch(reconnected)?;
        self.room = LogSpace::of(&self.db);
        self.needs_reopen = false;
        Ok(())
    }

    fn is_taken_over(&self) -> bool {
        self.newer.is_some()
    }

    fn tip(&self) -> EventSeq {
        EventSeq(self.tip.seq)
    }

    fn words(error: &(dyn std::error::Error + 'static)) -> String {
        shipway_api::causes::causes(error)
    }
}

/// Whether they would come back as they are.
fn check(events: &Lines) -> Result<(), JournalError> {
    if chain::lines(events.text()).count() != events.len() {
        return Err(JournalError::Refused { what: "an event with a line break in it" });
    }
    if std::str::from_utf8(events.text()).is_err() {
        return Err(JournalError::Refused { what: "an event that is not UTF-8" });
    }
    Ok(())
}

#[cfg(test)]
#[path = "sqlite_tests.rs"]
mod tests;
