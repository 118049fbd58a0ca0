//! Whom tasks run as: whose job it is, as the server says, turned into an account of the node.
//!
//! Whoever started the server, and with it this pilot, runs as themselves, root included. Others
//! have the account of their name where the pilot is root. Where it is not they have a subordinate
//! id of their own (`accounts/ids.rs`) if there are some, and run as the pilot's user otherwise.
//! Only a site's own list says otherwise. It names accounts and looks them up; becoming one is the
//! helper's work.

mod ids;

pub use ids::Ids;

use rustix::process::geteuid;
use shipway_api::link::Template;
use shipway_model::People;
use shipway_runtime::again::{self, patiently};
use shipway_runtime::plan::{Person, User};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Stands for every user that has no line of its own.
const ANYBODY: &str = "*";
const BY_NAME: &str = "by-name";
const ROOT: &str = "root";

/// How long an account is remembered: a directory service may take its time, and somebody who was
/// put into a group should not wait for long.
const REMEMBERED_FOR: Duration = Duration::from_mins(1);

/// Most accounts that are remembered, far above the users of one node.
const REMEMBERED: usize = 1_000;

/// Which account a site gives to which user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Mapping {
    /// The site has said nothing: the account of the same name where the pilot is root, and the
    /// pilot's own in containers where it is not.
    #[default]
    Usual,
    /// The account of the same name, and no other.
    ByName,
    /// A list; `*` is for everybody who is not in it, but for the owner of the pilot.
    Listed(BTreeMap<String, String>),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    #[error("`{entry}` says nothing: write USER=ACCOUNT, *=ACCOUNT, or {BY_NAME} alone")]
    Entry { entry: String },
    #[error("`{user}` is given two accounts")]
    Twice { user: String },
    #[error("root is nobody's account but the user root's ({ROOT}={ROOT})")]
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
    #[error("only root can run tasks under other accounts: {user} is to have {account}")]
    NotRoot { user: String, account: String },
    #[error("there is no account `{account}` on this node, which {user} is to have")]
    Absent { user: String, account: String },
    #[error("the account {account}, which {user} is to have, is root's by its number or group")]
    Root { user: String, account: String },
}

impl BadMapping {
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotRoot { .. } => "leave --accounts out, or name your own account in it",
            Self::Absent { .. } => "`getent passwd` lists the accounts there are",
            Self::Root { .. } => "choose another; root runs no tasks of others",
        }
    }
}

impl Mapping {
    /// Whether every account that it names can be had, by whoever starts the pilot.
    pub fn check(&self) -> Result<(), BadMapping> {
        let Self::Listed(listed) = self else { return Ok(()) };
        let mut accounts = Accounts::new(self.clone(), false);
        for (user, account) in listed {
            let found = accounts.named(user, account);
            let (user, account) = (user.clone(), account.clone());
            match found {
                Ok(_) => {}
                Err(NoAccount::NotOurs { .. }) => {
                    return Err(BadMapping::NotRoot { user, account });
                }
                Err(NoAccount::Root { .. }) => return Err(BadMapping::Root { user, account }),
                Err(_) => return Err(BadMapping::Absent { user, account }),
            }
        }
        Ok(())
    }

    /// The account that people share who have none of their own here.
    pub fn shared(&self) -> Option<&str> {
        match self {
            Self::Listed(listed) => listed.get(ANYBODY).map(String::as_str),
            Self::Usual | Self::ByName => None,
        }
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

/// Whose task it is, as the server says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whose<'a> {
    pub user: &'a str,
    /// The one who started the server. A name alone is not enough: others may have it.
    pub is_owner: bool,
    /// What the user is counted as; 0: not at all.
    pub number: u32,
}

impl<'a> Whose<'a> {
    pub fn of(template: &'a Template) -> Self {
        let number = template.user_number.map_or(0, |number| number.0);
        Self { user: &template.user, is_owner: template.is_owner, number }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAccount {
    #[error(
        "user {user} has no account on this node: --accounts gives accounts to others only; \
         whoever runs the node can add {user}=ACCOUNT to it"
    )]
    NotListed { user: String },
    #[error(
        "user {user} has no account on this node: there is no account {account}; whoever runs the \
         node can make it, or name another (--accounts {user}=ACCOUNT)"
    )]
    Absent { user: String, account: String },
    #[error(
        "user {user} has no account on this node: {account} is root's, which runs no tasks of \
         others; whoever runs the node can name another (--accounts {user}=ACCOUNT)"
    )]
    Root { user: String, account: String },
    #[error(
        "user {user} has no account on this node: its pilot runs tasks as {own} and cannot become \
         {account}; root can"
    )]
    NotOurs { user: String, account: String, own: String },
    #[error(
        "user {user} runs nothing but containers on this node: a plain process would run as \
         {own}, and read what the server keeps; name an image, such as --image host, or let \
         whoever runs the node say --accounts {user}={own}"
    )]
    Plain { user: String, own: String },
    #[error(
        "user {user} runs nothing on this node now: people cannot be kept apart there ({why}); \
         whoever runs the node finds more in `shipway doctor`"
    )]
    NotApart { user: String, why: String },
    #[error("the server no longer knows user {user}, so there is no id for them on this node")]
    Unknown { user: String },
    #[error(
        "no id is left for {user} on this node: {given} were given to {own}; whoever runs the node \
         can give more (/etc/subuid and /etc/subgid)"
    )]
    NoId { user: String, own: String, given: u32 },
    #[error(
        "user {user} has no id on this node: {id}, which would be theirs, is that of {taken}; \
         whoever runs the node can give {own} other ids (/etc/subuid and /etc/subgid)"
    )]
    Taken { user: String, id: u32, taken: String, own: String },
}

