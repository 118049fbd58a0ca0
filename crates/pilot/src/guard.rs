//! The guard: the process that stands over a pilot and outlives it.
//!
//! It holds the lock of the node's directory, starts the pilot, passes signals on, and when the
//! pilot ends in any way (`kill -9` too) it kills every process the pilot left, and only then
//! lets go of the lock. So a free lock means that no task of this directory runs; what is left of
//! one that was killed and hangs in the kernel, be it the pilot, is written down. Of those that
//! ended well by themselves it leaves word, by their numbers, for the next pilot. It knows nothing
//! of tasks, servers or logs: whatever could break it must not be in it.
//!
//! The lock travels as the pilot's standard input: a descriptor both can name without unsafe
//! code, held while either lives, and never inherited by a task, which gets its own.

mod descendants;
mod word;

use crate::hanging::{self, HANG_LIMIT, Whose};
use crate::notice::Passing;
use crate::{leftovers, procfs};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, set_child_subreaper, waitid,
};
use shipway_runtime::native::Apart;
use std::ffi::OsString;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use word::Word;

/// How long a pilot that is asked to end may take: it does so at once, unless it hangs.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Between two looks whether the pilot has begun to end: nobody says so while one of its threads
/// hangs.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What a shell reports for a process that a signal ended.
const SIGNAL_EXIT_BASE: i32 = 128;

/// Longest text read from a lock file when naming its holder: a process id, and no more.
const HOLDER_TEXT_LIMIT: u64 = 32;

#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    #[error("directory {} is in use by another pilot{}", dir.display(), holder_text(*holder))]
    Held { dir: PathBuf, holder: Option<u32> },
    #[error("cannot lock directory {}", dir.display())]
    Lock { dir: PathBuf, source: io::Error },
    #[error("cannot start the pilot process")]
    Start { source: io::Error },
    #[error("cannot watch the pilot process")]
    Watch { source: io::Error },
    #[error("cannot end the processes the pilot left")]
    Clear { source: io::Error },
}

fn holder_text(holder: Option<u32>) -> String {
    holder.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

/// Runs `program args…` as the pilot of `dir` and returns the code to exit with, once neither the
/// pilot nor any process below it is left. Blocks the calling thread. With a grace the pilot may
/// take so much longer to end when it is asked to.
pub fn run(
    dir: &Path,
    program: &Path,
    args: &[OsString],
    grace: Option<Duration>,
) -> Result<i32, GuardError> {
    let lock = take_lock(dir)?;
    become_subreaper().map_err(|source| GuardError::Start { source })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|source| GuardError::Watch { source })?;
    let code = runtime.block_on(async {
        // The handlers stand before the pilot does: no signal finds the guard without one, and
        // they stay, so that an impatient second signal cannot end the guard before its work.
        let passing = Passing::new(grace, END_LIMIT);
        let signals = Signals::listen(passing.has_grace());
        let signals = signals.map_err(|source| GuardError::Watch { source })?;
        let pilot = start_pilot(&lock, program, args)?;
        watch_pilot(pilot, signals, passing).await.map_err(|source| GuardError::Watch { source })
    });
    // Also after a failure to watch: whatever was started must not outlive the lock.
    let hung = code.as_ref().ok().and_then(|end| end.hangs);
    let hanging = descendants::end(&mut Word::new(dir), hung);
    let hanging = hanging.map_err(|source| GuardError::Clear { source })?;
    let (pilot, others): (Vec<Pid>, _) = hanging.into_iter().partition(|pid| Some(*pid) == hung);
    hanging::write_down(dir, &pilot, Whose::Pilot);
    hanging::write_down(dir, &others, Whose::Session);
    leftovers::clear_groups(dir);
    // For a pilot that hangs too: no thread of it ever gets back to its program.
    let _held_no_more = flock(&lock, FlockOperation::Unlock);
    code.map(|end| end.code)
}

/// Called by the pilot itself: takes the lock over from standard input, so that it is held for as
/// long as the returned value lives, and no process started by the pilot inherits it.
pub fn adopt_lock() -> io::Result<OwnedFd> {
    /// Above the three standard descriptors.
    const FIRST_FREE: i32 = 3;
    let lock = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), FIRST_FREE)?;
    // Holds already when the guard gave it; fails when somebody started the pilot by hand.
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(lock)
}

/// Makes orphaned descendants children of this process instead of the system's init. The pilot
/// calls it too, to find what a task left behind.
pub fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(rustix::process::getpid()))?)
}

const PRIVATE: u32 = 0o600;

