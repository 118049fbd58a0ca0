//! Facts of the journal in HTCondor's words, in the order of its numbers.

use super::*;
use shipway_core::event::{EVENT_VERSION, Placement, Submitted};
use shipway_core::ordinals::Ordinals;
use shipway_core::shape::Gang;
use shipway_model::{JobState, Lost, Millis, NodeName, Ordinal, Usage, UserName};

const JOB: JobId = JobId(7);

struct Book(Arc<JobSpec>);

impl Known for Book {
    fn spec(&self, job: JobId) -> Option<Arc<JobSpec>> {
        (job == JOB).then(|| Arc::clone(&self.0))
    }
    fn address(&self) -> &'static str {
        "127.0.0.1:7447"
    }
}

struct Told {
    story: Story,
    book: Book,
}

impl Told {
    fn new(json: &str) -> (Told, Vec<String>) {
        let spec: JobSpec = serde_json::from_str(json).unwrap();
        let book = Book(Arc::new(spec.clone()));
        let mut told = Told { story: Story::default(), book };
        let owner = UserName::new("ada").unwrap();
        let (key, met) = (None, Vec::new());
        let new = Submitted { job: JOB, owner, spec, key, digest: 0, gang: Gang::default(), met };
        let said = told.say(Event::JobSubmitted(Box::new(new)));
        (told, said)
    }

    /// The numbers of what is said, each with its tasks; what is kept in between is read back.
    fn say(&mut self, event: Event) -> Vec<String> {
        let recorded = Recorded { v: EVENT_VERSION, at: Timestamp(5), event };
        let Heard { entries, left_out } = self.story.hear(&recorded, &self.book);
        assert!(left_out.is_empty(), "{left_out:?}");
        let kept = serde_json::to_string(&self.story).unwrap();
        self.story = serde_json::from_str(&kept).unwrap();
        let text = |entry: &Entry| format!("{:03} {:?}", entry.what.number(), entry.tasks);
        entries.iter().map(text).collect()
    }

    fn place(&mut self, index: u64, attempt: u32) {
        let task = JOB.task(TaskIndex(index));
        let placed = Placement { task, attempt: Attempt(attempt), devices: Vec::new() };
        let pilot = PilotId::new("p1").unwrap();
        let parts = vec![Part { pilot, tasks: vec![placed] }];
        assert!(self.say(Event::TasksPlaced { parts }).is_empty());
    }

    fn start(&mut self, index: u64, attempt: u32) -> Vec<String> {
        let task = (JOB.task(TaskIndex(index)), Attempt(attempt), Timestamp(6));
        self.say(Event::AttemptsStarted { tasks: vec![task] })
    }

    fn end(&mut self, index: u64, outcome: Outcome, verdict: Verdict) -> Vec<String> {
        let recorded = Told::ended(index, outcome, verdict, None);
        self.say(recorded.event)
    }

    fn ended(index: u64, outcome: Outcome, verdict: Verdict, usage: Option<Usage>) -> Recorded {
        let started = (!matches!(outcome, Outcome::NotStarted { .. })).then_some(Timestamp(6));
        let event = Event::AttemptEnded(Box::new(AttemptEnded {
            task: JOB.task(TaskIndex(index)),
            attempt: Attempt(1),
            pilot: PilotId::new("p1").unwrap(),
            node: NodeName::new("n1").unwrap(),
            placed: Timestamp(5),
            outcome,
            started,
            ended: Timestamp(7),
            ran: Millis(1),
            verdict,
            usage: usage.map(Box::new),
            advice: None,
        }));
        Recorded { v: EVENT_VERSION, at: Timestamp(5), event }
    }
}

const RETRY: Verdict = Verdict::Retry { at: Timestamp(9), counted: true };

