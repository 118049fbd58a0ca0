//! What jobs need is kept once, no longer than somebody has it, and no user fills the memory with
//! it.

use super::*;
use crate::rejection::TooMany;
use crate::shape::{Gang, Shape};
use shipway_model::limits::MAX_UNFINISHED_BYTES;

/// Needs that no other job of this number has.
fn asks_for(node: usize) -> String {
    format!(r#"{{"requirements":"Machine == \"node{node}\""}}"#)
}

/// Submits and ends it, and lets it leave memory.
fn come_and_go(told: &mut Told, json: &str) {
    let job = told.submit(json);
    told.cancel(job, Pick::All);
    told.apply(Command::Archive { jobs: vec![job] });
}

#[test]
fn what_no_job_needs_any_more_leaves_memory() {
    let mut told = Told::default();
    told.join("p", 1, 0);
    let stays = told.submit(&asks_for(1_000));
    for node in 0..40 {
        come_and_go(&mut told, &asks_for(node));
        told.place();
    }
    let (kept, places) = told.state.shapes().len_and_places();
    assert!(kept <= 5 && places <= 6, "{kept} in {places}");
    let reasons = format!("{:?}", told.why(stays));
    assert!(reasons.contains("node1000"), "{reasons}");
}

#[test]
fn an_id_that_stands_for_other_needs_stands_for_nothing_of_the_old_ones() {
    let mut told = Told::default();
    told.join("p", 1, 0);
    let shape = |told: &Told, job| told.state.job(job).expect("there").shape;
    // Known to fit nowhere, and then forgotten.
    let mut ids = Vec::new();
    for node in 0..8 {
        let job = told.submit(&asks_for(node));
        ids.push(shape(&told, job));
        assert_eq!(told.place(), [], "there is no such node");
        told.cancel(job, Pick::All);
        told.apply(Command::Archive { jobs: vec![job] });
    }
    let fits = told.submit(r#"{"requirements":"Machine == \"p\" || Cpus >= 1"}"#);
    assert!(ids.contains(&shape(&told, fits)), "an id was given again");
    let placed: Vec<TaskId> = told.place().iter().map(|placement| placement.task).collect();
    assert_eq!(placed, [task(fits, 0)]);
}

#[test]
fn how_long_tasks_ran_is_remembered_for_the_next_of_the_same_needs() {
    let mut told = Told::default();
    told.join("p", 1, 0);
    let json = r#"{"resources":{"cpus":1},"rank":"Cpus"}"#;
    let job = told.submit(json);
    told.place();
    told.started("p", task(job, 0), 1);
    told.wait(500);
    told.ended("p", task(job, 0), 1, OK);
    told.apply(Command::Archive { jobs: vec![job] });
    let again = told.submit(json);
    let shape = told.state.job(again).expect("there").shape;
    assert_eq!(told.state.shapes().pace(shape).tasks, 1);
}

#[test]
fn needs_that_differ_from_job_to_job_have_a_limit() {
    let mut state = State::default();
    let mut count = 0;
    let long = "x".repeat(15_000);
    let refused = loop {
        let json = format!(r#"{{"requirements":"Machine == \"{long}{count}\""}}"#);
        let command = submission(state.next_job(), ada(), &json, None);
        match step(&mut state, Timestamp(1), &command) {
            Ok(_) => count += 1,
            Err(refused) => break refused,
        }
        assert!(count < 5_000, "any number of them was taken");
    };
    assert_eq!(refused, Rejection::TooMany(TooMany::Bytes(Role::User)));
    assert!(state.unfinished().of(&ada().user).bytes < MAX_UNFINISHED_BYTES + (1 << 20));
    // Others have their own part, and whoever asks for the same again takes nothing more.
    let bob = submission(state.next_job(), actor("bob", Role::User), "{}", None);
    step(&mut state, Timestamp(2), &bob).expect("bob has taken nothing");
}

#[test]
fn equal_needs_count_once_and_are_given_back() {
    let mut told = Told::default();
    let of_ada = |told: &Told| told.state.unfinished().of(&ada().user).bytes;
    let first = told.submit(&asks_for(1));
    let once = of_ada(&told);
    let second = told.submit(&asks_for(1));
    assert_eq!(of_ada(&told), once);
    told.cancel(first, Pick::All);
    assert_eq!(of_ada(&told), once);
    told.cancel(second, Pick::All);
    assert_eq!(of_ada(&told), 0);
    // Two ranges across one another are a thousand short ones.
    told.submit(r#"{"array":"0-4000:2,1-4001:4"}"#);
    assert!(of_ada(&told) > 10_000, "{}", of_ada(&told));
}

/// How many shapes there are, places for them here and with the scheduler, and terms.
fn kept(state: &State) -> [usize; 4] {
    let (shapes, places) = state.shapes().len_and_places();
    [shapes, places, state.planner().places(), state.terms.iter().count()]
}

#[test]
fn with_the_last_job_goes_all_that_was_kept_for_its_needs() {
    let mut told = Told::default();
    told.join("p", 1, 0);
    told.submit("{}");
    told.place();
    let before = kept(&told.state);
    assert_eq!(before, [1, 1, 1, 1]);
    let different = |n: usize| {
        format!(r#"{{"requirements":"Machine == \"node{n}\"","max_running":{}}}"#, n + 1)
    };
    let jobs: Vec<JobId> = (0..100).map(|n| told.submit(&different(n))).collect();
    told.place();
    assert_eq!(kept(&told.state), [101; 4]);
    for job in &jobs {
        told.cancel(*job, Pick::All);
    }
    // Some from the middle first: what stands behind them keeps its id.
    let (some, others) = jobs.split_at(50);
    told.apply(Command::Archive { jobs: some.to_vec() });
    assert_eq!(kept(&told.state), [51, 101, 101, 51]);
    told.apply(Command::Archive { jobs: others.to_vec() });
    assert_eq!(kept(&told.state), before);
}

#[test]
fn of_needs_without_a_job_those_that_ran_last_are_remembered() {
    let mut told = Told::default();
    told.join("p", 1, 0);
    let json = |n: u32| format!(r#"{{"resources":{{"cpus":1}},"rank":"Cpus + {n}"}}"#);
    for n in 0..10 {
        let job = told.submit(&json(n));
        told.place();
        told.started("p", task(job, 0), 1);
        told.ended("p", task(job, 0), 1, OK);
        told.apply(Command::Archive { jobs: vec![job] });
    }
    let is_known = |n: &u32| {
        let shape = Shape::of(&spec(&json(*n)), &ada().user, Gang::default());
        told.state.shapes().find(&shape).is_some()
    };
    assert_eq!((0..10).filter(is_known).collect::<Vec<_>>(), [7, 8, 9]);
}
