//! What it costs to bring one job back from history: as much as that job, however many others there
//! are. Memory, counted as it is taken: whoever copied the state would take all of it once more.
//!
//! One test in this file: the peak is that of the whole process.

use shipway_core::State;
use shipway_core::command::{Command, NewJob, Pick, Select, Submit};
use shipway_core::engine::step;
use shipway_model::{Actor, JobId, Role, Timestamp, UserName};

#[global_allocator]
static MEMORY: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

const OTHERS: u64 = 10_000;

fn ada() -> Actor {
    Actor::new(UserName::new("ada").expect("good"), Role::User)
}

fn apply(state: &mut State, command: &Command) {
    step(state, Timestamp(1), command).unwrap_or_else(|why| panic!("{command:?}: {why}"));
}

/// Submits a job with needs that no other has.
fn submit(state: &mut State, number: u64) -> JobId {
    let json = format!(r#"{{"command":["true"],"requirements":"Machine == \"node{number}\""}}"#);
    let (job, spec) = (state.next_job(), serde_json::from_str(&json).expect("a good job"));
    let submit = Submit::one(ada(), NewJob::new(job, spec));
    apply(state, &Command::Submit(Box::new(submit)));
    job
}

#[test]
fn a_job_comes_back_from_history_at_its_own_cost() {
    let mut state = State::default();
    let job = submit(&mut state, 0);
    let select = Select { by: ada(), jobs: vec![(job, Pick::All)] };
    apply(&mut state, &Command::Cancel(select.clone()));
    let revived = vec![state.record(job).expect("in memory")];
    apply(&mut state, &Command::Archive { jobs: vec![job] });
    let before = MEMORY.current_usage();
    for number in 1..=OTHERS {
        submit(&mut state, number);
    }
    let others = MEMORY.current_usage().saturating_sub(before);
    let retry = Command::Retry { select, revived };
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    apply(&mut state, &retry);
    let taken = MEMORY.peak_usage().saturating_sub(before);
    assert!(taken < others / 100, "{taken} bytes for one, {others} are taken by {OTHERS}");
    assert_eq!(state.job(job).expect("back").tasks.counts().waiting, 1);
}
