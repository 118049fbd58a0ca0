//! What the server counts about itself, for `/metrics`.
//!
//! Counters are atomics, changed where things happen; gauges are read when somebody asks. Every
//! label has a fixed set of values: nothing that a user wrote is ever one.
//!
//! - `connections.rs` open ones, and their limit
//! - `histogram.rs` durations and sizes, in buckets
//! - `requests.rs`  HTTP requests by route
//! - `census.rs`    jobs, tasks and nodes: one question to the writer
//! - `process.rs`   this process, as the kernel sees it
//! - `used.rs`      what attempts have used
//! - `text.rs`      the exposition format
//!
//! Not here: who may ask (`http/metrics.rs`), and logs.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod census;
mod connections;
mod histogram;
mod process;
mod requests;
mod text;
mod used;

pub use census::Census;
pub use connections::{Connections, Left};
pub use requests::Requests;
pub use text::CONTENT_TYPE;

use crate::clock::wall;
use histogram::Histogram;
use shipway_core::Event;
use shipway_core::event::Recorded;
use shipway_model::{JobState, Lost, Outcome, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use text::{Kind, Text, decimal};
use used::Used;

/// Microseconds: from what memory takes to what a disk in trouble takes.
const COMMIT_BOUNDS: &[u64] =
    &[250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 500_000, 1_000_000];
/// Events: a lone command makes one to five; a batch is closed at 20,000.
const BATCH_BOUNDS: &[u64] = &[1, 2, 5, 10, 25, 100, 250, 1_000, 5_000, 20_000];

const OUTCOMES: [&str; 18] = [
    "success",
    "exit",
    "signal",
    "out_of_memory",
    "timed_out",
    "not_started",
    "cancelled",
    "outputs_failed",
    "lost_pilot_died",
    "lost_lease_ran_out",
    "lost_no_room",
    "lost_site_took_back",
    "lost_made_room",
    "lost_time_over",
    "lost_preempted",
    "lost_pilot_cancelled",
    "lost_node_failed",
    "lost_pilot_out_of_memory",
];
const ENDS: [&str; 3] = ["succeeded", "failed", "cancelled"];

/// Everything that is counted, shared by those who count and those who ask.
#[derive(Debug)]
pub struct Metrics {
    started: Timestamp,
    pub requests: Requests,
    pub connections: Arc<Connections>,
    accepted: AtomicU64,
    rejected: AtomicU64,
    events: AtomicU64,
    commit_seconds: Histogram,
    commit_events: Histogram,
    commit_failures: AtomicU64,
    last_commit_ms: AtomicU64,
    snapshots: AtomicU64,
    snapshot_micros: AtomicU64,
    snapshot_bytes: AtomicU64,
    submitted: AtomicU64,
    jobs_ended: [AtomicU64; ENDS.len()],
    attempts_ended: [AtomicU64; OUTCOMES.len()],
    used: Used,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            started: wall(),
            requests: Requests::default(),
            connections: Arc::default(),
            accepted: AtomicU64::default(),
            rejected: AtomicU64::default(),
            events: AtomicU64::default(),
            commit_seconds: Histogram::new(COMMIT_BOUNDS, 6),
            commit_events: Histogram::new(BATCH_BOUNDS, 0),
            commit_failures: AtomicU64::default(),
            last_commit_ms: AtomicU64::default(),
            snapshots: AtomicU64::default(),
            snapshot_micros: AtomicU64::default(),
            snapshot_bytes: AtomicU64::default(),
            submitted: AtomicU64::default(),
            jobs_ended: Default::default(),
            attempts_ended: Default::default(),
            used: Used::default(),
        }
    }
}

/// Counters stand alone: no other memory is ordered by them.
fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

impl Metrics {
    pub fn decided(&self, accepted: bool) {
        add(if accepted { &self.accepted } else { &self.rejected }, 1);
    }

    #[cfg(test)]
    pub fn decided_so_far(&self) -> u64 {
        read(&self.accepted) + read(&self.rejected)
    }

    /// One commit is on disk.
    pub fn committed(&self, events: usize, took: Duration) {
        add(&self.events, events as u64);
        self.commit_events.observe(events as u64);
        self.commit_seconds.observe(micros(took));
        self.last_commit_ms.store(wall().0, Ordering::Relaxed);
    }

