//! Trying again: by the job's own policy, after a loss, and at a person's wish.

use super::*;
use shipway_model::limits::{MAX_LOST_ATTEMPTS, MAX_TASKS, MAX_UNFINISHED_TASKS};

const ONE: &str = r#"{"retries":{"limit":2,"delay":"10s"}}"#;

#[test]
fn a_failed_task_is_tried_again_after_a_wait_that_doubles_until_it_may_not() {
    let mut told = Told::default();
    told.join("p", 1, 0);
    let job = told.submit(ONE);
    for (attempt, wait) in [(1, 10_000), (2, 20_000)] {
        assert_eq!(told.place()[0].attempt, Attempt(attempt));
        told.ended("p", task(job, 0), attempt, FAILED);
        let due = told.now + wait;
        assert_eq!(told.state.next_deadline(), Some(Timestamp(due)));
        assert_eq!(told.place(), [], "not before");
        told.now = due - 2;
        assert_eq!(told.apply(Command::Tick), []);
        assert_eq!(told.apply(Command::Tick), [Event::TasksReady { tasks: vec![task(job, 0)] }]);
    }
    told.place();
    told.ended("p", task(job, 0), 3, FAILED);
    assert_eq!(told.job_state(job), JobState::Failed);
}

#[test]
fn only_the_ends_that_were_named_are_tried_again() {
    let mut told = Told::default();
    told.join("p", 1, 0);
    let job = told.submit(r#"{"retries":{"limit":5,"on":[75]}}"#);
    told.place();
    told.ended("p", task(job, 0), 1, FAILED);
    assert_eq!(told.job_state(job), JobState::Failed);
}

#[test]
fn a_lost_attempt_does_not_count_but_losing_it_for_ever_ends() {
    let mut told = Told::default();
    let job = told.submit("{}");
    for attempt in 1..=MAX_LOST_ATTEMPTS {
        told.join("p", 1, 0);
        told.wait(0);
        assert_eq!(told.place()[0].attempt, Attempt(attempt));
        told.apply(Command::PilotEnded { pilot: id("p") });
    }
    assert_eq!(told.job_state(job), JobState::Failed);
}

/// What a site takes back is no fault of the task: it has as many tries left as before.
#[test]
fn a_task_whose_node_was_taken_back_has_all_its_retries_left() {
    let mut told = Told::default();
    told.join("p", 1, 0);
    let job = told.submit(ONE);
    told.place();
    let taken = Outcome::Lost { why: Lost::SiteTookBack };
    let events = told.ended("p", task(job, 0), 1, taken);
    let Event::AttemptEnded(ended) = &events[0] else { panic!("{events:?}") };
    assert!(matches!(ended.verdict, Verdict::Retry { counted: false, .. }), "{ended:?}");
    told.wait(0);
    assert_eq!(told.place()[0].attempt, Attempt(2));
    let tries = told.state.job(job).expect("job").tasks.tries(shipway_model::Ordinal(0));
    assert_eq!((tries.failed, tries.lost), (0, 0), "nor is it one of ten losses");
}

#[test]
fn a_failure_between_losses_starts_their_count_anew() {
    let mut told = Told::default();
    told.join("p", 1, 0);
    let job = told.submit(ONE);
    told.place();
    told.ended("p", task(job, 0), 1, Outcome::Lost { why: Lost::LeaseRanOut });
    told.wait(0);
    told.place();
    let events = told.ended("p", task(job, 0), 2, FAILED);
    let Event::AttemptEnded(ended) = &events[0] else { panic!("{events:?}") };
    assert!(matches!(ended.verdict, Verdict::Retry { counted: true, .. }));
    let tries = told.state.job(job).expect("job").tasks.tries(shipway_model::Ordinal(0));
    assert_eq!((tries.placed, tries.failed, tries.lost), (2, 1, 0));
}

#[test]
fn a_person_may_retry_what_is_over_and_only_that() {
    let mut told = Told::default();
    told.join("p", 3, 0);
    let job = told.submit(r#"{"array":"1-3"}"#);
    told.place();
    told.ended("p", task(job, 1), 1, OK);
    told.ended("p", task(job, 2), 1, FAILED);
    told.retry(job, Pick::All);
    assert_eq!(told.counts(job).waiting, 1, "neither the succeeded nor the running one");
    let jobs = vec![(job, Pick::State(TaskState::Succeeded))];
    let select = Select { by: ada(), jobs };
    let again = Command::Retry { select, revived: Vec::new() };
    assert_eq!(told.refused(again), "nothing_to_do");
    told.ended("p", task(job, 3), 1, Outcome::Cancelled);
    assert_eq!(told.place()[0].attempt, Attempt(2));
    told.ended("p", task(job, 2), 2, OK);
    assert_eq!(told.job_state(job), JobState::Cancelled);
    told.retry(job, Pick::State(TaskState::Cancelled));
    assert_eq!(told.job_state(job), JobState::Running);
    assert_eq!(told.place()[0].attempt, Attempt(2), "the cancelled attempt had a number too");
}

#[test]
fn a_cancelled_back_off_leaves_nothing_to_wake_for() {
    let mut told = Told::default();
    told.join("p", 1, 0);
    let job = told.submit(ONE);
    told.place();
    told.ended("p", task(job, 0), 1, FAILED);
    told.cancel(job, Pick::All);
    assert_eq!(told.state.next_deadline(), None);
    assert_eq!(told.job_state(job), JobState::Cancelled);
    told.retry(job, Pick::All);
    assert_eq!(told.place()[0].attempt, Attempt(2));
}

/// As many tasks as one user may have are all that come back, be they of a few large arrays.
#[test]
fn a_retry_brings_back_no_more_tasks_than_a_user_may_have() {
    let (mut state, mut jobs) = (State::default(), Vec::new());
    for _ in 0..=MAX_UNFINISHED_TASKS / MAX_TASKS {
        let job = state.next_job();
        let array = format!(r#"{{"array":"1-{MAX_TASKS}"}}"#);
        step(&mut state, Timestamp(1), &submission(job, ada(), &array, None)).expect("taken");
        let cancel = Command::Cancel(Select { by: ada(), jobs: vec![(job, Pick::All)] });
        step(&mut state, Timestamp(1), &cancel).expect("taken");
        jobs.push((job, Pick::All));
    }
    let mut retry = |jobs: &[(JobId, Pick)]| {
        let select = Select { by: ada(), jobs: jobs.to_vec() };
        let command = Command::Retry { select, revived: Vec::new() };
        step(&mut state, Timestamp(2), &command).map(|_| ()).map_err(|refused| refused.code())
    };
    assert_eq!(retry(&jobs), Err("too_many"), "one more than there may be");
    assert_eq!(retry(&jobs[1..]), Ok(()));
    assert_eq!(retry(&jobs[..1]), Err("too_many"));
}
