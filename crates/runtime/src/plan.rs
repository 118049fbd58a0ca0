//! What a container is, as plain data: what it runs, on which tree, and what it may see.
//!
//! The pilot fills it in; a [`Runtime`](crate::Runtime) makes it true. Nothing here acts, and
//! nothing here knows how any runtime works. It travels to the helper as JSON on a descriptor,
//! never as arguments: an environment holds secrets, and arguments can be read by everybody.

use crate::reach::Reach;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::path::PathBuf;

/// Bytes of a container's private memory file systems when nobody says otherwise. They are only
/// taken when used; the number is there so that one task cannot fill the node's memory by writing
/// to `/tmp`.
pub const DEFAULT_MEMORY_ROOM: u64 = 1 << 30;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Container {
    pub root: Root,
    /// The tree is kept by the caller for all tasks. When that is root it is opened before root is
    /// left, and shown as the task's own; any other tree must be open to the task itself.
    #[serde(default)]
    pub tree_is_ours: bool,
    /// Where writes to the root go; without it the root is read-only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratch: Option<WritableSpace>,
    /// Program and arguments; a program without a slash is looked up in the `PATH` of `env`.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// Absolute, as seen inside.
    pub cwd: PathBuf,
    /// Made in this order, after everything the container has of itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binds: Vec<Bind>,
    /// Device nodes of the node, shown at the same path. Those every program needs are there
    /// without being named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<PathBuf>,
    /// Paths whose content must not be seen: covered by something empty. Absent ones are skipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<PathBuf>,
    /// Which sources of binds that somebody asked for, and which trees, may be used, and what of
    /// the node's own tree is covered.
    #[serde(default)]
    pub reach: Reach,
    pub network: Network,
    /// `/tmp` and `/var/tmp`, private to the container.
    pub tmp: WritableSpace,
    #[serde(default)]
    pub limits: Limits,
    /// `cgroup.procs` files the container joins; see [`Group`](crate::cgroup::Group).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cgroups: Vec<PathBuf>,
    /// Who the task runs as. Must be given when the caller is root: whose tasks are root's is
    /// decided by whoever writes the plan, and never by having forgotten to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<User>,
    /// Which of the people it belongs to whom a [`Keeper`](crate::native::Keeper) keeps apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<Person>,
    /// A plain file that the task reads, opened with the rights of its person, whom it needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<Reads>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// A new file of the caller's, opened before another user is become, in which it is told how
    /// the task ended: for when nobody is left to read the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<PathBuf>,
}

/// The file tree a container stands on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Root {
    /// An extracted image. Never written to.
    Tree(PathBuf),
    /// The node's own tree, read-only, with a minimal `/dev`, its own `/proc` and private `/tmp`.
    Host,
}

/// Where something private may be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WritableSpace {
    /// In memory, up to so many bytes, gone with the container.
    Memory(u64),
    /// In a directory that belongs to the user of the task. Whoever made it removes it.
    Directory(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bind {
    /// On the node. Links in it are followed.
    pub source: PathBuf,
    /// Inside, absolute. No part of it may be a link.
    pub target: PathBuf,
    #[serde(default)]
    pub writable: bool,
    /// Somebody named the source: the plan's `reach` says whether they may have it.
    #[serde(default)]
    pub asked: bool,
    /// A folder that the caller made for this task, and that is the task's own. Where the caller
    /// is root it is opened before root is left: the folders above it may be closed to the task.
    #[serde(default)]
    pub ours: bool,
}

impl Bind {
    pub fn read_only(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        let (source, target) = (source.into(), target.into());
        Self { source, target, writable: false, asked: false, ours: false }
    }

    pub fn writable(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        Self { writable: true, ..Self::read_only(source, target) }
    }

    /// The same, of a source that somebody named.
    #[must_use]
    pub fn asked_for(self) -> Self {
        Self { asked: true, ..self }
    }

    /// The same, of a folder that was made for this task.
    #[must_use]
    pub fn made_for_it(self) -> Self {
        Self { ours: true, ..self }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// The node's own.
    Host,
    /// None at all: even the loopback device is down.
    None,
    /// A loopback device that only this container has.
    Loopback,
}

/// What a task may use. Held by cgroups where the node delegates them; see [`crate::cgroup`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<u32>,
    /// Thousandths of a processor: its part when others want them too, and no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub millicpus: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups; only root can give them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<u32>,
}

/// One of the people whose tasks are kept apart by subordinate ids: their ids in the user namespace
/// of the keeper, where 0 is the caller itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Person {
    pub uid: NonZeroU32,
    pub gid: NonZeroU32,
}

