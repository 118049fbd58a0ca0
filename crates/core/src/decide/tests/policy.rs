//! Who is served first, and where: fair share, waiting, best fit, reservations, backfill.

use super::*;
use crate::schedule::reserve::most;

pub(super) fn bob() -> Actor {
    actor("bob", Role::User)
}

impl Told {
    pub(super) fn submit_as(&mut self, by: Actor, json: &str) -> JobId {
        let job = self.state.next_job();
        self.apply(submission(job, by, json, None));
        job
    }

    /// Places once and lists who got what: the owners' initials, in order of placement.
    fn served(&mut self) -> String {
        let placed = self.place();
        let owner = |placement: &Placement| {
            let job = self.state.job(placement.task.job).expect("in memory");
            job.owner.as_str().chars().next().expect("a name")
        };
        placed.iter().map(owner).collect()
    }

    /// Everything that runs on this pilot ends well.
    fn all_end(&mut self, name: &str) {
        let placed = self.state.pilots()[&id(name)].placed.clone();
        for task in placed {
            let attempt = self.state.active()[&task].attempt.0;
            self.started(name, task, attempt);
            self.ended(name, task, attempt, OK);
        }
    }

    fn node_of(&self, job: JobId) -> &str {
        let active = self.state.active_of(job).next().expect("it runs").1;
        active.pilot.as_str()
    }
}

