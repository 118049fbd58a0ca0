//! How this node keeps the tasks of different people apart, found out by doing it: as root by
//! accounts, as an ordinary user by subordinate ids where there are some. Which account or id a
//! person has is decided in `accounts.rs`.
//!
//! Whoever can make the look for ids fail must not become the pilot's user by it: what cannot be
//! found out, and what was there once and is gone, makes others be refused.

use crate::accounts::{answer, own_account};
use crate::runtimes::RuntimeChoice;
use rustix::process::{getegid, geteuid};
use shipway_model::people::People;
use shipway_runtime::again;
use shipway_runtime::native::{Helper, Keeper};
use shipway_runtime::subids::{Given, Holder, Missing, Range, free_range};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// In the pilot's folder: people have had ids of their own here.
const HAD_IDS: &str = "people-apart";

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

impl Found {
    /// Leaves word in the pilot's folder for the next start.
    pub(crate) fn leave_word(&self, dir: &Path) {
        let path = dir.join(HAD_IDS);
        if self.people == People::BySubordinateId
            && !path.exists()
            && let Err(error) = shipway_trees::write_whole(&path, b"")
        {
            tracing::warn!(%error, path = %path.display(), "cannot remember that people have ids");
        }
    }
}

/// Starts a process or two, and a container as one of the people. `shared` is the account that the
/// site gives to everybody it does not name, `dir` the pilot's folder.
pub fn find(
    choice: &RuntimeChoice,
    helper: &Arc<Helper>,
    shared: Option<&str>,
    dir: &Path,
) -> Found {
    if let Some(account) = shared {
        return Found { people: sharing(account), keeper: None };
    }
    if geteuid().is_root() {
        return Found { people: People::ByAccount, keeper: None };
    }
    let uid = geteuid().as_raw();
    let own = holder(uid);
    let user = own.as_ref().map_or_else(|_| uid.to_string(), |own| own.name.clone());
    if *choice != RuntimeChoice::Native {
        let why = format!("{choice} runs containers as one user");
        let fix = "leave --runtime out: native containers keep people apart by subordinate ids";
        let people = People::No { user, why, fix: fix.into() };
        return Found { people, keeper: None };
    }
    let read =
        own.and_then(|own| Ok((lines(SUBUID, &own, &[])?, lines(SUBGID, &own, &["-g"])?, own)));
    let (made, free) = match read {
        Err(error) => (Err(Missing::Unasked { why: error.to_string() }), free_range("", "")),
        Ok((subuid, subgid, own)) => {
            let given = Given::read(own, &subuid, &subgid);
            (make(helper, given), free_range(&subuid, &subgid))
        }
    };
    said(made, user, free, &dir.join(HAD_IDS))
}

fn sharing(account: &str) -> People {
    People::No {
        user: account.into(),
        why: format!("--accounts gives the account {account} to everybody whom it does not name"),
        fix: "leave `*` out of --accounts; people without an account are then refused".into(),
    }
}

/// What to make of it.
fn said(made: Result<Arc<Keeper>, Missing>, user: String, free: Range, had_ids: &Path) -> Found {
    let missing = match made {
        Ok(keeper) => return Found { people: People::BySubordinateId, keeper: Some(keeper) },
        Err(missing) => missing,
    };
    let (why, fix) = (missing.to_string(), missing.fix(free));
    // Whoever could make it fail would otherwise have everybody run as one.
    let people = if !missing.is_of_the_node() {
        People::Refused { why, fix: TRY_AGAIN.into() }
    } else if had_ids.exists() {
        let file = had_ids.display();
        let why = Missing::Gone { now: why }.to_string();
        let fix = format!(
            "{fix}; to let others run as {user} from now on: remove {file}, and start \
             `shipway up` again"
        );
        People::Refused { why, fix }
    } else {
        People::No { user, why, fix }
    };
    Found { people, keeper: None }
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
fn holder(uid: u32) -> io::Result<Holder> {
    let name = match own_account() {
        Some(own) => own.name,
        None => answer(&["id", "-un"])?.map_or_else(|| uid.to_string(), |it| it.trim().to_owned()),
    };
    Ok(Holder { name, uid, gid: getegid().as_raw() })
}

/// The node's own file, and where it does not name the account whatever else the node gets such
/// lines from.
fn lines(path: &str, own: &Holder, options: &[&str]) -> io::Result<String> {
    let mut text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let number = own.uid.to_string();
    let is_own =
        |line: &str| line.split(':').next().is_some_and(|it| it == own.name || it == number);
    if !text.lines().any(is_own) {
        let words = [&["getsubids"], options, &[own.name.as_str()]].concat();
        for line in answer(&words)?.unwrap_or_default().lines() {
            text.extend(as_in_file(line));
        }
    }
    Ok(text)
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
        assert!(people.to_string().contains("gives the account nobody to everybody"), "{people}");
    }

    #[test]
    fn where_something_is_missing_all_run_as_one() {
        let missing = Missing::Uids { holder: "svc".into() };
        let found = said(Err(missing), "svc".into(), free_range("", ""), Path::new("/nowhere"));
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
            Missing::Map { program: "newuidmap", said: why.clone() },
            Missing::Unasked { why },
        ] {
            let found = said(Err(missing), "svc".into(), free_range("", ""), Path::new("/nowhere"));
            assert!(matches!(found.people, People::Refused { .. }), "{found:?}");
            assert!(found.keeper.is_none());
        }
    }

    #[test]
    fn ids_that_were_there_and_are_gone_make_nobody_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let said = |missing| {
            said(Err(missing), "svc".into(), free_range("", ""), &dir.path().join(HAD_IDS))
        };
        let missing = || Missing::Uids { holder: "svc".into() };
        let never = said(missing());
        never.leave_word(dir.path());
        assert!(matches!(said(missing()).people, People::No { .. }), "it never had any");
        Found { people: People::BySubordinateId, keeper: None }.leave_word(dir.path());
        let found = said(missing());
        let People::Refused { why, fix } = &found.people else { panic!("{found:?}") };
        assert_eq!(
            why,
            "people had subordinate ids here until now, and svc has no subordinate ids"
        );
        assert!(fix.contains("usermod --add-subuids") && fix.contains(HAD_IDS), "{fix}");
    }

    #[test]
    fn what_cannot_be_asked_is_told_from_what_says_no() {
        assert!(matches!(answer(&["/nowhere/id"]), Ok(None)));
        assert!(matches!(answer(&["false"]), Ok(None)));
        assert!(matches!(answer(&["echo", "a"]), Ok(Some(said)) if said == "a\n"));
        assert!(answer(&["sh", "-c", "kill -9 $$"]).is_err());
        // A folder is there, and no file.
        let own = Holder { name: "svc".into(), uid: 7, gid: 7 };
        assert!(lines("/etc", &own, &[]).is_err());
        assert!(lines("/nowhere/subuid", &own, &[]).is_ok());
    }
}