/// A file on the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reads {
    pub path: PathBuf,
    /// It was allowed as it stands: no part of it may have become a link since.
    #[serde(default)]
    pub resolved: bool,
}

/// Who a plain program is in the user namespace of the keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Within {
    /// The caller, with every right over the files of all people. For programs of the caller's
    /// that follow no link of theirs.
    Keeper,
    /// One of the people, with their rights only.
    Person(Person),
}

/// What is done before a plain program of the node is started: where it stands, who it runs as,
/// and within which limits. Its words are given to it directly, its environment comes beside.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Absolute.
    pub cwd: PathBuf,
    /// `cgroup.procs` files it joins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cgroups: Vec<PathBuf>,
    /// Who it becomes; the caller must be root then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<User>,
    /// A tree of root's that it sees as its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Shown>,
    /// Where people are kept apart by their ids: who it becomes there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Within>,
    /// It is somebody else's, and has the caller's user: see [`Reach::guest`].
    #[serde(default)]
    pub guest: bool,
    /// Files and folders of the caller's that are given to the person first, and that the program
    /// finds by [`handed`](crate::native::handed): the folders above them are closed to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handed: Vec<PathBuf>,
}

/// A tree, and where it is seen by one process and those it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    pub tree: PathBuf,
    pub place: PathBuf,
}

impl User {
    /// Root itself: for tasks of whoever is root, and of nobody else.
    pub const ROOT: Self = Self { uid: 0, gid: 0, groups: Vec::new() };

    /// Whether it is root in all, or in nothing.
    pub const fn is_one(&self) -> bool {
        (self.uid == 0) == (self.gid == 0)
    }
}

impl Container {
    /// A container with nothing but its command: read-only root, private `/tmp`, the node's
    /// network.
    pub fn new(root: Root, argv: Vec<String>) -> Self {
        Self {
            root,
            tree_is_ours: false,
            scratch: None,
            argv,
            env: Vec::new(),
            cwd: PathBuf::from("/"),
            binds: Vec::new(),
            devices: Vec::new(),
            hidden: Vec::new(),
            reach: Reach::default(),
            network: Network::Host,
            tmp: WritableSpace::Memory(DEFAULT_MEMORY_ROOM),
            limits: Limits::default(),
            cgroups: Vec::new(),
            user: None,
            person: None,
            reads: None,
            hostname: None,
            told: None,
        }
    }
}

/// What is wrong with a description, before anything is tried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("cannot run a container: the command is empty")]
    EmptyCommand,
    #[error("cannot run a container: {what} holds a NUL byte")]
    NulByte { what: &'static str },
    #[error("cannot run a container: `{name}` is not the name of a variable")]
    VariableName { name: String },
    #[error("cannot run a container: the path {} is not absolute, or has a `..`", path.display())]
    BadPath { path: PathBuf },
    #[error("cannot bind on /: that is the container's own root")]
    BindOnRoot,
    #[error("cannot run a container on the node's own root as an image: write `host` for that")]
    RootAsImage,
    #[error("cannot run a container on the node's own tree with a writable root")]
    WritableHost,
    #[error("cannot run a container as root: name the account that the task belongs to")]
    AsRoot,
    #[error("cannot run a container for an account and for a person without one")]
    TwoUsers,
    #[error("cannot run a container as user {uid} in group {gid}: one of them is root's")]
    HalfRoot { uid: u32, gid: u32 },
    #[error("cannot open what a task reads with the rights of its person: it has none")]
    ReadsAsNobody,
}