#[test]
fn users_who_start_alike_are_served_in_turn() {
    let mut told = Told::default();
    told.submit_as(ada(), r#"{"array":"1-100"}"#);
    told.submit_as(bob(), r#"{"array":"1-3"}"#);
    told.join("n1", 8, 0);
    let served = told.served();
    assert_eq!(served.matches('b').count(), 3, "{served}");
    assert_eq!(served.matches('a').count(), 5, "{served}");
}

#[test]
fn who_has_used_more_waits_until_the_past_has_faded() {
    let mut told = Told::default();
    told.join("n1", 2, 0);
    told.submit_as(ada(), r#"{"array":"1-2"}"#);
    told.served();
    told.now += 3_600_000;
    told.all_end("n1");
    told.submit_as(ada(), r#"{"array":"1-10"}"#);
    told.submit_as(bob(), r#"{"array":"1-10"}"#);
    assert_eq!(told.served(), "bb", "ada has used an hour, bob nothing");
    let later = told.why(JobId(2));
    assert!(later.contains(&Reason::OthersFirst { users: 1 }), "{later:?}");
    // Long after, neither has used anything to speak of; bob's two have run all the time.
    told.now += 100 * crate::usage::DEFAULT_HALF_LIFE.0;
    told.all_end("n1");
    assert_eq!(told.served(), "aa");
}

#[test]
fn a_share_is_a_share() {
    let mut told = Told::default();
    let admin = actor("root", Role::Admin);
    for user in ["ada", "bob"] {
        let user = UserName::new(user).expect("good");
        told.apply(Command::AddUser { by: admin.clone(), user, role: Role::User });
    }
    let user = UserName::new("ada").expect("good");
    told.apply(Command::SetShare { by: admin.clone(), user: user.clone(), share: 300 });
    assert_eq!(told.refused(Command::SetShare { by: ada(), user, share: 900 }), "not_allowed");
    told.submit_as(ada(), r#"{"array":"1-100"}"#);
    told.submit_as(bob(), r#"{"array":"1-100"}"#);
    told.join("n1", 8, 0);
    let served = told.served();
    assert_eq!(served.matches('a').count(), 6, "three of four: {served}");
}

#[test]
fn whoever_waits_long_enough_goes_before_a_higher_priority() {
    let mut told = Told::default();
    let old = told.submit(r#"{"priority":0}"#);
    told.now += 2 * shipway_model::limits::PRIORITY_IN_WAITING.0;
    let urgent = told.submit(r#"{"priority":3}"#);
    let newer = told.submit(r#"{"priority":1}"#);
    told.join("n1", 1, 0);
    let order: Vec<JobId> = (0..3)
        .map(|_| {
            let placed = told.place();
            told.all_end("n1");
            placed[0].task.job
        })
        .collect();
    assert_eq!(order, [urgent, old, newer]);
}

#[test]
fn devices_stay_together_for_those_who_need_many() {
    let mut told = Told::default();
    told.join("big", 64, 8);
    told.join("small", 64, 2);
    let one = told.submit(r#"{"resources":{"gpu":1}}"#);
    let plain = told.submit("{}");
    told.join("none", 2, 0);
    told.place();
    assert_eq!(told.node_of(one), "small", "the least node that will do");
    assert_eq!(told.node_of(plain), "none", "no devices for who needs none");
    let another = told.submit(r#"{"resources":{"gpu":1}}"#);
    told.place();
    assert_eq!(told.node_of(another), "small", "the fullest that fits");
    let all = told.submit(r#"{"resources":{"gpu":8}}"#);
    told.place();
    assert_eq!(told.node_of(all), "big");
}

/// A node of 4 GPUs of which 2 are in use until 1 hour from now, a request for all 4, and a stream
/// of requests for 1.
fn contested() -> (Told, JobId) {
    contested_by(actor("cleo", Role::User))
}

/// The same, with the 2 in use by somebody.
fn contested_by(user: Actor) -> (Told, JobId) {
    let mut told = Told::default();
    told.join("n1", 64, 4);
    told.submit_as(user, r#"{"array":"1-2","resources":{"gpu":1},"time_limit":"1h"}"#);
    told.place();
    for index in 1..=2 {
        told.started("n1", task(JobId(1), index), 1);
    }
    let large = told.submit(r#"{"resources":{"gpu":4},"time_limit":"2h"}"#);
    told.submit(r#"{"array":"1-100","resources":{"gpu":1},"time_limit":"3h"}"#);
    (told, large)
}

#[test]
fn a_large_request_is_not_starved_by_small_ones() {
    // Whoever is in the way: others, or tasks of the same user.
    for user in [bob(), ada()] {
        not_starved_behind(user);
    }
}

fn not_starved_behind(user: Actor) {
    let (mut told, large) = contested_by(user);
    assert_eq!(told.place(), [], "the free devices are kept");
    let held = told.state.planner().reservation_of(large).expect("a reservation").clone();
    let limit = held.latest.expect("what runs has time limits").since(Timestamp(told.now)).0;
    assert!((3_500_000..3_700_000).contains(&limit), "an hour and the grace after it: {limit}");
    let small = told.why(JobId(3));
    assert!(matches!(small[0], Reason::Kept { job, .. } if job == Some(large)), "{small:?}");
    told.all_end("n1");
    let placed = told.place();
    assert_eq!(placed.len(), 1);
    assert_eq!(placed[0].task.job, large, "it goes before those whose turn it would be");
    assert!(told.state.planner().reservation_of(large).is_none());
}

#[test]
fn what_is_over_in_time_may_go_before_a_reservation() {
    let (mut told, large) = contested();
    let quick = told.submit(r#"{"array":"1-5","resources":{"gpu":1},"time_limit":"20m"}"#);
    told.place();
    assert_eq!(told.counts(quick).active, 2, "it fits before the hour is over");
    assert_eq!(told.counts(JobId(3)).active, 0, "three hours do not");
    let beside = told.submit("{}");
    told.place();
    assert_eq!(told.counts(beside).active, 1, "cores are not what the large one waits for");
    let many = told.submit(r#"{"array":"1-9","resources":{"cpus":20}}"#);
    told.place();
    assert_eq!(told.counts(many).active, 2, "but some have to be left for it");
    assert!(told.state.planner().reservation_of(large).is_some());
}

#[test]
fn a_shorter_time_limit_is_offered_where_it_would_help() {
    let (mut told, _) = contested();
    told.place();
    let changes = |told: &Told, job| {
        let found = crate::explain::prospect(&told.state, job, Timestamp(told.now));
        found.expect("it waits").changes
    };
    let offered = changes(&told, JobId(3));
    let limit = offered[0].time_limit.expect("a time limit");
    assert_eq!(limit, Millis(58 * 60_000), "an hour and grace, less ours and a minute to type");
    let json = format!(r#"{{"resources":{{"gpu":1}},"time_limit":"{limit}"}}"#);
    told.now += 30_000;
    let quick = told.submit(&json);
    told.place();
    assert_eq!(told.counts(quick).active, 1, "what is offered works");
    // What the kind is known to exceed is no offer, nor is less than a minute.
    told.now += 58 * 60_000;
    assert_eq!(changes(&told, JobId(3)), []);
}

#[test]
fn a_reservation_ends_with_its_job_or_its_node() {
    let (mut told, large) = contested();
    told.place();
    told.cancel(large, Pick::All);
    told.place();
    assert_eq!(told.counts(JobId(3)).active, 2, "the devices are free for others again");

    let (mut told, large) = contested();
    told.place();
    told.join("n2", 64, 4);
    told.place();
    assert_eq!(told.node_of(large), "n2", "another node came that is free at once");
    assert_eq!(told.counts(JobId(3)).active, 2, "and the first is kept no longer");
}

#[test]
fn no_more_nodes_are_kept_than_the_limit_says() {
    let mut told = Told::default();
    for at in 0..10 {
        told.join(&format!("n{at}"), 64, 4);
        told.submit(r#"{"resources":{"gpu":1}}"#);
        told.place();
    }
    // One device in use on each of ten would need other orders of placing; fill them all instead.
    told.submit(r#"{"array":"1-29","resources":{"gpu":1}}"#);
    told.place();
    for at in 0..10 {
        told.submit(&format!(r#"{{"name":"j{at}","resources":{{"gpu":4,"cpus":{}}}}}"#, at + 1));
    }
    told.submit(r#"{"array":"1-9","resources":{"gpu":1}}"#);
    told.place();
    let kept = told.state.planner().reservations().len();
    assert!((1..=most(10)).contains(&kept), "{kept}");
}

#[test]
fn without_anybody_smaller_nothing_is_kept() {
    let mut told = Told::default();
    told.join("n1", 4, 0);
    told.submit(r#"{"array":"1-100"}"#);
    told.place();
    assert!(told.state.planner().reservations().is_empty());
}

#[test]
fn work_comes_when_a_node_has_room_and_only_then() {
    let mut told = Told::default();
    told.join("n1", 1, 0);
    told.join("n2", 2, 0);
    let big = told.submit(r#"{"array":"1-3","resources":{"cpus":2}}"#);
    let small = told.submit(r#"{"array":"1-3"}"#);
    told.place();
    assert_eq!((told.counts(big).active, told.counts(small).active), (1, 1));
    told.all_end("n1");
    told.place();
    assert_eq!((told.counts(big).active, told.counts(small).active), (1, 1));
    told.all_end("n2");
    told.place();
    assert_eq!((told.counts(big).active, told.counts(small).active), (1, 1));
}

#[test]
fn named_things_are_counted_too() {
    let mut told = Told::default();
    let mut joined = pilot("n1", 8, 0);
    joined.ad.capacity.named.insert("licences".into(), 3);
    told.apply(Command::PilotJoined(Box::new(joined)));
    let job = told.submit(r#"{"array":"1-5","resources":{"named":{"licences":2}}}"#);
    told.place();
    assert_eq!(told.counts(job).active, 1);
    told.all_end("n1");
    told.place();
    assert_eq!(told.counts(job).active, 1);
}

#[test]
fn what_was_found_to_fit_nowhere_is_not_passed_by_for_ever() {
    let mut told = Told::default();
    told.join("n1", 64, 2);
    told.submit(r#"{"resources":{"gpu":1},"time_limit":"1h"}"#);
    told.place();
    let large = told.submit(r#"{"resources":{"gpu":2}}"#);
    assert_eq!(told.place(), [], "looked at while nobody smaller was there");
    let small = told.submit(r#"{"array":"1-9","resources":{"gpu":1}}"#);
    assert_eq!(told.place(), [], "and kept when somebody came");
    assert!(told.state.planner().reservation_of(large).is_some());
    assert_eq!(told.counts(small).active, 0);
}

#[test]
fn a_task_without_a_limit_does_not_hold_up_everybody() {
    let mut told = Told::default();
    told.join("n1", 64, 2);
    told.submit(r#"{"resources":{"gpu":1}}"#);
    told.place();
    let large = told.submit(r#"{"resources":{"gpu":2}}"#);
    let small = told.submit(r#"{"array":"1-9","resources":{"gpu":1}}"#);
    told.place();
    assert_eq!(told.counts(small).active, 0, "kept at first");
    let due = told.state.next_deadline().expect("the core wants to be told").0;
    told.now = due;
    told.place();
    assert_eq!(told.counts(small).active, 1, "others have their turn");
    assert!(told.state.planner().reservation_of(large).is_none());
    let due = told.state.next_deadline().expect("and it may be kept again").0;
    told.now = due;
    let running = told.state.active_of(small).next().expect("one runs").0.index.0;
    told.ended("n1", task(small, running), 1, OK);
    told.place();
    assert!(told.state.planner().reservation_of(large).is_some());
}

#[test]
fn a_node_is_kept_from_those_behind_and_not_from_those_before() {
    let (mut told, large) = contested();
    told.submit(r#"{"resources":{"cpus":48}}"#);
    told.place();
    told.now += 60_000;
    told.place();
    assert!(told.state.planner().reservation_of(large).is_some());
    let first = told.submit_as(bob(), r#"{"array":"1-2","resources":{"gpu":1},"time_limit":"9h"}"#);
    told.place();
    assert_eq!(told.counts(first).active, 2, "bob has used nothing, ada many cores");
    assert_eq!(told.counts(JobId(3)).active, 0);
}

#[test]
fn a_share_may_sit_beside_another_on_a_node_that_is_kept() {
    let mut told = Told::default();
    told.join("n1", 64, 2);
    told.submit(r#"{"resources":{"gpu":{"share":"0.6"}}}"#);
    told.submit(r#"{"resources":{"memory":"12GB"},"time_limit":"1h"}"#);
    told.place();
    let large = told.submit(r#"{"resources":{"gpu":1,"memory":"8GB"}}"#);
    told.place();
    let shares = told.submit(r#"{"array":"1-2","resources":{"gpu":{"share":"0.4"}}}"#);
    let placed = told.place();
    assert!(told.state.planner().reservation_of(large).is_some());
    assert_eq!(placed.len(), 1, "the second would take the device that is waited for");
    assert_eq!(placed[0].task.job, shares);
    assert_eq!(placed[0].devices[0].as_str(), "n1-gpu0", "where the first share is");
}

#[test]
fn what_a_reservation_gives_counts_at_once() {
    let mut told = Told::default();
    told.join("n1", 64, 4);
    told.submit_as(bob(), "{}");
    told.place();
    told.now += 1_000_000;
    told.all_end("n1");
    let all = told.submit(r#"{"resources":{"cpus":64},"time_limit":"1h"}"#);
    told.place();
    let large = told.submit(r#"{"resources":{"gpu":4,"cpus":63}}"#);
    let own = told.submit("{}");
    let other = told.submit_as(bob(), "{}");
    told.place();
    assert!(told.state.planner().reservation_of(large).is_some());
    told.ended("n1", task(all, 0), 1, OK);
    told.place();
    let active = |job| told.counts(job).active;
    assert_eq!((active(large), active(own), active(other)), (1, 0, 1), "a core was left for one");
}
