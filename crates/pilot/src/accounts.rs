//! Whom tasks run as where the pilot is root: the account of a node that a user of the server has.
//!
//! It names accounts and looks them up; becoming one is the helper's work. Root itself is nobody's
//! account, unless the site writes `root=root`.

use shipway_runtime::plan::User;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Stands for every user that has no line of its own.
const ANYBODY: &str = "*";
const BY_NAME: &str = "by-name";
/// The account of those who have none.
const NOBODY: &str = "nobody";
const ROOT: &str = "root";

/// How long an account is remembered: a directory service may take its time, and somebody who was
/// put into a group should not wait for long.
const REMEMBERED_FOR: Duration = Duration::from_mins(1);

/// Most accounts that are remembered, far above the users of one node.
const REMEMBERED: usize = 1_000;

/// Which account a site gives to which user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Mapping {
    /// The site has said nothing: the account of the same name, or else `nobody`.
    #[default]
    Usual,
    /// The account of the same name, and no other.
    ByName,
    /// A list; `*` is for everybody who is not in it.
    Listed(BTreeMap<String, String>),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    #[error("`{entry}` says nothing: write USER=ACCOUNT, *=ACCOUNT, or {BY_NAME} alone")]
    Entry { entry: String },
    #[error("`{user}` is given two accounts")]
    Twice { user: String },
    #[error(
        "root is nobody's account, but for the user root's own plain processes ({ROOT}={ROOT})"
    )]
    Root,
}

impl FromStr for Mapping {
    type Err = MappingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == BY_NAME {
            return Ok(Self::ByName);
        }
        let mut listed = BTreeMap::new();
        for entry in text.split(',') {
            let pair = entry.split_once('=').map(|(user, account)| (user.trim(), account.trim()));
            let pair = pair.filter(|(user, account)| !user.is_empty() && !account.is_empty());
            let (user, account) = pair.ok_or(MappingError::Entry { entry: entry.into() })?;
            if account == ROOT && user != ROOT {
                return Err(MappingError::Root);
            }
            if listed.insert(user.to_string(), account.to_string()).is_some() {
                return Err(MappingError::Twice { user: user.into() });
            }
        }
        Ok(Self::Listed(listed))
    }
}

/// A mapping that this node cannot follow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadMapping {
    #[error("only root can run tasks under other accounts")]
    NotRoot,
    #[error("there is no account `{account}` on this node, which {user} is to have")]
    Absent { user: String, account: String },
    #[error("the account {account}, which {user} is to have, is root's by its number or group")]
    Root { user: String, account: String },
}

impl BadMapping {
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotRoot => "leave --accounts out: all tasks run as you",
            Self::Absent { .. } => "`getent passwd` lists the accounts there are",
            Self::Root { .. } => "choose another; root runs no tasks",
        }
    }
}

impl Mapping {
    /// Whether every account that it names can be had, by whoever starts the pilot.
    pub fn check(&self) -> Result<(), BadMapping> {
        if !rustix::process::geteuid().is_root() {
            return if *self == Self::Usual { Ok(()) } else { Err(BadMapping::NotRoot) };
        }
        let Self::Listed(listed) = self else { return Ok(()) };
        for (user, account) in listed.iter().filter(|(_, account)| *account != ROOT) {
            let (user, account) = (user.clone(), account.clone());
            match account_named(&account) {
                None => return Err(BadMapping::Absent { user, account }),
                Some(found) if !fits(&found) => return Err(BadMapping::Root { user, account }),
                Some(_) => {}
            }
        }
        Ok(())
    }
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usual => Ok(()),
            Self::ByName => f.write_str(BY_NAME),
            Self::Listed(listed) => {
                let entries: Vec<String> =
                    listed.iter().map(|(user, account)| format!("{user}={account}")).collect();
                f.write_str(&entries.join(","))
            }
        }
    }
}

/// An account of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    pub user: User,
    pub home: PathBuf,
    pub shell: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAccount {
    #[error("user {user} has no account on this node: its site gives accounts to others only")]
    NotListed { user: String },
    #[error("user {user} has no account on this node: there is no account {account}")]
    Absent { user: String, account: String },
    #[error("user {user} has no account on this node: {account} is root's, which runs no tasks")]
    Root { user: String, account: String },
}

/// Whom a task runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whom {
    /// As the pilot itself.
    Pilot,
    Account(Account),
}

impl Whom {
    pub const fn account(&self) -> Option<&Account> {
        match self {
            Self::Pilot => None,
            Self::Account(account) => Some(account),
        }
    }
}

#[derive(Debug)]
pub struct Accounts {
    mapping: Mapping,
    is_root: bool,
    known: HashMap<String, (Instant, Option<Account>)>,
}

impl Accounts {
    pub fn new(mapping: Mapping) -> Self {
        let is_root = rustix::process::geteuid().is_root();
        Self { mapping, is_root, known: HashMap::new() }
    }

    /// A pilot that is not root runs everything as itself. One that is root runs nothing as root,
    /// but the plain processes of the user root where the site says so (`root=root`): whoever may
    /// submit in that name is root already. Root's containers are `nobody`'s even then.
    pub fn find(&mut self, user: &str, in_container: bool) -> Result<Whom, NoAccount> {
        if !self.is_root {
            return Ok(Whom::Pilot);
        }
        if self.is_root_itself(user) {
            return if in_container { self.nobody(user) } else { Ok(Whom::Pilot) };
        }
        let (name, or_nobody) = match &self.mapping {
            Mapping::Usual => (user.to_string(), true),
            Mapping::ByName => (user.to_string(), false),
            Mapping::Listed(listed) => {
                let account = listed.get(user).or_else(|| listed.get(ANYBODY));
                let not_listed = || NoAccount::NotListed { user: user.into() };
                (account.ok_or_else(not_listed)?.clone(), false)
            }
        };
        match self.look_up(&name) {
            Some(account) if fits(&account) => Ok(Whom::Account(account)),
            _ if or_nobody => self.nobody(user),
            Some(_) => Err(NoAccount::Root { user: user.into(), account: name }),
            None => Err(NoAccount::Absent { user: user.into(), account: name }),
        }
    }

