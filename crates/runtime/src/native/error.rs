//! Why a container could not be made: the act, the object, the kernel's answer.

use crate::reach::OutOfReach;
use crate::report::{NotStarted, Why};
use rustix::io::Errno;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub(super) enum SetupError {
    #[error("cannot {act} {}", object.display())]
    Step { act: &'static str, object: PathBuf, source: Errno },
    #[error("cannot {act}")]
    Act { act: &'static str, source: std::io::Error },
    #[error("cannot mount on {}: it is, or lies behind, a symbolic link", target.display())]
    LinkedTarget { target: PathBuf },
    #[error("cannot mount on {}: no such file or directory in the image", target.display())]
    MissingTarget { target: PathBuf },
    #[error("cannot mount on {}: of it and its source only one is a directory", target.display())]
    WrongKind { target: PathBuf },
    #[error("cannot bind the device {}: it is not a device node", path.display())]
    NotADevice { path: PathBuf },
    #[error("cannot work in {}: no such directory in the container", cwd.display())]
    NoDirectory { cwd: PathBuf },
    #[error(
        "cannot use {} in the container: user {user}, whom the task runs as, may not enter it; \
         as a work directory, --workdir private is the task's own", path.display()
    )]
    Closed { path: PathBuf, user: u32 },
    #[error(
        "cannot use {} as the work directory: the task runs under an id of its person's own, \
         which may not write to it; --workdir private is the task's own", path.display()
    )]
    NotWritable { path: PathBuf },
    #[error("cannot read the standard input {}: it is not a plain file", path.display())]
    NotAFile { path: PathBuf },
    #[error("cannot run this for a person: nothing here keeps people apart")]
    NoKeeper,
    #[error(
        "cannot use {}: it is no folder or file of user {user}, whom the task runs as",
        path.display()
    )]
    NotOwn { path: PathBuf, user: u32 },
    #[error("cannot give the container a writable root: this node refuses overlays")]
    NoOverlay { source: Errno },
    #[error("cannot run a container as root: name the account that the task belongs to")]
    AsRoot,
    #[error("cannot run a container as user {wanted}: this process is user {own}")]
    OtherUser { wanted: u32, own: u32 },
    #[error(transparent)]
    OutOfReach(#[from] OutOfReach),
    #[error("cannot run a container on the node's own root as an image: write `host` for that")]
    RootAsImage,
    #[error("cannot keep {} from the task: it became a symbolic link", path.display())]
    CoveredLink { path: PathBuf },
    #[error("cannot start `{program}`: no such program in PATH ({searched})")]
    NotInPath { program: String, searched: String },
    #[error(
        "cannot start `{program}`: no such file, or its interpreter is missing{}",
        if program.starts_with("/tmp/") { "; the /tmp of a container is its own" } else { "" }
    )]
    NoProgram { program: String },
    #[error("cannot start `{program}`")]
    NotExecutable { program: String, source: std::io::Error },
    #[error(
        "the node has no room for another container for now: as many as the kernel allows are held \
         (sysctl user.max_mnt_namespaces and its like, kernel.keys.maxkeys)"
    )]
    NoRoom { source: std::io::Error },
    #[error("cannot start a container: whoever asked for it is gone")]
    Abandoned,
}

impl SetupError {
    pub(super) fn told(&self) -> NotStarted {
        let why = match self {
            Self::NotInPath { .. } | Self::NoProgram { .. } => Why::NoProgram,
            Self::NotExecutable { .. } => Why::NotExecutable,
            Self::NoRoom { .. } => Why::NoRoom,
            _ => Why::Container,
        };
        let mut message = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            let _text_takes_all = write!(message, ": {error}");
            cause = error.source();
        }
        NotStarted { why, message }
    }
}

/// Names the act and the object of a system call that failed.
pub(super) trait Doing<T> {
    fn doing(self, act: &'static str, object: impl AsRef<Path>) -> Result<T, SetupError>;
}

impl<T> Doing<T> for Result<T, Errno> {
    fn doing(self, act: &'static str, object: impl AsRef<Path>) -> Result<T, SetupError> {
        self.map_err(|source| SetupError::Step { act, object: object.as_ref().into(), source })
    }
}
