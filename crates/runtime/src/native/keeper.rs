//! The keeper: a user namespace in which an ordinary account has its subordinate ids, and with
//! them the right to give tasks of different people different users.
//!
//! Made once, by `newuidmap` and `newgidmap`, and held by a descriptor: no process stays behind.
//! This is the caller's side; what helpers do in the namespace is `person.rs`.

use super::{Helper, Native, Start, enclosed};
use crate::plan::{Container, Process, Root};
use crate::report::{Asked, Ending, Letter};
use crate::runtime::{Launch, LaunchError, Runtime};
use crate::subids::{Given, Missing};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io::{self, Read};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

#[derive(Debug)]
pub struct Keeper {
    pub(super) namespace: OwnedFd,
    given: Given,
}

impl Keeper {
    /// Makes one with the ids that were given, and runs a container as the first of them: whether
    /// it works is known then. Starts processes, and waits for them.
    pub fn make(helper: &Arc<Helper>, given: Given) -> Result<Arc<Self>, Missing> {
        if let Some(missing) = given.missing() {
            return Err(missing);
        }
        let namespace =
            WaitingProcess::start(helper).map_err(|error| other(&error))?.named(&given)?;
        let keeper = Arc::new(Self { namespace, given });
        try_one(&Native::new(Arc::clone(helper)).with(Arc::clone(&keeper)), &keeper.given)?;
        Ok(keeper)
    }

    pub const fn given(&self) -> &Given {
        &self.given
    }

    /// Has something started by a helper that joins the namespace first.
    pub fn before(
        &self,
        helper: &Helper,
        start: Start,
        process: &Process,
    ) -> Result<Launch, LaunchError> {
        helper.before_within(start, process, Some(self))
    }
}

/// A process that waits in a new user namespace for its ids.
struct WaitingProcess {
    child: Child,
    /// It ends when this is closed.
    until: OwnedFd,
}

impl WaitingProcess {
    fn start(helper: &Helper) -> io::Result<Self> {
        let (waits, until) = pipe_with(PipeFlags::CLOEXEC)?;
        let letter = Letter::write(Asked::Hold)?;
        let stdin = enclosed(&letter, Some(&waits), None)?;
        let mut command = Command::new(&helper.program);
        let (name, args) = helper.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        command.arg0(name).args(args).env_clear().stdin(Stdio::from(stdin));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut ready = [0];
        let mut out = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        if out.read_exact(&mut ready).is_err() {
            let said = child.wait_with_output().map(|ended| ended.stderr).unwrap_or_default();
            return Err(io::Error::other(String::from_utf8_lossy(&said).trim().to_owned()));
        }
        Ok(Self { child, until })
    }

    /// Gives it its ids, and keeps its namespace in its place.
    fn named(self, given: &Given) -> Result<OwnedFd, Missing> {
        let namespace = self.name(given);
        let Self { mut child, until } = self;
        drop(until);
        let _gone = child.wait();
        namespace
    }

    fn name(&self, given: &Given) -> Result<OwnedFd, Missing> {
        let pid = self.child.id().to_string();
        let maps = [("newuidmap", given.uid_map()), ("newgidmap", given.gid_map())];
        for (program, words) in maps {
            let done = Command::new(program).arg(&pid).args(words).stdin(Stdio::null()).output();
            let done = done.map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => Missing::Program { program },
                _ => Missing::Map { program, said: error.to_string() },
            })?;
            if !done.status.success() {
                let said = String::from_utf8_lossy(&done.stderr);
                return Err(Missing::said_by(program, &given.holder, &said));
            }
        }
        // Without this a task would keep the groups of the account.
        let groups = std::fs::read_to_string(format!("/proc/{pid}/setgroups"))
            .map_err(|error| other(&error))?;
        if groups.trim() != "allow" {
            return Err(Missing::Gids { holder: given.holder.name.clone() });
        }
        File::open(format!("/proc/{pid}/ns/user")).map(OwnedFd::from).map_err(|error| other(&error))
    }
}

fn other(error: &io::Error) -> Missing {
    Missing::Namespace { why: error.to_string() }
}

/// As the first of the people: nothing is read or written in their name.
fn try_one(native: &Native, given: &Given) -> Result<(), Missing> {
    let failed = |why: String| Missing::Container { why };
    let mut container = Container::new(Root::Host, vec!["true".into()]);
    container.person = given.person(NonZeroU32::MIN);
    let launch = native.launch(&container, None).map_err(|error| failed(error.to_string()))?;
    let (mut command, after) = launch.into_command();
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().map_err(|error| failed(error.to_string()))?;
    match after.ending(status) {
        Ending::Exit(0) => Ok(()),
        Ending::NotStarted(told) => Err(failed(told.message)),
        ended => Err(failed(format!("it ended with {ended:?}"))),
    }
}
