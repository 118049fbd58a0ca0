//! How a guard ends everything below it, and when it has.
//!
//! Children are killed until there is none. Only direct children are ever reaped: a pid of ours
//! cannot be reused before that, and what they leave becomes our direct child in turn. One whose
//! end is kept by whoever traces it is dead, and one that was killed and does not die within
//! `HANG_LIMIT` never runs again: neither is waited for. What stands below such a one does not
//! become ours, and is ended where it is: a pilot that hangs gets what its dead children leave, so
//! that is looked for again until a look meets nobody new.

use super::word::Word;
use crate::below::{Do, end_below, is_dead};
use crate::hanging::HANG_LIMIT;
use crate::{inside, procfs};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The pause after which those that were killed are looked at, whether one has died or not.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Most of them that are waited for at once, with a descriptor each.
const MOST_WAITED_FOR: usize = 256;

/// Returns those that were killed and do not die. Of `hung` that is known already.
pub(super) fn end(word: &mut Word, hung: Option<Pid>) -> io::Result<Vec<Pid>> {
    // First those that died before anybody killed them.
    let mut children = procfs::own_children()?;
    children.retain(|child| !word.bury(*child));
    inside::end(&children);
    let mut killed = Killed { since: BTreeMap::new(), hung };
    loop {
        let mut children = procfs::own_children()?;
        children.retain(|child| !word.bury(*child));
        for child in &children {
            if kill_process(*child, Signal::KILL).is_ok() {
                killed.note(*child, Instant::now());
            }
        }
        // One that has died just now is ours to bury, unless somebody keeps its end.
        let (dead, alive): (Vec<Pid>, _) = children.into_iter().partition(|it| is_dead(*it));
        let kept: Vec<Pid> = dead.into_iter().filter(|child| !word.bury(*child)).collect();
        let (mut waited_for, mut hanging) = killed.sort(alive, Instant::now());
        let (all_ended, mut below) = end_all_below(&hanging);
        let nobody_new = below.iter().filter(|pid| killed.note(**pid, Instant::now())).count() == 0;
        below.retain(|pid| !is_dead(*pid));
        // What those have left that were buried is ours by now, and nobody has killed it.
        let is_known = |child: &Pid| hanging.contains(child) || kept.contains(child);
        let all_known = procfs::own_children()?.iter().all(is_known);
        let (dying, hanging_below) = killed.sort(below, Instant::now());
        waited_for.extend(dying);
        hanging.extend(hanging_below);
        if waited_for.is_empty() && nobody_new && all_ended && all_known {
            return Ok(hanging);
        }
        wait(&waited_for);
    }
}

/// Whether all that stands below those that hang could be killed, and who of it was not dead.
fn end_all_below(hanging: &[Pid]) -> (bool, Vec<Pid>) {
    let (mut all, mut below) = (true, Vec::new());
    for top in hanging {
        all &= end_below(*top, |pid| {
            if !is_dead(pid) {
                below.push(pid);
            }
            Do::End
        });
    }
    (all, below)
}

/// Until one of them is dead, or for a while.
fn wait(processes: &[Pid]) {
    let open = |pid: &Pid| pidfd_open(*pid, PidfdFlags::empty()).ok();
    let open: Vec<OwnedFd> = processes.iter().take(MOST_WAITED_FOR).filter_map(open).collect();
    let mut fds: Vec<PollFd<'_>> =
        open.iter().map(|pidfd| PollFd::new(pidfd, PollFlags::IN)).collect();
    let _looked_at_again = poll(&mut fds, Timespec::try_from(LOOK_EVERY).ok().as_ref());
}

#[derive(Debug, Default)]
struct Killed {
    /// Since when each process was killed.
    since: BTreeMap<i32, Instant>,
    hung: Option<Pid>,
}

impl Killed {
    /// Whether it is the first time: that is the one that counts.
    fn note(&mut self, pid: Pid, now: Instant) -> bool {
        let known = self.since.entry(pid.as_raw_nonzero().get());
        let is_new = matches!(known, Entry::Vacant(_));
        known.or_insert(now);
        is_new
    }

    /// Those of the living that are waited for, and those that hang.
    fn sort(&self, alive: Vec<Pid>, now: Instant) -> (Vec<Pid>, Vec<Pid>) {
        let hangs = |pid: &Pid| {
            let since = self.since.get(&pid.as_raw_nonzero().get());
            let is_long_ago = |since| now.saturating_duration_since(since) >= HANG_LIMIT;
            self.hung == Some(*pid) || since.copied().is_some_and(is_long_ago)
        };
        alive.into_iter().partition(|pid| !hangs(pid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_killed_long_ago_hangs_and_who_was_not_killed_never_does() {
        let pid = |number| Pid::from_raw(number).unwrap();
        let (mut killed, begin) = (Killed::default(), Instant::now());
        let later = begin + HANG_LIMIT;
        assert!(killed.note(pid(1), begin) && killed.note(pid(2), later));
        assert!(!killed.note(pid(1), later));
        let there = || vec![pid(1), pid(2), pid(3)];
        let (waited_for, hanging) = killed.sort(there(), begin);
        assert_eq!((waited_for, hanging), (there(), vec![]));
        let (waited_for, hanging) = killed.sort(there(), later);
        assert_eq!((waited_for, hanging), (vec![pid(2), pid(3)], vec![pid(1)]));
    }
}
