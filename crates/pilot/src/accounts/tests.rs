//! Who becomes whom. As any user: what is root's and what is not is said to it.

use super::*;
use shipway_runtime::subids::{Given, Holder};

fn accounts(mapping: &str) -> Accounts {
    let mapping = if mapping.is_empty() { Mapping::Usual } else { mapping.parse().unwrap() };
    let (own, known) = ("root".to_string(), HashMap::new());
    let (ids, refused) = (None, None);
    Accounts { mapping, is_root: true, owner_is_here: true, own, own_uid: 0, known, ids, refused }
}

fn as_user(mapping: &str) -> Accounts {
    Accounts { is_root: false, own: "svc".into(), own_uid: 4_294_967_000, ..accounts(mapping) }
}

fn name(found: Result<Whom, NoAccount>) -> String {
    match found {
        Ok(Whom::Pilot) => "the pilot".into(),
        Ok(Whom::Guest) => "a guest".into(),
        Ok(Whom::Account(account)) => account.name,
        Ok(Whom::Person(somebody)) => format!("{}, {}", somebody.name, somebody.person.uid),
        Err(error) => error.to_string(),
    }
}

fn of(mut accounts: Accounts, user: &str, is_owner: bool, in_container: bool) -> String {
    name(accounts.find(Whose { user, is_owner, number: 7 }, in_container))
}

#[test]
fn a_mapping_is_read_as_it_is_written() {
    for text in ["by-name", "*=nobody,ada=games"] {
        assert_eq!(text.parse::<Mapping>().unwrap().to_string(), text);
    }
    assert_eq!("ada=root".parse::<Mapping>(), Err(MappingError::Root));
    assert_eq!("*=root".parse::<Mapping>(), Err(MappingError::Root));
    assert!("ada".parse::<Mapping>().is_err() && "ada=".parse::<Mapping>().is_err());
    assert!("ada=games,ada=man".parse::<Mapping>().is_err());
}

#[test]
fn whoever_started_it_runs_as_themselves() {
    for mapping in ["", "by-name", "ada=games", "*=nobody", "root=root"] {
        for in_container in [true, false] {
            assert_eq!(of(accounts(mapping), "root", true, in_container), "the pilot", "{mapping}");
            assert_eq!(of(as_user(mapping), "svc", true, in_container), "the pilot", "{mapping}");
        }
    }
    assert_eq!(of(accounts("root=games"), "root", true, true), "games", "unless the site says so");
}

#[test]
fn others_have_ids_of_their_own_where_there_are_some() {
    let holder = Holder { name: "svc".into(), uid: 990, gid: 990 };
    let line = "svc:1879048192:100\n";
    let apart = |mapping: &str| {
        let ids = Ids::new(Given::read(holder.clone(), line, line));
        as_user(mapping).with_ids(Some(ids))
    };
    assert_eq!(of(apart(""), "ada", false, true), "ada, 94");
    assert_eq!(of(apart(""), "svc", false, true), "svc, 94", "a name is not enough");
    assert_eq!(of(apart(""), "svc", true, true), "the pilot");
    let plain = of(apart(""), "ada", false, false);
    assert!(plain.contains("runs nothing but containers"), "{plain}");
    // Only because whoever runs the node says so.
    assert_eq!(of(apart("ada=svc"), "ada", false, true), "the pilot");
    let mut accounts = apart("");
    let whose = |user, is_owner, number| Whose { user, is_owner, number };
    assert!(!accounts.may_read_all(whose("ada", false, 7)), "what the pilot can read, ada cannot");
    assert!(accounts.may_read_all(whose("svc", true, 0)));
    let mut together = as_user("");
    assert_eq!(together.find(whose("ada", false, 7), true), Ok(Whom::Guest));
    assert!(!together.may_read_all(whose("ada", false, 7)), "nor can a guest");
}

#[test]
fn where_people_should_be_apart_and_cannot_others_are_refused() {
    let people = People::Refused { why: "no keys are left".into(), fix: String::new() };
    let failing = |mapping| as_user(mapping).refusing(Some(&people));
    let refused = of(failing(""), "ada", false, true);
    assert!(refused.contains("kept apart there (no keys are left)"), "{refused}");
    assert_eq!(of(failing(""), "svc", true, true), "the pilot");
    assert_eq!(of(failing("ada=svc"), "ada", false, true), "the pilot", "the site says so");
}

#[test]
fn nobody_else_is_root() {
    for mapping in ["", "by-name"] {
        let refused = of(accounts(mapping), "root", false, true);
        assert!(refused.contains("runs no tasks of others"), "{mapping}: {refused}");
    }
    assert!(of(accounts("ada=games"), "root", false, true).contains("to others only"));
    assert_eq!(of(accounts("*=nobody"), "root", false, true), "nobody");
    assert_eq!(of(accounts("root=root"), "root", false, true), "the pilot", "the site says so");
    // A pilot that somebody else's server is behind has no owner among its users.
    let elsewhere = |mapping| Accounts { owner_is_here: false, ..accounts(mapping) };
    assert!(of(elsewhere(""), "root", true, true).contains("runs no tasks of others"));
    assert_eq!(of(elsewhere("root=root"), "root", true, true), "the pilot");
}

#[test]
fn nobody_shares_an_account_unless_the_site_says_so() {
    assert_eq!(of(accounts(""), "games", false, false), "games", "the account of the same name");
    for mapping in ["", "by-name"] {
        let refused = of(accounts(mapping), "no-such-user", false, true);
        assert!(refused.contains("there is no account no-such-user"), "{refused}");
        assert!(refused.contains("--accounts no-such-user=ACCOUNT"), "{refused}");
    }
    assert_eq!(of(accounts("*=nobody"), "no-such-user", false, true), "nobody");
    assert_eq!(accounts("*=nobody").mapping.shared(), Some("nobody"));
    assert_eq!(accounts("").mapping.shared(), None);
    assert_eq!(of(accounts("ada=games"), "ada", false, true), "games");
    assert!(of(accounts("ada=games"), "games", false, true).contains("to others only"));
}

#[test]
fn a_pilot_that_is_not_root_runs_others_in_containers_only() {
    assert_eq!(of(as_user(""), "ada", false, true), "a guest");
    let refused = of(as_user(""), "ada", false, false);
    assert!(refused.contains("would run as svc"), "{refused}");
    assert!(refused.contains("--accounts ada=svc"), "{refused}");
    for mapping in ["*=svc", "ada=svc"] {
        assert_eq!(of(as_user(mapping), "ada", false, false), "the pilot", "{mapping}");
    }
    assert!(of(as_user("bob=svc"), "ada", false, true).contains("to others only"));
    let other = of(as_user("by-name"), "games", false, true);
    assert!(other.contains("cannot become games"), "{other}");
    assert!(of(as_user("root=root"), "root", false, false).contains("cannot become root"));
}

#[test]
fn names_are_looked_up_as_they_are() {
    let line = "ada:x:1000:1001:Ada,,,:/home/ada:/bin/bash";
    let found = account(line, "ada").unwrap();
    assert_eq!((found.user.uid, found.user.gid), (1000, 1001));
    assert_eq!(account(line, "ad"), None);
    let text = "root:x:0:ada\nvideo:x:44:bob,ada\nada:x:1001:\nx:x:5:adam";
    assert_eq!(groups(text, "ada"), [44]);
    for name in ["", "-G", "a b", "../x", "a:b"] {
        assert_eq!(account_named(name), None, "{name}");
    }
}
