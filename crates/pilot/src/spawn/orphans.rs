//! Processes that a task left behind and that the kernel gave to us, the subreaper.
//!
//! They appear as children of our main thread, while the tasks themselves are children of the
//! spawner threads: so one read of one small file says whether there is anything to do. They stay
//! ours until we reap them, which only happens under the lock here; so their pids are safe to use.
//! The lock is the process's, like its children: and the kernel may leave out a child from the
//! list when another one is reaped while it is read.

use super::{ATTEMPT_KEY_VARIABLE, Shared, lock};
use crate::procfs;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, kill_process, pidfd_open, waitid,
};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bytes of the list read at once: enough for hundreds of orphans. More are found by the next
/// sweep, which comes when one of these has died.
const LIST_BYTES: usize = 4096;

/// For a blink a process cannot be dealt with: in the middle of `execve` it has no environment,
/// and while it ends it has neither that nor a descriptor to be had, but may have children that
/// it is about to hand to us. Then the list is read again after a pause.
const SETTLE_PAUSE: Duration = Duration::from_millis(1);
const SETTLE_TRIES: u32 = 200;

static SWEEPING: Mutex<()> = Mutex::new(());

#[derive(Debug)]
pub(super) struct Orphans {
    /// The list of our main thread's children; `None` on a kernel that does not give one.
    list: Option<File>,
}

impl Orphans {
    pub(super) fn new() -> Self {
        let own = getpid();
        let list = File::open(format!("/proc/{own}/task/{own}/children")).ok();
        Self { list }
    }

    /// Reaps the dead, kills those that carry `key`, and returns the killed ones: each becomes
    /// readable when it is dead, and then another sweep is due.
    pub(super) fn sweep(&self, key: &str, shared: &Shared) -> Vec<OwnedFd> {
        let _only_us = lock(&SWEEPING);
        let mut killed = Vec::new();
        for _ in 0..SETTLE_TRIES {
            let Children { alive, reaped } = look_after(self.list.as_ref(), shared);
            // Read after the list: a task that is not counted here has no process in the list.
            let alone = shared.unfinished.load(Ordering::Acquire) <= 1;
            let mut unsettled = false;
            killed.clear();
            for pid in alive {
                match whose(pid, key, alone) {
                    Whose::Ours => match kill(pid) {
                        Ok(pidfd) => killed.push(pidfd),
                        Err(_) => unsettled = true,
                    },
                    Whose::Others => {}
                    Whose::Unclear => unsettled = true,
                }
            }
            // One that was reaped may have died since the list was read: then its children are
            // ours by now, and were not in it.
            if !unsettled && !reaped {
                break;
            }
            if unsettled {
                std::thread::sleep(SETTLE_PAUSE);
            }
        }
        killed
    }

    /// Reaps the dead and touches nobody else.
    pub(super) fn reap(&self, shared: &Shared) {
        let _only_us = lock(&SWEEPING);
        look_after(self.list.as_ref(), shared);
    }
}

struct Children {
    alive: Vec<Pid>,
    /// Whether any was dead, and has been reaped.
    reaped: bool,
}

fn look_after(list: Option<&File>, shared: &Shared) -> Children {
    let mut alive = listed(list).unwrap_or_default();
    if alive.is_empty() {
        return Children { alive, reaped: false };
    }
    // A leader is in the list where the kernel has none by thread and all processes were asked.
    let leaders: Vec<Pid> = lock(&shared.leaders).values().map(|leader| leader.pid).collect();
    alive.retain(|pid| !leaders.contains(pid));
    let count = alive.len();
    let if_dead = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    alive.retain(|pid| matches!(waitid(WaitId::Pid(*pid), if_dead), Ok(None)));
    let reaped = alive.len() < count;
    Children { alive, reaped }
}

fn listed(list: Option<&File>) -> io::Result<Vec<Pid>> {
    let Some(file) = list else { return procfs::children_by_scan() };
    let mut text = [0; LIST_BYTES];
    let length = file.read_at(&mut text, 0)?;
    // A number cut off at the end of the buffer would be another process: leave it out.
    let whole = text[..length].iter().rposition(u8::is_ascii_whitespace).unwrap_or(0);
    let text = std::str::from_utf8(&text[..whole]).unwrap_or_default();
    Ok(procfs::parse_list(text).collect())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Ours,
    Others,
    /// Not to be told at this moment; see `SETTLE_PAUSE`.
    Unclear,
}

/// Whether a process is what the attempt left. One that has cleared its environment cannot be
/// told apart, so it is taken when no other task is there that it could belong to.
fn whose(pid: Pid, key: &str, alone: bool) -> Whose {
    let has_environ = || procfs::stat(pid).is_some_and(|stat| stat.has_environ);
    let before = has_environ();
    let environ = procfs::environ(pid);
    let found = environ.as_ref().and_then(|it| procfs::variable(it, ATTEMPT_KEY_VARIABLE));
    match found {
        Some(found) if found == key.as_bytes() => Whose::Ours,
        Some(_) => Whose::Others,
        None if alone => Whose::Ours,
        // Another user's, who may hide it.
        None if environ.is_none() => Whose::Others,
        // It had one before and after we looked: so it is as we saw it.
        None if before && has_environ() => Whose::Others,
        None => Whose::Unclear,
    }
}

/// The pid is safe to use: an orphan is not reaped by anybody but us.
fn kill(pid: Pid) -> rustix::io::Result<OwnedFd> {
    let _already_dead = kill_process(pid, Signal::KILL);
    pidfd_open(pid, PidfdFlags::empty())
}
