//! One process at work in a store: a directory of its own, and a file that says who it is.
//!
//! That one file stands for all the process holds: claims and leases are further names of it
//! (`link` is atomic on every file system, locks are not), so touching it now and then keeps
//! them all alive, and when the process is gone all of them are stale at once.

use super::publish::{as_json, put};
use super::{Store, StoreError, act, make_dir, names_in, remove_tree};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the file is touched.
const BEAT: Duration = Duration::from_secs(5);
/// A process on another node that has not been heard of for this long is gone: many beats, so
/// that a file system that hangs for a while does not kill anybody.
const SILENCE: Duration = Duration::from_mins(3);

/// Who is at work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Owner {
    /// Its name in the store. Other versions know it by another word.
    #[serde(rename = "session")]
    pub(super) holder: String,
    pub(super) host: String,
    boot: String,
    /// Process ids mean something only inside their namespace.
    namespace: String,
    pid: u32,
    started: String,
}

#[derive(Debug)]
pub struct Holder {
    pub(super) store: Store,
    pub(super) owner: Owner,
    dir: PathBuf,
    stop: Arc<(Mutex<bool>, Condvar)>,
    beat: Option<JoinHandle<()>>,
}

impl Holder {
    /// Begins work in a store, and clears away what dead processes left.
    pub fn begin(store: &Store) -> Result<Holder, StoreError> {
        let owner = Owner::me()?;
        let dir = store.root.join("work").join(&owner.holder);
        make_dir(&dir)?;
        let file = dir.join("owner");
        let text = as_json(&owner, &file)?;
        // Whole or not at all: others judge us by it.
        put(&dir.join("owner.new"), &file, &text)?;
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let waiting = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("images-beat".into());
        let beat = thread.spawn(move || beat(&file, &waiting));
        let beat = beat.map_err(act("start a thread for", &dir))?;
        let holder = Holder { store: store.clone(), owner, dir, stop, beat: Some(beat) };
        holder.clear_leftovers()?;
        Ok(holder)
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// A new directory of our own, gone when dropped.
    pub(crate) fn scratch_once(&self) -> Result<Scratch, StoreError> {
        let path = self.scratch(&format!("scratch-{}", random_name()?))?;
        Ok(Scratch { path })
    }

    /// A directory of our own, of this name.
    pub(crate) fn scratch(&self, name: &str) -> Result<PathBuf, StoreError> {
        let path = self.dir.join(name);
        make_dir(&path)?;
        Ok(path)
    }

    pub(super) fn owner_file(&self) -> PathBuf {
        self.dir.join("owner")
    }

    /// Removes what processes left that are no more: their claims, their leases, their work.
    pub fn clear_leftovers(&self) -> Result<(), StoreError> {
        let work = self.store.root.join("work");
        for name in names_in(&work)? {
            let dir = work.join(&name);
            if name == self.owner.holder || !self.is_dead(&dir.join("owner"), &dir) {
                continue;
            }
            for held in ["claims", "leases"] {
                self.let_go(held, &name)?;
            }
            if dir.is_dir() {
                remove_tree(&dir)?;
            } else {
                let _ = fs::remove_file(&dir);
            }
        }
        Ok(())
    }

    fn let_go(&self, held: &str, holder: &str) -> Result<(), StoreError> {
        let dir = self.store.root.join(held);
        for name in names_in(&dir)? {
            let path = dir.join(name);
            if Owner::read(&path).is_some_and(|owner| owner.holder == holder) {
                let _ = fs::remove_file(&path);
            }
        }
        Ok(())
    }

    /// Whether whoever wrote this file is gone. `instead` is looked at when there is none: a
    /// process that has just begun has not written it yet, but its folder is named after it.
    pub(super) fn is_dead(&self, file: &Path, instead: &Path) -> bool {
        match Owner::read(file) {
            Some(owner) if self.owner.sees(&owner) => !owner.lives_here(),
            Some(_) => self.is_silent(file),
            None => self.is_named_after_a_dead(instead).unwrap_or_else(|| self.is_silent(instead)),
        }
    }

    /// None where the name says nothing about a process that can be seen from here.
    fn is_named_after_a_dead(&self, folder: &Path) -> Option<bool> {
        let (pid, began, place) = named_after(folder.file_name()?.to_str()?)?;
        (place == self.owner.place()).then(|| started(pid).is_none_or(|now| now != began))
    }

    /// By the file system's clock: nodes' own clocks may differ.
    fn is_silent(&self, file: &Path) -> bool {
        let Ok(heard) = fs::metadata(file).and_then(|found| found.modified()) else { return false };
        touch(&self.owner_file());
        let now = fs::metadata(self.owner_file()).and_then(|found| found.modified());
        now.ok().and_then(|now| now.duration_since(heard).ok()).is_some_and(|age| age > SILENCE)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
        if let Some(beat) = self.beat.take() {
            let _ = beat.join();
        }
        // What stays is cleared away by the next holder.
        let _ = remove_tree(&self.dir);
    }
}

/// A directory that is removed with all in it.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) path: PathBuf,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = remove_tree(&self.path);
    }
}

