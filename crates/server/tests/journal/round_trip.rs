//! What goes in comes out: events, snapshots, pruning.

use shipway_server::journal::{Commit, EventSeq, EventsPage, Journal, JournalError, KEPT_EVENTS};

use crate::support::{NOW, append, check_events, event, events, open};

#[test]
fn events_come_back_in_order() {
    let home = tempfile::tempdir().unwrap();
    let mut journal = open(home.path());
    assert_eq!(journal.tip(), EventSeq(0));
    for count in [1, 5, 1, 40] {
        append(&mut journal, count).unwrap();
    }
    drop(journal);
    let mut journal = open(home.path());
    assert_eq!(journal.notes(), []);
    assert_eq!(check_events(&mut journal, 0).unwrap(), 47);
    assert_eq!(check_events(&mut journal, 46).unwrap(), 47);
    append(&mut journal, 2).unwrap();
    assert_eq!(check_events(&mut journal, 3).unwrap(), 49);
}

#[test]
fn what_cannot_be_kept_is_refused_and_harmless() {
    let home = tempfile::tempdir().unwrap();
    let mut journal = open(home.path());
    for bad in [vec![], vec![b"{\n}".to_vec()], vec![vec![0xff]]] {
        let bad = bad.into_iter().collect();
        let batch = Commit { at_ms: NOW, events: &bad, rows: &[] };
        assert!(matches!(journal.append(&batch), Err(JournalError::Refused { .. })));
    }
    append(&mut journal, 1).unwrap();
    let again = [crate::support::job(1, "ada", "{}")];
    let batch = Commit { at_ms: NOW, events: &events(2, 1), rows: &again };
    assert!(matches!(journal.append(&batch), Err(JournalError::DuplicateRow(_))));
    append(&mut journal, 1).unwrap();
    assert_eq!(check_events(&mut journal, 0).unwrap(), 2);
}

#[test]
fn the_newest_two_snapshots_are_kept() {
    let home = tempfile::tempdir().unwrap();
    let mut journal = open(home.path());
    assert_eq!(journal.load_snapshot().unwrap(), None);
    append(&mut journal, 10).unwrap();
    assert!(journal.save_snapshot(EventSeq(11), b"future").is_err());
    for seq in [3, 6, 9] {
        journal.save_snapshot(EventSeq(seq), format!("state {seq}").as_bytes()).unwrap();
    }
    drop(journal);
    let snapshot = open(home.path()).load_snapshot().unwrap().unwrap();
    assert_eq!((snapshot.seq, snapshot.body), (EventSeq(9), b"state 9".to_vec()));
    let conn = rusqlite::Connection::open(home.path().join("shipway.db")).unwrap();
    let kept: i64 = conn.query_row("SELECT min(seq) FROM snapshots", [], |r| r.get(0)).unwrap();
    assert_eq!(kept, 6);
}

#[test]
fn pruning_keeps_what_restarts_and_live_views_need() {
    let home = tempfile::tempdir().unwrap();
    let mut journal = open(home.path());
    let reader = journal.history().unwrap();
    for _ in 0..60 {
        append(&mut journal, 1_000).unwrap();
    }
    journal.save_snapshot(EventSeq(59_500), b"one").unwrap();
    assert_eq!(journal.prune().unwrap(), 0, "one snapshot is not enough to forget");
    journal.save_snapshot(EventSeq(60_000), b"two").unwrap();
    assert_eq!(journal.prune().unwrap(), 60_000 - KEPT_EVENTS);
    assert_eq!(journal.prune().unwrap(), 0);

    let gone = reader.events_after(EventSeq(5), 10).unwrap();
    assert_eq!(gone, EventsPage::Pruned { first_kept: EventSeq(10_001) });
    let EventsPage::Events(page) = reader.events_after(EventSeq(10_000), 3).unwrap() else {
        panic!("kept events were called pruned");
    };
    let expected: Vec<_> = (10_001..10_004).map(|seq| (EventSeq(seq), event(seq))).collect();
    assert_eq!(page, expected);

    drop((journal, reader));
    let mut journal = open(home.path());
    assert_eq!(check_events(&mut journal, 10_000).unwrap(), 60_000);
    assert!(journal.replay(EventSeq(9), &mut |_| std::ops::ControlFlow::Continue(())).is_err());
    append(&mut journal, 1).unwrap();
}

#[test]
fn pruning_stops_at_the_older_snapshot() {
    let home = tempfile::tempdir().unwrap();
    let mut journal = open(home.path());
    for _ in 0..60 {
        append(&mut journal, 1_000).unwrap();
    }
    journal.save_snapshot(EventSeq(2_500), b"one").unwrap();
    journal.save_snapshot(EventSeq(60_000), b"two").unwrap();
    assert_eq!(journal.prune().unwrap(), 2_000, "whole commits before event 2500");
    assert_eq!(check_events(&mut journal, 2_500).unwrap(), 60_000);
}
