//! A limit on the processes and threads of each task, of each person and of all tasks together, at
//! next to no cost.
//!
//! A cgroup is made once and used by one task after the other of the same person. Nobody is moved
//! into it when a task starts: the thread that starts it goes there first, and what it starts is
//! born there. A thread that moves itself needs none of the locks that make moving a process slow.
//! Both versions of cgroups allow it; where the node does not delegate them there are no slots, and
//! somebody has to look.
//!
//! ```text
//! PREFIXtasks          all tasks
//! └─ person-0          those of one person
//!    └─ slot-0         one task at a time
//! ```

use crate::again;
use crate::cgroup::{Delegation, OWN_GROUP, remove_group};
use std::cell::Cell;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many processes and threads there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    pub task: u32,
    pub person: u32,
    pub all: u32,
}

/// A cgroup that holds one task at a time.
#[derive(Debug)]
pub struct Slot {
    /// Takes threads.
    door: File,
    person: String,
    /// Of all slots that this process has made.
    number: u64,
}

thread_local! {
    /// The number of the slot that this thread is in; numbers begin with 1.
    static HERE: Cell<u64> = const { Cell::new(0) };
}

impl Slot {
    fn new(door: File, person: &str) -> Arc<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed) + 1;
        Arc::new(Self { door, person: person.to_owned(), number })
    }

    /// Moves the calling thread here, unless it is here: nobody else moves it. What it starts from
    /// now on begins here and cannot be more than the limit.
    pub fn enter(&self) -> io::Result<()> {
        if HERE.get() == self.number {
            return Ok(());
        }
        self.door.write_all_at(b"0", 0)?;
        HERE.set(self.number);
        Ok(())
    }
}

/// Where slots are made.
#[derive(Debug)]
pub struct Slots {
    parent: PathBuf,
    prefix: String,
    caps: Caps,
    version_2: bool,
    people: HashMap<String, Person>,
    made: u64,
}

#[derive(Debug)]
struct Person {
    directory: PathBuf,
    free: Vec<Arc<Slot>>,
}

impl Slots {
    /// `None` where this process may not make such groups, or may not enter them.
    pub fn find(delegation: &Delegation, prefix: &str, caps: Caps) -> Option<Self> {
        let (parent, version_2) = match delegation {
            Delegation::V1 { pids, .. } => (pids.clone()?, false),
            Delegation::V2 { parent } => (parent.join(OWN_GROUP), true),
            Delegation::Polled { .. } => return None,
        };
        let (prefix, people) = (prefix.into(), HashMap::new());
        let mut slots = Self { parent, prefix, caps, version_2, people, made: 0 };
        slots.clear();
        let made = slots.furnish(&slots.tasks(), caps.all).and_then(|()| slots.take("")).ok();
        // A thread that is gone when it is known: this one stays where it is.
        let entered = made.and_then(|slot| {
            let tried = again::thread("slot", move || slot.enter().map(|()| slot)).ok()?.join();
            tried.ok()?.ok()
        });
        if entered.is_none() {
            slots.clear();
        }
        slots.give_back(entered?);
        Some(slots)
    }

    fn tasks(&self) -> PathBuf {
        self.parent.join(format!("{}tasks", self.prefix))
    }

    /// A slot of this person's that nobody else has.
    pub fn take(&mut self, person: &str) -> io::Result<Arc<Slot>> {
        if !self.people.contains_key(person) {
            let directory = self.tasks().join(format!("person-{}", self.people.len()));
            self.furnish(&directory, self.caps.person)?;
            self.people.insert(person.to_owned(), Person { directory, free: Vec::new() });
        }
        let Some(theirs) = self.people.get_mut(person) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if let Some(slot) = theirs.free.pop() {
            return Ok(slot);
        }
        let directory = theirs.directory.join(format!("slot-{}", self.made));
        self.made += 1;
        self.furnish(&directory, self.caps.task)?;
        let door = if self.version_2 { "cgroup.threads" } else { "tasks" };
        let door = OpenOptions::new().write(true).open(directory.join(door))?;
        Ok(Slot::new(door, person))
    }

    /// For the next task of the same person. Whatever the last one left there is dying.
    pub fn give_back(&mut self, slot: Arc<Slot>) {
        if let Some(person) = self.people.get_mut(&slot.person) {
            person.free.push(slot);
        }
    }

    /// Processes and threads of a person's tasks that are in slots.
    pub fn processes(&self, person: &str) -> u64 {
        let found = self.people.get(person);
        found.and_then(|person| processes_in(&person.directory)).unwrap_or_default()
    }