    pub fn commit_failed(&self) {
        add(&self.commit_failures, 1);
    }

    pub fn snapshot(&self, bytes: usize, took: Duration) {
        add(&self.snapshots, 1);
        self.snapshot_bytes.store(bytes as u64, Ordering::Relaxed);
        self.snapshot_micros.store(micros(took), Ordering::Relaxed);
    }

    /// What the events of a commit mean to people.
    pub fn happened(&self, events: &[Recorded]) {
        for recorded in events {
            #[allow(clippy::wildcard_enum_match_arm, reason = "the others are not counted apart")]
            match &recorded.event {
                Event::JobSubmitted(_) => add(&self.submitted, 1),
                Event::JobEnded { state, .. } => {
                    if let Some(ended) = end(*state).and_then(|at| self.jobs_ended.get(at)) {
                        add(ended, 1);
                    }
                }
                Event::AttemptEnded(ended) => {
                    self.used.ended(ended);
                    if let Some(ended) = self.attempts_ended.get(kind(&ended.outcome)) {
                        add(ended, 1);
                    }
                }
                _ => {}
            }
        }
    }

    /// The whole page. Without a census (the writer does not answer) it lacks what only that knows.
    pub fn render(&self, journal_problem: bool, census: Option<&Census>) -> String {
        let mut text = Text::default();
        text.family("shipway_build_info", Kind::Gauge, "The version that runs; always 1.");
        text.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        if let Some(census) = census {
            census.write(&mut text);
        }
        self.write_journal(&mut text, journal_problem);
        self.write_ends(&mut text);
        self.used.write(&mut text);
        self.requests.write(&mut text);
        self.connections.write(&mut text);
        let help = "Mistakes in the server that cost one question or command each (panics).";
        text.single("shipway_panics_total", Kind::Counter, help, crate::panics::count());
        process::write(&mut text, self.started);
        text.finish()
    }

    fn write_journal(&self, text: &mut Text, problem: bool) {
        let problem_help = "1 while the journal cannot be written and nothing is accepted.";
        text.single("shipway_journal_problem", Kind::Gauge, problem_help, u64::from(problem));
        let help = "Commands decided, those that the server gives itself included.";
        text.family("shipway_commands_total", Kind::Counter, help);
        text.sample(&[("result", "accepted")], read(&self.accepted));
        text.sample(&[("result", "rejected")], read(&self.rejected));
        let events = read(&self.events);
        text.single("shipway_events_total", Kind::Counter, "Events written.", events);
        let help = "Time from handing a commit to the disk until it is there.";
        text.family("shipway_commit_duration_seconds", Kind::Histogram, help);
        self.commit_seconds.write(text, &[]);
        text.family("shipway_commit_events", Kind::Histogram, "Events of one commit.");
        self.commit_events.write(text, &[]);
        let failures = read(&self.commit_failures);
        let help = "Commits that the disk did not take.";
        text.single("shipway_commit_failures_total", Kind::Counter, help, failures);
        let last = decimal(read(&self.last_commit_ms), 3);
        let help = "When the last commit reached the disk; 0 before the first.";
        text.single("shipway_last_commit_timestamp_seconds", Kind::Gauge, help, last);
        let help = "Snapshots saved.";
        text.single("shipway_snapshots_total", Kind::Counter, help, read(&self.snapshots));
        let took = decimal(read(&self.snapshot_micros), 6);
        let help = "How long the last snapshot took.";
        text.single("shipway_snapshot_duration_seconds", Kind::Gauge, help, took);
        let bytes = read(&self.snapshot_bytes);
        text.single("shipway_snapshot_size_bytes", Kind::Gauge, "Size of the last one.", bytes);
    }

    fn write_ends(&self, text: &mut Text) {
        let submitted = read(&self.submitted);
        text.single("shipway_jobs_submitted_total", Kind::Counter, "Jobs accepted.", submitted);
        text.family("shipway_jobs_ended_total", Kind::Counter, "Jobs ended, by how.");
        for (state, count) in ENDS.iter().zip(&self.jobs_ended) {
            text.sample(&[("state", state)], read(count));
        }
        let help = "Attempts at tasks ended, by how.";
        text.family("shipway_attempts_ended_total", Kind::Counter, help);
        for (outcome, count) in OUTCOMES.iter().zip(&self.attempts_ended) {
            text.sample(&[("outcome", outcome)], read(count));
        }
    }
}

