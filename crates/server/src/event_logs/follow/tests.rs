//! Mistakes over one job: its own log misses what they cost, and the others have everything.

use super::*;
use crate::documents::HomeFiles;
use crate::journal::{Commit, HomeJournal, Journal as _};
use shipway_core::event::{EVENT_VERSION, Event as Fact, Submitted};
use shipway_core::shape::Gang;
use shipway_model::{Attempt, UserName};

/// Over this job every look fails.
const STRUCK: JobId = JobId(1);
/// The log of this one cannot be appended to.
const NOT_APPENDED: JobId = JobId(2);
const FINE: JobId = JobId(3);

struct Book(BTreeMap<JobId, Arc<JobSpec>>);

impl Known for Book {
    fn spec(&self, job: JobId) -> Option<Arc<JobSpec>> {
        assert_ne!(job, STRUCK, "on purpose");
        self.0.get(&job).cloned()
    }
    fn address(&self) -> &'static str {
        "127.0.0.1:7447"
    }
}

fn spec(folder: &Path, log: &str) -> JobSpec {
    let json = serde_json::json!({ "command": ["true"], "event_log": log, "basedir": folder });
    serde_json::from_value(json).unwrap()
}

fn submitted(job: JobId, spec: &JobSpec) -> Fact {
    let owner = UserName::new("ada").unwrap();
    let spec = spec.clone();
    let (key, met) = (None, Vec::new());
    let new = Submitted { job, owner, spec, key, digest: 0, gang: Gang::default(), met };
    Fact::JobSubmitted(Box::new(new))
}

fn body(event: Fact) -> Vec<u8> {
    serde_json::to_vec(&Recorded { v: EVENT_VERSION, at: Timestamp(5), event }).unwrap()
}

/// One that reads these events, for the first time.
fn follower(home: &Path, specs: BTreeMap<JobId, Arc<JobSpec>>, events: Vec<Fact>) -> Follower {
    let mut journal = HomeJournal::open(home, 0).unwrap();
    let tip = journal.tip();
    let events = events.into_iter().map(body).collect();
    journal.append(&Commit { at_ms: 1, events: &events, rows: &[] }).unwrap();
    let documents = HomeFiles { home: home.into(), tenure: Arc::new(journal.tenure().unwrap()) };
    Follower {
        documents: Arc::new(documents),
        places: Places::default(),
        kept: Kept::after(tip),
        reader: journal.history().unwrap(),
        library: Box::new(Book(specs)),
        pilots: Arc::default(),
        shared: Arc::default(),
        repeat_until: tip.0,
        there: BTreeMap::new(),
        noted: Instant::now(),
    }
}

#[test]
fn a_mistake_over_one_jobs_event_costs_that_event_in_its_own_log() {
    let (home, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = logs.path().canonicalize().unwrap();
    let names = [(STRUCK, "struck"), (NOT_APPENDED, "panics_when_appended"), (FINE, "fine")];
    let specs = names.map(|(job, log)| (job, spec(&folder, log)));
    let mut events: Vec<Fact> = specs.iter().map(|(job, spec)| submitted(*job, spec)).collect();
    let parts = ["p1"].map(|pilot| shipway_core::event::Part {
        pilot: shipway_model::PilotId::new(pilot).unwrap(),
        tasks: names.map(|(job, _)| placement(job)).into(),
    });
    events.push(Fact::TasksPlaced { parts: parts.into() });
    let started = names.map(|(job, _)| (job.task(TaskIndex(0)), Attempt(1), Timestamp(6)));
    events.push(Fact::AttemptsStarted { tasks: started.into() });
    let specs = specs.into_iter().map(|(job, spec)| (job, Arc::new(spec))).collect();
    let mut follower = follower(home.path(), specs, events);
    let tip = follower.reader.tip().unwrap();
    assert!(follower.read_on().unwrap());
    assert_eq!(follower.kept.story.seq, tip.0, "none of it is read again");
    assert!(!follower.read_on().unwrap());

    let text = std::fs::read_to_string(folder.join("fine")).unwrap();
    let heads: Vec<&str> = text.lines().filter(|line| line.contains("(003.")).collect();
    assert!(heads[0].starts_with("000 ") && heads[1].starts_with("001 "), "{text}");
    assert!(!folder.join("struck").exists());
    let problem = follower.shared.problems().get(&NOT_APPENDED).cloned().unwrap();
    assert!(problem.contains("a mistake in the server"), "{problem}");
}

fn placement(job: JobId) -> shipway_core::event::Placement {
    let task = job.task(TaskIndex(0));
    shipway_core::event::Placement { task, attempt: Attempt(1), devices: Vec::new() }
}