#[test]
fn an_array_from_submission_to_its_end() {
    let (mut told, said) = Told::new(r#"{"command":["x"],"array":"10-14","event_log":"/l"}"#);
    assert_eq!(said, ["000 [(0, 4)]"]);
    told.place(10, 1);
    assert_eq!(told.start(10, 1), ["001 [(0, 0)]"]);
    assert!(told.start(10, 1).is_empty(), "a repeat says nothing new");
    assert_eq!(told.end(10, Outcome::Exit { code: 0 }, Verdict::Succeeded), ["005 [(0, 0)]"]);
    // One that ended at once is told of by its end alone.
    told.place(11, 1);
    let said = told.end(11, Outcome::Signal { signal: 9 }, Verdict::Failed);
    assert_eq!(said, ["001 [(1, 1)]", "005 [(1, 1)]"]);
    told.place(12, 1);
    let message = "no such program".to_string();
    let said = told.end(12, Outcome::NotStarted { message }, Verdict::Failed);
    assert_eq!(said, ["009 [(2, 2)]"]);
    // The rest is cancelled: one runs, one waits.
    told.place(13, 1);
    assert_eq!(told.start(13, 1), ["001 [(3, 3)]"]);
    let (which, why) = (Which::AllWaiting, CancelReason::Asked);
    assert_eq!(told.say(Event::TasksCancelled { job: JOB, which, why }), ["009 [(4, 4)]"]);
    let said = told.end(13, Outcome::Cancelled, Verdict::Cancelled);
    assert_eq!(said, ["004 [(3, 3)]", "009 [(3, 3)]"]);
    assert!(told.say(Event::JobEnded { job: JOB, state: JobState::Cancelled }).is_empty());
    assert!(told.story.jobs.is_empty());
    // A person has one of them run again.
    let tasks: Ordinals = [Ordinal(4)].into_iter().collect();
    assert_eq!(told.say(Event::TasksRequeued { job: JOB, tasks }), ["000 [(4, 4)]"]);
}

#[test]
fn tries_are_evictions_until_the_last() {
    let (mut told, _) = Told::new(r#"{"command":["x"],"event_log":"/l"}"#);
    told.place(0, 1);
    told.start(0, 1);
    assert_eq!(told.end(0, Outcome::Exit { code: 3 }, RETRY), ["004 [(0, 0)]"]);
    told.place(0, 2);
    told.start(0, 2);
    let lost = Outcome::Lost { why: Lost::PilotDied };
    assert_eq!(told.end(0, lost, RETRY), ["022 [(0, 0)]", "024 [(0, 0)]", "004 [(0, 0)]"]);
    told.place(0, 3);
    told.start(0, 3);
    let late = Outcome::TimedOut { limit: Millis(1_000) };
    assert_eq!(told.end(0, late, Verdict::Failed), ["004 [(0, 0)]", "009 [(0, 0)]"]);
}

#[test]
fn jobs_without_a_log_are_no_part_of_it() {
    let (mut told, said) = Told::new(r#"{"command":["x"]}"#);
    assert!(said.is_empty() && told.story.jobs.is_empty());
    told.place(0, 1);
    assert!(told.start(0, 1).is_empty());
    assert!(told.end(0, Outcome::Exit { code: 0 }, Verdict::Succeeded).is_empty());
}

#[test]
fn an_end_says_what_was_used() {
    let (mut told, _) = Told::new(r#"{"command":["x"],"event_log":"/l"}"#);
    told.place(0, 1);
    let usage = Usage {
        wall_ms: Some(10_000),
        cpu_ms: Some(5_000),
        memory: Some(1 << 20),
        gpus: Some(2),
        gpu_busy: Some(2_500),
        ..Usage::default()
    };
    let recorded = Told::ended(0, Outcome::Exit { code: 0 }, Verdict::Succeeded, Some(usage));
    let entries = told.story.hear(&recorded, &told.book).entries;
    let Some(What::Terminated { resources, .. }) = entries.last().map(|entry| &entry.what) else {
        panic!("{entries:?}");
    };
    let expected = Used {
        cpu_ms: Some(5_000),
        cpus_milli: Some(500),
        memory: Some(1 << 20),
        gpus_milli: Some(500),
    };
    assert_eq!(resources.used, expected);
}