/// Whom a task runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whom {
    /// As the pilot itself, whose task it is, or to whom the site has given its account.
    Pilot,
    /// As the pilot itself, for want of anything else: somebody else's task.
    Guest,
    Account(Account),
    /// Under an id that is nobody else's, in containers only.
    Person(Somebody),
}

/// One of the people who are kept apart by ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Somebody {
    /// What the server calls them; no account has to have that name.
    pub name: String,
    pub person: Person,
}

impl Whom {
    pub const fn account(&self) -> Option<&Account> {
        match self {
            Self::Pilot | Self::Guest | Self::Person(_) => None,
            Self::Account(account) => Some(account),
        }
    }

    pub const fn person(&self) -> Option<&Somebody> {
        match self {
            Self::Pilot | Self::Guest | Self::Account(_) => None,
            Self::Person(somebody) => Some(somebody),
        }
    }

    /// Who is inside a container; `None` for the one who makes it, who is not root then: root has
    /// to be named.
    pub fn inside(&self) -> Option<User> {
        match self {
            Self::Pilot => geteuid().is_root().then_some(User::ROOT),
            Self::Guest | Self::Person(_) => None,
            Self::Account(account) => Some(account.user.clone()),
        }
    }
}

#[derive(Debug)]
pub struct Accounts {
    mapping: Mapping,
    is_root: bool,
    /// Whether the owner of the server is the one who runs this pilot.
    owner_is_here: bool,
    /// The account that this is, by name and number.
    own: String,
    own_uid: u32,
    known: HashMap<String, (Instant, Option<Account>)>,
    /// The ids by which people are kept apart, where they are.
    ids: Option<Ids>,
    /// Why others are refused, where they should be kept apart and cannot.
    refused: Option<String>,
}

impl Accounts {
    pub fn new(mapping: Mapping, owner_is_here: bool) -> Self {
        let (own, own_uid) = (own_name(), geteuid().as_raw());
        let is_root = own_uid == 0;
        let known = HashMap::new();
        Self { mapping, is_root, owner_is_here, own, own_uid, known, ids: None, refused: None }
    }

    /// The same, with ids for people who would run as the pilot otherwise.
    #[must_use]
    pub fn with_ids(self, ids: Option<Ids>) -> Self {
        Self { ids, ..self }
    }

    /// The same, where others are refused if people should be kept apart and cannot.
    #[must_use]
    pub fn refusing(self, people: Option<&People>) -> Self {
        let refused = match people {
            Some(People::Refused { why, .. }) => Some(why.clone()),
            _ => None,
        };
        Self { refused, ..self }
    }

