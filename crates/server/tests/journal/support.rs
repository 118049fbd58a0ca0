//! What the journal tests share: events that can be told from their number alone, and homes that
//! can be copied as a crash would leave them.

use std::ops::ControlFlow;
use std::path::Path;

use shipway_server::journal::{
    Commit, EventSeq, HistoryRow, Journal, JournalError, Lines, SqliteJournal,
};

pub(crate) const NOW: u64 = 1_700_000_000_000;

/// The one event that may carry this number.
pub(crate) fn event(seq: u64) -> Vec<u8> {
    let pad = usize::try_from(seq * 7919 % 300).expect("small");
    format!("{{\"n\":{seq},\"pad\":\"{}\"}}", "x".repeat(pad)).into_bytes()
}

pub(crate) fn events(first: u64, count: u64) -> Lines {
    (first..first + count).map(event).collect()
}

pub(crate) fn job(id: u64, owner: &str, labels: &str) -> HistoryRow {
    HistoryRow::JobSubmitted {
        job: id,
        owner: owner.into(),
        name: format!("name-{}", id % 2),
        labels: labels.into(),
        spec: format!("{{\"command\":[\"job-{id}\"]}}").as_str().into(),
        tasks: 3,
        priority: -5,
        submitted_ms: NOW + id,
    }
}

/// Appends the next `count` events as one batch, with one job row.
pub(crate) fn append(journal: &mut SqliteJournal, count: u64) -> Result<u64, JournalError> {
    let first = journal.tip().0 + 1;
    let rows = [job(first, "ada", "{}")];
    let batch = Commit { at_ms: NOW, events: &events(first, count), rows: &rows };
    journal.append(&batch).map(|committed| {
        assert_eq!(committed.first, EventSeq(first));
        committed.last.0
    })
}

pub(crate) fn open(home: &Path) -> SqliteJournal {
    SqliteJournal::open(home, NOW).expect("the home opens")
}

/// Checks every event after `after`, and returns the number of the last.
pub(crate) fn check_events(journal: &mut SqliteJournal, after: u64) -> Result<u64, JournalError> {
    let mut last = after;
    journal.replay(EventSeq(after), &mut |recorded| {
        last += 1;
        assert_eq!(recorded.seq, EventSeq(last), "no gap, no repeat");
        assert_eq!(recorded.body, event(last), "event {last} is not what was written");
        ControlFlow::Continue(())
    })?;
    assert_eq!(last, journal.tip().0);
    Ok(last)
}

/// The database and its log, as a power cut would leave them.
pub(crate) struct Image {
    pub(crate) db: Vec<u8>,
    pub(crate) wal: Vec<u8>,
}

impl Image {
    pub(crate) fn take(home: &Path) -> Self {
        let read = |name| std::fs::read(home.join(name)).unwrap_or_default();
        Self { db: read("shipway.db"), wal: read("shipway.db-wal") }
    }

    /// The length of the log as far as it was written; behind it is room made ahead.
    pub(crate) fn used(&self) -> usize {
        const HEADER: usize = 32;
        const FRAME: usize = 24 + 4096;
        const FILL: u8 = 0xA5;
        let last = self.wal.iter().rposition(|byte| *byte != FILL).expect("it was written to");
        HEADER + (last + 1 - HEADER).div_ceil(FRAME) * FRAME
    }

    pub(crate) fn lay_out(&self) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(dir.path().join("shipway.db"), &self.db).expect("writing the image");
        if !self.wal.is_empty() {
            std::fs::write(dir.path().join("shipway.db-wal"), &self.wal).expect("and its log");
        }
        dir
    }
}

/// What this machine cannot do is said; on the build machine it is an error.
pub(crate) fn cannot(what: &str) {
    assert!(std::env::var("CI").is_err(), "this must run in CI: {what}");
    eprintln!("skipped: {what}");
}

/// Runs one test of this binary in a process of its own; that test is marked `ignore`.
pub(crate) fn child(test: &str, home: &Path) -> std::process::Command {
    let this = std::env::current_exe().expect("the test binary has a path");
    let mut command = std::process::Command::new(this);
    command.args(["--ignored", "--exact", test, "--nocapture"]).env("JOURNAL_HOME", home);
    command
}

/// The home a child test was given; `None` when it was started by hand.
pub(crate) fn child_home() -> Option<std::path::PathBuf> {
    std::env::var_os("JOURNAL_HOME").map(Into::into)
}
