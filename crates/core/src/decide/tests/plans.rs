//! What is placed where, and what of a plan is refused once the world has moved on.

use super::*;
use crate::schedule::Plan;
use shipway_model::ConnectionNumber;
use shipway_model::limits::MAX_UNSTARTED;

#[test]
fn the_best_job_goes_first_and_a_shape_that_fits_nowhere_blocks_nobody() {
    let mut told = Told::default();
    let plain = told.submit("{}");
    let huge = told.submit(r#"{"priority":9,"resources":{"cpus":64}}"#);
    let urgent = told.submit(r#"{"priority":5}"#);
    told.join("p", 2, 0);
    let placed: Vec<_> = told.place().iter().map(|placement| placement.task.job).collect();
    assert_eq!(placed, [urgent, plain]);
    assert_eq!(told.job_state(huge), JobState::Waiting);
}

#[test]
fn a_stale_plan_is_refused_as_far_as_it_is_stale() {
    let mut told = Told::default();
    told.join("p", 2, 0);
    told.submit(r#"{"array":"1-2"}"#);
    let plan = schedule(&mut told.state, Timestamp(told.now));
    told.apply(Command::ApplyPlan(plan.clone()));
    assert_eq!(told.refused(Command::ApplyPlan(plan)), "stale_plan", "already done");

    let mut told = Told::default();
    told.join("p", 2, 0);
    let job = told.submit(r#"{"array":"1-2"}"#);
    let plan = schedule(&mut told.state, Timestamp(told.now));
    told.cancel(job, Pick::Tasks(vec![TaskIndex(1)]));
    told.apply(Command::ApplyPlan(plan.clone()));
    assert_eq!(told.counts(job).active, 1, "the cancelled one is left out");

    let mut told = Told::default();
    told.join("p", 2, 0);
    told.submit(r#"{"array":"1-2"}"#);
    told.apply(Command::PilotAway { pilot: id("p"), connection: ConnectionNumber(1) });
    assert_eq!(told.refused(Command::ApplyPlan(plan)), "stale_plan", "nobody there");
}

#[test]
fn a_plan_cannot_overfill_a_node_a_job_or_itself() {
    let mut told = Told::default();
    told.join("p", 2, 0);
    told.join("q", 9, 0);
    let job = told.submit(r#"{"array":"1-9","max_running":3}"#);
    let place =
        |index: u64| Placement { task: task(job, index), attempt: Attempt(1), devices: Vec::new() };
    let placements =
        [(id("p"), (1..=4).map(place).collect()), (id("q"), (1..=9).map(place).collect())];
    let plan = Plan::from_iter(placements);
    told.apply(Command::ApplyPlan(plan));
    assert_eq!(told.state.pilots()[&id("p")].placed.len(), 2, "two cores");
    assert_eq!(told.counts(job).active, 3, "three at once");
    let unknown = Placement { attempt: Attempt(7), ..place(8) };
    let plan = Plan::from_iter([(id("q"), vec![unknown])]);
    assert_eq!(told.refused(Command::ApplyPlan(plan)), "stale_plan", "another attempt");
}

#[test]
fn a_plan_names_devices_that_are_free_or_none_at_all() {
    let mut told = Told::default();
    told.join("p", 8, 2);
    let first = told.submit(r#"{"resources":{"gpu":1}}"#);
    told.place();
    let second = told.submit(r#"{"resources":{"gpu":1}}"#);
    let with = |devices: &[&str]| {
        let devices = devices.iter().map(|name| DeviceId::new(name).expect("good")).collect();
        let placement = Placement { task: task(second, 0), attempt: Attempt(1), devices };
        Command::ApplyPlan(Plan::from_iter([(id("p"), vec![placement])]))
    };
    let taken = told.state.active()[&task(first, 0)].devices[0].clone();
    assert_eq!(told.refused(with(&[taken.as_str()])), "stale_plan", "in use");
    assert_eq!(told.refused(with(&[])), "stale_plan", "none");
    assert_eq!(told.refused(with(&["p-gpu0", "p-gpu1"])), "stale_plan", "too many");
    assert_eq!(told.refused(with(&["elsewhere"])), "stale_plan", "not there");
    told.apply(with(&["p-gpu1"]));
}

#[test]
fn whole_devices_and_shares_are_given_out_exactly() {
    let mut told = Told::default();
    told.join("p", 64, 2);
    let shares = told.submit(r#"{"array":"1-4","resources":{"gpu":{"share":"0.25"}}}"#);
    let devices: Vec<_> = told.place().into_iter().flat_map(|p| p.devices).collect();
    assert!(devices.iter().all(|device| device.as_str() == "p-gpu0"), "one is filled first");
    let whole = told.submit(r#"{"resources":{"gpu":1}}"#);
    assert_eq!(told.place()[0].devices[0].as_str(), "p-gpu1");
    let pair = told.submit(r#"{"resources":{"gpu":2}}"#);
    assert_eq!(told.place(), []);
    for index in 1..=4 {
        told.ended("p", task(shares, index), 1, OK);
    }
    assert_eq!(told.place(), [], "one is not two");
    told.ended("p", task(whole, 0), 1, OK);
    assert_eq!(told.place()[0].devices.len(), 2);
    assert_eq!(told.job_state(pair), JobState::Running);
}

#[test]
fn short_tasks_are_sent_ahead_and_long_ones_are_not() {
    let mut told = Told::default();
    told.join("p", 1, 0);
    let job = told.submit(r#"{"array":"1-100"}"#);
    assert_eq!(told.place().len(), 1, "nothing is known of its pace yet");
    let quick = Ended { ran: Millis(2), ..end(told.now, OK) };
    told.report("p", vec![ended(task(job, 1), 1, quick)]);
    let ahead = told.place().len();
    assert!((2..100).contains(&ahead), "{ahead}");
    assert_eq!(told.state.pilots()[&id("p")].unstarted as usize, ahead);
}

#[test]
fn a_node_with_room_for_everything_is_given_more_as_it_starts_what_it_has() {
    let mut told = Told::default();
    told.join("p", 1_000_000, 0);
    let job = told.submit(r#"{"array":"1-3000"}"#);
    assert_eq!(told.place().len(), MAX_UNSTARTED as usize);
    told.started("p", task(job, 1), 1);
    told.started("p", task(job, 2), 1);
    assert_eq!(told.place().len(), 2);
    told.join("q", 1_000_000, 0);
    assert_eq!(told.place().len(), MAX_UNSTARTED as usize, "another node has its own");
}

#[test]
fn whoever_planned_as_much_as_goes_at_once_is_to_go_on_at_once() {
    let mut told = Told::default();
    for nth in 0..5 {
        told.join(&format!("p{nth}"), 1_000_000, 0);
    }
    told.submit(r#"{"array":"1-10000"}"#);
    let first = schedule(&mut told.state, Timestamp(told.now));
    assert!(first.more && first.len() < 5 * MAX_UNSTARTED as usize, "{}", first.len());
    told.apply(Command::ApplyPlan(first));
    assert_eq!(told.state.next_deadline(), Some(told.state.at()), "somebody comes back to it");
    assert!(!told.place().is_empty());
    assert_ne!(told.state.next_deadline(), Some(told.state.at()));
}
