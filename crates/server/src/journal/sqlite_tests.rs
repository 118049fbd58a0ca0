//! What `reopen` finds on a disk that failed, and an opening of a journal that grew meanwhile:
//! cases that a process cannot bring about itself.

use super::super::HistoryRow;
use super::*;

fn job_row() -> HistoryRow {
    HistoryRow::JobSubmitted {
        job: 1,
        owner: "ada".into(),
        name: String::new(),
        labels: "{}".into(),
        spec: "{}".into(),
        tasks: 1,
        priority: 0,
        submitted_ms: 1,
    }
}

fn with_two_commits() -> (tempfile::TempDir, SqliteJournal, Tip) {
    let home = tempfile::tempdir().unwrap();
    let mut journal = SqliteJournal::open(home.path(), 0).unwrap();
    let events = [b"{}".to_vec(), b"[]".to_vec()].into_iter().collect();
    let batch = Commit { at_ms: 1, events: &events, rows: &[] };
    journal.append(&batch).unwrap();
    let first = journal.tip;
    journal.append(&Commit { rows: &[job_row()], ..batch }).unwrap();
    (home, journal, first)
}

#[test]
fn a_batch_that_was_never_confirmed_is_taken_out() {
    let (home, mut journal, first) = with_two_commits();
    // As if the second append had failed at its sync, and the kernel had written it all the same.
    journal.tip = first;
    journal.needs_reopen = true;
    journal.reopen().unwrap();
    // With its history row: were it still there, writing it again would be refused.
    let batch =
        Commit { at_ms: 1, events: &[b"7".to_vec()].into_iter().collect(), rows: &[job_row()] };
    assert_eq!(journal.append(&batch).unwrap().last, EventSeq(3));
    drop(journal);
    assert_eq!(SqliteJournal::open(home.path(), 0).unwrap().tip(), EventSeq(3));
}

#[test]
fn a_disk_that_lost_a_confirmed_commit_is_not_written_to() {
    let (home, mut journal, _) = with_two_commits();
    let other = Connection::open(home.path().join(DB_FILE)).unwrap();
    other.execute("DELETE FROM commits WHERE seq_first = 3", []).unwrap();
    assert!(matches!(journal.reopen(), Err(JournalError::Damaged { .. })));
    let batch = Commit { at_ms: 1, events: &[b"7".to_vec()].into_iter().collect(), rows: &[] };
    assert!(matches!(journal.append(&batch), Err(JournalError::NeedsReopen)));
}

/// Another server wrote between the look at the chain and the opening.
#[test]
fn no_epoch_is_taken_of_a_journal_that_has_grown() {
    let (_home, mut journal, first) = with_two_commits();
    let (own, tip) = (journal.epoch, journal.tip);
    assert_eq!(Epoch::take(&mut journal.conn, first).unwrap(), None);
    own.check(&journal.conn).unwrap();
    assert!(Epoch::take(&mut journal.conn, tip).unwrap() > Some(own));
    assert!(own.check(&journal.conn).is_err());
}
