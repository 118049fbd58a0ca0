//! Starting a program so that it has nothing of whoever starts it: a session of its own, and with
//! it no terminal; the usual answers to signals; no descriptors but three; no way to more rights.
//!
//! A session and the signals come with the start itself ([`Apart::spawn`]). What a start cannot
//! give, a process or a thread takes from itself before ([`Helper`](super::Helper)'s process, or a
//! thread that starts others): what it has given up, those it starts never had.

use super::error::{Doing, SetupError};
use super::seccomp;
use super::sys::{self, install_filter, keep_descriptors_to_ourselves};
use super::vfork::{What, spawn_in_session};
use crate::share::Share;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{Pid, setsid};
use rustix::thread::set_no_new_privs;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// A program with its words and its whole environment.
#[derive(Debug)]
pub struct Apart {
    program: CString,
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: Option<CString>,
}

impl Apart {
    /// The first word is the program's name for itself. Of a variable that is named twice the last
    /// counts. Fails where something holds a NUL byte, and never otherwise.
    pub fn new(
        program: &Path,
        argv: impl IntoIterator<Item = OsString>,
        env: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> io::Result<Self> {
        let env: std::collections::BTreeMap<OsString, OsString> = env.into_iter().collect();
        let pair = |(mut name, value): (OsString, OsString)| {
            name.push("=");
            name.push(value);
            name
        };
        Ok(Self {
            program: text(program.as_os_str())?,
            argv: texts(argv)?,
            env: texts(env.into_iter().map(pair))?,
            cwd: None,
        })
    }

    /// The same, standing somewhere else than whoever starts it.
    pub fn standing_in(mut self, cwd: &Path) -> io::Result<Self> {
        self.cwd = Some(text(cwd.as_os_str())?);
        Ok(self)
    }

    /// Starts it as the first process of a session, and so of a group, of its own. Whoever calls
    /// this waits for it; errors are those of the start itself, up to and with the program's.
    pub fn spawn(&self, streams: [BorrowedFd<'_>; 3]) -> io::Result<Pid> {
        self.start(streams, None)
    }

    /// The same, with a task's share of this process's limits before its program begins.
    pub fn spawn_with(&self, streams: [BorrowedFd<'_>; 3], share: &Share) -> io::Result<Pid> {
        self.start(streams, Some(share))
    }

    fn start(&self, streams: [BorrowedFd<'_>; 3], share: Option<&Share>) -> io::Result<Pid> {
        let Apart { program, argv, env, cwd } = self;
        let what = What { program, argv, env, cwd: cwd.as_deref(), streams, share };
        spawn_in_session(what).map_err(io::Error::from)
    }
}

fn text(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}

fn texts(texts: impl IntoIterator<Item = OsString>) -> io::Result<Vec<CString>> {
    texts.into_iter().map(|text| Ok(CString::new(text.into_vec())?)).collect()
}

/// Whatever descriptors this program was started with, no process below it inherits one.
pub fn keep_descriptors() -> io::Result<()> {
    Ok(keep_descriptors_to_ourselves()?)
}

/// At the start of a program that starts others: they inherit no descriptor, and no signal that
/// does nothing, as all have that `nohup` starts.
pub fn start_clean() -> io::Result<()> {
    sys::answer_signals_as_usual();
    keep_descriptors()
}

/// From here on this thread, and every process it starts, gains no rights by starting a program,
/// puts no keys into anybody's terminal and keeps nobody's pipe busy.
pub fn give_up_gaining_rights() -> io::Result<()> {
    set_no_new_privs(true)?;
    Ok(install_filter(&seccomp::plain())?)
}

/// What every helper does first. One whose starter has seen to a session has it already.
pub(super) fn stand_apart() -> Result<(), SetupError> {
    let _leads_one = setsid();
    sys::answer_signals_as_usual();
    keep_descriptors_to_ourselves().doing("keep", "descriptors")?;
    let share = Share::of_tasks().take();
    let failed =
        |errno: Errno| SetupError::Act { act: "take a task's limits", source: errno.into() };
    share.map_err(failed)?;
    set_no_new_privs(true).doing("give up", "gaining rights")
}

/// What a plain program does not get by a container's own filter.
pub(super) fn spare_others() -> Result<(), SetupError> {
    install_filter(&seccomp::plain()).doing("spare", "terminals and pipes")
}

/// Leaves the terminal and the group of whoever started this, who goes on without it. Where there
/// is no terminal the session stays: batch systems end what they started by it.
pub fn leave_terminal() {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let has_terminal = open("/dev/tty", flags, Mode::empty()).is_ok();
    // Refused to whoever leads a group already, and so has left.
    let _leads_one =
        if has_terminal { setsid().map(drop) } else { rustix::process::setpgid(None, None) };
}
