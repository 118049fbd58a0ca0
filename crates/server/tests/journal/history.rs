//! The reading side, beside a writer that has the journal open.

use shipway_model::{JobId, Usage};
use shipway_server::journal::{
    Commit, EventSeq, EventsPage, HistoryReader, HistoryRow, JobFilter, Journal as _,
};
use shipway_shell::History as _;

use crate::support::{NOW, append, events, job, open};

/// Of the first job all that can be known, each another number; of others nothing.
fn used(job: u64) -> Option<Usage> {
    let sums = (job + 10..).map(Some).take(Usage::NAMES.len());
    (job == 1).then(|| Usage::of_values(sums))
}

fn attempt(job: u64, index: u64, attempt: u64) -> HistoryRow {
    HistoryRow::AttemptEnded {
        job,
        index,
        attempt,
        state: "failed".into(),
        outcome: "{\"exit\":1}".into(),
        node: Some("n1".into()),
        pilot: None,
        placed_ms: Some(NOW),
        started_ms: None,
        ended_ms: NOW + 9,
        ran_ms: 8,
        usage: used(job).map(Box::new),
        advice: used(job).map(|_| r#"{"kind":"gpu_errors","errors":1}"#.into()),
    }
}

fn end(job: u64, revision: u64, ok: u64) -> HistoryRow {
    HistoryRow::JobEnded {
        job,
        revision,
        state: "done".into(),
        ended_ms: NOW,
        ok,
        failed: 0,
        cancelled: 1,
        record: "{}".into(),
    }
}

fn filled() -> (tempfile::TempDir, shipway_server::journal::SqliteJournal, Box<dyn HistoryReader>) {
    let home = tempfile::tempdir().unwrap();
    let mut journal = open(home.path());
    let reader = journal.history().unwrap();
    let rows = [
        job(1, "ada", r#"{"team":"a","gpu":"yes"}"#),
        job(2, "bob", r#"{"team":"a"}"#),
        job(3, "ada", r#"{"team":"b"}"#),
        attempt(1, 0, 1),
        attempt(1, 0, 2),
        attempt(1, 2, 1),
        end(1, 1, 2),
        end(1, 2, 3),
    ];
    let batch = Commit { at_ms: NOW, events: &events(1, 4), rows: &rows };
    journal.append(&batch).unwrap();
    (home, journal, reader)
}

#[test]
fn jobs_are_found_by_what_they_are() {
    let (_home, _journal, reader) = filled();
    let ids = |filter: JobFilter| reader.job_ids(&filter).unwrap();
    let owner = || Some("ada".to_owned());
    let label = |k: &str, v: &str| (k.to_owned(), v.to_owned());
    assert_eq!(ids(JobFilter::default()), [3, 2, 1]);
    assert_eq!(ids(JobFilter { owner: owner(), ..Default::default() }), [3, 1]);
    assert_eq!(ids(JobFilter { before: Some(3), ..Default::default() }), [2, 1]);
    assert_eq!(ids(JobFilter { name: Some("name-0".into()), ..Default::default() }), [2]);
    let team = vec![label("team", "a")];
    assert_eq!(ids(JobFilter { labels: team.clone(), ..Default::default() }), [2, 1]);
    assert_eq!(ids(JobFilter { owner: owner(), labels: team, ..Default::default() }), [1]);
    let both = vec![label("team", "a"), label("gpu", "yes")];
    assert_eq!(ids(JobFilter { labels: both, ..Default::default() }), [1]);
    let page = reader.jobs(&JobFilter::default(), 2).unwrap();
    assert_eq!(page.iter().map(|row| row.job).collect::<Vec<_>>(), [3, 2]);
}

#[test]
fn a_job_tells_its_story() {
    let (_home, _journal, reader) = filled();
    let row = reader.try_clone().unwrap().job(1).unwrap().unwrap();
    assert_eq!((row.owner.as_str(), row.tasks, row.priority), ("ada", 3, -5));
    assert_eq!((row.seq, row.submitted_ms), (EventSeq(1), NOW + 1));
    let (owner, spec) = reader.spec(1).unwrap().unwrap();
    assert_eq!((&*owner, &*spec), ("ada", "{\"command\":[\"job-1\"]}"));
    assert_eq!(reader.last_end(1).unwrap().unwrap().ok, 3);
    let last = reader.last_end(1).unwrap().unwrap().state;
    assert_eq!(reader.last_state(JobId(1)).unwrap(), Some(last));
    let tasks = reader.job(1).unwrap().unwrap().tasks;
    assert_eq!(reader.tasks_of(1).unwrap(), Some(tasks));
    assert_eq!((reader.last_state(JobId(9)).unwrap(), reader.tasks_of(9).unwrap()), (None, None));
    assert_eq!((reader.job(9).unwrap(), reader.last_end(2).unwrap()), (None, None));
    let tries = |first, last| {
        let rows = reader.attempts_between(1, first, last).unwrap();
        rows.iter().map(|row| (row.index, row.attempt)).collect::<Vec<_>>()
    };
    assert_eq!(tries(0, 2), [(0, 1), (0, 2), (2, 1)]);
    assert_eq!(tries(0, 1), [(0, 1), (0, 2)]);
    assert_eq!(tries(1, 2), [(2, 1)]);
    let failed = reader.last_with(1, "failed").unwrap().unwrap();
    assert_eq!((failed.index, failed.attempt), (0, 2));
    assert_eq!(reader.last_with(1, "lost").unwrap(), None);
    let first = &reader.attempts_between(1, 0, 0).unwrap()[0];
    assert_eq!((first.placed_ms, first.started_ms, first.ended_ms), (Some(NOW), None, NOW + 9));
    assert_eq!((first.node.as_deref(), first.pilot.as_deref()), (Some("n1"), None));
    assert_eq!((first.usage.as_deref(), first.ran_ms), (used(1).as_ref(), Some(8)));
    assert!(first.advice.as_deref().unwrap().contains("gpu_errors"));
}

/// What a report asks: one question, by the names of the sums.
#[test]
fn sums_can_be_added_up_where_they_are_kept() {
    let (home, journal, _reader) = filled();
    drop(journal);
    let conn = rusqlite::Connection::open(home.path().join("shipway.db")).unwrap();
    let sql = "SELECT jobs.owner, sum(attempts.cpu_ms), sum(attempts.energy_mj), count(*)
               FROM attempts JOIN jobs USING (job) GROUP BY jobs.owner";
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let found: (String, Option<i64>, Option<i64>, i64) = conn.query_row(sql, [], row).unwrap();
    let one = used(1).unwrap();
    let three = |sum: Option<u64>| sum.map(|sum| 3 * sum.cast_signed());
    assert_eq!(found, ("ada".into(), three(one.cpu_ms), three(one.energy_mj), 3));
}

#[test]
fn a_live_view_resumes_within_a_commit() {
    let (_home, mut journal, reader) = filled();
    append(&mut journal, 3).unwrap();
    assert_eq!(reader.tip().unwrap(), EventSeq(7));
    for after in 0..=8 {
        let EventsPage::Events(page) = reader.events_after(EventSeq(after), 100).unwrap() else {
            panic!("nothing was pruned");
        };
        let expected: Vec<_> = (after + 1..=7).map(EventSeq).collect();
        assert_eq!(page.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), expected);
    }
}

/// Events can name a million tasks each: a page of a thousand of them would be gigabytes.
#[test]
fn a_page_of_large_events_ends_before_it_is_full_in_number() {
    let (_home, mut journal, reader) = filled();
    let before = reader.tip().unwrap();
    let large = format!("{{\"pad\":\"{}\"}}", "x".repeat(3 << 20)).into_bytes();
    let events = std::iter::repeat_n(large, 5).collect();
    journal.append(&Commit { at_ms: NOW, events: &events, rows: &[] }).unwrap();
    let (mut after, mut pages) = (before, Vec::new());
    loop {
        let EventsPage::Events(page) = reader.events_after(after, 1_000).unwrap() else {
            panic!("nothing was pruned");
        };
        let Some((last, _)) = page.last() else { break };
        after = *last;
        pages.push(page.len());
    }
    assert_eq!(pages, [2, 2, 1], "a page has 4 MiB and what its last event is beyond them");
    assert_eq!(after, EventSeq(before.0 + 5), "and no event is left out");
}

#[test]
fn the_owner_index_is_used() {
    let (home, _journal, _reader) = filled();
    let conn = rusqlite::Connection::open(home.path().join("shipway.db")).unwrap();
    let sql = "EXPLAIN QUERY PLAN SELECT job FROM jobs
               WHERE owner = 'ada' AND job < 3 ORDER BY job DESC LIMIT 5";
    let plan: String = conn.query_row(sql, [], |row| row.get(3)).unwrap();
    assert!(plan.contains("jobs_by_owner"), "{plan}");
}
