//! Memory and processes, by looking now and then: who uses more memory than the job said, or has
//! more processes than any task may, is ended; and a kill by the kernel for want of memory is told
//! apart from any other.
//!
//! Honest polling: a task may go over its limit for up to the time between two looks. Another
//! thread looks: processes of anybody can make that take long (`looks.rs`), and nothing else is to
//! wait for it.
//!
//! What is left of ended tasks and hangs in the kernel (`hanging.rs`) counts for its person, who
//! starts no more tasks with too much of it. Where cgroups count, they count it as well.

use super::crowding::{Besides, Counted, too_many, too_much_left};
use crate::hanging;
use crate::machine::OutOfMemory;
use crate::memory::{FilesIn, Snapshot, kernel_oom_kills};
use crate::spawn::{Ended, HowEnded, Ticket};
use shipway_model::Bytes;
use shipway_runtime::crowd::Caps;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Often enough to stop a runaway before the node suffers, rarely enough to cost nothing.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How soon whoever looks is asked again whether they have seen all.
const ASK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Limits {
    watched: HashMap<Ticket, Watched>,
    next: Option<Instant>,
    /// What is being looked at now.
    coming: Option<Receiver<Seen>>,
    /// Where it is written down what hangs.
    dir: PathBuf,
    /// Processes and threads of ended tasks, by person.
    hanging: BTreeMap<String, u64>,
    /// Tasks that we signalled ourselves: their end is no puzzle.
    signalled: std::collections::HashSet<Ticket>,
    kernel_kills: u64,
    caps: Caps,
}

#[derive(Debug)]
struct Watched {
    /// Bytes, if the job named any.
    limit: Option<u64>,
    /// Whose it is, where the kernel does not hold the number of its processes and threads.
    person: Option<String>,
    pid: Option<u32>,
    over: Option<u64>,
    files: FilesIn,
}

#[derive(Debug, Default)]
struct Seen {
    tasks: Vec<Taken>,
    hanging: BTreeMap<String, u64>,
}

/// What one task takes.
#[derive(Debug)]
struct Taken {
    ticket: Ticket,
    bytes: u64,
    processes: u64,
}

impl Limits {
    pub(super) fn new(caps: Caps, dir: &Path) -> Self {
        Limits {
            watched: HashMap::new(),
            // An earlier pilot may have left some that hang.
            next: Some(Instant::now()),
            coming: None,
            dir: dir.to_owned(),
            hanging: BTreeMap::new(),
            signalled: std::collections::HashSet::new(),
            kernel_kills: kernel_oom_kills().unwrap_or(0),
            caps,
        }
    }

    /// `files` of the task count as memory too. Without a limit nothing is looked at.
    pub(super) fn expect(
        &mut self,
        ticket: Ticket,
        limit: Option<u64>,
        person: Option<&str>,
        files: FilesIn,
    ) {
        if limit.is_some() || person.is_some() {
            let person = person.map(str::to_owned);
            let watched = Watched { limit, person, pid: None, over: None, files };
            self.watched.insert(ticket, watched);
        }
    }

    pub(super) fn started(&mut self, ticket: Ticket, pid: u32) {
        if let Some(watched) = self.watched.get_mut(&ticket) {
            watched.pid = Some(pid);
            self.next.get_or_insert_with(|| Instant::now() + LOOK_EVERY);
        }
    }

    pub(super) fn signalled(&mut self, ticket: Ticket) {
        self.signalled.insert(ticket);
    }

    pub(super) fn next_look(&self) -> Option<Instant> {
        self.next
    }

    /// Who has to be ended now, and why if nothing else will say it.
    pub(super) fn look(&mut self, now: Instant) -> Vec<(Ticket, Option<String>)> {
        if self.next.is_none_or(|next| next > now) {
            return Vec::new();
        }
        match self.coming.take().map(|coming| (coming.try_recv(), coming)) {
            Some((Err(TryRecvError::Empty), coming)) => {
                (self.coming, self.next) = (Some(coming), Some(now + ASK_AGAIN));
                Vec::new()
            }
            Some((seen, _)) => {
                let over = seen.map(|seen| {
                    self.hanging = seen.hanging;
                    self.judge(seen.tasks)
                });
                let goes_on = !self.watched.is_empty() || !self.hanging.is_empty();
                self.next = goes_on.then(|| now + LOOK_EVERY);
                over.unwrap_or_default()
            }
            None => {
                self.coming = self.send_somebody();
                let again = if self.coming.is_some() { ASK_AGAIN } else { LOOK_EVERY };
                self.next = Some(now + again);
                Vec::new()
            }
        }
    }

