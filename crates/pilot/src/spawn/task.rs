//! What a pool holds of one task: its leader, its pipes, and what is known of its end.
//!
//! It watches nothing and waits for nothing; that is done in `watch.rs`.

use super::launch::Launched;
use super::leader::Leader;
use super::pipes::{Mark, Pace};
use super::whose::Claim;
use super::{Ended, HowEnded, Ticket};
use crate::logs::StreamWriter;
use crate::procfs::Spent;
use rustix::io::Errno;
use rustix::process::{Pid, WaitIdStatus};
use shipway_runtime::report::{Ending, NotStarted};
use shipway_runtime::runtime::After;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// A pipe, and the log that its bytes go to.
pub(super) struct Piped {
    pub(super) pipe: OwnedFd,
    pub(super) log: StreamWriter,
}

/// One of the two streams of a task.
pub(super) enum Output {
    Open(Piped),
    /// A thread reads it, without the lock of its task: it may hang in that. Another may have been
    /// woken for it meanwhile.
    Taken {
        missed: bool,
    },
    Closed,
}

impl Output {
    /// To be read, or closed, without the lock.
    pub(super) fn take(&mut self) -> Option<Piped> {
        let missed = match self {
            Self::Closed => return None,
            Self::Taken { .. } => true,
            Self::Open(_) => false,
        };
        match std::mem::replace(self, Self::Taken { missed }) {
            Self::Open(piped) => Some(piped),
            Self::Taken { .. } | Self::Closed => None,
        }
    }

    /// The pipe of one that nobody reads, whose log ends here.
    pub(super) fn close(&mut self) -> Option<OwnedFd> {
        let piped = self.take()?;
        *self = Self::Closed;
        Some(piped.pipe)
    }
}

impl Piped {
    /// Adds lines of our own.
    fn say(&mut self, words: &mut Vec<String>) {
        for words in words.drain(..) {
            self.log.append(format!("shipway: {words}\n").as_bytes());
        }
    }

    /// Moves what is there to the log, in at most `reads` pieces, up to one that is slow. Whether
    /// more may come, and how it went.
    pub(super) fn pump(&mut self, buffer: &mut [u8], reads: usize, mark: &Mark) -> (bool, Pace) {
        for _ in 0..reads {
            let (read, pace) = mark.during(|| rustix::io::read(&self.pipe, &mut *buffer));
            match read {
                // Its task was ended without it.
                _ if pace == Pace::GivenUp => return (false, pace),
                Ok(length) if length > 0 => self.log.append(&buffer[..length]),
                Err(Errno::AGAIN) => return (true, pace),
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return (false, pace),
            }
            if pace == Pace::Slow {
                return (true, pace);
            }
        }
        (true, Pace::Usual)
    }
}

pub(super) struct Task {
    pub(super) ticket: Ticket,
    /// Whose it is.
    pub(super) user: String,
    /// Its place where it is written down which process it is.
    pub(super) slot: Option<u32>,
    /// By what its processes are found that have left its group.
    pub(super) claim: Claim,
    pub(super) leader: Arc<Leader>,
    pub(super) pidfd: OwnedFd,
    pub(super) outputs: [Output; 2],
    /// Our copies of the writing ends, until the leader is dead.
    pub(super) writing: [Option<OwnedFd>; 2],
    /// Its end was told.
    pub(super) is_over: bool,
    /// What is to be said behind its error output.
    pub(super) words: Vec<String>,
    pub(super) after: Option<After>,
    /// What a container needs as long as it runs.
    _holds: Option<Arc<dyn std::fmt::Debug + Send + Sync>>,
    pub(super) started: SystemTime,
    pub(super) clock: Instant,
    /// Since when the leader is dead while somebody else has its end.
    pub(super) held: Option<Instant>,
    /// What the leader has used with all that it waited for, when it is dead.
    pub(super) spent: Option<Spent>,
    /// Set when the leader is dead, and how is known or will not be.
    pub(super) ended: Option<Ended>,
    /// Why there was no task in the container.
    pub(super) not_started: Option<NotStarted>,
    pub(super) orphans: Vec<(Pid, OwnedFd)>,
    /// There may be more that it left: see `Swept`.
    pub(super) unsettled: bool,
    /// How often it was looked at without an event.
    pub(super) looks: u32,
    /// Whether it will be.
    pub(super) is_looked_at_again: bool,
}

impl Task {
    pub(super) fn new(
        (ticket, slot): (Ticket, Option<u32>),
        (user, key): (String, String),
        launched: Launched,
        (out, err): (StreamWriter, StreamWriter),
        holds: Option<Arc<dyn std::fmt::Debug + Send + Sync>>,
    ) -> Self {
        let Launched { pid, pidfd, out: out_pipe, err: err_pipe, writing, after, started, clock } =
            launched;
        let claim = Claim { key, leader: pid, in_container: holds.is_some() };
        Self {
            ticket,
            user,
            slot,
            claim,
            leader: Arc::new(Leader::new(pid)),
            pidfd,
            outputs: [(out_pipe, out), (err_pipe, err)]
                .map(|(pipe, log)| Output::Open(Piped { pipe, log })),
            writing: writing.map(Some),
            is_over: false,
            words: Vec::new(),
            after,
            _holds: holds,
            started,
            clock,
            held: None,
            spent: None,
            ended: None,
            not_started: None,
            orphans: Vec::new(),
            unsettled: false,
            looks: 0,
            is_looked_at_again: false,
        }
    }

    pub(super) fn leader(&self) -> &Arc<Leader> {
        &self.leader
    }

    pub(super) fn how_container_ended(
        &mut self,
        status: &WaitIdStatus,
        after: &After,
    ) -> (HowEnded, bool) {
        let raw = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => (code & 0xff) << 8,
            (None, signal) => signal.unwrap_or(0) | if status.dumped() { 0x80 } else { 0 },
        };
        match after.ending(ExitStatus::from_raw(raw)) {
            Ending::Exit(code) => (HowEnded::Exit(code), false),
            Ending::Signal { number, core_dumped } => (HowEnded::Signal(number), core_dumped),
            Ending::NotStarted(told) => {
                let code = told.why.exit_code();
                self.not_started = Some(told);
                (HowEnded::Exit(code), false)
            }
        }
    }

    /// Says what there is to say, unless another thread has its error output and will.
    pub(super) fn say(&mut self) {
        match &mut self.outputs[1] {
            Output::Open(piped) => piped.say(&mut self.words),
            Output::Taken { .. } => {}
            Output::Closed => self.words.clear(),
        }
    }

    /// Puts a pipe back that was taken. Whether somebody was woken for it meanwhile.
    pub(super) fn put_back(&mut self, which: usize, piped: Piped) -> bool {
        let before = std::mem::replace(&mut self.outputs[which], Output::Open(piped));
        self.say();
        matches!(before, Output::Taken { missed: true })
    }

    /// Ends the logs of both outputs. Their pipes are closed when the task is unlocked: that may
    /// never come back.
    pub(super) fn close_outputs(&mut self) -> [Option<OwnedFd>; 2] {
        self.say();
        let [out, err] = &mut self.outputs;
        [out.close(), err.close()]
    }

    /// What its end waits for.
    pub(super) fn left(&self) -> usize {
        let is_open = |output: &&Output| !matches!(output, Output::Closed);
        let open = self.outputs.iter().filter(is_open).count();
        open + self.orphans.len() + usize::from(self.unsettled)
    }
}
