//! What brings pilots, and what brings none: tasks that none could run, pilots that stand idle, a
//! full queue, and one user's requirements that take long.

use super::sites::described;
use super::*;
use crate::broker::{Known, look};

impl Told {
    fn asks_with(&self, known: &mut Known) -> Vec<(String, u32)> {
        let look = look(&self.state, Timestamp(self.now)).expect("there are sites");
        let asks = look.propose_with(known).asks.into_iter();
        asks.map(|ask| (ask.class, ask.count)).collect()
    }
}

#[test]
fn no_pilot_is_asked_for_what_it_could_not_run() {
    let mut told = Told::with_site();
    told.submit(r#"{"requirements":"Name == \"nosuch\""}"#);
    told.submit(r#"{"requirements":"Machine == \"n7\"","resources":{"gpu":1}}"#);
    assert_eq!(told.asks(), []);
    told.submit(r#"{"requirements":"Machine != \"n7\""}"#);
    assert_eq!(told.asks(), [("cpu".into(), 1)]);
}

/// What is not known before a pilot comes may keep a task from all of them.
#[test]
fn a_pilot_that_stands_idle_brings_no_other() {
    let mut told = Told::with_site();
    let job = told.submit(r#"{"requirements":"Name == \"expected\""}"#);
    let names = told.broker();
    assert_eq!(names.len(), 1);
    told.comes(&names[0], 4, 0);
    assert_eq!(told.place(), []);
    assert_eq!(told.asks(), [], "it would do no better");
    told.submit(r#"{"resources":{"cpus":4}}"#);
    assert_eq!(told.place().len(), 1);
    assert_eq!(told.asks(), [("cpu".into(), 1)], "now it has something to do");
    told.cancel(job, Pick::All);
    assert_eq!(told.asks(), []);
}

#[test]
fn a_full_queue_of_one_class_leaves_a_place_for_another() {
    let mut told = Told { no_token_of_itself: true, ..Told::default() };
    let mut spec = described("");
    spec.limits.pending = 3;
    told.apply(Command::AddSite { by: actor("root", Role::Admin), spec: Box::new(spec) });
    told.submit(r#"{"array":"1-9","resources":{"gpu":1}}"#);
    assert_eq!(told.asks(), [("a100".into(), 2)], "one of three is the other's");
    told.broker();
    told.now += 3_600_000;
    told.submit("{}");
    assert_eq!(told.asks(), [("cpu".into(), 1)]);
}

#[test]
fn requirements_that_take_long_keep_nobody_elses_pilots_waiting() {
    let mut told = Told::with_site();
    let links: Vec<String> =
        (0..12).map(|at| format!("a{at}=a{next}+a{next};", next = at + 1)).collect();
    let chain = links.concat();
    for number in 0..400 {
        let requirements = format!("[{chain}a12={number}].a0 < 0");
        told.submit(&format!(r#"{{"requirements":"{requirements}"}}"#));
    }
    told.apply(submission(told.state.next_job(), actor("bob", Role::User), "{}", None));
    let mut known = Known::default();
    assert_eq!(told.asks_with(&mut known), [("cpu".into(), 1)], "bob's");
    assert!(known.is_behind(), "there is more than one look works out");
    let looks = (0..100).take_while(|_| {
        assert_eq!(told.asks_with(&mut known), [("cpu".into(), 1)]);
        known.is_behind()
    });
    assert!(looks.count() < 99, "what was found out is kept");
}

/// What is kept has an end (small in tests), and each user's first shapes are in it.
#[test]
fn thousands_of_one_users_shapes_leave_room_for_anothers() {
    let mut told = Told::with_site();
    for number in 0..800 {
        told.submit(&format!(r#"{{"resources":{{"cpus":1,"memory":"{}MB"}}}}"#, 100 + number));
    }
    let mut known = Known::default();
    let before = told.asks_with(&mut known);
    assert_eq!(before.len(), 1, "those fit one class: {before:?}");
    let bobs = r#"{"resources":{"gpu":1}}"#;
    told.apply(submission(told.state.next_job(), actor("bob", Role::User), bobs, None));
    let asks = told.asks_with(&mut known);
    assert!(asks.iter().any(|(class, _)| class == "a100"), "{asks:?}");
}