fn beat(file: &Path, stop: &(Mutex<bool>, Condvar)) {
    let mut stopped = stop.0.lock().unwrap_or_else(PoisonError::into_inner);
    while !*stopped {
        let waited = stop.1.wait_timeout(stopped, BEAT).unwrap_or_else(PoisonError::into_inner);
        stopped = waited.0;
        touch(file);
    }
}

/// Sets a file's time to the file system's now; if that fails, the next beat does it.
pub(super) fn touch(file: &Path) {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    let _ = rustix::fs::utimensat(CWD, file, &times, AtFlags::SYMLINK_NOFOLLOW);
}

impl Owner {
    fn me() -> Result<Owner, StoreError> {
        let pid = std::process::id();
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let mut owner = Owner {
            holder: String::new(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            boot: read("/proc/sys/kernel/random/boot_id"),
            namespace: namespace.to_string_lossy().into_owned(),
            pid,
            started: started(pid).unwrap_or_default(),
        };
        owner.holder = format!("{}-{pid}-{}-{}", random_name()?, owner.started, owner.place());
        Ok(owner)
    }

    /// Where a process id means what it means, short enough for a name.
    fn place(&self) -> String {
        let place = [&self.host, &self.boot, &self.namespace].map(String::as_str).join("\0");
        blake3::hash(place.as_bytes()).to_hex().chars().take(16).collect()
    }

    pub(super) fn read(path: &Path) -> Option<Owner> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// Whether the other's process id would be its own here.
    fn sees(&self, other: &Owner) -> bool {
        (&self.host, &self.boot, &self.namespace) == (&other.host, &other.boot, &other.namespace)
    }

    fn lives_here(&self) -> bool {
        started(self.pid).is_some_and(|started| started == self.started)
    }
}

/// Process id, when it began and where that holds: the parts of a holder's name behind its number.
fn named_after(holder: &str) -> Option<(u32, &str, &str)> {
    let mut parts = holder.split('-').skip(1);
    let (pid, began, place) = (parts.next()?, parts.next()?, parts.next()?);
    Some((pid.parse().ok()?, began, place))
}

/// When a process began, in the kernel's ticks: with it a process id is one process for ever.
/// None when there is no such process, or only its remains.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, brackets too; what is after the last one is plain.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18).map(str::to_owned)
}

pub(super) fn random_name() -> Result<String, StoreError> {
    let number = getrandom::u64().map_err(StoreError::Random)?;
    Ok(format!("{number:016x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_an_owner_is_judged_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(dir.path()).unwrap();
        let me = Owner::me().unwrap();
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        let began = started(child.id()).unwrap_or_else(|| "1".into());
        child.wait().unwrap();
        let (dead, place) = (child.id(), me.place());
        let folders = [
            (format!("a-{dead}-{began}-{place}"), false),
            (format!("b-{}-{}-{place}", me.pid, me.started), true),
            // The same id, another process.
            (format!("c-{}-1-{place}", me.pid), false),
            // Elsewhere the same id may be anybody.
            (format!("d-{dead}-{began}-elsewhere"), true),
            ("0123456789abcdef".to_owned(), true),
        ];
        for (name, _) in &folders {
            make_dir(&store.root.join("work").join(name)).unwrap();
        }
        let _holder = Holder::begin(&store).unwrap();
        for (name, stays) in folders {
            assert_eq!(store.root.join("work").join(&name).exists(), stays, "{name}");
        }
    }
}