    fn send_somebody(&self) -> Option<Receiver<Seen>> {
        let watched = self.watched.iter();
        let tasks = watched.filter_map(|(ticket, it)| Some((*ticket, it.pid?, it.files, it.limit)));
        let tasks: Vec<_> = tasks.collect();
        let (dir, (tell, coming)) = (self.dir.clone(), channel());
        let look = move || {
            let left = left_of(&dir);
            if tasks.is_empty() && left.is_empty() {
                return drop(tell.send(Seen::default()));
            }
            let Ok(snapshot) = Snapshot::shared() else { return };
            let count =
                |(person, roots): (String, Vec<i32>)| (person, snapshot.threads_below(roots));
            let hanging = left.into_iter().map(count).collect();
            let tasks = tasks.into_iter().map(|(ticket, pid, files, limit)| {
                let used = || snapshot.resident_bytes(pid) + snapshot.file_bytes(pid, files);
                let bytes = limit.map_or(0, |_| used());
                Taken { ticket, bytes, processes: snapshot.threads(pid) }
            });
            let _nobody_waits = tell.send(Seen { tasks: tasks.collect(), hanging });
        };
        let thread = std::thread::Builder::new().name("limits".into());
        thread.spawn(look).ok().map(|_| coming)
    }

    fn judge(&mut self, seen: Vec<Taken>) -> Vec<(Ticket, Option<String>)> {
        let (mut over, mut within) = (Vec::new(), Vec::new());
        for Taken { ticket, bytes, processes } in seen {
            let Some(watched) = self.watched.get_mut(&ticket) else { continue };
            if watched.limit.is_some_and(|limit| bytes > limit) {
                watched.over.get_or_insert(bytes);
                over.push((ticket, None));
            } else {
                within.push((ticket, processes));
            }
        }
        let counted = within.into_iter().filter_map(|(ticket, processes)| {
            let person = self.watched.get(&ticket)?.person.as_deref()?;
            Some(Counted { ticket, person, processes })
        });
        let counted: Vec<_> = counted.collect();
        let left: Besides<'_> =
            self.hanging.iter().map(|(person, has)| (person.as_str(), *has)).collect();
        let crowds = too_many(self.caps, &counted, &left).into_iter();
        over.extend(crowds.map(|(ticket, words)| (ticket, Some(words))));
        over
    }

    /// Why this person starts no more tasks for now.
    pub(super) fn refuses(&self, person: &str) -> Option<String> {
        too_much_left(self.caps, *self.hanging.get(person)?)
    }

    /// Of one that never ran, or whose end is known: nothing is looked at any more.
    pub(super) fn forget(&mut self, ticket: Ticket) {
        self.watched.remove(&ticket);
        self.signalled.remove(&ticket);
    }

    pub(super) fn ended(&mut self, ended: &Ended) -> Option<OutOfMemory> {
        let killed = ended.how == HowEnded::Signal(9);
        if killed || ended.left_behind > 0 {
            // Something of it may hang.
            self.next.get_or_insert_with(|| Instant::now() + LOOK_EVERY);
        }
        let signalled = self.signalled.remove(&ended.ticket);
        let watched = self.watched.remove(&ended.ticket);
        if let Some(Watched { limit: Some(limit), over: Some(used), .. }) = watched {
            return Some(OutOfMemory::OverLimit { limit: Bytes(limit), used: Bytes(used) });
        }
        if !killed || signalled {
            return None;
        }
        let kills = kernel_oom_kills().unwrap_or(self.kernel_kills);
        let by_kernel = kills > self.kernel_kills;
        self.kernel_kills = kills;
        by_kernel.then_some(OutOfMemory::Kernel)
    }
}

