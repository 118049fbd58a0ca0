//! What one user cannot do with nodes that are kept: hold them against others by tasks of their
//! own, by time limits beyond all measure, or by requests that differ a little.

use super::policy::bob;
use super::*;
use crate::explain::{explain_need, prospect};
use crate::job::Terms;
use crate::schedule::reserve::KEPT_WITHOUT_LIMIT;

const GPU: &str = r#"{"resources":{"gpu":1}}"#;
const GPUS: &str = r#"{"array":"1-9","resources":{"gpu":1}}"#;
const ALL: &str = r#"{"resources":{"gpu":4}}"#;

fn cleo() -> Actor {
    actor("cleo", Role::User)
}

/// A node of 4 GPUs, of which this user has one with this time limit. Bob and cleo use many cores
/// there: they stand behind ada, cleo last.
fn begun(user: Actor, limit: &str) -> Told {
    let mut told = Told::default();
    told.join("n1", 512, 4);
    told.submit_as(bob(), r#"{"resources":{"cpus":100}}"#);
    told.submit_as(cleo(), r#"{"resources":{"cpus":200}}"#);
    told.submit_as(user, &format!(r#"{{"resources":{{"gpu":1}}{limit}}}"#));
    assert_eq!(told.place().len(), 3);
    told
}

const HOUR: &str = r#","time_limit":"1h""#;

fn active(told: &Told, job: JobId) -> u32 {
    told.counts(job).active
}

/// Whether a node is kept for this job, and whether only from its own user's tasks.
fn kept(told: &Told, job: JobId) -> Option<bool> {
    told.state.planner().reservation_of(job).map(|held| held.behind_own)
}

/// Goes on to when the core wants to be told, and places.
fn go_on(told: &mut Told) {
    told.now = told.state.next_deadline().expect("the core wants to be told").0;
    told.place();
}

#[test]
fn a_node_is_kept_from_nobody_else_behind_ones_own_tasks() {
    let mut told = begun(ada(), HOUR);
    let large = told.submit(ALL);
    let own = told.submit(GPUS);
    let other = told.submit_as(bob(), GPUS);
    told.place();
    assert_eq!(kept(&told, large), Some(true));
    assert_eq!(
        (active(&told, own), active(&told, other)),
        (0, 3),
        "the same shape, and behind her"
    );
    // The same where only the node with more room is looked at.
    let ended = *told.state.active_of(other).next().expect("one runs").0;
    told.ended("n1", ended, 1, OK);
    told.place();
    assert_eq!((active(&told, own), active(&told, other)), (0, 3));
    let last = told.submit_as(cleo(), GPU);
    told.cancel(JobId(3), Pick::All);
    told.ended("n1", task(JobId(3), 0), 1, OK);
    told.place();
    assert_eq!((active(&told, other), active(&told, last)), (4, 0), "in turn, as without it");
}

#[test]
fn who_waits_again_finds_room_that_is_kept_from_another() {
    let mut told = begun(ada(), HOUR);
    let large = told.submit(ALL);
    let own = told.submit(GPUS);
    let other = told.submit_as(bob(), r#"{"resources":{"gpu":1},"retries":1}"#);
    told.place();
    assert_eq!((active(&told, own), active(&told, other)), (0, 1));
    told.ended("n1", task(other, 0), 1, FAILED);
    told.place();
    assert_eq!((active(&told, own), active(&told, other)), (0, 0));
    told.now = told.state.next_deadline().expect("a retry").0;
    told.wait(0);
    told.place();
    assert_eq!(kept(&told, large), Some(true));
    assert_eq!(active(&told, other), 1, "what is known of this shape is known of ada's only");
}

#[test]
fn what_is_said_of_it_is_true_for_each_user() {
    let mut told = begun(ada(), HOUR);
    let large = told.submit(ALL);
    let own = told.submit(GPU);
    told.place();
    let shape = told.state.shapes().get(told.state.job(own).expect("known").shape).clone();
    let now = Timestamp(told.now);
    let is_kept =
        |reason: &Reason| matches!(reason, Reason::Kept { job, .. } if *job == Some(large));
    let of = |user: Actor| explain_need(&told.state, &shape, (&user.user, &Terms::default()), now);
    assert!(of(ada()).iter().all(is_kept) && told.why(own).iter().any(is_kept));
    assert_eq!(of(bob()), []);
    let place = prospect(&told.state, large, now).expect("it waits").place.expect("in line");
    let held = place.held.expect("kept");
    assert!(held.behind_own && held.latest.is_some());
    // In one list, jobs of several users.
    let other = told.submit_as(bob(), GPU);
    let mut explainer = crate::explain::Explainer::new(&told.state, now);
    assert!(explainer.reasons(own).iter().any(is_kept));
    assert!(!explainer.reasons(other).iter().any(is_kept));
}

#[test]
fn it_becomes_an_ordinary_one_when_others_are_in_the_way() {
    let mut told = begun(ada(), HOUR);
    let large = told.submit(ALL);
    let own = told.submit(GPUS);
    told.submit_as(bob(), r#"{"resources":{"gpu":1},"time_limit":"2h"}"#);
    told.place();
    assert_eq!(kept(&told, large), Some(true));
    let due = told.state.next_deadline().expect("looked at again").0;
    assert!((1..=KEPT_WITHOUT_LIMIT.0).contains(&(due - told.now)), "{due}");
    go_on(&mut told);
    assert_eq!(kept(&told, large), Some(false), "bob's leaves last");
    let last = told.submit_as(cleo(), GPU);
    told.place();
    assert_eq!((active(&told, own), active(&told, last)), (0, 0));
    assert_eq!(kept(&told, large), Some(false));
}

#[test]
fn ones_own_task_without_a_limit_does_not_hold_up_ones_others_for_ever() {
    let mut told = begun(ada(), "");
    let large = told.submit(ALL);
    let own = told.submit(GPU);
    told.place();
    assert_eq!((kept(&told, large), active(&told, own)), (Some(true), 0));
    go_on(&mut told);
    assert_eq!((kept(&told, large), active(&told, own)), (None, 1));
}

#[test]
fn of_tasks_that_end_together_ones_own_leave_last() {
    // Ada's was there before bob's; neither has a time limit.
    let mut told = begun(ada(), "");
    told.submit_as(bob(), GPU);
    told.place();
    let large = told.submit(ALL);
    let other = told.submit_as(cleo(), GPUS);
    told.place();
    assert_eq!((kept(&told, large), active(&told, other)), (Some(true), 2));
}

#[test]
fn what_came_in_the_same_pass_counts_from_the_next_one_on() {
    let mut told = Told::default();
    told.join("n1", 512, 4);
    told.submit_as(bob(), r#"{"resources":{"cpus":100}}"#);
    told.place();
    told.submit(r#"{"priority":9,"resources":{"gpu":1},"time_limit":"1h"}"#);
    let large = told.submit(ALL);
    let other = told.submit_as(bob(), GPUS);
    told.place();
    assert_eq!((kept(&told, large), active(&told, other)), (Some(true), 3));
}

#[test]
fn a_node_kept_from_ones_own_tasks_can_be_kept_for_another() {
    let mut told = begun(ada(), HOUR);
    let adas = told.submit(ALL);
    let bobs = told.submit_as(bob(), r#"{"resources":{"gpu":4,"cpus":2}}"#);
    let small = told.submit_as(cleo(), GPUS);
    told.place();
    assert_eq!((kept(&told, adas), kept(&told, bobs)), (Some(true), Some(false)));
    assert_eq!(active(&told, small), 0, "bob's is behind a task of ada's");
    told.ended("n1", task(JobId(3), 0), 1, OK);
    told.place();
    assert_eq!((active(&told, adas), active(&told, bobs)), (0, 1));
}

#[test]
fn a_time_limit_that_is_far_away_is_as_good_as_none() {
    let mut told = begun(bob(), r#","time_limit":"100d""#);
    let large = told.submit(ALL);
    let small = told.submit_as(cleo(), GPU);
    told.place();
    assert_eq!((kept(&told, large), active(&told, small)), (Some(false), 0));
    assert_eq!(told.state.planner().reservation_of(large).expect("kept").latest, None);
    go_on(&mut told);
    assert_eq!((kept(&told, large), active(&told, small)), (None, 1), "others have their turn");
}

#[test]
fn a_request_that_differs_a_little_gets_no_node_while_its_user_rests() {
    let mut told = begun(bob(), "");
    let large = told.submit(r#"{"resources":{"gpu":4,"memory":1000000000}}"#);
    let small = told.submit_as(cleo(), GPU);
    told.place();
    assert_eq!((kept(&told, large), active(&told, small)), (Some(false), 0));
    let another = told.submit(r#"{"resources":{"gpu":4,"memory":1000000001}}"#);
    go_on(&mut told);
    assert_eq!((kept(&told, large), kept(&told, another)), (None, None));
    assert_eq!(active(&told, small), 1, "others have their turn");
    // Another user does not rest with her.
    told.now += 1_000;
    let other = told.submit_as(cleo(), ALL);
    told.submit_as(cleo(), GPUS);
    told.place();
    assert_eq!(kept(&told, other), Some(true));
    let rest = told.state.next_deadline().expect("ada may have one again").0;
    told.now = rest.max(told.now + KEPT_WITHOUT_LIMIT.0);
    told.place();
    assert!(kept(&told, large).is_some() || kept(&told, another).is_some());
}

#[test]
fn who_takes_a_request_back_for_another_one_rests_as_soon() {
    let mut told = begun(bob(), "");
    let first = told.submit(ALL);
    let small = told.submit_as(cleo(), GPU);
    told.place();
    assert_eq!((kept(&told, first), active(&told, small)), (Some(false), 0));
    told.now += KEPT_WITHOUT_LIMIT.0 * 7 / 10;
    let second = told.submit(ALL);
    told.cancel(first, Pick::All);
    told.place();
    assert_eq!((kept(&told, second), active(&told, small)), (Some(false), 0));
    told.now += KEPT_WITHOUT_LIMIT.0 * 4 / 10;
    told.place();
    assert_eq!((kept(&told, second), active(&told, small)), (None, 1), "others have their turn");
}

#[test]
fn it_is_looked_at_again_where_nothing_else_is_to_be_done() {
    let mut told = begun(ada(), HOUR);
    let large = told.submit(ALL);
    let other = told.submit_as(bob(), GPUS);
    told.place();
    assert_eq!((kept(&told, large), active(&told, other)), (Some(true), 3), "nothing is free");
    go_on(&mut told);
    assert_eq!(kept(&told, large), Some(false), "bob's have no time limit");
    assert!(told.state.next_deadline().expect("given up then").0 > told.now);
}

#[test]
fn for_the_next_task_of_an_array_a_node_is_chosen_anew() {
    let mut told = begun(ada(), HOUR);
    let large = told.submit(r#"{"array":"1-2","resources":{"gpu":4},"time_limit":"10m"}"#);
    told.submit(GPUS);
    told.place();
    let latest = |told: &Told| {
        let held = told.state.planner().reservation_of(large).expect("kept");
        held.latest.expect("known").since(Timestamp(told.now)).0 / 60_000
    };
    assert_eq!(latest(&told), 60);
    told.join("n2", 64, 4);
    told.place();
    assert_eq!((active(&told, large), latest(&told)), (1, 10), "where the first one is");
}

#[test]
fn short_tasks_of_others_are_sent_ahead_to_a_node_kept_from_ones_own() {
    let mut told = Told::default();
    told.join("n1", 20, 0);
    let own = told.submit(r#"{"array":"1-99","max_running":1}"#);
    told.submit("{}");
    told.submit_as(bob(), r#"{"resources":{"cpus":10}}"#);
    told.place();
    let other = told.submit_as(bob(), r#"{"array":"1-99"}"#);
    assert_eq!(told.place().len(), 8, "nothing is free");
    let large = told.submit(r#"{"resources":{"cpus":20}}"#);
    told.place();
    assert_eq!(kept(&told, large), Some(true));
    let both = [own, other].map(|job| {
        let quick = Ended { ran: Millis(2), ..end(told.now, OK) };
        ended(task(job, 1), 1, quick)
    });
    told.report("n1", both.to_vec());
    told.place();
    assert_eq!(active(&told, own), 0);
    assert!(active(&told, other) > 9, "more than there are cores: {}", active(&told, other));
}
