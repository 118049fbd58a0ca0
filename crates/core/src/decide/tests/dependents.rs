//! More jobs that wait for an end than one step tells of it.

use super::*;
use shipway_model::limits::MAX_TOLD_AT_ONCE;

const MANY: usize = 2 * MAX_TOLD_AT_ONCE + 500;

impl Told {
    /// Submits without a look at the whole state after each.
    fn submit_unchecked(&mut self, json: &str) {
        let command = submission(self.state.next_job(), ada(), json, None);
        let done = step(&mut self.state, Timestamp(self.now), &command).expect("taken");
        self.recorded.extend(done.events);
    }

    /// Tells the time for as long as the core asks to be told at once; how many jobs each step
    /// was about.
    fn tick_until_quiet(&mut self) -> Vec<usize> {
        let mut steps = Vec::new();
        while self.state.next_deadline().is_some_and(|due| due <= Timestamp(self.now)) {
            let events = self.apply(Command::Tick);
            assert!(!events.is_empty(), "a step without an end");
            steps.push(told_in(&events));
        }
        steps
    }

    fn in_state(&self, wanted: JobState) -> usize {
        self.state.jobs().iter().filter(|(_, job)| job.state() == wanted).count()
    }
}

fn told_in(events: &[Event]) -> usize {
    let is_told = |event: &&Event| {
        matches!(event, Event::TasksCancelled { .. } | Event::DependencyMet { .. })
    };
    events.iter().filter(is_told).count()
}

/// One job that this many wait for.
fn crowd(condition: &str) -> (Told, JobId) {
    let mut told = Told::default();
    told.join("p", 1, 0);
    let first = told.submit("{}");
    told.place();
    for _ in 0..MANY {
        told.submit_unchecked(&format!(r#"{{"after":["{first}:{condition}"]}}"#));
    }
    (told, first)
}

#[test]
fn a_crowd_is_told_in_steps_and_everybody_is() {
    for (condition, expected) in [("ok", JobState::Cancelled), ("failed", JobState::Waiting)] {
        let (mut told, first) = crowd(condition);
        let events = told.ended("p", task(first, 0), 1, FAILED);
        assert_eq!(told_in(&events), MAX_TOLD_AT_ONCE);
        assert_eq!(told.in_state(JobState::Held), MANY - MAX_TOLD_AT_ONCE);
        let rest = [MAX_TOLD_AT_ONCE, MANY - 2 * MAX_TOLD_AT_ONCE];
        assert_eq!(told.tick_until_quiet(), rest, "{condition}");
        assert_eq!(told.in_state(expected), MANY);
    }
}

#[test]
fn a_long_row_falls_in_steps() {
    let mut told = Told::default();
    told.join("p", 1, 0);
    let first = told.submit("{}");
    told.place();
    for before in first.0..first.0 + MANY as u64 {
        told.submit_unchecked(&format!(r#"{{"after":[{before}]}}"#));
    }
    let events = told.ended("p", task(first, 0), 1, FAILED);
    assert_eq!(told_in(&events), MAX_TOLD_AT_ONCE);
    let steps = told.tick_until_quiet();
    assert!(steps.iter().all(|told| *told <= MAX_TOLD_AT_ONCE + 1), "{steps:?}");
    assert_eq!(told.in_state(JobState::Cancelled), MANY);
}

#[test]
fn who_was_not_told_of_an_end_waits_for_the_next_one() {
    let (mut told, first) = crowd("ok");
    told.ended("p", task(first, 0), 1, FAILED);
    told.retry(first, Pick::All);
    assert_eq!(told.tick_until_quiet(), [0_usize; 0]);
    assert_eq!(told.in_state(JobState::Held), MANY - MAX_TOLD_AT_ONCE);
    told.place();
    told.ended("p", task(first, 0), 2, OK);
    told.tick_until_quiet();
    assert_eq!(told.in_state(JobState::Waiting), MANY - MAX_TOLD_AT_ONCE);
}

#[test]
fn whoever_comes_before_all_are_told_knows_the_end_at_once() {
    let (mut told, first) = crowd("ok");
    told.ended("p", task(first, 0), 1, FAILED);
    let late = told.submit(&format!(r#"{{"after":[{first}]}}"#));
    assert_eq!(told.job_state(late), JobState::Cancelled);
    let any = told.submit(&format!(r#"{{"after":["{first}:any"]}}"#));
    assert_eq!(told.job_state(any), JobState::Waiting);
    told.tick_until_quiet();
    assert_eq!(told.in_state(JobState::Held), 0);
}
