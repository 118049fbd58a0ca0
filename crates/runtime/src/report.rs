//! The one descriptor between caller and helper: the plan goes in, how it ended comes out.
//!
//! It is a file in memory. The caller keeps it open, gives it to the helper as standard input,
//! and reads the report when the helper is dead. The task never has it.

use crate::plan::{Container, Process};
use crate::variables::Variables;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Longest plan a helper reads: the kernel takes no more than 2 MiB of arguments and environment,
/// and JSON may need six bytes for one.
pub const PLAN_LIMIT: usize = 16 << 20;

/// Longest report a caller reads: one message with a path or two in it.
const REPORT_LIMIT: usize = 64 << 10;

/// How a container's task ended, or why there was none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Exit(i32),
    Signal { number: i32, core_dumped: bool },
    NotStarted(NotStarted),
}

/// Letters of a message: JSON may need six bytes for each of their bytes, and four make one.
const MESSAGE_LETTERS: usize = 2_000;

impl Ending {
    /// A report that is longer than what is read would be none.
    fn shortened(&self) -> Cow<'_, Ending> {
        match self {
            Ending::NotStarted(NotStarted { why, message }) if message.len() > MESSAGE_LETTERS => {
                let message = message.chars().take(MESSAGE_LETTERS).chain(['…']).collect();
                Cow::Owned(Ending::NotStarted(NotStarted { why: *why, message }))
            }
            _ => Cow::Borrowed(self),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct NotStarted {
    pub why: Why,
    /// The whole story, causes included.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The container could not be made: the node's or the plan's fault.
    Container,
    /// The node has no room for another container for now.
    NoRoom,
    /// There is no such program in the image.
    NoProgram,
    /// It is there and cannot be run.
    NotExecutable,
}

impl Why {
    /// What the helper exits with, as shells and other runtimes do.
    pub const fn exit_code(self) -> i32 {
        match self {
            Self::Container | Self::NoRoom => 125,
            Self::NotExecutable => 126,
            Self::NoProgram => 127,
        }
    }
}

/// What a helper is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HelperTask {
    Container(Box<Container>),
    /// And the environment of the program that it turns into.
    Process(Process, Variables),
    /// Make a user namespace and wait in it, until standard input ends.
    Hold,
}

/// The same on the caller's side, who keeps what it asks for.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked<'a> {
    Container(&'a Container),
    Process(&'a Process, &'a Variables),
    Hold,
}

/// The file in memory, on either side.
#[derive(Debug)]
pub struct Letter {
    file: File,
    /// Where the report begins.
    report_at: u64,
    /// Where it is told a second time; see [`Container::told`].
    told: Option<File>,
}

const LENGTH_BYTES: usize = size_of::<u32>();

impl Letter {
    /// The caller's side.
    pub fn write(asked: Asked<'_>) -> io::Result<Self> {
        let plan = serde_json::to_vec(&asked)?;
        if plan.len() > PLAN_LIMIT {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the plan is too long"));
        }
        let length = u32::try_from(plan.len()).expect("the limit fits");
        let file = File::from(memfd_create("shipway-container", MemfdFlags::CLOEXEC)?);
        let mut bytes = Vec::with_capacity(LENGTH_BYTES + plan.len());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&plan);
        // Not by the file's position: helper and caller share that.
        file.write_all_at(&bytes, 0)?;
        Ok(Self { file, report_at: bytes.len() as u64, told: None })
    }

    /// The same letter, for another process.
    pub fn again(&self) -> io::Result<Self> {
        let told = self.told.as_ref().map(File::try_clone).transpose()?;
        Ok(Self { file: self.file.try_clone()?, report_at: self.report_at, told })
    }

    /// A copy to give away.
    pub fn copy(&self) -> io::Result<OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }

    /// The helper's side.
    pub fn read(descriptor: OwnedFd) -> io::Result<(Self, HelperTask)> {
        let file = File::from(descriptor);
        let mut length = [0; LENGTH_BYTES];
        file.read_exact_at(&mut length, 0)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > PLAN_LIMIT {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the plan is too long"));
        }
        let mut plan = vec![0; length];
        file.read_exact_at(&mut plan, LENGTH_BYTES as u64)?;
        let order = serde_json::from_slice(&plan)?;
        Ok((Self { file, report_at: (LENGTH_BYTES + length) as u64, told: None }, order))
    }

    /// From now on reports go to this file too, which must not be there yet. Where it cannot be
    /// made, the caller alone hears of the end, as ever.
    pub fn tell_in(&mut self, path: Option<&Path>) {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        self.told = path.and_then(|path| options.open(path).ok());
    }

    /// The helper's word; the first one counts.
    pub fn report(&self, ending: &Ending) -> io::Result<()> {
        let text = serde_json::to_vec(&ending.shortened())?;
        if let Some(told) = &self.told {
            let _unwritten = told.write_all_at(&text, 0);
        }
        self.file.write_all_at(&text, self.report_at)
    }

    /// What the helper said, if it said anything.
    pub fn reported(&self) -> Option<Ending> {
        let end = self.file.metadata().ok()?.len();
        let length = usize::try_from(end.checked_sub(self.report_at)?).ok()?;
        if length == 0 || length > REPORT_LIMIT {
            return None;
        }
        let mut text = vec![0; length];
        self.file.read_exact_at(&mut text, self.report_at).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Root;

    #[test]
    fn plan_goes_in_and_report_comes_out() {
        let container = Container::new(Root::Host, vec!["true".into()]);
        let ours = Letter::write(Asked::Container(&container)).unwrap();
        assert_eq!(ours.reported(), None);
        let (theirs, plan) = Letter::read(ours.copy().unwrap()).unwrap();
        assert_eq!(plan, HelperTask::Container(container.into()));
        assert_eq!(theirs.reported(), None);
        let ending = Ending::Signal { number: 9, core_dumped: false };
        theirs.report(&ending).unwrap();
        assert_eq!(ours.reported(), Some(ending));
    }

    #[test]
    fn a_long_story_is_cut_and_not_lost() {
        let container = Container::new(Root::Host, vec!["true".into()]);
        let ours = Letter::write(Asked::Container(&container)).unwrap();
        let (theirs, _) = Letter::read(ours.copy().unwrap()).unwrap();
        let message = "\u{1}".repeat(100_000);
        theirs.report(&Ending::NotStarted(NotStarted { why: Why::NoProgram, message })).unwrap();
        let Some(Ending::NotStarted(told)) = ours.reported() else { panic!("no report") };
        assert_eq!((told.why, told.message.chars().count()), (Why::NoProgram, 2_001));
    }

    #[test]
    fn a_lying_length_is_refused() {
        let ours =
            Letter::write(Asked::Process(&Process::default(), &Variables::default())).unwrap();
        ours.file.write_all_at(&u32::MAX.to_le_bytes(), 0).unwrap();
        assert!(Letter::read(ours.copy().unwrap()).is_err());
        ours.file.write_all_at(&100_000_u32.to_le_bytes(), 0).unwrap();
        assert!(Letter::read(ours.copy().unwrap()).is_err());
    }
}
