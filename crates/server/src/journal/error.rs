//! What can go wrong with the journal, sorted by what the caller must do about it.
//! Not here: the notes about what was repaired while opening (`recover.rs`).

use std::path::PathBuf;

use rusqlite::{ErrorCode, ffi};

use super::{Epoch, EventSeq};

/// What the database said, whichever it is.
type Cause = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("another shipway server ({}) uses this home: {}", pid_text(*pid), home.display())]
    InUse { home: PathBuf, pid: Option<u32> },

    #[error(
        "home {} has format {found}, written by shipway {written_by}; \
         this is shipway {this}, which knows formats up to {known}",
        home.display()
    )]
    NewerHome { home: PathBuf, found: u32, written_by: String, known: u32, this: &'static str },

    /// Refused, and nothing was changed: going on would mean guessing.
    #[error("journal {} is damaged{}: {what}", path.display(), after_text(*after))]
    Damaged {
        path: PathBuf,
        /// The last event known to be whole before the damage.
        after: Option<EventSeq>,
        what: String,
        #[source]
        source: Option<Cause>,
    },

    /// The batch may or may not be on disk. `Journal::reopen` must succeed before the next append.
    #[error("{act} did not reach the disk: {what}")]
    NotDurable {
        act: &'static str,
        what: NotDurable,
        #[source]
        source: Cause,
    },

    #[error("the journal takes no writes until it is reopened after an earlier write failed")]
    NeedsReopen,

    /// Nothing was written, and nothing of this writer's ever will be.
    #[error(
        "another server has taken over the journal: its epoch is {newest}, that of this one {own}"
    )]
    TakenOver { own: Epoch, newest: Epoch },

    /// A caller's mistake; nothing was written and the journal is still good.
    #[error("the journal cannot keep this: {what}")]
    Refused { what: &'static str },

    #[error("a history row was written twice")]
    DuplicateRow(#[source] Cause),

    #[error("{act} {}", path.display())]
    File {
        act: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },

    #[error("{act} in the journal")]
    Database {
        act: &'static str,
        #[source]
        source: Cause,
    },
}

/// Why a write is not known to be on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotDurable {
    DiskFull,
    FsyncFailed,
    Io,
    ReadOnly,
    Busy,
}

impl std::fmt::Display for NotDurable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::DiskFull => "the disk is full",
            Self::FsyncFailed => "the disk did not confirm the write (fsync failed)",
            Self::Io => "the disk reported an error",
            Self::ReadOnly => "the file or its file system is read-only",
            Self::Busy => "another program holds the database",
        })
    }
}

impl JournalError {
    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::InUse { .. } => Some("stop that server, or choose another SHIPWAY_HOME".into()),
            Self::NewerHome { written_by, .. } => Some(format!(
                "start it with shipway {written_by} or newer; nothing in this home was changed"
            )),
            Self::Damaged { .. } => Some(
                "restore this home from a backup; nothing was changed, and shipway never guesses \
                 what a damaged commit said"
                    .into(),
            ),
            Self::NotDurable { what, .. } => Some(what.hint().into()),
            _ => None,
        }
    }
}

impl NotDurable {
    fn hint(self) -> &'static str {
        match self {
            Self::DiskFull => "free some space; the server goes on by itself",
            Self::FsyncFailed | Self::Io => "check the disk (dmesg, smartctl)",
            Self::ReadOnly => "remount it writable, or check the owner of the home",
            Self::Busy => "end the program that holds shipway.db locked",
        }
    }
}

fn pid_text(pid: Option<u32>) -> String {
    pid.map_or_else(|| "pid unknown".into(), |pid| format!("pid {pid}"))
}

fn after_text(after: Option<EventSeq>) -> String {
    after.map_or_else(String::new, |seq| format!(" after event {seq}"))
}

/// Gives SQLite's error codes the meaning they have for durability.
pub(super) fn classify(act: &'static str, source: rusqlite::Error) -> JournalError {
    let rusqlite::Error::SqliteFailure(code, _) = &source else {
        return JournalError::Database { act, source: source.into() };
    };
    let extended = code.extended_code;
    let what = match code.code {
        ErrorCode::DiskFull => NotDurable::DiskFull,
        ErrorCode::SystemIoFailure
            if extended == ffi::SQLITE_IOERR_FSYNC || extended == ffi::SQLITE_IOERR_DIR_FSYNC =>
        {
            NotDurable::FsyncFailed
        }
        ErrorCode::SystemIoFailure => NotDurable::Io,
        ErrorCode::ReadOnly => NotDurable::ReadOnly,
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => NotDurable::Busy,
        ErrorCode::ConstraintViolation => return JournalError::DuplicateRow(source.into()),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
            return JournalError::Damaged {
                path: super::DB_FILE.into(),
                after: None,
                what: format!("SQLite cannot read it ({act})"),
                source: Some(source.into()),
            };
        }
        _ => return JournalError::Database { act, source: source.into() },
    };
    JournalError::NotDurable { act, what, source: source.into() }
}

/// For `map_err`: names the act a SQLite call belonged to.
pub(super) fn during(act: &'static str) -> impl FnOnce(rusqlite::Error) -> JournalError {
    move |source| classify(act, source)
}

/// For `map_err`: names the act and the file an I/O call belonged to.
pub(super) fn on_file(
    act: &'static str,
    path: &std::path::Path,
) -> impl FnOnce(std::io::Error) -> JournalError {
    let path = path.to_owned();
    move |source| JournalError::File { act, path, source }
}
