//! A limit on the processes and threads of each task, at next to no cost.
//!
//! A cgroup is made once and used by one task after the other. Nobody is moved into it when a task
//! starts: the thread that starts it goes there first, and what it starts is born there. A thread
//! that moves itself needs none of the locks that make moving a process slow. Both versions of
//! cgroups allow it; where the node does not delegate them there are no slots, and somebody has to
//! look.

use crate::cgroup::{Delegation, OWN_GROUP};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A cgroup that holds one task at a time.
#[derive(Debug)]
pub struct Slot {
    /// Takes threads.
    door: File,
}

impl Slot {
    /// Moves the calling thread here. What it starts from now on begins here and cannot be more
    /// than the limit.
    pub fn enter(&self) -> io::Result<()> {
        self.door.write_all_at(b"0", 0)
    }
}

/// Where slots are made.
#[derive(Debug)]
pub struct Slots {
    parent: PathBuf,
    prefix: String,
    limit: u32,
    version_2: bool,
    free: Vec<Arc<Slot>>,
    made: u64,
}

impl Slots {
    /// `None` where this process may not make such groups, or may not enter them.
    pub fn find(delegation: &Delegation, prefix: &str, limit: u32) -> Option<Self> {
        let (parent, version_2) = match delegation {
            Delegation::V1 { pids, .. } => (pids.clone()?, false),
            Delegation::V2 { parent } => (parent.join(OWN_GROUP), true),
            Delegation::Polled { .. } => return None,
        };
        let mut slots =
            Self { parent, prefix: prefix.into(), limit, version_2, free: Vec::new(), made: 0 };
        slots.clear();
        // A thread that is gone when it is known: this one stays where it is.
        let slot = slots.take().ok()?;
        let tried = std::thread::spawn(move || slot.enter().map(|()| slot)).join();
        slots.free.push(tried.ok()?.ok()?);
        Some(slots)
    }

    /// A slot that nobody else has.
    pub fn take(&mut self) -> io::Result<Arc<Slot>> {
        if let Some(slot) = self.free.pop() {
            return Ok(slot);
        }
        let directory = self.parent.join(format!("{}slot-{}", self.prefix, self.made));
        self.made += 1;
        fs::create_dir(&directory)?;
        let made = self.furnish(&directory);
        made.inspect_err(|_| drop(fs::remove_dir(&directory)))
    }

    /// For the next task. Whatever the last one left there is dying.
    pub fn give_back(&mut self, slot: Arc<Slot>) {
        self.free.push(slot);
    }

    fn furnish(&self, directory: &Path) -> io::Result<Arc<Slot>> {
        let door = if self.version_2 {
            // Processes of one group may have threads in several of this kind.
            fs::write(directory.join("cgroup.type"), "threaded")?;
            fs::write(self.parent.join("cgroup.subtree_control"), "+pids")?;
            "cgroup.threads"
        } else {
            "tasks"
        };
        fs::write(directory.join("pids.max"), self.limit.to_string())?;
        let door = OpenOptions::new().write(true).open(directory.join(door))?;
        Ok(Arc::new(Slot { door }))
    }

    /// Removes what an earlier pilot left, or this one has no more use for. Whether all of it is
    /// gone: what something still runs in stays.
    pub fn clear(&self) -> bool {
        let found = fs::read_dir(&self.parent).into_iter().flatten().flatten();
        let ours =
            found.filter(|entry| entry.file_name().to_string_lossy().starts_with(&self.prefix));
        ours.map(|entry| fs::remove_dir(entry.path())).filter(Result::is_err).count() == 0
    }
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
        let Some(mut slots) = Slots::find(&delegation, &prefix, 20) else {
            // No cgroup of this process can be changed: tests of looking cover that.
            assert!(!matches!(delegation, Delegation::V1 { pids: Some(_), .. }), "{delegation:?}");
            return;
        };
        let slot = slots.take().unwrap();
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
        assert!(Slots::find(&delegation, "a-", 7).is_none());
        assert_eq!(fs::read_dir(&pids).unwrap().count(), 1, "only what was written to");
        assert!(Slots::find(&Delegation::Polled { why: String::new() }, "a-", 7).is_none());
        let door = || Arc::new(Slot { door: tempfile::tempfile().unwrap() });
        let (prefix, free) = ("a-".to_owned(), vec![door()]);
        let mut slots = Slots { parent: pids, prefix, limit: 7, version_2: false, free, made: 0 };
        let slot = slots.take().unwrap();
        assert!(slots.take().is_err());
        slots.give_back(slot);
        slots.take().unwrap().enter().unwrap();
    }
}
