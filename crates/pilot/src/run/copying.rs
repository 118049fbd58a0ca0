//! One process that copies files, from its start until it is dead or given up. It is watched all
//! the time: one that is to stop or moves nothing is killed, and one that not even that ends
//! (a file system that does not answer keeps it in the kernel) is not waited for.

use crate::stage::{Report, Watched};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use shipway_runtime::again::patiently;
use shipway_runtime::report::Ending;
use shipway_runtime::runtime::After;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A process that has moved nothing for so long is killed, and its task fails. File servers that
/// are started anew are back by then, and a full cache of a large node is written out.
pub(super) const NOTHING_MOVED: Duration = Duration::from_mins(15);

/// A killed process that is still there after this hangs in the kernel.
const DIES_WITHIN: Duration = Duration::from_secs(5);

/// How often it is looked how far a process has come.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// By which somebody else ends a process, before it has begun or later.
#[derive(Debug, Default)]
pub(super) struct Stop {
    wanted: AtomicBool,
    process: OnceLock<OwnedFd>,
}

impl Stop {
    pub(super) fn now(&self) {
        self.wanted.store(true, Ordering::SeqCst);
        self.kill();
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    fn kill(&self) {
        let _already_dead = self.process.get().map(|it| pidfd_send_signal(it, Signal::KILL));
    }
}

/// What is to be done about a process, by how far it has come. Pure.
#[derive(Debug)]
struct Watch {
    patience: Duration,
    moved: u64,
    since: Instant,
    killed: Option<Instant>,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    GoOn,
    Kill,
    /// It does not die.
    GiveUp,
}

impl Watch {
    fn new(patience: Duration, now: Instant) -> Self {
        Watch { patience, moved: 0, since: now, killed: None }
    }

    fn look(&mut self, moved: u64, stop: bool, now: Instant) -> Verdict {
        if let Some(killed) = self.killed {
            let is_over = now.saturating_duration_since(killed) >= DIES_WITHIN;
            return if is_over { Verdict::GiveUp } else { Verdict::GoOn };
        }
        if moved != self.moved {
            (self.moved, self.since) = (moved, now);
        }
        if stop || now.saturating_duration_since(self.since) >= self.patience {
            self.killed = Some(now);
            return Verdict::Kill;
        }
        Verdict::GoOn
    }
}

/// A process at work.
pub(super) struct Copying<'a> {
    child: Child,
    watched: Watched,
    stop: &'a Stop,
}

/// What came of it.
pub(super) struct Copied {
    pub(super) result: Result<Report, String>,
    /// A process that could not be ended. Whoever waits for it waits as long as it hangs.
    pub(super) left: Option<Child>,
}

impl<'a> Copying<'a> {
    pub(super) fn start(mut command: Command, stop: &'a Stop) -> io::Result<Self> {
        let (watched, given) = Watched::new()?;
        command.stdout(Stdio::from(given)).stderr(Stdio::null());
        let mut child = patiently(|| command.spawn())?;
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(process) => drop(stop.process.set(process)),
            Err(errno) => {
                // What cannot be watched is not begun.
                let _already_dead = child.kill();
                let _reaped = child.wait();
                return Err(errno.into());
            }
        }
        // Whoever wanted it before has not seen the process.
        if stop.is_wanted() {
            stop.kill();
        }
        Ok(Copying { child, watched, stop })
    }

    /// Until it is over, for its task.
    /// Something else may move for it, which `also` counts.
    pub(super) fn attend(mut self, after: &After, patience: Duration, also: &AtomicU64) -> Copied {
        let mut watch = Watch::new(patience, Instant::now());
        let every = LOOK_EVERY.min(patience);
        let ended = loop {
            if self.has_ended_within(every) {
                break Some(self.child.wait());
            }
            let moved = self.watched.moved().wrapping_add(also.load(Ordering::Relaxed));
            match watch.look(moved, self.stop.is_wanted(), Instant::now()) {
                Verdict::GoOn => {}
                Verdict::Kill => self.stop.kill(),
                Verdict::GiveUp => break None,
            }
        };
        let is_left = ended.is_none();
        let result = match ended {
            // What it was killed for came too late.
            Some(Ok(status)) if status.success() => self.said(after, status),
            _ if self.stop.is_wanted() => Err("it was stopped while its files were copied".into()),
            Some(Ok(status)) if watch.killed.is_none() => self.said(after, status),
            Some(Err(error)) => Err(failed(&error)),
            Some(Ok(_)) | None => Err(nothing_moved(&self.watched.at(), patience)),
        };
        Copied { result, left: is_left.then_some(self.child) }
    }

    fn has_ended_within(&self, time: Duration) -> bool {
        let Some(process) = self.stop.process.get() else { return true };
        let mut process = [PollFd::new(process, PollFlags::IN)];
        let time = Timespec::try_from(time).ok();
        matches!(poll(&mut process, time.as_ref()), Ok(1..))
    }

    fn said(&self, after: &After, status: ExitStatus) -> Result<Report, String> {
        match after.ending(status) {
            Ending::Exit(0) => self.watched.report().map_err(|error| failed(&error)),
            Ending::NotStarted(told) => Err(told.message),
            Ending::Signal { number, .. } => {
                Err(format!("the process that copies files was ended by signal {number}"))
            }
            Ending::Exit(code) => Err(format!("copying files ended with {code}")),
        }
    }
}

pub(super) fn failed(error: &dyn std::error::Error) -> String {
    format!("cannot copy files: {}", shipway_api::causes::causes(error))
}

fn nothing_moved(file: &str, patience: Duration) -> String {
    let minutes = patience.as_secs().div_ceil(60);
    let file = if file.is_empty() { "its first file" } else { file };
    format!(
        "nothing was copied for {minutes} min at {file}: the file system there does not answer; \
         retry when it does"
    )
}

#[cfg(test)]
mod tests;
