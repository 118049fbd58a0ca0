//! Users and their tokens: who may keep whose.

use super::*;
use crate::command::{Select, Token};
use crate::rejection::TooMany;
use shipway_model::limits::{MAX_TASKS, MAX_TOKENS, MAX_UNFINISHED_JOBS, MAX_UNFINISHED_TASKS};

fn token(id: &str, user: &str) -> Token {
    Token {
        id: id.into(),
        user: UserName::new(user).expect("good"),
        hash: "h".into(),
        expires: Timestamp(1_000_000),
        note: String::new(),
    }
}

fn user(name: &str) -> UserName {
    UserName::new(name).expect("good")
}

fn root() -> Actor {
    actor("root", Role::Admin)
}

fn add(name: &str) -> Command {
    Command::AddUser { by: root(), user: user(name), role: Role::User }
}

fn remove(name: &str) -> Command {
    Command::RemoveUser { by: root(), user: user(name), give_jobs_to: None }
}

fn give(name: &str, to: &str) -> Command {
    Command::RemoveUser { by: root(), user: user(name), give_jobs_to: Some(user(to)) }
}

/// Somebody as the server knows them who has the name now.
fn now_called(told: &Told, name: &str) -> Actor {
    let since = told.state.users().since(&user(name));
    Actor { since, ..actor(name, Role::User) }
}

/// With a token, as it was when the request came in.
fn with_token(name: &str, id: &str) -> Actor {
    Actor { token: Some(id.into()), ..actor(name, Role::User) }
}

fn cancel(by: Actor, job: JobId) -> Command {
    Command::Cancel(Select { by, jobs: vec![(job, Pick::All)] })
}

