//! Which writer may commit. Each opening takes the next epoch, and from then on no transaction of
//! an earlier one begins.
//!
//! The lock of the home keeps a second server out to begin with (`lock.rs`). This holds where that
//! does not: its file was removed, or the file system has no locks that both can see.

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::chain::{self, Tip};
use super::error::{JournalError, during};
use crate::locks::Locked as _;
use std::sync::Mutex;

/// A writer's hold on its home, for those who write beside the journal. On a connection of its own,
/// which changes nothing.
#[derive(Debug)]
pub struct Tenure {
    conn: Mutex<Connection>,
    epoch: Epoch,
}

impl Tenure {
    pub(super) fn new(conn: Connection, epoch: Epoch) -> Result<Self, JournalError> {
        // It may be the last one of a server that ends while the next one looks at the log.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(during("opening"))?;
        Ok(Self { conn: Mutex::new(conn), epoch })
    }

    /// Whether nobody has taken over so far. Waits for no writer.
    pub fn check(&self) -> Result<(), JournalError> {
        self.epoch.check(&self.conn.locked())
    }

    /// Acts while nobody can take over; not at all when somebody has. The writer waits meanwhile.
    pub fn hold<A>(&self, act: impl FnOnce() -> A) -> Result<A, JournalError> {
        let mut conn = self.conn.locked();
        let _until_done = self.epoch.begin(&mut conn, "holding the home")?;
        Ok(act())
    }
}

/// The number of an opening; the first is 1. A home that never had one is before that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(u64);

impl std::fmt::Display for Epoch {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(out)
    }
}

impl Epoch {
    /// The next one, for a journal that was found to end at `tip`. `None`: it does not any more, so
    /// somebody else writes there.
    pub(super) fn take(conn: &mut Connection, tip: Tip) -> Result<Option<Epoch>, JournalError> {
        let taking = || during("taking the next epoch");
        let change =
            conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(taking())?;
        if chain::last(&change)? != tip {
            return Ok(None);
        }
        let sql = "INSERT INTO meta VALUES ('epoch', 1)
                   ON CONFLICT(key) DO UPDATE SET value = value + 1 RETURNING value";
        let epoch = change.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(taking())?;
        change.commit().map_err(taking())?;
        Ok(Some(Epoch(epoch.cast_unsigned())))
    }

    /// A transaction of the writer that has this epoch.
    pub(super) fn begin<'a>(
        self,
        conn: &'a mut Connection,
        act: &'static str,
    ) -> Result<Transaction<'a>, JournalError> {
        let change =
            conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(during(act))?;
        self.check(&change)?;
        Ok(change)
    }

    /// Whether it is still the newest.
    pub(super) fn check(self, conn: &Connection) -> Result<(), JournalError> {
        let newest = conn
            .prepare_cached("SELECT value FROM meta WHERE key = 'epoch'")
            .and_then(|mut query| query.query_row([], |row| row.get::<_, i64>(0)))
            .map_err(during("reading the epoch"))?;
        let newest = Epoch(newest.cast_unsigned());
        if newest == self { Ok(()) } else { Err(JournalError::TakenOver { own: self, newest }) }
    }
}