impl Container {
    /// Refuses what no runtime could make sense of, so that none has to look again.
    pub fn validate(&self) -> Result<(), PlanError> {
        let program = self.argv.first().ok_or(PlanError::EmptyCommand)?;
        if program.is_empty() {
            return Err(PlanError::EmptyCommand);
        }
        no_nul("an argument", self.argv.iter())?;
        no_nul("a variable", self.env.iter().map(|(_, value)| value))?;
        no_nul("the host name", self.hostname.iter())?;
        for (name, _) in &self.env {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(PlanError::VariableName { name: name.clone() });
            }
        }
        for path in self.paths() {
            if !is_plain(path) {
                return Err(PlanError::BadPath { path: path.clone() });
            }
        }
        if self.binds.iter().any(|bind| bind.target.as_os_str() == "/") {
            return Err(PlanError::BindOnRoot);
        }
        if matches!(&self.root, Root::Tree(tree) if tree.as_os_str() == "/") {
            return Err(PlanError::RootAsImage);
        }
        if self.root == Root::Host && self.scratch.is_some() {
            return Err(PlanError::WritableHost);
        }
        match &self.user {
            Some(_) if self.person.is_some() => Err(PlanError::TwoUsers),
            _ if self.reads.is_some() && self.person.is_none() => Err(PlanError::ReadsAsNobody),
            Some(user) if !user.is_one() => {
                Err(PlanError::HalfRoot { uid: user.uid, gid: user.gid })
            }
            _ => Ok(()),
        }
    }

    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        let rooms = [Some(&self.tmp), self.scratch.as_ref()].into_iter().flatten();
        let rooms = rooms.filter_map(|room| match room {
            WritableSpace::Directory(path) => Some(path),
            WritableSpace::Memory(_) => None,
        });
        let tree = match &self.root {
            Root::Tree(path) => Some(path),
            Root::Host => None,
        };
        let binds = self.binds.iter().flat_map(|bind| [&bind.source, &bind.target]);
        binds
            .chain(rooms)
            .chain(tree)
            .chain(&self.devices)
            .chain(&self.hidden)
            .chain(&self.cgroups)
            .chain(self.reads.as_ref().map(|file| &file.path))
            .chain([&self.cwd])
    }
}

fn no_nul<'a>(
    what: &'static str,
    mut texts: impl Iterator<Item = &'a String>,
) -> Result<(), PlanError> {
    if texts.any(|text| text.contains('\0')) { Err(PlanError::NulByte { what }) } else { Ok(()) }
}

/// Absolute, and every part a name: what a path means must not depend on what lies on its way.
fn is_plain(path: &std::path::Path) -> bool {
    use std::path::Component::{Normal, RootDir};
    let plain = path.components().all(|part| matches!(part, RootDir | Normal(_)));
    plain && path.is_absolute() && !path.as_os_str().as_encoded_bytes().contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container() -> Container {
        Container::new(Root::Tree("/images/a".into()), vec!["true".into()])
    }

    fn refused(change: impl FnOnce(&mut Container)) -> PlanError {
        let mut container = container();
        change(&mut container);
        container.validate().expect_err("refused")
    }

    #[test]
    fn what_no_runtime_understands_is_refused() {
        assert_eq!(container().validate(), Ok(()));
        assert_eq!(refused(|it| it.argv.clear()), PlanError::EmptyCommand);
        assert_eq!(
            refused(|it| it.argv.push("a\0b".into())),
            PlanError::NulByte { what: "an argument" }
        );
        let name = PlanError::VariableName { name: "A=B".into() };
        assert_eq!(refused(|it| it.env.push(("A=B".into(), String::new()))), name);
        let path = PlanError::BadPath { path: "/a/../b".into() };
        assert_eq!(refused(|it| it.binds.push(Bind::read_only("/x", "/a/../b"))), path);
        assert_eq!(refused(|it| it.binds.push(Bind::read_only("/", "/"))), PlanError::BindOnRoot);
        assert_eq!(refused(|it| it.root = Root::Tree("/".into())), PlanError::RootAsImage);
        let path = PlanError::BadPath { path: "a".into() };
        assert_eq!(refused(|it| it.cwd = "a".into()), path);
        for (uid, gid) in [(0, 5), (5, 0)] {
            let half = User { uid, gid, groups: Vec::new() };
            assert_eq!(refused(|it| it.user = Some(half)), PlanError::HalfRoot { uid, gid });
        }
        let writable = |it: &mut Container| {
            it.root = Root::Host;
            it.scratch = Some(WritableSpace::Memory(1));
        };
        assert_eq!(refused(writable), PlanError::WritableHost);
    }

    #[test]
    fn reads_back_what_was_written() {
        let mut container = container();
        container.binds.push(Bind::writable("/a", "/b"));
        container.user = Some(User { uid: 7, gid: 8, groups: vec![9] });
        container.env.push(("A".into(), "ü\n".into()));
        let text = serde_json::to_string(&container).unwrap();
        assert_eq!(serde_json::from_str::<Container>(&text).unwrap(), container);
    }
}
