//! Measures the journal against the disk it stands on: raw synced appends of one page, commits of
//! one event, commits of a thousand. Ratios are what count; the disk sets the seconds.
//!
//! `cargo run --release -p shipway-server --example journal_rate -- [DIRECTORY]`

#![allow(clippy::print_stdout, reason = "a measuring tool prints what it measured")]

use std::error::Error;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use shipway_server::journal::{Commit, EventSeq, Journal as _, Lines, SqliteJournal};

/// Raw and journal take turns this often, so that both meet the same disk on a busy machine.
const TURNS: u32 = 16;
const TURN: Duration = Duration::from_millis(500);
/// What replaying is measured over.
const LARGE: u64 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let parent = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let dir = Path::new(&parent).join(format!("journal-rate-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let result = measure(&dir);
    // tidy: allow(recursive-removal) because the tree is our own
    std::fs::remove_dir_all(&dir)?;
    result
}

fn measure(dir: &Path) -> Result<(), Box<dyn Error>> {
    compare(dir, 1)?;
    compare(dir, 1_000)?;
    large(dir, 1_000)?;
    large(dir, 1)
}

/// Commits of `events` events, beside raw synced appends of as many bytes (a page at least).
fn compare(dir: &Path, events: u64) -> Result<(), Box<dyn Error>> {
    let events: Lines = (0..events).map(event).collect();
    let bytes = events.text().len().max(4096);
    let mut file = std::fs::File::create(dir.join("raw"))?;
    let mut journal = SqliteJournal::open(&dir.join(format!("home-{}", events.len())), 0)?;
    let block = vec![7; bytes];
    let (mut raw, mut commits) = (0, 0);
    for _ in 0..TURNS / 2 {
        raw += turn(|| {
            file.write_all(&block)?;
            Ok(file.sync_data()?)
        })?;
        commits += turn(|| {
            journal.append(&Commit { at_ms: 0, events: &events, rows: &[] })?;
            Ok(())
        })?;
    }
    let seconds = (TURN * TURNS / 2).as_secs();
    println!(
        "commits of {:>4} events {:>6}/s = {:>7} events/s; raw {:>3} KiB append + fdatasync \
         {:>6}/s; {}%",
        events.len(),
        commits / seconds,
        commits * events.len() as u64 / seconds,
        bytes >> 10,
        raw / seconds,
        commits * 100 / raw.max(1)
    );
    Ok(())
}

/// How often `act` can be done in one turn.
fn turn(mut act: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<u64, Box<dyn Error>> {
    let (since, mut count) = (Instant::now(), 0);
    while since.elapsed() < TURN {
        act()?;
        count += 1;
    }
    Ok(count)
}

/// About what a placement looks like as JSON.
fn event(n: u64) -> Vec<u8> {
    format!(
        "{{\"type\":\"task_placed\",\"job\":{n},\"index\":{n},\"attempt\":1,\"pilot\":\"p-17\",\
         \"devices\":[\"GPU-6f1c2a1e-7d55-4f0e-9c3a-0123456789ab\"],\"at\":1700000000000}}"
    )
    .into_bytes()
}

/// Opening verifies every kept commit; replaying reads them once more.
fn large(dir: &Path, batch: u64) -> Result<(), Box<dyn Error>> {
    let home = dir.join(format!("large-{batch}"));
    let mut journal = SqliteJournal::open(&home, 0)?;
    let events: Lines = (0..batch).map(event).collect();
    for _ in 0..LARGE.min(batch * 50_000) / batch {
        journal.append(&Commit { at_ms: 0, events: &events, rows: &[] })?;
    }
    let total = journal.tip();
    drop(journal);
    let since = Instant::now();
    let mut journal = SqliteJournal::open(&home, 0)?;
    let opened = since.elapsed();
    let (since, mut bytes) = (Instant::now(), 0);
    journal.replay(EventSeq(0), &mut |recorded| {
        bytes += recorded.body.len();
        ControlFlow::Continue(())
    })?;
    let replayed = since.elapsed();
    println!(
        "{total} events in commits of {batch}: opened and verified in {opened:.0?}, \
         replayed in {replayed:.0?} ({bytes} bytes)"
    );
    Ok(())
}
