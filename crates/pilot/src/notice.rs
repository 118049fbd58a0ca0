//! What signals mean to a guard and to its pilot, when the site gives them notice (`--grace`)
//! before it takes the node back. Pure; who listens is elsewhere.
//!
//! A batch system signals whom it likes: the process that it started, which is the guard, or every
//! process of the allocation, guard, pilot and tasks alike. So one notice may reach the pilot
//! twice, by itself and through the guard, and a second one must not be seen in that. The guard
//! therefore passes on what it means rather than what it heard: `TAKEN_BACK`, which may be said any
//! number of times, and `AT_ONCE`.

use rustix::process::Signal;
use shipway_model::Millis;
use std::time::Duration;

/// The site wants its node back. A batch system may say it with this signal as well.
pub const TAKEN_BACK: Signal = Signal::USR1;
/// Nobody waits any longer.
pub const AT_ONCE: Signal = Signal::USR2;

/// The guard's side.
#[derive(Debug)]
pub(crate) struct Passing {
    grace: Option<Duration>,
    /// How long a pilot may take that is to end at once.
    limit: Duration,
    was_terminated: bool,
}

impl Passing {
    pub(crate) fn new(grace: Option<Duration>, limit: Duration) -> Self {
        Passing { grace, limit, was_terminated: false }
    }

    pub(crate) fn has_grace(&self) -> bool {
        self.grace.is_some()
    }

    /// What the pilot is sent, and by when it must have ended after that, if it must.
    pub(crate) fn heard(&mut self, signal: Signal) -> (Signal, Option<Duration>) {
        match (signal, self.grace) {
            (Signal::TERM, Some(grace)) if !std::mem::replace(&mut self.was_terminated, true) => {
                (TAKEN_BACK, Some(grace.saturating_add(self.limit)))
            }
            (Signal::TERM, Some(_)) => (AT_ONCE, Some(self.limit)),
            (TAKEN_BACK, Some(grace)) => (TAKEN_BACK, Some(grace.saturating_add(self.limit))),
            (Signal::TERM, None) => (Signal::TERM, Some(self.limit)),
            (other, _) => (other, None),
        }
    }
}

/// What the pilot does about a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    EndAtOnce,
    TakenBack { grace: Millis },
    Drain,
}

/// The pilot's side.
#[derive(Debug)]
pub(crate) struct Heard {
    grace: Option<Millis>,
    was_terminated: bool,
    was_interrupted: bool,
}

impl Heard {
    pub(crate) fn new(grace: Option<Millis>) -> Self {
        Heard { grace, was_terminated: false, was_interrupted: false }
    }

    pub(crate) fn meaning(&mut self, signal: Signal) -> Meaning {
        match (signal, self.grace) {
            // Ctrl-C finishes what runs and says goodbye; a second one does not wait.
            (Signal::INT, _) if !std::mem::replace(&mut self.was_interrupted, true) => {
                Meaning::Drain
            }
            (Signal::TERM, Some(grace)) if !std::mem::replace(&mut self.was_terminated, true) => {
                Meaning::TakenBack { grace }
            }
            (TAKEN_BACK, Some(grace)) => Meaning::TakenBack { grace },
            _ => Meaning::EndAtOnce,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Millis = Millis(20_000);
    const LIMIT: Duration = Duration::from_secs(10);
    const BACK: Meaning = Meaning::TakenBack { grace: GRACE };
    const END: Meaning = Meaning::EndAtOnce;

    type Sent = (&'static str, Signal);

    /// What the pilot makes of signals in this order: to the guard, or to the pilot itself.
    fn meanings(grace: Option<Millis>, signals: &[Sent]) -> Vec<Meaning> {
        let span = grace.map(|grace| Duration::from_millis(grace.0));
        let (mut guard, mut pilot) = (Passing::new(span, LIMIT), Heard::new(grace));
        let mut meaning = |(to, signal): &Sent| {
            let heard = if *to == "guard" { guard.heard(*signal).0 } else { *signal };
            pilot.meaning(heard)
        };
        signals.iter().map(&mut meaning).collect()
    }

    #[test]
    fn one_notice_is_one_whoever_gets_it() {
        const TERM: Signal = Signal::TERM;
        const USR1: Signal = Signal::USR1;
        let cases: [(&[Sent], &[Meaning]); 7] = [
            // HTCondor, and `scancel --batch`: the guard alone, again when it has had enough.
            (&[("guard", TERM), ("guard", TERM)], &[BACK, END]),
            // Slurm at the end of an allocation: every process, in any order.
            (&[("guard", TERM), ("pilot", TERM)], &[BACK, BACK]),
            (&[("pilot", TERM), ("guard", TERM)], &[BACK, BACK]),
            (&[("pilot", TERM), ("guard", TERM), ("pilot", TERM)], &[BACK, BACK, END]),
            // `#SBATCH --signal=B:USR1@60`, and the end after it.
            (&[("guard", USR1), ("guard", TERM), ("guard", TERM)], &[BACK, BACK, END]),
            (&[("guard", USR1), ("guard", USR1)], &[BACK, BACK]),
            (&[("guard", Signal::INT), ("guard", TERM)], &[Meaning::Drain, BACK]),
        ];
        for (signals, expected) in cases {
            assert_eq!(meanings(Some(GRACE), signals), expected, "{signals:?}");
        }
    }

    #[test]
    fn without_notice_a_pilot_ends_at_once() {
        let (term, int) = (("guard", Signal::TERM), ("guard", Signal::INT));
        assert_eq!(meanings(None, &[term]), [END]);
        assert_eq!(meanings(None, &[int, int]), [Meaning::Drain, END]);
        assert_eq!(Passing::new(None, LIMIT).heard(Signal::TERM), (Signal::TERM, Some(LIMIT)));
        assert_eq!(Passing::new(None, LIMIT).heard(Signal::HUP), (Signal::HUP, None));
    }

    #[test]
    fn a_pilot_has_its_grace_before_its_guard_kills_it() {
        let grace = Duration::from_secs(20);
        let mut guard = Passing::new(Some(grace), LIMIT);
        assert_eq!(guard.heard(Signal::TERM).1, Some(grace + LIMIT));
        assert_eq!(guard.heard(Signal::TERM).1, Some(LIMIT), "nobody waits any longer");
    }
}
