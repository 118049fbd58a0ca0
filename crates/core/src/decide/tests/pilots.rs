//! Pilots that come, go, come back and repeat themselves.

use super::*;
use shipway_model::ConnectionNumber;
use shipway_model::limits::PILOT_LOST_AFTER;

/// A pilot with three running tasks of one job, then out of touch.
fn away() -> (Told, JobId) {
    let mut told = Told::default();
    told.join("p", 4, 0);
    let job = told.submit(r#"{"array":"1-3","retries":1}"#);
    told.place();
    told.apply(Command::PilotAway { pilot: id("p"), connection: ConnectionNumber(1) });
    (told, job)
}

fn held(task: TaskId, attempt: u32, phase: HeldPhase) -> Held {
    Held::own(task.attempt(Attempt(attempt)), phase)
}

fn back(connection: u64, held: Vec<Held>) -> Command {
    let connection = ConnectionNumber(connection);
    Command::PilotJoined(Box::new(PilotJoined { connection, held, ..pilot("p", 4, 0) }))
}

#[test]
fn what_a_pilot_holds_is_compared_with_what_was_placed_there() {
    let (mut told, job) = away();
    let stale = task(JobId(77), 0);
    told.apply(back(
        2,
        vec![
            held(task(job, 1), 1, HeldPhase::Ended(end(5, OK))),
            held(task(job, 2), 1, HeldPhase::Running { started: Timestamp(5) }),
            held(stale, 1, HeldPhase::Running { started: Timestamp(5) }),
        ],
    ));
    assert_eq!(told.counts(job).succeeded, 1);
    assert_eq!(told.state.task_state(task(job, 2)), Some(TaskState::Running));
    let [Effect::Assign { tasks, .. }, Effect::Stop { attempts, .. }] = &told.effects[..] else {
        panic!("{:?}", told.effects)
    };
    assert_eq!((tasks.len(), tasks[0].task), (1, task(job, 3)), "it never heard of the third");
    assert_eq!(attempts[..], [stale.attempt(Attempt(1))]);
}

fn on_host(name: &str, folder: &str) -> Command {
    let ad = NodeAd { node: NodeName::new("host").expect("good"), ..pilot(name, 1, 0).ad };
    let folder = Some(folder.to_owned());
    Command::PilotJoined(Box::new(PilotJoined { ad, folder, ..pilot(name, 1, 0) }))
}

fn names(told: &Told) -> Vec<(&str, &str)> {
    let all = told.state.pilots().iter();
    all.map(|(id, pilot)| (id.as_str(), pilot.name().as_str())).collect()
}

#[test]
fn pilots_of_one_host_are_told_apart() {
    let mut told = Told::default();
    for name in ["a", "b", "c"] {
        told.apply(on_host(name, name));
    }
    assert_eq!(names(&told), [("a", "host"), ("b", "host#2"), ("c", "host#3")]);
    // Who comes back has its own, and so has whoever takes its place.
    let Command::PilotJoined(mut again) = on_host("b", "b") else { panic!() };
    again.connection = ConnectionNumber(2);
    told.apply(Command::PilotJoined(again));
    told.apply(on_host("d", "b"));
    assert_eq!(names(&told), [("a", "host"), ("c", "host#3"), ("d", "host#2")]);
    // The first name that is free.
    told.apply(Command::PilotEnded { pilot: id("a") });
    told.apply(on_host("e", "e"));
    told.apply(on_host("f", "f"));
    let expected = [("c", "host#3"), ("d", "host#2"), ("e", "host"), ("f", "host#4")];
    assert_eq!(names(&told), expected);
    let job = told.submit(r#"{"requirements":"Machine == \"host\" && Name == \"host#3\""}"#);
    told.place();
    let events = told.ended("c", task(job, 0), 1, OK);
    let Event::AttemptEnded(ended) = &events[0] else { panic!("{events:?}") };
    assert_eq!(ended.node.as_str(), "host#3", "its record says which it was");
}

#[test]
fn a_host_whose_name_has_no_room_for_a_number_has_pilots_by_their_own_names() {
    let mut told = Told::default();
    let long = NodeName::new(&"x".repeat(255)).expect("good");
    for name in ["a", "b"] {
        let ad = NodeAd { node: long.clone(), ..pilot(name, 1, 0).ad };
        told.apply(Command::PilotJoined(Box::new(PilotJoined { ad, ..pilot(name, 1, 0) })));
    }
    assert_eq!(names(&told), [("a", long.as_str()), ("b", "b")]);
}

#[test]
fn what_is_said_twice_in_one_breath_counts_once() {
    let (mut told, job) = away();
    let running = || held(task(job, 1), 1, HeldPhase::Running { started: Timestamp(5) });
    let failed = || held(task(job, 2), 1, HeldPhase::Ended(end(5, FAILED)));
    told.apply(back(2, vec![running(), running(), failed(), failed()]));
    let tries = told.state.job(job).expect("job").tasks.tries(shipway_model::Ordinal(1));
    assert_eq!(tries.failed, 1);
    let started = || held(task(job, 3), 1, HeldPhase::Running { started: Timestamp(9) });
    let done = || held(task(job, 3), 1, HeldPhase::Ended(end(9, OK)));
    told.report("p", vec![started(), started(), done(), done()]);
    assert_eq!(told.counts(job).succeeded, 1);
}

#[test]
fn two_attempts_of_one_task_may_be_held_in_any_order() {
    for turned in [false, true] {
        let mut told = Told::default();
        told.join("p", 1, 0);
        let job = told.submit(r#"{"retries":{"limit":1,"delay":"1ms"}}"#);
        told.place();
        told.ended("p", task(job, 0), 1, FAILED);
        told.wait(10);
        assert_eq!(told.place()[0].attempt, Attempt(2));
        let mut both = vec![
            held(task(job, 0), 1, HeldPhase::Ended(end(5, FAILED))),
            held(task(job, 0), 2, HeldPhase::Ended(end(9, OK))),
        ];
        if turned {
            both.reverse();
        }
        told.apply(back(2, both));
        assert_eq!(told.job_state(job), JobState::Succeeded, "turned: {turned}");
    }
}

#[test]
fn a_pilot_away_keeps_its_tasks_and_gets_no_new_ones() {
    let (mut told, job) = away();
    let more = told.submit("{}");
    assert_eq!(told.place(), []);
    assert_eq!(told.wait(PILOT_LOST_AFTER.0), [Event::PilotLost { pilot: id("p") }]);
    assert_eq!(told.wait(1_000_000_000), [], "supervised: only a report of its death counts");
    assert_eq!(told.counts(job).active, 3);
    told.apply(back(2, vec![]));
    assert_eq!(told.place()[0].task, task(more, 0));
}

#[test]
fn an_old_connections_end_is_not_the_new_ones() {
    let (mut told, _) = away();
    told.apply(back(3, vec![]));
    assert_eq!(
        told.apply(Command::PilotAway { pilot: id("p"), connection: ConnectionNumber(2) }),
        []
    );
    assert_eq!(
        told.refused(back(2, vec![])),
        "pilot_overtaken",
        "nor is an old greeting a new one"
    );
    assert_eq!(told.refused(back(3, vec![])), "pilot_overtaken", "nor the same one again");
    assert!(told.state.pilots()[&id("p")].is_connected());
}

#[test]
fn a_lease_that_runs_out_loses_the_tasks_and_not_before() {
    let mut told = Told::default();
    let lease = Some(Millis(60_000));
    told.apply(Command::PilotJoined(Box::new(PilotJoined { lease, ..pilot("p", 4, 0) })));
    let job = told.submit("{}");
    told.place();
    assert_eq!(told.wait(1_000_000), [], "in touch");
    told.apply(Command::PilotAway { pilot: id("p"), connection: ConnectionNumber(1) });
    let since = told.now;
    told.wait(PILOT_LOST_AFTER.0);
    told.now = since + 60_000 - 2;
    assert_eq!(told.wait(0), []);
    let events = told.wait(0);
    let Event::AttemptEnded(ended) = &events[0] else { panic!("{events:?}") };
    assert_eq!(ended.outcome, Outcome::Lost { why: Lost::LeaseRanOut });
    assert_eq!(events[1], Event::PilotEnded { pilot: id("p") });
    assert_eq!(told.counts(job).waiting, 1);
}

#[test]
fn reports_of_another_pilot_or_another_attempt_say_nothing() {
    let (mut told, job) = away();
    assert_eq!(told.ended("other", task(job, 1), 1, OK), []);
    assert_eq!(told.ended("p", task(job, 1), 2, OK), []);
    assert_eq!(told.ended("p", task(job, 1), 1, OK).len(), 1, "a late word of the right one");
    assert_eq!(told.ended("p", task(job, 1), 1, FAILED), [], "a repeat");
}

#[test]
fn a_restart_trusts_no_connection_and_stop_is_said_again() {
    let mut told = Told::default();
    told.join("p", 1, 0);
    let job = told.submit("{}");
    told.place();
    told.cancel(job, Pick::All);
    told.apply(Command::ServerStarted);
    assert!(!told.state.pilots()[&id("p")].is_connected());
    told.apply(back(2, vec![held(task(job, 0), 1, HeldPhase::Queued)]));
    let [Effect::Stop { attempts, .. }] = &told.effects[..] else { panic!("{:?}", told.effects) };
    assert_eq!(attempts[..], [task(job, 0).attempt(Attempt(1))]);
}

#[test]
fn a_pilot_that_leaves_gets_nothing_more_and_keeps_what_it_runs() {
    let mut told = Told::default();
    told.join("p", 4, 0);
    let job = told.submit(r#"{"array":"1-9"}"#);
    told.place();
    for index in 1..=4 {
        told.started("p", task(job, index), 1);
    }
    let leaving =
        |number| Command::PilotLeaving { pilot: id("p"), connection: ConnectionNumber(number) };
    assert_eq!(told.apply(leaving(7)), [], "said on an earlier connection");
    assert_eq!(told.apply(leaving(1)), [Event::PilotLeaving { pilot: id("p") }]);
    assert_eq!(told.apply(leaving(1)), [], "once is enough");
    told.ended("p", task(job, 1), 1, OK);
    assert_eq!(told.place(), [], "there is room, but not for long");
    assert_eq!(told.why(job), [Reason::NodesAway { nodes: 1 }]);
    assert_eq!(told.counts(job).active, 3, "what runs goes on");
    told.join("q", 1, 0);
    assert_eq!(told.place().len(), 1, "another takes it");
    let again = PilotJoined { connection: ConnectionNumber(2), ..pilot("p", 4, 0) };
    told.apply(Command::PilotJoined(Box::new(again)));
    assert!(told.state.pilots()[&id("p")].takes_work(), "until it says so again");
    assert_eq!(told.apply(leaving(2)).len(), 1);
    told.apply(Command::PilotEnded { pilot: id("p") });
    assert!(told.state.pilots().get(&id("p")).is_none());
}

#[test]
fn a_node_that_changes_keeps_what_it_runs_and_takes_what_fits_it_now() {
    let mut told = Told::default();
    told.join("p", 1, 0);
    let job = told.submit(r#"{"array":"1-3"}"#);
    assert_eq!(told.place().len(), 1);
    told.started("p", task(job, 1), 1);
    let ad = Box::new(pilot("p", 2, 0).ad);
    let changed = |number, ad: &shipway_model::NodeAd| Command::PilotChanged {
        pilot: id("p"),
        connection: ConnectionNumber(number),
        ad: Box::new(ad.clone()),
    };
    assert_eq!(told.apply(changed(7, &ad)), [], "said on another connection");
    let mut elsewhere = ad.clone();
    elsewhere.node = shipway_model::NodeName::new("other").unwrap();
    assert_eq!(told.apply(changed(1, &elsewhere)), [], "a pilot does not move");
    let event = Event::PilotChanged { pilot: id("p"), ad: ad.clone() };
    assert_eq!(told.apply(changed(1, &ad)), [event]);
    assert_eq!(told.apply(changed(1, &ad)), [], "no news");
    assert_eq!(told.counts(job).active, 1, "what runs goes on");
    assert_eq!(told.place().len(), 1, "there is room for one more");
    let mut unfit = ad;
    unfit.unfit.push("GPU 0 failed its proof".into());
    told.apply(changed(1, &unfit));
    assert!(!told.state.pilots()[&id("p")].takes_work());
}

#[test]
fn kinds_of_nodes_that_are_gone_are_not_kept_for_ever() {
    let mut told = Told::default();
    told.join("p", 1, 0);
    told.join("other", 1, 0);
    for n in 0..20 {
        let mut ad = pilot("p", 1, 0).ad;
        ad.attributes.insert("Rack".into(), n.to_string());
        told.apply(Command::PilotChanged {
            pilot: id("p"),
            connection: ConnectionNumber(1),
            ad: Box::new(ad),
        });
        let job = told.submit(&format!(r#"{{"requirements":"Rack == {n}"}}"#));
        let placed: Vec<TaskId> = told.place().iter().map(|placement| placement.task).collect();
        assert_eq!(placed, [task(job, 0)], "what it is now is known");
        told.ended("p", task(job, 0), 1, OK);
    }
    let classes = told.state.planner().nodes.class_count();
    assert!(classes <= 5, "two with a node, and a few that are remembered: {classes}");
}

/// Each kind of GPUs has an ad with all that the pilot says.
#[test]
fn a_pilot_that_says_much_of_many_gpus_takes_little_memory() {
    let mut told = Told::default();
    told.join("p", 1, 0);
    for n in 0..5 {
        let mut ad = pilot("p", 1, 256).ad;
        for (at, gpu) in ad.gpus.iter_mut().enumerate() {
            gpu.model = format!("model {at}");
        }
        let long = |at| (format!("A{at}"), vec![n.to_string(); 80].join("+"));
        ad.attributes.extend((0..200).map(long));
        told.apply(Command::PilotChanged {
            pilot: id("p"),
            connection: ConnectionNumber(1),
            ad: Box::new(ad),
        });
        let nodes = &told.state.planner().nodes;
        let ads: Vec<usize> = nodes.classes().map(|(_, class)| class.ads.len()).collect();
        assert_eq!(ads, [3], "of 256 kinds with 39 kB each");
    }
    let classes = told.state.planner().nodes.class_count();
    assert!(classes <= 2, "what is large is not remembered: {classes}");
    let job = told.submit(r#"{"resources":{"gpu":1},"requirements":"A7 == 320"}"#);
    let placed = told.place().len();
    assert_eq!(placed, 1, "it has one of the first three kinds: {:?}", told.why(job));
}

#[test]
fn a_start_that_is_reported_many_times_at_once_is_one_start() {
    let mut told = Told::default();
    told.join("p", 4, 0);
    let job = told.submit(r#"{"array":"1-2"}"#);
    told.place();
    let phase = HeldPhase::Running { started: Timestamp(told.now) };
    let held = |index| Held::own(task(job, index).attempt(Attempt(1)), phase.clone());
    let events = told.report("p", vec![held(1), held(1), held(2), held(1)]);
    let [Event::AttemptsStarted { tasks }] = events.as_slice() else { panic!("{events:?}") };
    let started: Vec<TaskId> = tasks.iter().map(|(task, ..)| *task).collect();
    assert_eq!(started, [task(job, 1), task(job, 2)]);
}