    /// Whether the pilot may read for this user whatever it can read itself.
    pub fn may_read_all(&self, user: &str) -> bool {
        let is_owner = user == ROOT && self.mapping == Mapping::Usual;
        !self.is_root || is_owner || self.is_root_itself(user)
    }

    /// Whether the site lets this user be root.
    pub fn is_root_itself(&self, user: &str) -> bool {
        let listed = |mapping: &Mapping| match mapping {
            Mapping::Listed(listed) => listed.get(ROOT).is_some_and(|account| account == ROOT),
            Mapping::Usual | Mapping::ByName => false,
        };
        self.is_root && user == ROOT && listed(&self.mapping)
    }

    fn nobody(&mut self, user: &str) -> Result<Whom, NoAccount> {
        let found = self.look_up(NOBODY).filter(fits);
        let absent = || NoAccount::Absent { user: user.into(), account: NOBODY.into() };
        found.map(Whom::Account).ok_or_else(absent)
    }

    fn look_up(&mut self, name: &str) -> Option<Account> {
        let now = Instant::now();
        if let Some((_, account)) = self.known.get(name).filter(|(until, _)| *until > now) {
            return account.clone();
        }
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        let account = account_named(name);
        self.known.insert(name.to_string(), (now + REMEMBERED_FOR, account.clone()));
        account
    }
}

fn fits(account: &Account) -> bool {
    account.user.uid != 0 && account.user.gid != 0
}

/// Asks the node's own files first, then whatever else it gets its accounts from.
fn account_named(name: &str) -> Option<Account> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    if name.is_empty() || name.starts_with('-') || !name.chars().all(plain) {
        return None;
    }
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let local = read("/etc/passwd").lines().find_map(|line| account(line, name));
    if let Some(mut account) = local {
        account.user.groups = groups(&read("/etc/group"), name);
        return Some(account);
    }
    let mut account =
        asked(&["getent", "passwd", name])?.lines().find_map(|it| account(it, name))?;
    let groups = asked(&["id", "-G", name])?;
    let groups = groups.split_whitespace().filter_map(|id| id.parse().ok());
    account.user.groups = groups.filter(|gid| *gid != 0).collect();
    Some(account)
}

/// What a program of the node says. On a thread of its own: what the main thread starts would be
/// taken for something that a task left.
fn asked(words: &[&str]) -> Option<String> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    let done = std::thread::spawn(move || command.output()).join().ok()?.ok()?;
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned())
}

/// A line of `/etc/passwd`: name, -, user, group, -, home, shell.
fn account(line: &str, name: &str) -> Option<Account> {
    let fields: Vec<&str> = line.trim_end().split(':').collect();
    let [found, _, uid, gid, _, home, shell] = fields[..] else { return None };
    let user = User { uid: uid.parse().ok()?, gid: gid.parse().ok()?, groups: Vec::new() };
    (found == name).then(|| Account {
        name: name.into(),
        user,
        home: home.into(),
        shell: shell.into(),
    })
}

/// The groups of `/etc/group` that an account is in beside its own. Root's is given to nobody.
fn groups(text: &str, name: &str) -> Vec<u32> {
    let lines = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [_, _, gid, members] = fields[..] else { return None };
        members.split(',').any(|member| member == name).then(|| gid.parse().ok())?
    });
    lines.filter(|gid| *gid != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts(mapping: &str) -> Accounts {
        let mapping = if mapping.is_empty() { Mapping::Usual } else { mapping.parse().unwrap() };
        Accounts { mapping, is_root: true, known: HashMap::new() }
    }

    fn name(found: Result<Whom, NoAccount>) -> String {
        match found {
            Ok(Whom::Pilot) => "the pilot".into(),
            Ok(Whom::Account(account)) => account.name,
            Err(error) => error.to_string(),
        }
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
    fn nobody_runs_as_root() {
        let usual = |user, contained| name(accounts("").find(user, contained));
        assert_eq!(usual("games", false), "games", "the account of the same name");
        assert_eq!(usual("no-such-user", false), "nobody");
        assert_eq!(usual("root", true), "nobody");
        assert_eq!(usual("root", false), "nobody");
        let own = |user, contained| name(accounts("root=root,*=nobody").find(user, contained));
        assert_eq!(own("root", false), "the pilot", "because the site says so");
        assert_eq!((own("root", true).as_str(), own("ada", false).as_str()), ("nobody", "nobody"));
        let by_name = |user| name(accounts("by-name").find(user, false));
        assert_eq!(by_name("games"), "games");
        assert!(by_name("root").contains("runs no tasks"), "{}", by_name("root"));
        assert!(by_name("no-such-user").contains("no account no-such-user"));
        let listed = |user| name(accounts("ada=games").find(user, false));
        assert_eq!(listed("ada"), "games");
        assert!(listed("games").contains("gives accounts to others only"));
        assert_eq!(name(accounts("*=nobody").find("root", false)), "nobody");
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

    #[test]
    fn a_pilot_that_is_not_root_has_no_choice() {
        let mut accounts = Accounts { is_root: false, ..accounts("by-name") };
        assert_eq!(accounts.find("no-such-user", true), Ok(Whom::Pilot));
    }
}
