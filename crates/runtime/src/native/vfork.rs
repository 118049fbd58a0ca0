//! Starts a program in a child that has our memory until the program begins.
//!
//! It is what `posix_spawn` does, and besides it a child takes a task's limits before its program
//! can do anything. Nor does it ask the kernel about sixty signals of which a handful have an
//! answer. One of the two files of the workspace with unsafe code; the other is `sys.rs`.
#![allow(unsafe_code, reason = "a child in our memory has no safe wrapper")]

use crate::share::Share;
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Pid, WaitId, WaitIdOptions, chdir, setsid, waitid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

/// Far more than the few calls of a child need.
const STACK_BYTES: usize = 64 << 10;
const STACK_ALIGNED_TO: usize = 16;
/// One more than the highest signal.
const SIGNALS: libc::c_int = 65;
/// Nobody sees it: the child that could not become its program is reaped here.
const NOT_STARTED: libc::c_int = 127;

/// What a program is started with.
#[derive(Debug, Clone, Copy)]
pub(super) struct What<'a> {
    pub(super) program: &'a CStr,
    pub(super) argv: &'a [CString],
    pub(super) env: &'a [CString],
    pub(super) cwd: Option<&'a CStr>,
    pub(super) streams: [BorrowedFd<'a>; 3],
    pub(super) share: Option<&'a Share>,
}

/// All that the child uses, made before there is a child: it must not allocate, lock or panic.
struct Child<'a> {
    what: What<'a>,
    argv: Vec<*const libc::c_char>,
    env: Vec<*const libc::c_char>,
    signals: &'a [libc::c_int],
    /// Why it did not become its program.
    error: AtomicI32,
}

/// Starts a program as the first process of a session of its own, with every signal answered as
/// usual and none blocked. Returns when the program has begun.
pub(super) fn spawn_in_session(what: What<'_>) -> Result<Pid, Errno> {
    let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, env) = (pointers(what.argv), pointers(what.env));
    let child = Child { what, argv, env, signals: answered_signals(), error: AtomicI32::new(0) };
    let pid = child.start()?;
    match child.error.load(Ordering::Acquire) {
        0 => Ok(pid),
        error => {
            // Dead already, or about to be: nobody else knows of it.
            let _reaped = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
            Err(Errno::from_raw_os_error(error))
        }
    }
}

/// Signals with another answer than the usual one. Asked once: what is ignored is so from the start
/// of this program on, and functions of ours end with it when another begins.
fn answered_signals() -> &'static [libc::c_int] {
    static ANSWERED: OnceLock<Vec<libc::c_int>> = OnceLock::new();
    ANSWERED.get_or_init(|| (1..SIGNALS).filter(|number| is_answered(*number)).collect())
}

fn is_answered(number: libc::c_int) -> bool {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only writes the present one, for which all zeroes would
    // be a value too. Numbers that it does not know are refused.
    unsafe {
        let known = libc::sigaction(number, std::ptr::null(), now.as_mut_ptr()) == 0;
        known && now.assume_init().sa_sigaction != libc::SIG_DFL
    }
}

impl Child<'_> {
    /// Waits until the child has its own memory, or is dead.
    fn start(&self) -> Result<Pid, Errno> {
        let mut stack: Vec<u8> = Vec::with_capacity(STACK_BYTES);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let this: *const Self = self;
        let blocked = Blocked::all();
        // SAFETY: the child runs `run` on a stack of its own, from the end of which room is left to
        // align it, and uses nothing but `self`. Both live until this call returns, and by
        // CLONE_VFORK it does not return before the child has left this memory. No signal is
        // answered in the child while all are blocked.
        let pid = unsafe {
            let end = stack.as_mut_ptr().add(STACK_BYTES - STACK_ALIGNED_TO);
            let end = end.sub(end.addr() % STACK_ALIGNED_TO);
            libc::clone(run, end.cast(), flags, this.cast_mut().cast())
        };
        let failed = io::Error::last_os_error();
        drop(blocked);
        drop(stack);
        let started = if pid > 0 { Pid::from_raw(pid) } else { None };
        started.ok_or_else(|| Errno::from_io_error(&failed).unwrap_or(Errno::AGAIN))
    }

    /// In the child.
    fn become_program(&self) -> Result<Infallible, Errno> {
        setsid()?;
        for number in self.signals {
            // SAFETY: the default action is no code of ours; the table is the child's own.
            unsafe { libc::signal(*number, libc::SIG_DFL) };
        }
        let [input, output, errors] = self.what.streams;
        put(input, libc::STDIN_FILENO, dup2_stdin)?;
        put(output, libc::STDOUT_FILENO, dup2_stdout)?;
        put(errors, libc::STDERR_FILENO, dup2_stderr)?;
        if let Some(cwd) = self.what.cwd {
            chdir(cwd)?;
        }
        if let Some(share) = self.what.share {
            share.take()?;
        }
        // From here on functions of ours are not called by signals: they have the usual answer.
        unblock_all();
        // SAFETY: all texts live until the program begins, and both lists end with null.
        unsafe {
            libc::execve(self.what.program.as_ptr(), self.argv.as_ptr(), self.env.as_ptr());
        }
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::NOEXEC))
    }
}

