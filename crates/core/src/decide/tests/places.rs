//! Who takes whose place, and how long a pilot's token is good: nobody is believed about others.

use super::*;
use crate::site::KeptIn;
use shipway_model::ConnectionNumber;

/// A pilot of some folder with three running tasks, and a core in which nobody has a token yet.
fn running(name: &str, site: SiteKind, lease: Option<Millis>) -> (Told, JobId) {
    let mut told = Told { no_token_of_itself: true, ..Told::default() };
    told.apply(token_for(name, site, None));
    let joined = PilotJoined { lease, folder: Some("folder".into()), ..pilot(name, 4, 0) };
    told.apply(Command::PilotJoined(Box::new(joined)));
    let job = told.submit(r#"{"array":"1-3"}"#);
    told.place();
    for index in 1..=3 {
        told.started(name, task(job, index), 1);
    }
    (told, job)
}

const LEASE: Option<Millis> = Some(Millis(600_000));

/// What a pilot left word of.
fn ended(of: &str, task: TaskId, outcome: Outcome) -> Held {
    Held { of: Some(id(of)), ..super::ended(task, 1, end(9, outcome)) }
}

fn greeting(name: &str, folder: &str, process: u64, held: Vec<Held>) -> Command {
    let (connection, folder) =
        (ConnectionNumber::before_first(process).next(), Some(folder.to_owned()));
    let joined = PilotJoined { connection, lease: LEASE, folder, held, ..pilot(name, 4, 0) };
    Command::PilotJoined(Box::new(joined))
}

#[test]
fn nobody_declares_another_dead_or_says_how_its_tasks_ended() {
    for site in [SiteKind::ByHand, SiteKind::ThisMachine] {
        let name = format!("{}a", site.prefix());
        let (mut told, job) = running(&name, site, LEASE);
        told.apply(token_for("pilot-b", SiteKind::ByHand, None));
        let own = Held { of: None, ..ended(&name, task(job, 3), OK) };
        let lies = vec![ended(&name, task(job, 1), OK), ended("pilot-b", task(job, 2), OK), own];
        told.apply(greeting("pilot-b", "another", 5, lies));
        assert_eq!((told.counts(job).active, told.state.pilots().len()), (3, 2));
        let [Effect::Stop { pilot, attempts, .. }] = &told.effects[..] else {
            panic!("{:?}", told.effects)
        };
        assert_eq!(
            (pilot, attempts.len()),
            (&id("pilot-b"), 1),
            "what it holds and is not its own"
        );
        let without = PilotJoined {
            connection: ConnectionNumber::before_first(6).next(),
            ..pilot_of("pilot-b", LEASE)
        };
        let without = Command::PilotJoined(Box::new(without));
        assert_eq!(told.refused(without), "pilot_elsewhere", "nor without a folder's key");
    }
}

fn pilot_of(name: &str, lease: Option<Millis>) -> PilotJoined {
    PilotJoined { lease, ..pilot(name, 4, 0) }
}

#[test]
fn whoever_has_the_folder_has_taken_the_place_and_its_ends_count() {
    let (mut told, job) = running("pilot-a", SiteKind::ByHand, LEASE);
    told.apply(token_for("pilot-b", SiteKind::ByHand, None));
    // The last is of another life of the server, in which ids were given before.
    let left = vec![
        ended("pilot-a", task(job, 1), OK),
        ended("pilot-a", task(job, 2), FAILED),
        ended("pilot-z", task(job, 3), OK),
    ];
    told.apply(greeting("pilot-b", "folder", 5, left));
    let counts = told.counts(job);
    assert_eq!((counts.succeeded, counts.failed, counts.waiting), (1, 1, 1), "{counts:?}");
    assert_eq!(told.state.pilots().keys().collect::<Vec<_>>(), [&id("pilot-b")]);
    assert_eq!(told.effects, [], "there is nothing to stop");
    let kept = |told: &Told, name| told.state.kept_in(&id(name));
    assert_eq!(kept(&told, "pilot-a"), kept(&told, "pilot-b"), "and the output can be read");
    assert_eq!(kept(&told, "pilot-a"), Some(KeptIn::Folder("folder".into())));
    told.wait(0);
    assert_eq!(told.place()[0].attempt, Attempt(2), "only the third runs again");
}

/// After a backup was restored, a folder may hold ends of jobs that had the same ids.
#[test]
fn an_end_from_before_a_task_began_is_not_its_end() {
    let mut told = Told { no_token_of_itself: true, ..Told::default() };
    told.apply(token_for("pilot-a", SiteKind::ByHand, None));
    told.apply(greeting("pilot-a", "folder", 1, vec![]));
    told.wait(5_000);
    let job = told.submit(r#"{"array":"1-2"}"#);
    told.place();
    let mut began = 0;
    for index in 1..=2 {
        began = told.now;
        told.started("pilot-a", task(job, index), 1);
    }
    let older = ended("pilot-a", task(job, 1), OK);
    // The clock was set back while this one ran.
    let end = Ended { ended: Timestamp(9), ..end(began, OK) };
    let set_back = Held { phase: HeldPhase::Ended(end), ..ended("pilot-a", task(job, 2), OK) };
    told.apply(greeting("pilot-a", "folder", 5, vec![older, set_back]));
    assert_eq!((told.counts(job).succeeded, told.counts(job).waiting), (1, 1));
    told.wait(0);
    let again = told.place();
    assert_eq!((again[0].task, again[0].attempt), (task(job, 1), Attempt(2)));
}

#[test]
fn on_this_machine_the_server_knows_who_is_dead() {
    let (mut told, job) = running("local-a", SiteKind::ThisMachine, None);
    told.apply(token_for("local-b", SiteKind::ThisMachine, None));
    let site = SiteKind::ThisMachine.only().expect("one");
    let allocation = AllocationId::new("local-b");
    let (allocation, pilots) = (allocation.expect("good"), vec![id("local-b")]);
    let ask = |again| {
        let (site, allocation, pilots) = (site.clone(), allocation.clone(), pilots.clone());
        Effect::Ask { site, allocation, pilots, again }
    };
    assert_eq!(told.effects, [Effect::Disconnect { pilot: id("local-a") }, ask(false)]);
    assert_eq!(told.state.pilot_tokens().len(), 1, "one at a time");
    told.effects.clear();
    told.apply(Command::ServerStarted);
    let again = ask(true);
    assert_eq!(told.effects, [again], "nobody knows whether it was asked for");
    assert_eq!(told.counts(job).active, 3, "until the next one is there");
    assert_eq!(told.refused(greeting("local-a", "folder", 9, vec![])), "no_such_pilot");
    told.apply(greeting("local-b", "folder", 5, vec![ended("local-a", task(job, 1), OK)]));
    assert_eq!((told.counts(job).succeeded, told.counts(job).waiting), (1, 2));
    assert_eq!(told.state.kept_in(&id("local-a")), Some(KeptIn::ThisMachine));
    assert_eq!(told.state.allocations().len(), 1, "of the one before nothing is left");
    told.effects.clear();
    told.apply(Command::ServerStarted);
    assert_eq!(told.effects, [], "it has come");
}

#[test]
fn a_pilot_started_again_has_the_ends_that_it_left_and_no_more() {
    let (mut told, job) = running("pilot-a", SiteKind::ByHand, LEASE);
    told.apply(greeting("pilot-a", "folder", 5, vec![ended("pilot-a", task(job, 2), OK)]));
    assert_eq!((told.counts(job).succeeded, told.counts(job).waiting), (1, 2));
    told.wait(0);
    assert_eq!(told.place()[0].attempt, Attempt(2));
}

#[test]
fn a_token_is_good_in_the_folder_where_it_was_first_used() {
    let (mut told, job) = running("pilot-a", SiteKind::ByHand, LEASE);
    let copied = greeting("pilot-a", "another", 5, vec![ended("pilot-a", task(job, 1), OK)]);
    assert_eq!(told.refused(copied.clone()), "pilot_elsewhere");
    assert_eq!(told.counts(job).active, 3);
    told.apply(Command::PilotAway { pilot: id("pilot-a"), connection: ConnectionNumber(1) });
    told.wait(LEASE.expect("one").0);
    assert_eq!(told.state.pilots().len(), 0, "given up");
    assert_eq!(told.refused(copied), "pilot_elsewhere", "not even then");
    told.apply(greeting("pilot-a", "folder", 5, vec![]));
    assert_eq!(told.state.pilots().len(), 1, "but where it was it may come back");
}

#[test]
fn tokens_end_with_a_goodbye_by_a_wish_and_with_time() {
    let disconnected = |told: &Told| told.effects.contains(&Effect::Disconnect { pilot: id("p") });
    let begin = |expires| {
        let mut told = Told { no_token_of_itself: true, ..Told::default() };
        told.apply(token_for("p", SiteKind::ByHand, expires));
        told.apply(greeting("p", "folder", 5, vec![]));
        told
    };
    let mut told = begin(None);
    told.apply(Command::PilotEnded { pilot: id("p") });
    assert!(disconnected(&told) && told.state.pilot_tokens().is_empty());

    let mut told = begin(None);
    let revoke = |by| Command::RevokeToken { by, id: "p".into() };
    for role in [Role::User, Role::Operator] {
        assert_eq!(told.refused(revoke(actor("ada", role))), "no_such_token");
    }
    told.apply(revoke(actor("root", Role::Admin)));
    assert!(disconnected(&told) && told.state.pilot_tokens().is_empty());
    assert_eq!(told.refused(greeting("p", "folder", 6, vec![])), "no_such_pilot");

    let mut told = begin(Some(5_000));
    assert_eq!(told.state.next_deadline(), Some(Timestamp(5_000)));
    told.wait(1_000);
    assert!(!told.state.pilot_tokens().is_empty());
    told.wait(5_000);
    assert!(disconnected(&told) && told.state.pilot_tokens().is_empty());
    assert_eq!(told.state.pilots().len(), 1, "what it runs is known to be dead when its lease is");
}
