//! To which task a process belongs that has lost its parent.
//!
//! By the variable that every task carries, and where there is no environment to look at (any
//! more) by session and user. It looks and decides; it ends nobody and waits for nothing.

use super::ATTEMPT_KEY_VARIABLE;
use crate::procfs::{self, Mark};
use rustix::process::Pid;
use std::time::{Duration, Instant};

/// For a blink a process cannot be judged: in the middle of `execve` it has no environment. One
/// that has none for longer has seen to that itself.
const SETTLE_LIMIT: Duration = Duration::from_millis(200);

/// What is known of an orphan. It is looked at once: what it was marked with then it belongs to,
/// whatever it makes of its environment later.
#[derive(Debug)]
pub(super) struct Known {
    uid: Option<u32>,
    /// Read when a task asks that it could be of: that takes its time.
    mark: Option<Mark>,
    since: Instant,
    /// The task that waits, or has waited, for its end: the key of that.
    waited_for_by: Option<String>,
    /// A sweep that ends it has seen it already.
    pub(super) was_seen: bool,
}

impl Known {
    pub(super) fn look(pid: Pid) -> Self {
        let (uid, since) = (procfs::real_uid(pid), Instant::now());
        Self { uid, mark: None, since, waited_for_by: None, was_seen: false }
    }

    fn mark(&mut self, pid: Pid) -> &Mark {
        if matches!(self.mark, None | Some(Mark::Unclear)) {
            self.mark = None;
        }
        self.mark.get_or_insert_with(|| procfs::mark(pid, ATTEMPT_KEY_VARIABLE))
    }
}

/// A task that asks for what it left, while its leader is dead and not reaped.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) key: String,
    pub(super) leader: Pid,
    /// Of those in a container some may run as somebody else.
    pub(super) in_container: bool,
}

impl Claim {
    pub(super) fn asks(&self, alone: bool) -> Asking<'_> {
        Asking { claim: self, uid: procfs::real_uid(self.leader), alone }
    }
}

#[derive(Debug)]
pub(super) struct Asking<'a> {
    claim: &'a Claim,
    /// As whom its leader ran.
    uid: Option<u32>,
    /// Whether there is no other task.
    alone: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Ours,
    /// It ends by itself, and is of this task, or may be; its end is waited for.
    Dying {
        surely: bool,
    },
    Others,
    /// Not to be told at this moment; see `SETTLE_LIMIT`.
    Unclear,
}

