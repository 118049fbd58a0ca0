//! What the largest arrays cost: memory, counted as it is taken, not time. Whoever looks at ten
//! million tasks one by one makes a list of them somewhere.
//!
//! One test in this file: the peak is that of the whole process.

use shipway_core::command::{Command, NewJob, Pick, Select, Submit};
use shipway_core::engine::step;
use shipway_core::{Event, State};
use shipway_model::limits::MAX_TASKS;
use shipway_model::{Actor, JobId, Role, TaskState, Timestamp, UserName};

#[global_allocator]
static MEMORY: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

/// The bits of the table (2.5 MB, and 1.25 MB for what is cancelled), and room beside them.
const MOST: usize = 8 << 20;

fn ada() -> Actor {
    let user = UserName::new("ada").expect("good");
    Actor::new(user, Role::User)
}

fn select(job: JobId, pick: Pick) -> Select {
    Select { by: ada(), jobs: vec![(job, pick)] }
}

/// Does it, within the memory, and returns its events.
fn told(state: &mut State, what: &str, command: &Command) -> Vec<Event> {
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let done = step(state, Timestamp(1), command).unwrap_or_else(|why| panic!("{what}: {why}"));
    let taken = MEMORY.peak_usage().saturating_sub(before);
    assert!(taken <= MOST, "{what} took {taken} bytes");
    done.events.into_iter().map(|recorded| recorded.event).collect()
}

#[test]
fn acts_on_ten_million_tasks_are_acts_on_a_few_runs() {
    let mut state = State::default();
    let json = format!(r#"{{"command":["true"],"array":"1-{MAX_TASKS}"}}"#);
    let spec = serde_json::from_str(&json).expect("a good job");
    let job = JobId(1);
    let submit = Submit::one(ada(), NewJob::new(job, spec));
    told(&mut state, "submitting", &Command::Submit(Box::new(submit)));
    for round in 0..2 {
        let waiting = select(job, Pick::State(TaskState::Waiting));
        let events = told(&mut state, "cancelling what waits", &Command::Cancel(waiting));
        assert!(matches!(events.last(), Some(Event::JobEnded { .. })), "round {round}");
        let again = Command::Retry { select: select(job, Pick::All), revived: Vec::new() };
        told(&mut state, "retrying all", &again);
        told(&mut state, "cancelling all", &Command::Cancel(select(job, Pick::All)));
        let cancelled = select(job, Pick::State(TaskState::Cancelled));
        let again = Command::Retry { select: cancelled, revived: Vec::new() };
        let events = told(&mut state, "retrying what was cancelled", &again);
        let [Event::TasksRequeued { tasks, .. }] = events.as_slice() else {
            panic!("{events:?}");
        };
        assert_eq!(tasks.runs().count(), 1, "one pair of numbers in the journal");
    }
    let all = u32::try_from(MAX_TASKS).expect("fits");
    assert_eq!(state.job(job).expect("there").tasks.counts().waiting, all);
}