fn take_lock(dir: &Path) -> Result<File, GuardError> {
    let failed = |source| GuardError::Lock { dir: dir.to_owned(), source };
    std::fs::create_dir_all(dir).map_err(failed)?;
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(PRIVATE)
        .open(dir.join("lock"))
        .map_err(failed)?;
    // Whoever can open it can hold it, and keep the pilot from starting.
    file.set_permissions(Permissions::from_mode(PRIVATE)).map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            return Err(GuardError::Held { dir: dir.to_owned(), holder: read_holder(&file) });
        }
        Err(errno) => return Err(failed(errno.into())),
    }
    // For the message above only; what counts is the lock.
    file.set_len(0).map_err(failed)?;
    write!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(file)
}

fn read_holder(file: &File) -> Option<u32> {
    let mut text = String::new();
    file.take(HOLDER_TEXT_LIMIT).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn start_pilot(lock: &File, program: &Path, args: &[OsString]) -> Result<Pid, GuardError> {
    let start = |source| GuardError::Start { source };
    let words = std::iter::once(program.as_os_str().to_owned()).chain(args.iter().cloned());
    let apart = Apart::new(program, words, std::env::vars_os()).map_err(start)?;
    // A session of its own: Ctrl-C in a terminal reaches it once, through the guard, and no task
    // has that terminal.
    let streams = [lock.as_fd(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    apart.spawn(streams).map_err(start)
}

struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
    /// Only where it means something: otherwise it ends the guard, as it does any program.
    notice: Option<tokio::signal::unix::Signal>,
    child: tokio::signal::unix::Signal,
}

/// What the guard wakes up for.
enum Wake {
    PassOn(Signal),
    ChildChanged,
    /// Time for a look, or for more.
    Late,
}

/// How a pilot ended.
struct End {
    code: i32,
    /// It was killed and is not dead: a thread of it hangs in the kernel.
    hangs: Option<Pid>,
}

impl Signals {
    fn listen(with_notice: bool) -> io::Result<Self> {
        let notice = with_notice.then(|| signal(SignalKind::user_defined1())).transpose()?;
        Ok(Self {
            notice,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            child: signal(SignalKind::child())?,
        })
    }

    async fn next(&mut self, at: Instant) -> Wake {
        tokio::select! {
            () = tokio::time::sleep_until(at) => Wake::Late,
            _ = self.terminate.recv() => Wake::PassOn(Signal::TERM),
            _ = self.interrupt.recv() => Wake::PassOn(Signal::INT),
            _ = self.hangup.recv() => Wake::PassOn(Signal::HUP),
            Some(Some(())) = async { Some(self.notice.as_mut()?.recv().await) } => {
                Wake::PassOn(Signal::USR1)
            }
            _ = self.child.recv() => Wake::ChildChanged,
        }
    }
}

/// Passes signals on until the pilot is dead; returns the code to exit with. One that is asked to
/// end and hangs is killed, and one that was killed, by whomever, is not waited for without end.
async fn watch_pilot(pilot: Pid, mut signals: Signals, mut passing: Passing) -> io::Result<End> {
    let (mut kill_at, mut give_up_at): (Option<Instant>, _) = (None, None);
    loop {
        match signals.next(Instant::now() + LOOK_EVERY).await {
            // Not reaped yet, so the pid is still the pilot's, be it dead or alive.
            Wake::PassOn(signal) => {
                let (passed, within) = passing.heard(signal);
                kill_process(pilot, passed)?;
                let end = within.and_then(|within| Instant::now().checked_add(within));
                kill_at = kill_at.into_iter().chain(end).min();
            }
            Wake::Late if is_past(give_up_at) => {
                tracing::warn!("the pilot was killed and hangs in the kernel; it counts as ended");
                let code = SIGNAL_EXIT_BASE + Signal::KILL.as_raw();
                return Ok(End { code, hangs: Some(pilot) });
            }
            Wake::Late if give_up_at.is_none() && is_past(kill_at) => {
                tracing::warn!("the pilot does not end, although it was asked to; it is killed");
                kill_process(pilot, Signal::KILL)?;
                give_up_at = Some(Instant::now() + HANG_LIMIT);
            }
            Wake::Late if give_up_at.is_none() && procfs::is_ending(pilot) => {
                give_up_at = Some(Instant::now() + HANG_LIMIT);
            }
            Wake::Late => {}
            Wake::ChildChanged => {
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
                if let Some(status) = waitid(WaitId::Pid(pilot), options)? {
                    return Ok(End { code: exit_code(&status), hangs: None });
                }
            }
        }
    }
}

fn is_past(moment: Option<Instant>) -> bool {
    moment.is_some_and(|moment| moment <= Instant::now())
}

fn exit_code(status: &WaitIdStatus) -> i32 {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => SIGNAL_EXIT_BASE + signal,
        (None, None) => SIGNAL_EXIT_BASE,
    }
}
