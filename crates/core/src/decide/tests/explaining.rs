//! Why a job waits, in every way it can.

use super::sites::described;
use super::*;
use crate::explain::{prospect, prospect_of_new};
use shipway_model::{Condition, ConnectionNumber, Quantity, Reason, Withheld};

#[test]
fn every_wait_has_its_reason() {
    let mut told = Told::default();
    let job = told.submit("{}");
    assert_eq!(told.why(job), [Reason::NoNodes]);
    told.join("p", 1, 0);
    assert_eq!(told.why(job), [Reason::Next]);
    told.place();
    assert_eq!(told.why(job), [], "nothing of it waits");
    let second = told.submit(r#"{"priority":-1}"#);
    let behind = told.submit(r#"{"priority":-2}"#);
    let [Reason::Busy { nodes: 1, wanted, found, .. }] = &told.why(second)[..] else {
        panic!("{:?}", told.why(second));
    };
    let cpus = |amount| Quantity::Cpus { amount: Cores::whole(amount) };
    assert_eq!((wanted, found), (&cpus(1), &cpus(0)));
    assert!(told.why(behind).contains(&Reason::Behind { jobs: 1 }));
    told.apply(Command::PilotAway { pilot: id("p"), connection: ConnectionNumber(1) });
    assert!(told.why(second).contains(&Reason::NodesAway { nodes: 1 }));
}

#[test]
fn a_request_beyond_every_node_says_so_for_each_class() {
    let mut told = Told::default();
    told.join("a", 1, 0);
    told.join("b", 1, 0);
    told.join("c", 8, 1);
    let job = told.submit(r#"{"resources":{"gpu":2}}"#);
    let reasons = told.why(job);
    assert_eq!(reasons.len(), 2, "two of the three nodes are alike: {reasons:?}");
    assert!(reasons.iter().all(Reason::is_hopeless), "{reasons:?}");
}

#[test]
fn jobs_that_can_never_start_are_not_in_the_way() {
    let mut told = Told::default();
    told.join("p", 1, 0);
    told.submit("{}");
    told.place();
    told.submit(r#"{"priority":5,"resources":{"cpus":2}}"#);
    told.submit(r#"{"priority":5,"resources":{"gpu":1}}"#);
    let job = told.submit("{}");
    let [Reason::Busy { .. }] = &told.why(job)[..] else { panic!("{:?}", told.why(job)) };
    let now = Timestamp(told.now);
    let place = prospect(&told.state, job, now).expect("it waits").place.expect("in line");
    assert_eq!((place.own_before, place.users_before), (0, 0));
    let shape = told.state.shapes().get(told.state.job(job).expect("known").shape).clone();
    let new = prospect_of_new(&told.state, &shape, &ada().user, now).place.expect("in line");
    assert_eq!(new.own_before, 1, "the one that could run");
    // A user who wants nothing but the impossible is not served first.
    told.now += 3_600_000;
    let lin = actor("lin", Role::User);
    let next = told.state.next_job();
    told.apply(submission(next, lin.clone(), r#"{"resources":{"gpu":1}}"#, None));
    assert!(!told.why(job).iter().any(|why| matches!(why, Reason::OthersFirst { .. })));
    let next = told.state.next_job();
    told.apply(submission(next, lin, "{}", None));
    assert!(told.why(job).contains(&Reason::OthersFirst { users: 1 }), "{:?}", told.why(job));
    told.apply(Command::PilotAway { pilot: id("p"), connection: ConnectionNumber(1) });
    assert!(told.why(job).contains(&Reason::Behind { jobs: 2 }), "with no node nobody can tell");
}

#[test]
fn waiting_by_its_own_rules_is_said_too() {
    let mut told = Told::default();
    told.join("p", 9, 0);
    let job = told.submit(r#"{"array":"1-2","max_running":1,"retries":1}"#);
    told.place();
    assert_eq!(told.why(job), [Reason::MaxRunning { limit: 1 }]);
    told.ended("p", task(job, 1), 1, FAILED);
    assert!(matches!(told.why(job)[0], Reason::BackOff { tasks: 1, .. }));
    let held = told.submit(r#"{"after":["1:any"]}"#);
    let state = JobState::Waiting;
    let reason = Reason::AfterJob { job, condition: Condition::Any, state };
    assert_eq!(told.why(held), [reason]);
}

#[test]
fn a_node_that_failed_its_proof_takes_nothing_and_is_named() {
    let mut told = Told::default();
    let mut unfit = pilot("p", 4, 0);
    unfit.ad.unfit = vec!["/scratch cannot be written".into()];
    told.apply(Command::PilotJoined(Box::new(unfit.clone())));
    let job = told.submit("{}");
    assert_eq!(told.place(), []);
    let why = "/scratch cannot be written".to_owned();
    let expected = Reason::Unfit { node: unfit.ad.node.clone(), why };
    assert_eq!(told.why(job), std::slice::from_ref(&expected));
    assert!(expected.is_hopeless(), "somebody has to mend it");
    unfit.ad.unfit.clear();
    unfit.connection = ConnectionNumber(2);
    told.apply(Command::PilotJoined(Box::new(unfit)));
    assert_eq!(told.place().len(), 1, "mended");
}

#[test]
fn a_gpu_that_is_not_offered_is_named_to_those_who_want_one() {
    let mut told = Told::default();
    let mut joined = pilot("p", 4, 1);
    let gpu = joined.ad.gpus.remove(0);
    let held = |why: Option<&str>| Withheld {
        gpu: gpu.clone(),
        name: "GPU 0".into(),
        why: why.map(ToOwned::to_owned),
    };
    joined.ad.withheld = vec![held(None)];
    told.apply(Command::PilotJoined(Box::new(joined.clone())));
    let plain = told.submit("{}");
    assert_eq!(told.why(plain), [Reason::Next]);
    let job = told.submit(r#"{"resources":{"gpu":1}}"#);
    let other = told.submit(r#"{"resources":{"gpu":"NoSuchModel"}}"#);
    let withheld = |told: &Told, job| {
        let is_it = |reason: &Reason| matches!(reason, Reason::Withheld { .. });
        told.why(job).into_iter().find(is_it)
    };
    let being_proven = withheld(&told, job).expect("named");
    assert!(!being_proven.is_hopeless(), "{being_proven}");
    assert_eq!(withheld(&told, other), None);
    joined.ad.withheld = vec![held(Some("cuInit: CUDA_ERROR_UNKNOWN (999)"))];
    joined.connection = ConnectionNumber(2);
    told.apply(Command::PilotJoined(Box::new(joined)));
    let failed = withheld(&told, job).expect("named");
    assert!(failed.is_hopeless());
    let sentence = "GPU 0 of node p failed its proof: cuInit: CUDA_ERROR_UNKNOWN (999)";
    assert_eq!(failed.to_string(), sentence);
}

#[test]
fn explaining_does_not_ask_every_node_once_more() {
    use crate::requirements::counted::ASKED;
    let mut told = Told::default();
    for name in ["a", "b", "c", "d"] {
        told.join(name, 1, 0);
    }
    for requirements in ["Memory < 0", "Machine == \\\"z\\\""] {
        let job = told.submit(&format!(r#"{{"requirements":"{requirements}"}}"#));
        told.place();
        // What a pass has not asked of a node is asked once.
        told.why(job);
        ASKED.with(|asked| asked.set(0));
        let (state, now) = (&told.state, Timestamp(told.now));
        assert!(matches!(explain(state, job, now)[..], [Reason::Requires { .. }]));
        assert!(prospect(state, job, now).is_some_and(|found| !found.classes.is_empty()));
        assert_eq!(ASKED.with(std::cell::Cell::get), 0, "{requirements}");
    }
}

#[test]
fn a_rank_that_takes_long_is_not_tried_on_every_kind_of_node() {
    use crate::requirements::counted::STEPS;
    let mut told = Told::default();
    for cpus in 1..=10 {
        told.join(&format!("n{cpus}"), cpus, 0);
    }
    // No number for any of them, and each attribute asks the one before it twice.
    let attributes = (1..17).map(|at| format!("a{at}=a{0}+a{0};", at - 1));
    let rank = format!("[a0=TARGET.Cpus;{}].a16 > 0 ? {{}} : 1", attributes.collect::<String>());
    let json = format!(r#"{{"rank":"{rank}"}}"#);
    let mut command = submission(told.state.next_job(), ada(), &json, None);
    // However many jobs of a request have one.
    if let Command::Submit(submit) = &mut command {
        submit.jobs.extend((2..20).map(|job| NewJob::new(JobId(job), spec(&json))));
    }
    let _ = told.try_tell(&command);
    let steps = STEPS.with(std::cell::Cell::get);
    assert!(steps > 50_000, "{steps} steps: the rank is not as costly as this test wants it");
    assert!(steps <= 350_000, "{steps} steps");
}

/// As many kinds of pilots, for whoever `more` says, each of another size.
fn site_of_kinds(kinds: usize, more: &str) -> Command {
    let mut spec = described(more);
    let example = spec.classes.pop().expect("of cpus");
    let of_size = |cpus: usize| {
        let name = format!("c{cpus}");
        shipway_model::SiteClass { name, cpus: Cores::whole(cpus as u64), ..example.clone() }
    };
    spec.classes = (1..=kinds).map(of_size).collect();
    Command::AddSite { by: actor("root", Role::Admin), spec: Box::new(spec) }
}

/// How many kinds were asked for the reasons of the only job, and what these are.
fn asked_for_reasons(told: &Told, job: JobId) -> (u64, Vec<Reason>) {
    use crate::requirements::counted::ASKED;
    ASKED.with(|asked| asked.set(0));
    let why = told.why(job);
    (ASKED.with(std::cell::Cell::get), why)
}

#[test]
fn one_answer_asks_very_many_kinds_of_pilots_only_so_much() {
    let mut told = Told::default();
    told.apply(site_of_kinds(200, ""));
    let links: Vec<String> =
        (0..12).map(|at| format!("a{at}=a{next}+a{next};", next = at + 1)).collect();
    let chain = links.concat();
    let costly = told.submit(&format!(r#"{{"requirements":"[{chain}a12=Cpus].a0 < 0"}}"#));
    let (asked, why) = asked_for_reasons(&told, costly);
    assert!((1..100).contains(&asked), "{asked} of 200 kinds were asked what takes long");
    assert!(!why.is_empty(), "what was found out is told");
    let cheap = told.submit(r#"{"requirements":"Cpus < 0"}"#);
    let (asked, _) = asked_for_reasons(&told, cheap);
    assert!(asked >= 200, "{asked} of 200 kinds were asked what takes no time");
}

#[test]
fn of_very_many_kinds_those_of_closed_sites_are_left_out() {
    let of_bob = r#","users":["bob"]"#;
    for (kinds, asks) in [(3, true), (200, false)] {
        let mut told = Told::default();
        told.apply(site_of_kinds(kinds, of_bob));
        let job = told.submit(r#"{"requirements":"Cpus < 0"}"#);
        let (asked, why) = asked_for_reasons(&told, job);
        assert_eq!(asked > 0, asks, "{kinds} kinds, asked {asked} times: {why:?}");
        assert!(!why.is_empty(), "that it may not go there is said in any case");
    }
}
