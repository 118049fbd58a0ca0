//! How this node keeps the tasks of different people apart, found out by doing it: as root by
//! accounts, as an ordinary user by subordinate ids where there are some. Which account or id a
//! person has is decided in `accounts.rs`.

use crate::accounts::asked;
use crate::runtimes::RuntimeChoice;
use rustix::process::{getegid, geteuid};
use shipway_model::people::People;
use shipway_runtime::again;
use shipway_runtime::native::{Helper, Keeper};
use shipway_runtime::subids::{Given, Holder, Missing, Range, free_range};
use std::sync::Arc;

/// What helps where it should have worked.
const TRY_AGAIN: &str = "end what uses up the limits of this user (tasks, `keyctl`, namespaces), \
                         and start `shipway up` again; to let others run as this user all the \
                         same: --accounts";

/// Lines of a name, the first of its ids, and how many there are.
const SUBUID: &str = "/etc/subuid";
const SUBGID: &str = "/etc/subgid";

/// What was found.
#[derive(Debug)]
pub struct Found {
    pub people: People,
    /// By what people are kept apart, where it is by subordinate ids.
    pub keeper: Option<Arc<Keeper>>,
}

/// Starts a process or two, and a container as one of the people. `shared` is the account that the
/// site gives to everybody it does not name.
pub fn find(choice: &RuntimeChoice, helper: &Arc<Helper>, shared: Option<&str>) -> Found {
    if let Some(account) = shared {
        return Found { people: sharing(account), keeper: None };
    }
    if geteuid().is_root() {
        return Found { people: People::ByAccount, keeper: None };
    }
    let holder = holder();
    let user = holder.name.clone();
    if *choice != RuntimeChoice::Native {
        let why = format!("{choice} runs containers as one user");
        let fix = "leave --runtime out: native containers keep people apart by subordinate ids";
        let people = People::No { user, why, fix: fix.into() };
        return Found { people, keeper: None };
    }
    let (subuid, subgid) = (lines(SUBUID, &user, &[]), lines(SUBGID, &user, &["-g"]));
    let made = make(helper, Given::read(holder, &subuid, &subgid));
    said(made, user, free_range(&subuid, &subgid))
}

fn sharing(account: &str) -> People {
    People::No {
        user: account.into(),
        why: format!("--accounts gives everybody the account {account} who is not named there"),
        fix: "leave `*` out of --accounts: who has no account is refused then".into(),
    }
}

/// What to make of it.
fn said(made: Result<Arc<Keeper>, Missing>, user: String, free: Range) -> Found {
    match made {
        Ok(keeper) => Found { people: People::BySubordinateId, keeper: Some(keeper) },
        Err(missing) => {
            let (why, fix) = (missing.to_string(), missing.fix(free));
            // Whoever could make it fail would otherwise have everybody run as one.
            let people = if missing.is_of_the_node() {
                People::No { user, why, fix }
            } else {
                People::Refused { why, fix: TRY_AGAIN.into() }
            };
            Found { people, keeper: None }
        }
    }
}

/// On a thread of its own: what the main thread starts would be taken for something that a task
/// left.
fn make(helper: &Arc<Helper>, given: Given) -> Result<Arc<Keeper>, Missing> {
    let helper = Arc::clone(helper);
    let untried = |why: &str| Err(Missing::Namespace { why: format!("it was not tried: {why}") });
    match again::thread("keeper", move || Keeper::make(&helper, given)) {
        Err(error) => untried(&error.to_string()),
        Ok(making) => making.join().unwrap_or_else(|_| untried("a mistake in the pilot")),
    }
}

/// The account that this process has.
fn holder() -> Holder {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let name = asked(&["id", "-un"]).map(|name| name.trim().to_owned());
    Holder { name: name.unwrap_or_else(|| uid.to_string()), uid, gid }
}

/// The node's own file, and where it does not name the account whatever else the node gets such
/// lines from.
fn lines(path: &str, user: &str, options: &[&str]) -> String {
    let mut text = std::fs::read_to_string(path).unwrap_or_default();
    if !text.lines().any(|line| line.split(':').next() == Some(user)) {
        let words = [&["getsubids"], options, &[user]].concat();
        for line in asked(&words).unwrap_or_default().lines() {
            text.extend(as_in_file(line));
        }
    }
    text
}

/// `0: svc 600000 65536`, as `getsubids` prints it.
fn as_in_file(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, user, first, count] = words[..] else { return None };
    Some(format!("\n{user}:{first}:{count}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_source_says_reads_like_a_line_of_the_file() {
        assert_eq!(as_in_file("0: svc 600000 65536").as_deref(), Some("\nsvc:600000:65536\n"));
        assert_eq!(as_in_file("Error fetching ranges"), None);
    }

    #[test]
    fn a_site_that_gives_all_one_account_does_not_keep_them_apart() {
        let people = sharing("nobody");
        assert_eq!(people.short(), "no: all as nobody");
        assert!(people.to_string().contains("--accounts gives everybody"), "{people}");
    }

    #[test]
    fn where_something_is_missing_all_run_as_one() {
        let missing = Missing::Uids { holder: "svc".into() };
        let found = said(Err(missing), "svc".into(), free_range("", ""));
        let People::No { user, why, fix } = &found.people else { panic!("{found:?}") };
        assert_eq!((user.as_str(), why.as_str()), ("svc", "svc has no subordinate ids"));
        assert!(fix.starts_with("as root: usermod --add-subuids 100000-165535"), "{fix}");
        assert!(found.keeper.is_none());
        assert_eq!(found.people.short(), "no: all as svc");
    }

    #[test]
    fn what_should_work_and_does_not_makes_nobody_the_same() {
        let why = "cannot leave the keyring: Disk quota exceeded".to_string();
        for missing in [
            Missing::Container { why: why.clone() },
            Missing::Namespace { why: why.clone() },
            Missing::Map { program: "newuidmap", said: why },
        ] {
            let found = said(Err(missing), "svc".into(), free_range("", ""));
            assert!(matches!(found.people, People::Refused { .. }), "{found:?}");
            assert!(found.keeper.is_none());
        }
    }
}