/// What hangs of each person's.
fn left_of(dir: &Path) -> BTreeMap<String, Vec<i32>> {
    let mut left: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for hanging in hanging::still(dir) {
        if let Some(person) = hanging.person {
            left.entry(person).or_default().push(hanging.pid);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hanging::{Whose, write_down};
    use rustix::process::{Pid, Signal, kill_process_group};
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    type Over = Vec<(Ticket, Option<String>)>;

    /// Some twenty processes, one below the other or side by side, in sessions of their own.
    fn twenty() -> Child {
        let script = "i=0; while [ $i -lt 10 ]; do (sleep 1000; :) & i=$((i+1)); done; \
                      echo ready; wait";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        child
    }

    fn end(mut child: Child) {
        kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
    }

    fn look_until<T>(limits: &mut Limits, mut found: impl FnMut(&Limits, Over) -> Option<T>) -> T {
        let (clock, mut now) = (Instant::now(), Instant::now());
        loop {
            assert!(clock.elapsed() < Duration::from_mins(1), "only a hang takes so long");
            now += LOOK_EVERY;
            let over = limits.look(now);
            if let Some(found) = found(limits, over) {
                return found;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_task_with_too_many_processes_is_ended_with_the_reason() {
        let child = twenty();
        let caps = Caps { task: 10, person: 20, all: 30 };
        let dir = tempfile::tempdir().unwrap();
        let mut limits = Limits::new(caps, dir.path());
        limits.expect(Ticket(1), None, Some("ada"), FilesIn::Nothing);
        limits.expect(Ticket(2), Some(1 << 40), None, FilesIn::Nothing);
        limits.expect(Ticket(3), None, None, FilesIn::Nothing);
        for ticket in [1, 2, 3] {
            limits.started(Ticket(ticket), child.id());
        }
        assert_eq!(limits.watched.len(), 2);
        let over = look_until(&mut limits, |_, over| (!over.is_empty()).then_some(over));
        end(child);
        let [(Ticket(1), Some(words))] = &over[..] else { panic!("{over:?}") };
        assert!(words.ends_with("processes and threads, 10 at most"), "{words}");
    }

    #[test]
    fn what_hangs_of_ended_tasks_counts_for_whose_they_were() {
        let (dir, left, task) = (tempfile::tempdir().unwrap(), twenty(), twenty());
        let pid = Pid::from_child(&left);
        write_down(dir.path(), &[pid], Whose::Leader(pid, "eve"));
        // All but one of them are below what was written down.
        let mut limits = Limits::new(Caps { task: 100, person: 11, all: 100 }, dir.path());
        let words = look_until(&mut limits, |limits, _| limits.refuses("eve"));
        assert!(words.contains("hang in the kernel on this node"), "{words}");
        assert_eq!(limits.refuses("ada"), None);
        // With less of it left, their tasks count besides.
        limits.caps.person = 30;
        assert_eq!(limits.refuses("eve"), None);
        for (ticket, person) in [(1, "ada"), (2, "eve")] {
            limits.expect(Ticket(ticket), None, Some(person), FilesIn::Nothing);
            limits.started(Ticket(ticket), task.id());
        }
        let over = look_until(&mut limits, |_, over| (!over.is_empty()).then_some(over));
        let [(Ticket(2), Some(words))] = &over[..] else { panic!("{over:?}") };
        assert!(words.contains("processes and threads of eve, 30 at most"), "{words}");
        limits.forget(Ticket(1));
        limits.forget(Ticket(2));
        limits.caps.person = 11;
        end(task);
        end(left);
        look_until(&mut limits, |limits, _| limits.refuses("eve").is_none().then_some(()));
    }

    /// Each way in which a task ends that may leave something.
    #[test]
    fn what_hangs_is_looked_for_when_a_task_was_killed_or_left_something() {
        let dir = tempfile::tempdir().unwrap();
        let at = std::time::SystemTime::UNIX_EPOCH;
        for (how, left_behind, looks) in [
            (HowEnded::Exit(0), 0, false),
            (HowEnded::Exit(0), 1, true),
            (HowEnded::Signal(9), 0, true),
        ] {
            let mut limits = Limits::new(Caps { task: 1, person: 1, all: 1 }, dir.path());
            look_until(&mut limits, |limits, _| limits.next_look().is_none().then_some(()));
            limits.ended(&Ended {
                ticket: Ticket(1),
                how,
                core_dumped: false,
                started: at,
                ended: at,
                ran: Duration::ZERO,
                left_behind,
                spent: None,
            });
            assert_eq!(limits.next_look().is_some(), looks, "{how:?}, {left_behind} left");
        }
    }
}