    fn furnish(&self, directory: &Path, limit: u32) -> io::Result<()> {
        match fs::create_dir(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let made = self.limit(directory, limit);
        made.inspect_err(|_| drop(fs::remove_dir(directory)))
    }

    fn limit(&self, directory: &Path, limit: u32) -> io::Result<()> {
        if self.version_2 {
            // Processes of one group may have threads in several of this kind.
            fs::write(directory.join("cgroup.type"), "threaded")?;
            let above = directory.parent().unwrap_or(directory);
            fs::write(above.join("cgroup.subtree_control"), "+pids")?;
        }
        fs::write(directory.join("pids.max"), limit.to_string())
    }

    /// Removes what an earlier pilot left, or this one has no more use for. Whether all of it is
    /// gone: what something still runs in stays.
    pub fn clear(&self) -> bool {
        let found = fs::read_dir(&self.parent).into_iter().flatten().flatten();
        let ours =
            found.filter(|entry| entry.file_name().to_string_lossy().starts_with(&self.prefix));
        ours.map(|entry| remove_group(&entry.path())).filter(Result::is_err).count() == 0
    }
}

/// What is in a cgroup and below, as the kernel counts it.
pub(crate) fn processes_in(directory: &Path) -> Option<u64> {
    fs::read_to_string(directory.join("pids.current")).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Bounded by itself: it ends as soon as it cannot fork, or after a hundred.
    const BOMB: &str = "trap 'kill -9 0' EXIT; i=0; \
                        while [ $i -lt 100 ]; do sleep 60 >/dev/null 2>&1 & i=$((i+1)); done";

    #[test]
    fn what_a_thread_starts_in_a_slot_cannot_be_more_than_its_limit() {
        let delegation = Delegation::find(Path::new("/"));
        let prefix = format!("shipway-test-{}-", std::process::id());
        let Some(mut slots) = Slots::find(&delegation, &prefix, caps(20, 1_000)) else {
            // No cgroup of this process can be changed: tests of looking cover that.
            assert!(!matches!(delegation, Delegation::V1 { pids: Some(_), .. }), "{delegation:?}");
            return;
        };
        let slot = slots.take("ada").unwrap();
        let (said, slot) = std::thread::spawn(move || {
            slot.enter().unwrap();
            let mut bomb = Command::new("setsid");
            (bomb.args(["-w", "sh", "-c", BOMB]).output().unwrap(), slot)
        })
        .join()
        .unwrap();
        let said = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        assert!(said.1.to_lowercase().contains("fork"), "{said:?}");
        // This thread is elsewhere, and goes on.
        assert!(Command::new("true").status().unwrap().success());
        slots.give_back(slot);
        until_clear(&slots);
    }

    /// Each is within its own limit, and both together are not.
    #[test]
    fn two_tasks_of_one_person_share_what_the_person_may_have() {
        let delegation = Delegation::find(Path::new("/"));
        let prefix = format!("shipway-people-{}-", std::process::id());
        let Some(mut slots) = Slots::find(&delegation, &prefix, caps(20, 24)) else {
            assert!(!matches!(delegation, Delegation::V1 { pids: Some(_), .. }), "{delegation:?}");
            return;
        };
        let sleeping = |slot: Arc<Slot>, count: u32| {
            std::thread::spawn(move || {
                slot.enter().unwrap();
                (0..count).map(|_| Command::new("sleep").arg("1000").spawn()).collect::<Vec<_>>()
            })
            .join()
            .unwrap()
        };
        let first = sleeping(slots.take("ada").unwrap(), 15);
        let second = sleeping(slots.take("ada").unwrap(), 15);
        let other = sleeping(slots.take("bob").unwrap(), 15);
        let counted = slots.processes("ada");
        let running = |all: &Vec<io::Result<_>>| all.iter().filter(|one| one.is_ok()).count();
        let found = [&first, &second, &other].map(running);
        for mut child in first.into_iter().chain(second).chain(other).flatten() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        until_clear(&slots);
        // The thread that starts them is one more.
        assert_eq!((found[0], found[2]), (15, 15));
        assert!((7..=9).contains(&found[1]), "{found:?}");
        assert!((22..=24).contains(&counted), "{counted}");
    }

    fn caps(task: u32, person: u32) -> Caps {
        Caps { task, person, all: 10_000 }
    }

    fn until_clear(slots: &Slots) {
        let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
        while !slots.clear() {
            assert!(std::time::Instant::now() < deadline, "groups are left");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_slot_is_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let pids = dir.path().to_owned();
        let delegation = Delegation::V1 { memory: None, pids: Some(pids.clone()), cpu: None };
        // No kernel makes the files of a group here.
        assert!(Slots::find(&delegation, "a-", caps(7, 9)).is_none());
        assert!(
            Slots::find(&Delegation::Polled { why: String::new() }, "a-", caps(7, 9)).is_none()
        );
        let slot = |person: &str| Slot::new(tempfile::tempfile().unwrap(), person);
        let ada = Person { directory: pids.join("absent"), free: vec![slot("ada")] };
        let people = HashMap::from([("ada".to_owned(), ada)]);
        let (prefix, caps) = ("a-".to_owned(), caps(7, 9));
        let mut slots = Slots { parent: pids, prefix, caps, version_2: false, people, made: 0 };
        let slot = slots.take("ada").unwrap();
        assert!(slots.take("ada").is_err() && slots.take("bob").is_err());
        slots.give_back(slot);
        assert!(slots.take("bob").is_err(), "it is ada's");
        slots.take("ada").unwrap().enter().unwrap();
    }
}
