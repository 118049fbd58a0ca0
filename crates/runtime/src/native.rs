//! Our own way of running a container: no daemon, no root, milliseconds.
//!
//! ```text
//! pilot ─ posix_spawn ─▶ helper (helper.rs)      reads the plan, waits, ends as the task did
//!                          └─ clone ─▶ init.rs   first process inside: builds, starts, buries
//!                                        └─ posix_spawn ─▶ the task
//! ```
//!
//! What is built, in this order: `identity` (who), `room` (memory), `root` (`underlay` where
//! overlays are refused), `dev`, `kernel_files` (`/proc`, `/sys`), `cover` (what must not be seen
//! of the node), then the plan's binds, then `confine` (capabilities, `seccomp`). `apart` is what
//! no process below has of its starter. `mounts` has the verbs, `sys` the system calls that no
//! safe crate wraps.

mod apart;
mod check;
mod confine;
mod cover;
mod dev;
mod error;
mod helper;
mod identity;
mod init;
mod keeper;
mod kernel_files;
mod mounts;
mod network;
mod owner;
mod person;
mod process;
mod program;
mod room;
mod root;
mod sealed;
mod seccomp;
mod shown;
mod sys;
mod underlay;
mod vfork;

pub(crate) use seccomp::{KEEPS_PIPES, SENDS_FILES, TERMINAL_INPUT, refused_calls};

pub use apart::{Apart, give_up_gaining_rights, keep_descriptors, leave_terminal, start_clean};
pub use helper::{become_asked, main};
pub use keeper::Keeper;
pub use person::handed;
pub use sealed::Helper;

use crate::again::patiently_for;
use crate::plan::{Container, Process};
use crate::report::{Asked, Letter};
use crate::runtime::{After, Finding, Launch, LaunchError, Runtime};
use crate::variables::Variables;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The word by which a program that is also a helper knows that it is one.
pub const COMMAND: &str = "container-init";

#[derive(Debug)]
pub struct Native {
    helper: Arc<Helper>,
    keeper: Option<Arc<Keeper>>,
}

impl Native {
    pub const fn new(helper: Arc<Helper>) -> Self {
        Self { helper, keeper: None }
    }

    /// The same, with people kept apart.
    #[must_use]
    pub fn with(self, keeper: Arc<Keeper>) -> Self {
        Self { keeper: Some(keeper), ..self }
    }
}

impl Runtime for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn opens_folders_first(&self) -> bool {
        true
    }

    fn tells(&self) -> bool {
        true
    }

    fn keeps_memory_roots_in_memory(&self) -> bool {
        true
    }

    fn check(&self) -> Vec<Finding> {
        check::check(self)
    }

    fn launch(&self, container: &Container, stdin: Option<OwnedFd>) -> Result<Launch, LaunchError> {
        container.validate()?;
        let keeper = match (container.person, &self.keeper) {
            (None, _) => None,
            (Some(_), Some(keeper)) => Some(&**keeper),
            (Some(_), None) => return Err(LaunchError::NoKeeper),
        };
        let letter = Letter::write(Asked::Container(container)).map_err(LaunchError::Letter)?;
        let stdin = enclosed(&letter, stdin.as_ref(), keeper).map_err(LaunchError::Letter)?;
        Ok(Launch {
            program: self.helper.program.clone(),
            argv: self.helper.argv.clone(),
            marks: Vec::new(),
            stdin,
            after: After { letter: Some(letter), bundle: None, signal_base: None },
        })
    }
}

impl Helper {
    /// Has something started by a helper that does what `process` says first. Without standard
    /// input of its own it reads nothing.
    pub fn before(&self, start: Start, process: &Process) -> Result<Launch, LaunchError> {
        self.before_within(start, process, None)
    }

    fn before_within(
        &self,
        start: Start,
        process: &Process,
        keeper: Option<&Keeper>,
    ) -> Result<Launch, LaunchError> {
        let asked = Asked::Process(process, &Variables(start.env));
        let letter = Letter::write(asked).map_err(LaunchError::Letter)?;
        let stdin = enclosed(&letter, start.stdin.as_ref(), keeper).map_err(LaunchError::Letter)?;
        let argv = self.argv.iter().cloned().chain(start.argv).collect();
        let after = After { letter: Some(letter), bundle: None, signal_base: None };
        Ok(Launch { program: self.program.clone(), argv, marks: Vec::new(), stdin, after })
    }
}

