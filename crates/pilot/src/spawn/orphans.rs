//! Processes that a task left behind and that the kernel gave to us, the subreaper.
//!
//! They appear as children of our main thread, while the tasks themselves are children of the
//! spawner threads: so one read of one small file says whether there is anything to do. They stay
//! ours until we reap them, which only happens under the lock here; so their pids are safe to use.
//! The lock is the process's, like its children: and the kernel may leave out a child from the
//! list when another one is reaped while it is read.
//!
//! Nothing is waited for here. Whoever sweeps is told what is to be waited for, and sweeps again;
//! what is known of a process is kept, so that it costs the ends of other tasks next to nothing.

use super::whose::{Claim, Known, Verdict};
use super::{ATTEMPT_KEY_VARIABLE, Shared, graves, lock};
use crate::below::{Do, end_below};
use crate::procfs::{self, Mark};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, TryLockError};

/// Bytes of the list read at once, which is as many as the kernel gives, and in all: room for a
/// hundred thousand orphans.
const LIST_PIECE: usize = 4096;
const LIST_LIMIT: usize = 1 << 20;

/// Most orphans whose end is waited for at once, with a descriptor each. The others are ended too,
/// and are seen when one of these is dead.
const MOST_WAITED_FOR: usize = 256;

/// What is known of each orphan.
static SWEEPING: Mutex<BTreeMap<i32, Known>> = Mutex::new(BTreeMap::new());

#[derive(Debug)]
pub(super) struct Orphans {
    /// The list of our main thread's children; `None` on a kernel that does not give one.
    list: Option<File>,
}

/// What a sweep has found.
#[derive(Debug, Default)]
pub(super) struct Swept {
    /// Each becomes readable when it is dead, and then another sweep is due.
    pub(super) dying: Vec<(Pid, OwnedFd)>,
    /// There are some of which cannot be told at this moment whose they are: another sweep is due
    /// in a blink.
    pub(super) unsettled: bool,
}

impl Orphans {
    pub(super) fn new() -> Self {
        let own = getpid();
        let list = File::open(format!("/proc/{own}/task/{own}/children")).ok();
        Self { list }
    }

    /// Reaps the dead and kills what the task left.
    pub(super) fn sweep(&self, claim: &Claim, shared: &Shared) -> Swept {
        let mut known = lock(&SWEEPING);
        let alive = look_after(self.list.as_ref(), shared, &mut known);
        let mut swept = Swept::default();
        if alive.is_empty() {
            return swept;
        }
        // Read after the list: a task that is not counted here has no process in the list.
        let alone = shared.unfinished.load(Ordering::Acquire) <= 1;
        let asking = claim.asks(alone);
        for pid in alive {
            let known = known.entry(raw(pid)).or_insert_with(|| Known::look(pid));
            let verdict = asking.judge(pid, known);
            match verdict {
                Verdict::Others => continue,
                Verdict::Unclear => {
                    swept.unsettled = true;
                    continue;
                }
                Verdict::Ours => drop(kill_process(pid, Signal::KILL)),
                Verdict::Dying { .. } => {}
            }
            // What was not gone by itself since the last look may hang, with others below it.
            if std::mem::replace(&mut known.was_seen, true) {
                end_what_is_below(pid, verdict, claim);
            }
            if swept.dying.len() < MOST_WAITED_FOR {
                match pidfd_open(pid, PidfdFlags::empty()) {
                    Ok(pidfd) => swept.dying.push((pid, pidfd)),
                    Err(_) => swept.unsettled = true,
                }
            }
        }
        swept
    }

    /// Reaps the dead and touches nobody else. Whoever sweeps now does the same.
    pub(super) fn reap(&self, shared: &Shared) {
        let mut known = match SWEEPING.try_lock() {
            Ok(known) => known,
            Err(TryLockError::Poisoned(known)) => known.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        look_after(self.list.as_ref(), shared, &mut known);
    }
}

fn end_what_is_below(pid: Pid, verdict: Verdict, claim: &Claim) {
    end_below(pid, |child| match verdict {
        Verdict::Dying { surely: false } => match procfs::mark(child, ATTEMPT_KEY_VARIABLE) {
            Mark::Is(key) if key == claim.key.as_bytes() => Do::End,
            Mark::Dying => Do::Pass,
            _ => Do::Leave,
        },
        _ => Do::End,
    });
}

/// Reaps the dead and says who lives. Whatever the dead left is among these.
fn look_after(list: Option<&File>, shared: &Shared, known: &mut BTreeMap<i32, Known>) -> Vec<Pid> {
    graves::bury_the_rest();
    let mut alive = listed(list).unwrap_or_default();
    if alive.is_empty() {
        known.clear();
        return alive;
    }
    // A leader is in the list where the kernel has none by thread and all processes were asked.
    let leaders: Vec<Pid> = lock(&shared.leaders).values().map(|leader| leader.pid).collect();
    let count = alive.len();
    alive.retain(|pid| leaders.contains(pid) || !graves::is_gone(*pid));
    // One that was reaped may have died since the list was read: then its children are ours by
    // now, and were not in it.
    if alive.len() < count {
        alive = listed(list).unwrap_or_default();
    }
    alive.retain(|pid| !leaders.contains(pid));
    alive.sort_unstable_by_key(|pid| raw(*pid));
    known.retain(|pid, _| alive.binary_search_by_key(pid, |alive| raw(*alive)).is_ok());
    alive
}

fn listed(list: Option<&File>) -> io::Result<Vec<Pid>> {
    let Some(file) = list else { return procfs::children_by_scan() };
    let (mut text, mut length) = (vec![0; LIST_PIECE], 0);
    loop {
        match file.read_at(&mut text[length..], length as u64)? {
            0 => break,
            read => length += read,
        }
        if length >= LIST_LIMIT {
            break;
        }
        text.resize(length + LIST_PIECE, 0);
    }
    // A number cut off at the end would be another process: leave it out.
    let whole = text[..length].iter().rposition(u8::is_ascii_whitespace).unwrap_or(0);
    let text = std::str::from_utf8(&text[..whole]).unwrap_or_default();
    Ok(procfs::parse_list(text).collect())
}

fn raw(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::Logs;
    use crate::spawn::Pool;
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    /// The loop that answers the server does it, while a sweep may take its time.
    #[test]
    fn who_only_reaps_does_not_wait_for_a_sweep() {
        let dir = tempfile::tempdir().unwrap();
        let pool = Pool::new(2, "test-node", Logs::new(dir.path().into()), Arc::new(|_| {}));
        let pool = pool.unwrap();
        let sweeping = lock(&SWEEPING);
        let (tell, told) = mpsc::channel();
        let reaping = std::thread::spawn(move || {
            pool.reap_orphans();
            tell.send(()).unwrap();
        });
        told.recv_timeout(Duration::from_mins(1)).expect("nothing is waited for");
        drop(sweeping);
        reaping.join().unwrap();
    }
}