impl Asking<'_> {
    /// One that has cleared its environment cannot be told apart, so it is taken when no other task
    /// is there that it could belong to.
    pub(super) fn judge(&self, pid: Pid, known: &mut Known) -> Verdict {
        if !self.could_be_ours(known) {
            return Verdict::Others;
        }
        let is_new = known.since.elapsed() < SETTLE_LIMIT;
        match known.mark(pid) {
            Mark::Is(key) if key == self.claim.key.as_bytes() => Verdict::Ours,
            Mark::Dying => self.judge_dying(pid, known),
            Mark::Not | Mark::Unclear if self.alone => Verdict::Ours,
            Mark::Unclear if is_new => Verdict::Unclear,
            Mark::Is(_) | Mark::Not | Mark::Unclear => Verdict::Others,
        }
    }

    /// Nobody but root becomes somebody else: no task gains rights. So what runs as another user
    /// than its leader is not of a plain task, whatever it says.
    fn could_be_ours(&self, known: &Known) -> bool {
        match self.uid {
            Some(uid) if uid != 0 && !self.claim.in_container => known.uid == Some(uid),
            _ => true,
        }
    }

    /// Nobody can enter the session of another task. One that has left its own is waited for by one
    /// task of its user, and not by every one: it may hang.
    fn judge_dying(&self, pid: Pid, known: &mut Known) -> Verdict {
        let session = procfs::stat(pid).and_then(|stat| Pid::from_raw(stat.session));
        if session == Some(self.claim.leader) {
            return Verdict::Dying { surely: true };
        }
        let key = &self.claim.key;
        if known.uid.is_some()
            && known.uid == self.uid
            && known.waited_for_by.get_or_insert_with(|| key.clone()) == key
        {
            return Verdict::Dying { surely: false };
        }
        Verdict::Others
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{getpid, getuid};

    const OWN: u32 = 1000;
    const ANOTHER: u32 = 1001;

    fn claim(key: &str, in_container: bool) -> Claim {
        // Nobody is in the session of this process but its own.
        Claim { key: key.into(), leader: Pid::from_raw(i32::MAX).unwrap(), in_container }
    }

    fn known(mark: Mark, uid: u32) -> Known {
        let (since, mark, uid) = (Instant::now(), Some(mark), Some(uid));
        Known { uid, mark, since, waited_for_by: None, was_seen: false }
    }

    fn judge(claim: &Claim, alone: bool, known: &mut Known) -> Verdict {
        Asking { claim, uid: Some(OWN), alone }.judge(getpid(), known)
    }

    fn is(key: &str) -> Mark {
        Mark::Is(key.into())
    }

    #[test]
    fn a_mark_counts_for_what_its_user_runs() {
        let (plain, contained) = (claim("k.1", false), claim("k.1", true));
        assert_eq!(judge(&plain, false, &mut known(is("k.1"), OWN)), Verdict::Ours);
        assert_eq!(judge(&plain, false, &mut known(is("k.2"), OWN)), Verdict::Others);
        assert_eq!(judge(&plain, true, &mut known(is("k.1"), ANOTHER)), Verdict::Others);
        assert_eq!(judge(&contained, false, &mut known(is("k.1"), ANOTHER)), Verdict::Ours);
        assert_eq!(judge(&plain, true, &mut known(Mark::Not, OWN)), Verdict::Ours);
        assert_eq!(judge(&plain, false, &mut known(Mark::Not, OWN)), Verdict::Others);
    }

    #[test]
    fn only_its_own_user_looks_at_one_that_was_not_judged() {
        let claim = claim("k.1", false);
        let mut others = known(Mark::Unclear, ANOTHER);
        assert_eq!(judge(&claim, false, &mut others), Verdict::Others);
        assert_eq!(others.mark, Some(Mark::Unclear));
        // This process has an environment, and no such mark.
        let mut own = known(Mark::Unclear, OWN);
        assert_eq!(judge(&claim, false, &mut own), Verdict::Others);
        assert_eq!(own.mark, Some(Mark::Not));
    }

    #[test]
    fn one_that_dies_without_a_session_of_ours_is_waited_for_by_one_task() {
        let (first, second) = (claim("k.1", false), claim("k.2", false));
        let mut dying = known(Mark::Dying, OWN);
        let waited_for = Verdict::Dying { surely: false };
        assert_eq!(judge(&first, false, &mut dying), waited_for);
        assert_eq!(judge(&first, false, &mut dying), waited_for);
        assert_eq!(judge(&second, false, &mut dying), Verdict::Others);
        let mut others = known(Mark::Dying, ANOTHER);
        assert_eq!(judge(&first, true, &mut others), Verdict::Others);
        assert_eq!(judge(&claim("k.3", true), true, &mut others), Verdict::Others);
    }

    #[test]
    fn a_session_says_whose_it_is() {
        let session = procfs::stat(getpid()).and_then(|stat| Pid::from_raw(stat.session));
        // A test that was started in another pid namespace has none that it can name.
        let Some(leader) = session else { return };
        let claim = Claim { key: "k.1".into(), leader, in_container: true };
        let asking = Asking { claim: &claim, uid: Some(getuid().as_raw() + 1), alone: false };
        let mut dying = known(Mark::Dying, getuid().as_raw());
        assert_eq!(asking.judge(getpid(), &mut dying), Verdict::Dying { surely: true });
    }
}
