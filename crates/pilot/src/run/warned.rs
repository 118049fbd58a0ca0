//! Signals to the pilot, and the ends of tasks that may have heard one before the pilot did.
//!
//! A batch system that wants its node back may signal every process of the allocation, one after
//! the other. A task that dies of it before the pilot has heard looks as if it had failed by
//! itself, and would use up a retry. So where notice is given, an end by that signal which nobody
//! here asked for waits a moment for the pilot's own.

use super::Work;
use crate::machine::{Input, SIGTERM};
use crate::spawn::{self, Ended};
use rustix::process::Signal;
use std::io;
use std::time::{Duration, Instant};
use tokio::signal::unix::{self, SignalKind, signal};

/// Signalling all processes of an allocation takes milliseconds; a busy node gets a little more.
const WAIT_FOR_OURS: Duration = Duration::from_secs(1);

/// What a shell exits with when its command died of SIGTERM.
const SHELL_SAYS_TERMINATED: i32 = 128 + SIGTERM;

pub(super) struct Signals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    /// Only where notice is given.
    notice: Option<(unix::Signal, unix::Signal)>,
}

impl Signals {
    pub(super) fn listen(with_notice: bool) -> io::Result<Self> {
        let both = || {
            let taken_back = signal(SignalKind::user_defined1())?;
            Ok::<_, io::Error>((taken_back, signal(SignalKind::user_defined2())?))
        };
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            notice: with_notice.then(both).transpose()?,
        })
    }

    pub(super) async fn next(&mut self) -> Signal {
        let Some((taken_back, at_once)) = &mut self.notice else {
            return tokio::select! {
                _ = self.terminate.recv() => Signal::TERM,
                _ = self.interrupt.recv() => Signal::INT,
            };
        };
        tokio::select! {
            _ = at_once.recv() => crate::notice::AT_ONCE,
            _ = taken_back.recv() => crate::notice::TAKEN_BACK,
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.interrupt.recv() => Signal::INT,
        }
    }
}

/// Ends that wait for a signal to the pilot.
#[derive(Debug)]
pub(super) struct Doubtful {
    /// Where no notice is given nothing is doubtful; nor when it has been given.
    may_be: bool,
    /// Each with when it is taken for what it looks like, the oldest first.
    ends: Vec<(Instant, Ended)>,
}

impl Doubtful {
    pub(super) fn new(with_notice: bool) -> Self {
        Doubtful { may_be: with_notice, ends: Vec::new() }
    }

    /// The same end, if it is what it looks like.
    fn unless(&mut self, ended: Ended, now: Instant) -> Option<Ended> {
        let by_it =
            [spawn::HowEnded::Signal(SIGTERM), spawn::HowEnded::Exit(SHELL_SAYS_TERMINATED)];
        if !self.may_be || !by_it.contains(&ended.how) {
            return Some(ended);
        }
        self.ends.push((now + WAIT_FOR_OURS, ended));
        None
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.ends.first().map(|(at, _)| *at)
    }

    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Ended> {
        let due = self.ends.partition_point(|(at, _)| *at <= now);
        self.ends.drain(..due).map(|(_, ended)| ended).collect()
    }

    fn settle(&mut self) -> Vec<Ended> {
        self.may_be = false;
        self.ends.drain(..).map(|(_, ended)| ended).collect()
    }
}

impl Work {
    /// One that was to end has ended as it was told.
    pub(super) fn unless_doubtful(&mut self, ended: Ended) -> Option<Ended> {
        let id = self.tickets.get(&ended.ticket).copied();
        if id.is_none_or(|id| self.machine.is_ending(id)) {
            return Some(ended);
        }
        self.doubtful.unless(ended, Instant::now())
    }

    /// For a drain, or because the node is taken back: then whoever died of the same signal was
    /// taken back as well.
    pub(super) fn leave(&mut self, why: Input) {
        let is_notice = matches!(why, Input::TakenBack { .. });
        self.input(why);
        if is_notice {
            for ended in self.doubtful.settle() {
                self.process_ended(ended);
            }
        }
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn::{HowEnded, Ticket};
    use std::time::SystemTime;

    fn ended(ticket: u64, how: HowEnded) -> Ended {
        let (started, ended) = (SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH);
        let (ran, ticket) = (Duration::ZERO, Ticket(ticket));
        Ended { ticket, how, core_dumped: false, started, ended, ran, left_behind: 0, spent: None }
    }

    #[test]
    fn an_end_by_the_signal_of_a_notice_waits_for_the_notice() {
        let (now, term) = (Instant::now(), HowEnded::Signal(SIGTERM));
        for (with_notice, how, waits) in [
            (true, term, true),
            (true, HowEnded::Exit(143), true),
            (true, HowEnded::Signal(11), false),
            (true, HowEnded::Exit(0), false),
            (false, term, false),
        ] {
            let mut doubtful = Doubtful::new(with_notice);
            let told = doubtful.unless(ended(1, how), now);
            assert_eq!(told.is_none(), waits, "{with_notice} {how:?}");
        }
    }

    #[test]
    fn it_is_what_it_looks_like_when_no_notice_comes_and_when_it_has_come() {
        let (now, term) = (Instant::now(), HowEnded::Signal(SIGTERM));
        let mut doubtful = Doubtful::new(true);
        assert!(doubtful.unless(ended(1, term), now).is_none());
        let later = now + WAIT_FOR_OURS / 2;
        assert!(doubtful.unless(ended(2, term), later).is_none());
        assert_eq!(doubtful.next(), Some(now + WAIT_FOR_OURS));
        let tickets = |ends: Vec<Ended>| ends.iter().map(|it| it.ticket.0).collect::<Vec<_>>();
        assert_eq!(tickets(doubtful.take_due(now + WAIT_FOR_OURS)), [1]);
        assert_eq!(tickets(doubtful.settle()), [2]);
        assert!(doubtful.unless(ended(3, term), later).is_some(), "who dies now was told to");
    }
}