/// The whole life of a child that does not become its program.
extern "C" fn run(child: *mut libc::c_void) -> libc::c_int {
    // SAFETY: it is the `Child` of whoever waits in `start`, and is only read.
    let child = unsafe { &*child.cast::<Child<'_>>() };
    let Err(errno) = child.become_program();
    child.error.store(errno.raw_os_error(), Ordering::Release);
    // SAFETY: it ends this process and runs nothing of the one that waits.
    unsafe { libc::_exit(NOT_STARTED) }
}

/// One that has its number already stays open when the program begins, as all others do.
fn put<'a>(
    file: BorrowedFd<'a>,
    number: libc::c_int,
    copy: impl FnOnce(BorrowedFd<'a>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    if file.as_raw_fd() == number { fcntl_setfd(file, FdFlags::empty()) } else { copy(file) }
}

fn unblock_all() {
    let mut none = std::mem::MaybeUninit::uninit();
    // SAFETY: the first call writes the whole set; the second reads it.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

/// All signals of this thread wait while it is there.
struct Blocked(libc::sigset_t);

impl Blocked {
    fn all() -> Self {
        let mut all = std::mem::MaybeUninit::uninit();
        let mut before = std::mem::MaybeUninit::zeroed();
        // SAFETY: the first call writes the whole set, the second what was blocked before; where it
        // fails, which it does not with these arguments, that is nothing.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Self(before.assume_init())
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: it was written when all were blocked.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::pipe;
    use std::io::Read;
    use std::os::fd::AsFd;

    fn text(text: &str) -> CString {
        CString::new(text).unwrap()
    }

    /// What it prints until it has ended.
    fn said(argv: &[&str], cwd: Option<&CStr>, share: Option<&Share>) -> Result<String, Errno> {
        let argv: Vec<CString> = argv.iter().map(|word| text(word)).collect();
        let env = [text("PATH=/usr/bin:/bin"), text("A=b")];
        let null = std::fs::File::open("/dev/null").unwrap();
        let (reading, writing) = pipe().unwrap();
        let streams = [null.as_fd(), writing.as_fd(), writing.as_fd()];
        let what = What { program: &argv[0], argv: &argv, env: &env, cwd, streams, share };
        let pid = spawn_in_session(what)?;
        drop(writing);
        let mut said = String::new();
        std::fs::File::from(reading).read_to_string(&mut said).unwrap();
        let session = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        let session = session.unwrap().split(' ').nth(5).unwrap().to_owned();
        assert_eq!(session, pid.as_raw_nonzero().to_string(), "it leads a session of its own");
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED).unwrap();
        Ok(said)
    }

    #[test]
    fn a_program_has_its_words_its_variables_and_its_place_and_no_others() {
        let said = said(&["/bin/sh", "-c", "echo $0 $1; env; pwd", "x", "y"], Some(c"/usr"), None);
        let said = said.unwrap();
        assert!(said.starts_with("x y\n") && said.ends_with("/usr\n"), "{said}");
        assert!(said.contains("A=b\n") && !said.contains("CARGO"), "{said}");
    }

    /// It is asked by its first and only call, when nobody has had time to change anything.
    #[test]
    fn limits_are_there_when_the_program_begins() {
        let share = Share::of_tasks();
        let before = ["/bin/cat", "/proc/self/oom_score_adj", "/proc/self/limits"];
        let (with, without) = (said(&before, None, Some(&share)), said(&before, None, None));
        let (with, without) = (with.unwrap(), without.unwrap());
        let score = |said: &str| said.lines().next().and_then(|line| line.parse::<i32>().ok());
        assert!(score(&with) >= Some(500), "{with}");
        let hard = |said: &str, name: &str| {
            let line = said.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().to_owned()
        };
        for name in ["Max processes", "Max open files", "Max pending signals"] {
            assert_ne!(hard(&with, name), hard(&without, name), "{name}");
        }
    }

    #[test]
    fn why_a_program_did_not_begin_is_told_and_nothing_is_left() {
        assert_eq!(said(&["/no/such/program"], None, None), Err(Errno::NOENT));
        assert_eq!(said(&["/"], None, None), Err(Errno::ACCESS));
        assert_eq!(said(&["/bin/true"], Some(c"/no/such/place"), None), Err(Errno::NOENT));
        let long = "x".repeat(1 << 20);
        assert_eq!(said(&["/bin/true", &long], None, None), Err(Errno::TOOBIG));
    }
}
