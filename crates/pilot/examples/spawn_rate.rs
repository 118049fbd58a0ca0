//! How fast the pool runs `true`, beside a bare loop of two threads that only spawn and wait.
//!
//! Usage: `cargo run --release --example spawn_rate [COUNT]`. A measurement for developers; it
//! asserts nothing about time.
#![allow(clippy::print_stdout, reason = "printing the two rates is all this program is for")]

use shipway_model::AttemptId;
use shipway_model::ids::{Attempt, JobId, TaskIndex};
use shipway_pilot::guard::become_subreaper;
use shipway_pilot::logs::Logs;
use shipway_pilot::spawn::{Pool, ProcessEvent, Request, Ticket, default_spawners};
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const DEFAULT_COUNT: u64 = 4000;
const BARE_THREADS: u64 = 2;
/// Requests in the pool at once, as on a node that is kept busy.
const IN_FLIGHT: u64 = 64;
const PROGRAM: &str = "/bin/true";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = std::env::args().nth(1).map_or(Ok(DEFAULT_COUNT), |text| text.parse())?;
    if std::env::args().nth(2).is_none_or(|only| only == "bare") {
        println!("bare posix_spawn, {BARE_THREADS} threads: {}/s", rate(count, bare(count)?));
    }
    if std::env::args().nth(2).is_none_or(|only| only == "pool") {
        let spawners = default_spawners();
        println!("pool, {spawners} spawners: {}/s", rate(count, pool(count, spawners)?));
    }
    Ok(())
}

fn rate(count: u64, took: Duration) -> u128 {
    u128::from(count) * 1000 / took.as_millis().max(1)
}

fn bare(count: u64) -> std::io::Result<Duration> {
    let clock = Instant::now();
    let threads: Vec<_> = (0..BARE_THREADS)
        .map(|_| {
            std::thread::spawn(move || {
                (0..count / BARE_THREADS)
                    .try_for_each(|_| Command::new(PROGRAM).spawn()?.wait().map(drop))
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("the loop does not panic")?;
    }
    Ok(clock.elapsed())
}

fn pool(count: u64, spawners: usize) -> Result<Duration, Box<dyn std::error::Error>> {
    become_subreaper()?;
    let dir = tempfile::tempdir()?;
    let (sender, events) = mpsc::channel();
    let logs = Logs::new(dir.path().to_owned());
    let sink = Arc::new(move |event| drop(sender.send(event)));
    let pool = Pool::new(spawners, "spawn-rate", logs, sink)?;
    let clock = Instant::now();
    let mut asked = 0;
    while asked < count.min(IN_FLIGHT) {
        pool.start(request(asked))?;
        asked += 1;
    }
    let mut ended = 0;
    while ended < count {
        match events.recv()? {
            ProcessEvent::Started { .. } => {}
            ProcessEvent::NotStarted { error, .. } => return Err(error.into()),
            ProcessEvent::Ended(_) => {
                ended += 1;
                if asked < count {
                    pool.start(request(asked))?;
                    asked += 1;
                }
            }
        }
    }
    Ok(clock.elapsed())
}

fn request(number: u64) -> Request {
    Request {
        ticket: Ticket(number),
        argv: vec![PROGRAM.into()],
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        cwd: "/tmp".into(),
        log: AttemptId { task: JobId(1).task(TaskIndex(number)), attempt: Attempt(1) },
        log_limit: 1024 * 1024,
        user: "ada".into(),
        container: None,
        before: None,
        stdin: None,
        one_stream: false,
        slot: None,
        ends_with_exit: true,
        weight: None,
    }
}
