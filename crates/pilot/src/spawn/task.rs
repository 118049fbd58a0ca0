//! What a pool holds of one task: its leader, its pipes, and what is known of its end.
//!
//! It watches nothing and waits for nothing; that is done in `watch.rs`.

use super::launch::{Launched, Writing};
use super::whose::Claim;
use super::{Ended, HowEnded, Leader, Ticket};
use crate::logs::StreamWriter;
use rustix::io::Errno;
use rustix::process::{Pid, WaitIdStatus};
use shipway_runtime::report::Ending;
use shipway_runtime::runtime::After;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// One of the two streams of a task: the pipe until its end, and the log it goes to.
pub(super) struct Output {
    pub(super) open: Option<(OwnedFd, StreamWriter)>,
}

impl Output {
    pub(super) fn new(pipe: OwnedFd, log: StreamWriter) -> Self {
        Self { open: Some((pipe, log)) }
    }

    /// Adds a line of our own.
    pub(super) fn say(&mut self, words: &str) {
        if let Some((_, log)) = &mut self.open {
            log.append(format!("shipway: {words}\n").as_bytes());
        }
    }

    /// Moves what is there to the log, in at most `reads` pieces.
    pub(super) fn pump(&mut self, buffer: &mut [u8], reads: usize) {
        for _ in 0..reads {
            let Some((pipe, log)) = &mut self.open else { return };
            match rustix::io::read(&*pipe, &mut *buffer) {
                Ok(length) if length > 0 => log.append(&buffer[..length]),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => self.open = None,
            }
        }
    }
}

pub(super) struct Task {
    pub(super) ticket: Ticket,
    /// Its place where it is written down which process it is.
    pub(super) slot: Option<u32>,
    /// By what its processes are found that have left its group.
    pub(super) claim: Claim,
    pub(super) leader: Arc<Leader>,
    pub(super) pidfd: OwnedFd,
    pub(super) outputs: [Output; 2],
    /// Until the leader is dead.
    pub(super) writing: Option<Writing>,
    pub(super) after: Option<After>,
    /// What a container needs as long as it runs.
    _holds: Option<Arc<dyn std::fmt::Debug + Send + Sync>>,
    pub(super) started: SystemTime,
    pub(super) clock: Instant,
    /// Since when the leader is dead while somebody else has its end.
    pub(super) held: Option<Instant>,
    /// Set when the leader is dead, and how is known or will not be.
    pub(super) ended: Option<Ended>,
    /// Why there was no task in the container.
    pub(super) not_started: Option<String>,
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
        key: String,
        launched: Launched,
        (out, err): (StreamWriter, StreamWriter),
        holds: Option<Arc<dyn std::fmt::Debug + Send + Sync>>,
    ) -> Self {
        let Launched { pid, pidfd, out: out_pipe, err: err_pipe, writing, after, started, clock } =
            launched;
        let claim = Claim { key, leader: pid, in_container: holds.is_some() };
        Self {
            ticket,
            slot,
            claim,
            leader: Arc::new(Leader::new(pid)),
            pidfd,
            outputs: [Output::new(out_pipe, out), Output::new(err_pipe, err)],
            writing: Some(writing),
            after,
            _holds: holds,
            started,
            clock,
            held: None,
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
                self.not_started = Some(told.message);
                (HowEnded::Exit(code), false)
            }
        }
    }

    /// What its end waits for.
    pub(super) fn left(&self) -> usize {
        let open = self.outputs.iter().filter(|output| output.open.is_some()).count();
        open + self.orphans.len() + usize::from(self.unsettled)
    }
}