/// What is to be started in the end.
#[derive(Debug, Default)]
pub struct Start {
    /// The program, looked up in the `PATH` of `env`, and its arguments.
    pub argv: Vec<OsString>,
    /// The whole environment, but for what the helper was started with.
    pub env: Vec<(OsString, OsString)>,
    pub stdin: Option<OwnedFd>,
}

/// What a helper gets as standard input.
fn enclosed(
    letter: &Letter,
    stdin: Option<&OwnedFd>,
    keeper: Option<&Keeper>,
) -> io::Result<OwnedFd> {
    let copy = letter.copy()?;
    let namespace = keeper.map(|keeper| keeper.namespace.as_fd());
    match (stdin, namespace) {
        (None, None) => Ok(copy),
        (Some(stdin), None) => together_patiently(WITH_STDIN, &[copy.as_fd(), stdin.as_fd()]),
        (None, Some(keeper)) => together_patiently(WITH_KEEPER, &[copy.as_fd(), keeper]),
        (Some(stdin), Some(keeper)) => {
            together_patiently(WITH_BOTH, &[copy.as_fd(), stdin.as_fd(), keeper])
        }
    }
}

/// What comes with a letter, in this order: what the task reads, the keeper's namespace.
const WITH_STDIN: u8 = b's';
const WITH_KEEPER: u8 = b'k';
const WITH_BOTH: u8 = b'b';

/// What is at a place of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looked {
    There,
    Missing,
    /// A link, or behind one.
    Link,
}

/// Looks a place of a tree up as the container will see it, for runtimes that do so less
/// strictly.
pub(crate) fn look(tree: &Path, place: &Path) -> Looked {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(tree) = rustix::fs::open(tree, flags, Mode::empty()) else { return Looked::Missing };
    match mounts::Inside(tree).place(place) {
        Ok(_) => Looked::There,
        Err(error::SetupError::LinkedTarget { .. }) => Looked::Link,
        Err(_) => Looked::Missing,
    }
}

/// A socket with descriptors waiting in it: the only way to give a process more than its three
/// standard ones without others inheriting them by chance.
fn together(what: u8, files: &[BorrowedFd<'_>]) -> io::Result<OwnedFd> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(files)), "there is room for three");
    sendmsg(&ours, &[IoSlice::new(&[what])], &mut control, SendFlags::empty())?;
    Ok(theirs)
}

/// Who holds descriptors under way can do so for as long as they like. Whoever waits here keeps
/// others from starting; what had no room is tried again by whoever asked.
const UNDER_WAY: Duration = Duration::from_millis(300);

/// The same where others of this user have so many descriptors under way that no more may be sent:
/// the limit is that on open files, which tasks have a lower one of than this process can have.
fn together_patiently(what: u8, files: &[BorrowedFd<'_>]) -> io::Result<OwnedFd> {
    under_way(|| together(what, files))
}

fn under_way<T>(mut send: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    patiently_for(UNDER_WAY, || match send() {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::TOOMANYREFS) => {
            with_all_files(&mut send)
        }
        done => done,
    })
}

/// Only for a moment: what is started meanwhile has the higher limit too, and programs take it for
/// the number of files they should close.
fn with_all_files<T>(act: impl FnOnce() -> T) -> T {
    static ONE: Mutex<()> = Mutex::new(());
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let usual = getrlimit(Resource::Nofile);
    let all = Rlimit { current: usual.maximum, maximum: usual.maximum };
    let _never_refused = setrlimit(Resource::Nofile, all);
    let done = act();
    let _never_refused = setrlimit(Resource::Nofile, usual);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<T>() -> io::Result<T> {
        Err(Errno::TOOMANYREFS.into())
    }

    #[test]
    fn whoever_holds_descriptors_under_way_is_not_waited_for() {
        let mut sent = 0;
        let error = under_way(|| {
            sent += 1;
            refused::<()>()
        });
        let error = LaunchError::Letter(error.expect_err("refused each time"));
        assert!(error.is_for_now(), "it is tried again by whoever asked");
        // Each try sends twice, and the pauses between them grow: ten seconds would be 37 tries.
        assert!((2..=16).contains(&sent), "sent {sent} times");
    }

    #[test]
    fn it_is_sent_once_more_with_all_files_there_are() {
        let mut sent = 0;
        let limit = under_way(|| {
            sent += 1;
            if sent == 1 { refused() } else { Ok(getrlimit(Resource::Nofile)) }
        });
        let (limit, usual) = (limit.expect("sent"), getrlimit(Resource::Nofile));
        assert_eq!((limit.current, limit.maximum), (usual.maximum, usual.maximum));
        assert_eq!(sent, 2, "without waiting");
    }
}