/// Ada has one job that runs, one that waits and one that waits for that.
fn busy() -> (Told, [JobId; 3]) {
    let mut told = Told::default();
    told.apply(add("ada"));
    told.apply(add("bob"));
    told.join("p", 1, 0);
    let running = told.submit("{}");
    told.place();
    told.started("p", task(running, 0), 1);
    let waiting = told.submit(r#"{"array":"1-3"}"#);
    let held = told.submit(&format!(r#"{{"after":[{waiting}]}}"#));
    (told, [running, waiting, held])
}

#[test]
fn with_a_user_goes_what_they_had_not_finished() {
    let (mut told, [running, waiting, held]) = busy();
    let events = told.apply(remove("ada"));
    let stop =
        Event::StopRequested { tasks: vec![task(running, 0)], why: StopReason::OwnerRemoved };
    assert!(events.contains(&stop), "{events:?}");
    assert_eq!(told.job_state(waiting), JobState::Cancelled);
    assert_eq!(told.job_state(held), JobState::Cancelled);
    told.ended("p", task(running, 0), 1, Outcome::Cancelled);
    assert_eq!(told.job_state(running), JobState::Cancelled);
    assert_eq!(told.state.unfinished().of(&user("ada")).jobs, 0);
}

#[test]
fn whoever_gets_a_name_later_has_nothing_of_the_one_before() {
    let (mut told, [_, waiting, _]) = busy();
    let used = submission(told.state.next_job(), ada(), r#"{"name":"first"}"#, Some("key"));
    told.apply(used);
    told.apply(Command::SetShare { by: root(), user: user("ada"), share: 700 });
    told.apply(remove("ada"));
    told.apply(add("ada"));
    let new = now_called(&told, "ada");
    assert_eq!(told.refused(cancel(new.clone(), waiting)), "no_such_job");
    assert_eq!(told.state.fair_share().share(&user("ada")), 100);
    let job = told.state.next_job();
    let again = submission(job, new.clone(), r#"{"name":"other"}"#, Some("key"));
    assert!(matches!(told.apply(again)[0], Event::JobSubmitted(_)), "no repeat of another's");
    told.apply(cancel(new, job));
    // Nobody runs for somebody who is not here, at an operator's wish neither.
    let select = Select { by: root(), jobs: vec![(waiting, Pick::All)] };
    let retry = Command::Retry { select, revived: Vec::new() };
    assert_eq!(told.refused(retry), "owner_removed");
}

#[test]
fn jobs_that_are_given_go_on_for_another() {
    let (mut told, [running, waiting, held]) = busy();
    told.apply(Command::AddUser { by: root(), user: user("eye"), role: Role::Monitor });
    assert_eq!(told.refused(give("ada", "eye")), "has_no_jobs");
    assert_eq!(told.refused(give("ada", "nobody")), "no_such_user");
    assert_eq!(told.refused(give("ada", "ada")), "no_such_user");
    told.apply(give("ada", "bob"));
    assert_eq!(told.job_state(running), JobState::Running);
    assert_eq!(told.job_state(waiting), JobState::Waiting);
    assert_eq!(told.state.unfinished().of(&user("bob")).jobs, 3);
    told.apply(add("ada"));
    let new = now_called(&told, "ada");
    assert_eq!(told.refused(cancel(new, waiting)), "no_such_job");
    let kept = crate::snapshot::write(&told.state);
    assert_eq!(crate::snapshot::read(&kept).expect("as written").given, told.state.given);
    let heir = now_called(&told, "bob");
    told.apply(cancel(heir, held));
    // Given to one of this name, and not to the next, though no job came in between.
    told.apply(remove("bob"));
    told.apply(add("bob"));
    let new = now_called(&told, "bob");
    assert_eq!(told.refused(cancel(new, waiting)), "no_such_job");
}

#[test]
fn a_token_that_ended_meanwhile_moves_nothing() {
    let mut told = Told::default();
    told.apply(add("ada"));
    let issue = |id: &str, expires| Command::IssueToken {
        by: root(),
        token: Token { expires: Timestamp(expires), ..token(id, "ada") },
    };
    let end = told.now + 1_000;
    told.apply(issue("1", end));
    told.apply(issue("2", end));
    let submit =
        |told: &Told, id| submission(told.state.next_job(), with_token("ada", id), "{}", None);
    let good = submit(&told, "1");
    told.apply(good);
    told.apply(Command::RevokeToken { by: root(), id: "1".into() });
    let revoked = submit(&told, "1");
    assert_eq!(told.refused(revoked), "unauthenticated");
    let good = submit(&told, "2");
    told.apply(good);
    told.wait(1_000);
    let expired = submit(&told, "2");
    assert_eq!(told.refused(expired), "unauthenticated");
    told.apply(issue("3", end + 5_000));
    assert_eq!(told.state.tokens().keys().collect::<Vec<_>>(), ["3"], "the others are forgotten");
    told.apply(remove("ada"));
    told.apply(add("ada"));
    let of_another = submit(&told, "3");
    assert_eq!(told.refused(of_another), "unauthenticated");
}

/// Whoever was let in at the door is looked at again when it is decided.
#[test]
fn only_an_admin_whose_token_is_still_good_lets_pilots_in() {
    let mut told = Told::default();
    told.apply(add("ada"));
    let end = told.now + 60_000;
    let good = Token { expires: Timestamp(end), ..token("1", "ada") };
    told.apply(Command::IssueToken { by: root(), token: good });
    let admin = Actor { role: Role::Admin, ..with_token("ada", "1") };
    let made = |by: &Actor, name: &str, expires: Option<u64>| {
        let (by, expires) = (Some(by.clone()), expires.map(Timestamp));
        let ask = AskSite { by, expires, ..AskSite::named_after(&id(name), SiteKind::ByHand) };
        Command::AskSite(Box::new(ask))
    };
    told.apply(made(&admin, "p1", Some(end)));
    for (by, expires) in [
        (with_token("ada", "1"), Some(end)),
        (Actor { role: Role::Operator, ..admin.clone() }, Some(end)),
        // It would outlive its maker.
        (admin.clone(), Some(end + 1)),
        (admin.clone(), None),
    ] {
        assert_eq!(told.refused(made(&by, "p2", expires)), "not_allowed", "{by:?} {expires:?}");
    }
    told.apply(Command::RevokeToken { by: root(), id: "1".into() });
    assert_eq!(told.refused(made(&admin, "p2", Some(end))), "unauthenticated");
    assert_eq!(told.state.pilot_tokens().len(), 1);
    // The server itself asks nobody.
    told.apply(token_for("p3", SiteKind::ThisMachine, None));
}

#[test]
fn no_token_makes_one_that_outlives_it() {
    let mut told = Told::default();
    told.apply(add("ada"));
    let end = told.now + 60_000;
    let until = |id: &str, expires| Token { expires: Timestamp(expires), ..token(id, "ada") };
    told.apply(Command::IssueToken { by: root(), token: until("short", end) });
    let make = |expires| Command::IssueToken {
        by: with_token("ada", "short"),
        token: until("made", expires),
    };
    assert_eq!(told.refused(make(end + 1)), "not_allowed");
    told.apply(make(end));
    // An admin's that ends soon makes none for others either.
    let admin = Actor { role: Role::Admin, ..with_token("ada", "short") };
    let other = Token { user: user("ada"), ..until("other", end + 1) };
    assert_eq!(told.refused(Command::IssueToken { by: admin, token: other }), "not_allowed");
}

#[test]
fn a_user_has_so_many_tokens_jobs_and_tasks_and_no_more() {
    let mut told = Told::default();
    told.apply(add("ada"));
    let issue = |id: usize| Command::IssueToken {
        by: ada(),
        token: Token { expires: Timestamp(u64::MAX), ..token(&id.to_string(), "ada") },
    };
    for id in 0..MAX_TOKENS {
        told.apply(issue(id));
    }
    assert_eq!(told.refused(issue(MAX_TOKENS)), "too_many");
    let large = format!(r#"{{"array":"1-{MAX_TASKS}"}}"#);
    for _ in 0..MAX_UNFINISHED_TASKS / MAX_TASKS {
        let submit = submission(told.state.next_job(), ada(), &large, None);
        step(&mut told.state, Timestamp(told.now), &submit).expect("there is room");
    }
    let one = |told: &Told, name: &str| {
        submission(told.state.next_job(), actor(name, Role::User), "{}", None)
    };
    let more = one(&told, "ada");
    assert_eq!(told.refused(more), "too_many");
    // Without the checks of every step: they look at the whole state.
    for _ in 0..MAX_UNFINISHED_JOBS {
        let submit = one(&told, "bob");
        step(&mut told.state, Timestamp(told.now), &submit).expect("there is room");
    }
    let mut full = one(&told, "bob");
    if let Command::Submit(submit) = &mut full {
        // What there is no room for costs nobody a look at it.
        submit.jobs.iter_mut().for_each(|new| new.spec.command.clear());
    }
    assert!(matches!(
        step(&mut told.state, Timestamp(told.now), &full),
        Err(Rejection::TooMany(TooMany::Jobs(Role::User)))
    ));
}

#[test]
fn a_name_may_come_again_and_a_number_never_does() {
    let mut told = Told::default();
    let number = |told: &Told, name| told.state.users().get(&user(name)).expect("known").number.0;
    told.apply(add("ada"));
    told.apply(add("bob"));
    assert_eq!((number(&told, "ada"), number(&told, "bob")), (1, 2));
    told.apply(remove("bob"));
    told.apply(add("bob"));
    assert_eq!(number(&told, "bob"), 3);
    told.apply(remove("bob"));
    // What was given is known after a restart from a snapshot too, though nobody has it now.
    let kept = crate::snapshot::write(&told.state);
    told.state = crate::snapshot::read(&kept).expect("as written");
    told.apply(add("eve"));
    assert_eq!(number(&told, "eve"), 4);
}

#[test]
fn admins_keep_users_and_users_keep_their_own_tokens() {
    let mut told = Told::default();
    let add = |by, name, role| Command::AddUser { by, user: user(name), role };
    assert_eq!(told.refused(add(ada(), "bob", Role::User)), "not_allowed");
    for name in ["ada", "bob"] {
        told.apply(add(root(), name, Role::User));
    }
    assert_eq!(told.apply(add(root(), "ada", Role::User)), [], "a repeat");
    assert_eq!(told.refused(add(root(), "ada", Role::Admin)), "user_exists");
    let issue = |by, token| Command::IssueToken { by, token };
    told.apply(issue(ada(), token("1", "ada")));
    assert_eq!(told.refused(issue(ada(), token("2", "bob"))), "not_allowed");
    assert_eq!(told.refused(issue(root(), token("2", "eve"))), "no_such_user");
    told.apply(issue(root(), token("2", "bob")));
    let revoke = |by, id: &str| Command::RevokeToken { by, id: id.into() };
    assert_eq!(told.refused(revoke(ada(), "2")), "no_such_token", "not hers, so not there");
    told.apply(revoke(ada(), "1"));
    told.apply(remove("bob"));
    assert!(told.state.tokens().is_empty(), "they went with him");
    let gone = remove("bob");
    assert_eq!(told.refused(gone), "no_such_user");
}