/// The place in `ENDS`.
fn end(state: JobState) -> Option<usize> {
    ENDS.iter().position(|end| *end == state.as_str())
}

/// The place in `OUTCOMES`.
fn kind(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Exit { code: 0 } => 0,
        Outcome::Exit { .. } => 1,
        Outcome::Signal { .. } => 2,
        Outcome::OutOfMemory { .. } => 3,
        Outcome::TimedOut { .. } => 4,
        Outcome::NotStarted { .. } => 5,
        Outcome::Cancelled => 6,
        Outcome::OutputsFailed { .. } => 7,
        Outcome::Lost { why: Lost::PilotDied } => 8,
        Outcome::Lost { why: Lost::LeaseRanOut } => 9,
        Outcome::Lost { why: Lost::NoRoom } => 10,
        Outcome::Lost { why: Lost::SiteTookBack } => 11,
        Outcome::Lost { why: Lost::MadeRoom } => 12,
        Outcome::Lost { why: Lost::TimeOver } => 13,
        Outcome::Lost { why: Lost::Preempted } => 14,
        Outcome::Lost { why: Lost::PilotCancelled } => 15,
        Outcome::Lost { why: Lost::NodeFailed } => 16,
        Outcome::Lost { why: Lost::PilotOutOfMemory } => 17,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_is_on_the_page() {
        let metrics = Metrics::default();
        metrics.decided(true);
        metrics.decided(false);
        metrics.committed(3, Duration::from_micros(700));
        metrics.snapshot(4_096, Duration::from_millis(12));
        metrics.requests.answered("/healthz", "GET", 200, Duration::from_millis(2));
        let page = metrics.render(true, Some(&Census::default()));
        for line in [
            "shipway_journal_problem 1",
            "shipway_commands_total{result=\"rejected\"} 1",
            "shipway_events_total 3",
            "shipway_commit_duration_seconds_bucket{le=\"0.0005\"} 0",
            "shipway_commit_duration_seconds_bucket{le=\"0.001\"} 1",
            "shipway_commit_duration_seconds_sum 0.0007",
            "shipway_commit_events_bucket{le=\"5\"} 1",
            "shipway_snapshot_duration_seconds 0.012",
            "shipway_http_requests_total{route=\"/healthz\",method=\"GET\",status=\"2xx\"} 1",
            "shipway_jobs{state=\"held\"} 0",
        ] {
            assert!(page.lines().any(|found| found == line), "no `{line}` in\n{page}");
        }
        assert!(!metrics.render(true, None).contains("shipway_jobs{"), "nobody knows");
    }

    /// By the names that history and the API have for them.
    #[test]
    fn each_kind_of_loss_has_its_own_count() {
        let labels = OUTCOMES.iter().filter_map(|label| label.strip_prefix("lost_"));
        let mut seen = 0;
        for name in labels {
            let why: Lost = serde_json::from_value(name.into()).expect(name);
            let at = kind(&Outcome::Lost { why });
            assert_eq!(OUTCOMES.get(at).copied(), Some(&*format!("lost_{name}")));
            seen += 1;
        }
        assert_eq!(seen, 10);
        let others = [
            (Outcome::Exit { code: 0 }, "success"),
            (Outcome::Exit { code: 3 }, "exit"),
            (Outcome::Signal { signal: 9 }, "signal"),
            (Outcome::Cancelled, "cancelled"),
            (Outcome::OutputsFailed { message: String::new() }, "outputs_failed"),
        ];
        for (outcome, label) in others {
            assert_eq!(OUTCOMES.get(kind(&outcome)), Some(&label));
        }
    }

    #[test]
    fn every_end_of_a_job_has_its_place() {
        let ends = JobState::ALL.iter().filter(|state| state.is_over());
        assert!(ends.clone().all(|state| end(*state).is_some()));
        assert_eq!(ends.count(), ENDS.len());
    }
}
