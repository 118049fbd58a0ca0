//! The end of a task: how it ended, the rest of what it printed, and that nothing of it is left.

use super::leader::Leader;
use super::pipes::Errand;
use super::task::Task;
use super::watch::WatchThread;
use super::watcher::{ABOUT_ERR, ABOUT_ORPHAN, ABOUT_OUT};
use super::{DRAIN_LIMIT, Ended, HowEnded, ProcessEvent, StartError, graves, lock};
use crate::below::{Do, end_below};
use crate::hanging::{self, Whose};
use crate::procfs;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid,
};
use shipway_runtime::report::{NotStarted, Why};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

/// Reads from one pipe when its task has ended before other tasks get their turn; a pipe holds
/// one or two of them unless the task made it bigger.
const END_READS: usize = 16;

/// How long whoever traces a process may keep its end: a debugger lets go at once.
const HELD_LIMIT: Duration = Duration::from_secs(2);
const HELD: &str = "another process traces this one and keeps its end: how it ended is not known";
const HANGS: &str = "this was killed and does not die: it hangs in the kernel, or is traced; \
                     it counts as ended";

impl WatchThread<'_> {
    pub(super) fn leader_died(&mut self, slot: u64, task: &Mutex<Task>) {
        let mut locked = lock(task);
        if locked.ended.is_some() || locked.is_over {
            return;
        }
        let seen = end_group(&locked.leader, &locked.pidfd);
        let is_held = matches!(seen, Seen::Held);
        if matches!(seen, Seen::Ended(_)) {
            // Before it is reaped: then nobody can tell any more.
            locked.spent = procfs::spent(locked.leader.pid);
        }
        if is_held && locked.held.get_or_insert_with(Instant::now).elapsed() < HELD_LIMIT {
            return self.look_later(slot, &mut locked);
        }
        let how = match (&seen, locked.after.take()) {
            (Seen::Ended(status), Some(after)) => locked.how_container_ended(status, &after),
            (Seen::Ended(status), None) => how_ended(status),
            (Seen::Held | Seen::Nothing, _) => (HowEnded::Unknown, false),
        };
        self.leader_is_over(slot, task, locked, how, is_held.then_some(HELD));
    }

    /// It was killed and is not dead: its program does not go on, and what is left of it is the
    /// kernel's. So it is over.
    pub(super) fn leader_hangs(
        &mut self,
        slot: u64,
        task: &Mutex<Task>,
        locked: MutexGuard<'_, Task>,
    ) {
        *lock(&locked.leader.over) = true;
        self.write_down(&[locked.leader.pid], &locked);
        end_below(locked.leader.pid, |_| Do::End);
        let killed = HowEnded::Signal(Signal::KILL.as_raw());
        self.leader_is_over(slot, task, locked, (killed, false), Some(HANGS));
    }

    pub(super) fn leader_is_over(
        &mut self,
        slot: u64,
        task: &Mutex<Task>,
        mut locked: MutexGuard<'_, Task>,
        (how, core_dumped): (HowEnded, bool),
        remark: Option<&str>,
    ) {
        locked.ended = Some(Ended {
            ticket: locked.ticket,
            how,
            core_dumped,
            started: locked.started,
            ended: SystemTime::now(),
            ran: locked.clock.elapsed(),
            left_behind: 0,
            spent: locked.spent.take(),
        });
        // Until it was swept nobody finishes it.
        locked.unsettled = true;
        let words = lock(&locked.leader.last_words).take();
        let words: Vec<String> = words.into_iter().chain(remark.map(str::to_owned)).collect();
        let writing = std::mem::take(&mut locked.writing);
        drop(locked);
        if !words.is_empty() {
            self.read_rest(slot, task, ABOUT_ERR);
            let mut locked = lock(task);
            locked.words.extend(words);
            locked.say();
        }
        self.close(slot, task, writing);
        self.read_rest(slot, task, ABOUT_OUT);
        self.read_rest(slot, task, ABOUT_ERR);
        let mut locked = lock(task);
        // Finished by others, while this hung.
        if locked.is_over {
            return;
        }
        self.sweep(slot, &mut locked);
        if locked.left() > 0 {
            self.watcher.give_up_at(slot, Instant::now() + DRAIN_LIMIT);
        }
    }

    pub(super) fn read_rest(&mut self, slot: u64, task: &Mutex<Task>, about: u64) {
        match self.lane_of(task) {
            Some(lane) => lane.leave(Errand::Read(slot, about)),
            None => self.pump(slot, task, about, (END_READS, false)),
        }
    }

    pub(super) fn sweep(&self, slot: u64, task: &mut Task) {
        let swept = self.shared.orphans.sweep(&task.claim, self.shared);
        (task.orphans, task.unsettled) = (swept.dying, swept.unsettled);
        // One that cannot be watched is killed all the same; its end is not waited for.
        task.orphans.retain(|(_, pidfd)| self.watcher.register(pidfd, slot, ABOUT_ORPHAN).is_ok());
        if task.unsettled || !task.orphans.is_empty() {
            self.look_later(slot, task);
        }
    }

    /// Says that these were killed and do not die.
    pub(super) fn write_down(&self, processes: &[Pid], task: &Task) {
        if let Some(slots) = &self.shared.slots
            && !processes.is_empty()
        {
            let whose = Whose::Leader(task.leader.pid, &task.user);
            hanging::write_down(slots.dir(), processes, whose);
        }
    }

    /// Ends the task. Its pipes are closed by whoever unlocks it.
    pub(super) fn finish(&self, slot: u64, task: &mut Task) -> [Option<OwnedFd>; 2] {
        let Some(mut ended) = task.ended.take() else { return [None, None] };
        ended.left_behind = task.left();
        let left: Vec<Pid> = task.orphans.iter().map(|(pid, _)| *pid).collect();
        self.write_down(&left, task);
        lock(&self.watcher.tasks).remove(&slot);
        task.is_over = true;
        let pipes = task.close_outputs();
        task.orphans.clear();
        self.shared.finish(match task.not_started.take() {
            None => ProcessEvent::Ended(ended),
            Some(NotStarted { why, message }) => {
                let error = match why {
                    Why::NoRoom => StartError::NoContainer { message },
                    _ => StartError::Container { message },
                };
                ProcessEvent::NotStarted { ticket: ended.ticket, error }
            }
        });
        self.bury(task);
        pipes
    }

    /// Reaps the leader. Not before its end is known to the sink: if this process is killed before
    /// that, whoever gets the dead leader can see how it ended.
    pub(super) fn bury(&self, task: &Task) {
        graves::bury(task.leader.pid);
        lock(&self.shared.leaders).remove(&task.ticket);
        if let (Some(slots), Some(slot)) = (&self.shared.slots, task.slot) {
            slots.give_back(slot);
        }
    }
}

/// What can be seen of a dead leader.
enum Seen {
    Ended(WaitIdStatus),
    /// Whoever traces it has its end, and not let go of it yet.
    Held,
    /// Somebody else has reaped it.
    Nothing,
}

/// Kills the group of a dead leader and says how the leader ended, without reaping it: so its pid
/// cannot be reused, and the group can only be its own.
fn end_group(leader: &Leader, pidfd: &OwnedFd) -> Seen {
    let mut over = lock(&leader.over);
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let status = waitid(WaitId::PidFd(pidfd.as_fd()), look);
    if status.is_ok() {
        let _nobody_left = kill_process_group(leader.pid, Signal::KILL);
    }
    *over = true;
    match status {
        Ok(Some(status)) => Seen::Ended(status),
        Ok(None) => Seen::Held,
        Err(_) => Seen::Nothing,
    }
}

fn how_ended(status: &WaitIdStatus) -> (HowEnded, bool) {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => (HowEnded::Exit(code), false),
        (None, Some(signal)) => (HowEnded::Signal(signal), status.dumped()),
        (None, None) => (HowEnded::Unknown, false),
    }
}