    pub fn find(&mut self, whose: Whose<'_>, in_container: bool) -> Result<Whom, NoAccount> {
        let user = whose.user;
        let is_owner = whose.is_owner && self.owner_is_here;
        let account = match &self.mapping {
            Mapping::Listed(listed) => {
                let anybody = || listed.get(ANYBODY).filter(|_| !is_owner);
                listed.get(user).or_else(anybody).cloned()
            }
            Mapping::ByName | Mapping::Usual if is_owner => None,
            Mapping::ByName => Some(user.to_string()),
            Mapping::Usual => self.is_root.then(|| user.to_string()),
        };
        match account {
            Some(account) => self.named(user, &account),
            None if is_owner => Ok(Whom::Pilot),
            None if self.mapping != Mapping::Usual => {
                Err(NoAccount::NotListed { user: user.into() })
            }
            None if self.refused.is_some() => {
                let why = self.refused.clone().unwrap_or_default();
                Err(NoAccount::NotApart { user: user.into(), why })
            }
            None if in_container => match &mut self.ids {
                // Of a server elsewhere: it counts others only, and them it keeps apart from it.
                Some(ids) if !whose.is_owner => ids.of(whose, &self.own).map(Whom::Person),
                _ => Ok(Whom::Guest),
            },
            None => Err(NoAccount::Plain { user: user.into(), own: self.own.clone() }),
        }
    }

    /// With whose rights files are copied, for whoever learns that they were not enough: people
    /// expect their own.
    pub fn rights(&self, whom: &Whom) -> String {
        let name = match whom {
            Whom::Pilot | Whom::Guest => &self.own,
            Whom::Account(account) => &account.name,
            // The number of the id means nothing to anybody but this node.
            Whom::Person(somebody) => {
                let name = &somebody.name;
                return format!(
                    "files are copied under an id of {name}'s own: of other people's files it \
                     reaches what everybody may"
                );
            }
        };
        format!("files are copied as {name}, whom the task runs as")
    }

    /// Whether the pilot may read for this user whatever it can read itself. Not for guests: they
    /// run as its user for want of anything else, and see less than it does.
    pub fn may_read_all(&mut self, whose: Whose<'_>) -> bool {
        matches!(self.find(whose, true), Ok(Whom::Pilot))
    }

    fn named(&mut self, user: &str, account: &str) -> Result<Whom, NoAccount> {
        let (user, account) = (user.to_string(), account.to_string());
        let listed = |mapping: &Mapping| match mapping {
            Mapping::Listed(listed) => listed.get(ROOT).is_some_and(|account| account == ROOT),
            Mapping::Usual | Mapping::ByName => false,
        };
        // Written by whoever runs this node: whoever may submit in that name is root already.
        if self.is_root && user == ROOT && account == ROOT && listed(&self.mapping) {
            return Ok(Whom::Pilot);
        }
        let found = self.look_up(&account);
        if !self.is_root {
            let is_own = |found: &Account| found.user.uid == self.own_uid;
            return if account == self.own || found.as_ref().is_some_and(is_own) {
                Ok(Whom::Pilot)
            } else {
                Err(NoAccount::NotOurs { user, account, own: self.own.clone() })
            };
        }
        match found {
            Some(found) if fits(&found) => Ok(Whom::Account(found)),
            Some(_) => Err(NoAccount::Root { user, account }),
            None => Err(NoAccount::Absent { user, account }),
        }
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

/// Whether this machine has an account that tasks of somebody of that name can run under.
pub fn is_there_one_for(user: &str) -> bool {
    account_named(user).is_some_and(|account| fits(&account))
}

fn fits(account: &Account) -> bool {
    account.user.uid != 0 && account.user.gid != 0
}

/// The name of the account that this process has; its number where it has no name.
fn own_name() -> String {
    own_account().map_or_else(|| geteuid().as_raw().to_string(), |own| own.name)
}

/// The home of the account that this process has.
pub(crate) fn own_home() -> Option<PathBuf> {
    own_account().map(|own| own.home).filter(|home| home.is_absolute())
}

pub(crate) fn own_account() -> Option<Account> {
    let uid = geteuid().as_raw();
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = |line: &str| account(line, line.split(':').next()?);
    accounts.lines().filter_map(named).find(|account| account.user.uid == uid)
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

/// What a program of the node says.
pub(crate) fn asked(words: &[&str]) -> Option<String> {
    answer(words).ok().flatten()
}

/// The same; `None` where there is no such program or it says no, an error where it could not be
/// asked. On a thread of its own: what the main thread starts would be taken for something that a
/// task left.
pub(crate) fn answer(words: &[&str]) -> io::Result<Option<String>> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    let asking = again::thread("asking", move || patiently(|| command.output()))?;
    let broken = |_| io::Error::other("asking was cut off");
    let done = match asking.join().map_err(broken)? {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        done => done?,
    };
    if done.status.code().is_none() {
        return Err(io::Error::other(format!("{} was ended: {}", words[0], done.status)));
    }
    let said = || String::from_utf8_lossy(&done.stdout).into_owned();
    Ok(done.status.success().then(said))
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
mod tests;
