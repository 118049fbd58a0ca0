//! What every way of running a container has in common.
//!
//! A runtime starts nothing itself: it says what to start. The pilot has one fast and
//! well-watched way of starting processes, and containers are no exception to it.

use crate::again;
use crate::bundle::Bundle;
use crate::mount_table::TABLE;
use crate::plan::{Container, PlanError};
use crate::reach::OutOfReach;
use crate::report::{Ending, Letter};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

pub trait Runtime: fmt::Debug + Send + Sync {
    fn name(&self) -> &'static str;

    /// Whether folders of the caller's are opened before another user is become, so that the task
    /// need not be able to reach them.
    fn opens_folders_first(&self) -> bool {
        false
    }

    /// Whether it tells of the task's end in [`Container::told`].
    fn tells(&self) -> bool {
        false
    }

    /// Whether what is written to a root in memory is certainly in memory, and not on a disk.
    fn keeps_memory_roots_in_memory(&self) -> bool {
        false
    }

    /// Is it usable here? Every finding that is not good says what was wanted and what helps.
    fn check(&self) -> Vec<Finding>;

    /// What to start for this container. `stdin` is what the task reads; nothing when `None`.
    fn launch(&self, container: &Container, stdin: Option<OwnedFd>) -> Result<Launch, LaunchError>;
}

/// A process to start. When it is dead, so is everything in the container.
#[derive(Debug)]
pub struct Launch {
    pub program: PathBuf,
    /// The first one is the program's name for itself.
    pub argv: Vec<OsString>,
    /// Its whole environment: variables of whoever starts it, by which it is found again. None of
    /// the task's: it may have more rights than the task until it turns into it.
    pub marks: Vec<(OsString, OsString)>,
    pub stdin: OwnedFd,
    pub after: After,
}

impl Launch {
    /// The same as a command of the standard library. It goes by `posix_spawn`.
    pub fn into_command(self) -> (Command, After) {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(self.program);
        let (name, args) = self.argv.split_first().expect("a launch names its program");
        command.arg0(name).args(args).env_clear().envs(self.marks).stdin(Stdio::from(self.stdin));
        (command, self.after)
    }
}

/// What is kept while the container runs, for when it has ended.
#[derive(Debug)]
pub struct After {
    pub(crate) letter: Option<Letter>,
    /// Removed with this.
    #[allow(dead_code, reason = "held for its end")]
    pub(crate) bundle: Option<Bundle>,
    /// Exit codes above this are signals: how a runtime that has no better way says it.
    pub(crate) signal_base: Option<i32>,
}

impl After {
    /// How the task ended, told from how the started process did.
    pub fn ending(&self, status: ExitStatus) -> Ending {
        use std::os::unix::process::ExitStatusExt;
        if let Some(ending) = self.letter.as_ref().and_then(Letter::reported) {
            return ending;
        }
        match (status.code(), self.signal_base) {
            (Some(code), Some(base)) if code > base && code < base + SIGNALS => {
                Ending::Signal { number: code - base, core_dumped: false }
            }
            (Some(code), _) => Ending::Exit(code),
            (None, _) => {
                let number = status.signal().unwrap_or_default();
                Ending::Signal { number, core_dumped: status.core_dumped() }
            }
        }
    }
}

/// One more than the highest signal.
const SIGNALS: i32 = 65;

/// One line of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub what: &'static str,
    pub found: String,
    /// `None` when it is good.
    pub problem: Option<Problem>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub wanted: String,
    pub fix: String,
}

impl Finding {
    pub fn good(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, found: found.into(), problem: None }
    }

    pub fn bad(
        what: &'static str,
        found: impl Into<String>,
        wanted: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        let problem = Some(Problem { wanted: wanted.into(), fix: fix.into() });
        Self { what, found: found.into(), problem }
    }
}

/// Whether this process may run the file.
pub fn is_program(path: &Path) -> bool {
    use rustix::fs::{Access, access};
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

impl LaunchError {
    /// Whether it may work later: the node has no room for what it takes just now.
    pub fn is_for_now(&self) -> bool {
        matches!(self, LaunchError::Letter(error) if again::is_for_now(error))
    }
}

/// Why there is nothing to start.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("cannot hand the plan of a container to its helper")]
    Letter(#[source] io::Error),
    #[error(transparent)]
    OutOfReach(#[from] OutOfReach),
    #[error("cannot open {}", path.display())]
    Source { path: PathBuf, source: Errno },
    #[error("cannot write the bundle of a container in {}", dir.display())]
    Bundle { dir: PathBuf, source: io::Error },
    #[error("cannot read what is mounted on this node in {TABLE}")]
    Mounts { source: io::Error },
    #[error("cannot look at the image with the rights of the task's account")]
    Rights(#[source] io::Error),
    #[error("cannot run this container with {runtime}: it has no way to give it {feature}")]
    Unsupported { runtime: &'static str, feature: &'static str },
    #[error("cannot run this container for a person: nothing here keeps people apart")]
    NoKeeper,
    #[error("cannot bind the device {}: it is not a device node", path.display())]
    NotADevice { path: PathBuf },
    #[error("cannot mount on {}: it is, or lies behind, a symbolic link", target.display())]
    LinkedTarget { target: PathBuf },
    #[error("cannot mount on {}: no such file or directory in the image", target.display())]
    MissingTarget { target: PathBuf },
    #[error("cannot work in {}: no such directory in the image", cwd.display())]
    NoDirectory { cwd: PathBuf },
}
