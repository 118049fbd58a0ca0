//! Removes the folders of attempts that have ended, on threads beside everything else. People take
//! turns (`turns.rs`), so whatever one person's tasks have left keeps nobody else's from going.
//!
//! A process that outlives its task can hold a folder, wherever that is moved, and fill it as fast
//! as it is emptied. So a folder is gone through for so many steps, and is then put off like one
//! that cannot be removed: for ever longer, and for ever more steps, so that the largest is gone
//! one day. What is put off when the pilot ends is for the next one (`left_files.rs`).

use super::copying::Stop;
use super::theirs::{As, Hands};
use crate::stage::{Plan, Progress, Tree, remove};
use crate::turns::{AtOnce, Workers};
use shipway_runtime::again;
use shipway_runtime::plan::Within;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// People whose folders are removed at the same time, beside the one that everybody may have.
const AT_ONCE: AtOnce = AtOnce { all: 2, each: 1 };

/// Files and folders that are looked at in one folder before it is put off for the first time:
/// seconds to minutes. It doubles each time.
const STEPS: u64 = 1 << 20;

/// The wait before a folder that was put off is gone on with; it doubles each time.
const FIRST_WAIT: Duration = Duration::from_mins(1);
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// Folders of one person that are put off. More are left to the next start.
const PUT_OFF: usize = 1_000;

/// Who can remove a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum With {
    Pilot,
    /// Only a process with the rights over all people who are kept apart by ids.
    Keeper,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Folder {
    /// At whose cost.
    pub(super) whose: String,
    pub(super) path: PathBuf,
    pub(super) with: With,
    /// How often it was put off.
    times: u32,
}

impl Folder {
    pub(super) const fn new(whose: String, path: PathBuf, with: With) -> Self {
        Folder { whose, path, with, times: 0 }
    }

    fn tree(&self) -> Tree {
        Tree::within(self.path.clone(), STEPS << self.times.min(u16::BITS))
    }
}

/// Whoever drops it has nothing more to remove.
#[derive(Debug)]
pub(super) struct Remover(mpsc::Sender<Told>);

#[derive(Debug)]
enum Told {
    Remove(Folder),
    PutOff(Folder),
    End,
}

impl Remover {
    pub(super) fn start(hands: &Arc<Hands>) -> Self {
        let (send, told) = mpsc::channel();
        let waiting = Arc::new(Waiting::default());
        let (queue, hands, back) = (Arc::clone(&waiting), Arc::clone(hands), send.clone());
        let workers = Workers::new("removing", AT_ONCE, move |whose: String| {
            for folder in carry_out(&hands, queue.take(&whose)) {
                let _ = back.send(Told::PutOff(folder));
            }
        });
        // Without it they are removed when the next pilot starts.
        let _ = again::thread("remover", move || attend(&told, &waiting, &workers));
        Self(send)
    }

    /// By and by. It must not be used any more, under this name or another.
    pub(super) fn remove(&self, folder: Folder) {
        let _ = self.0.send(Told::Remove(folder));
    }
}

impl Drop for Remover {
    fn drop(&mut self) {
        let _ = self.0.send(Told::End);
    }
}

/// Has everything done when it is time for it.
fn attend(told: &mpsc::Receiver<Told>, waiting: &Waiting, workers: &Workers<String>) {
    let mut put_off = PutOff::default();
    let order = |folder: Folder| {
        let whose = folder.whose.clone();
        waiting.add(folder);
        workers.add(&whose, whose.clone());
    };
    loop {
        let next = match put_off.next() {
            Some(at) => told.recv_timeout(at.saturating_duration_since(Instant::now())),
            None => told.recv().map_err(Into::into),
        };
        match next {
            Ok(Told::Remove(folder)) => order(folder),
            Ok(Told::PutOff(folder)) => put_off.add(folder, Instant::now()),
            Ok(Told::End) | Err(mpsc::RecvTimeoutError::Disconnected) => return,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        put_off.due(Instant::now()).into_iter().for_each(order);
    }
}

/// Folders by whose they are: what has come together by somebody's turn is removed in one go.
#[derive(Debug, Default)]
struct Waiting(Mutex<BTreeMap<String, Vec<Folder>>>);

impl Waiting {
    fn folders(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Folder>>> {
        // It is consistent between any two statements.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, folder: Folder) {
        self.folders().entry(folder.whose.clone()).or_default().push(folder);
    }

    /// Those that were never put off first. Nothing, if an earlier turn has done it.
    fn take(&self, whose: &str) -> Vec<Folder> {
        let mut folders = self.folders().remove(whose).unwrap_or_default();
        folders.sort_by_key(|folder| folder.times);
        folders
    }
}

#[derive(Debug, Default)]
struct PutOff(Vec<(Instant, Folder)>);

impl PutOff {
    fn next(&self) -> Option<Instant> {
        self.0.iter().map(|(again, _)| *again).min()
    }

    fn add(&mut self, mut folder: Folder, now: Instant) {
        if self.0.iter().filter(|(_, other)| other.whose == folder.whose).count() >= PUT_OFF {
            let Folder { whose, path, .. } = &folder;
            tracing::warn!(whose, path = %path.display(), "left to the next start: too many");
            return;
        }
        let wait = FIRST_WAIT.saturating_mul(1 << folder.times.min(u8::BITS)).min(LONGEST_WAIT);
        folder.times += 1;
        self.0.push((now + wait, folder));
    }

    fn due(&mut self, now: Instant) -> Vec<Folder> {
        self.0.extract_if(.., |(again, _)| *again <= now).map(|(_, folder)| folder).collect()
    }
}

/// What is left of them.
fn carry_out(hands: &Hands, folders: Vec<Folder>) -> Vec<Folder> {
    let (own, theirs): (Vec<_>, Vec<_>) =
        folders.into_iter().partition(|folder| folder.with == With::Pilot);
    let mut left = by_pilot(own);
    left.extend(by_keeper(hands, theirs));
    left
}

fn by_pilot(folders: Vec<Folder>) -> Vec<Folder> {
    let trees: Vec<Tree> = folders.iter().map(Folder::tree).collect();
    let report = remove(&trees, &Progress::default());
    still_there(folders, report.left, &report.problem.unwrap_or_default())
}

fn by_keeper(hands: &Hands, folders: Vec<Folder>) -> Vec<Folder> {
    if folders.is_empty() {
        return folders;
    }
    let plan = Plan::Remove(folders.iter().map(Folder::tree).collect());
    let done = hands.carry_out(&plan, &As::Within(Within::Keeper), &Stop::default());
    let left = match done.result {
        Ok(report) => {
            let kept = folders.iter().filter_map(|folder| kept_as(&folder.path));
            for place in kept.filter(|place| place.exists()) {
                let place = place.display();
                tracing::warn!(%place, "somebody's task left what was not theirs: it is kept");
            }
            still_there(folders, report.left, &report.problem.unwrap_or_default())
        }
        Err(problem) => {
            let all: Vec<PathBuf> = folders.iter().map(|folder| folder.path.clone()).collect();
            still_there(folders, all, &problem)
        }
    };
    if let Some(mut process) = done.left {
        tracing::warn!(pid = process.id(), "cannot be ended, and removes folders");
        let _reaped = process.wait();
    }
    left
}

/// Said the first time.
fn still_there(folders: Vec<Folder>, left: Vec<PathBuf>, problem: &str) -> Vec<Folder> {
    let left = BTreeSet::from_iter(left);
    let left: Vec<Folder> =
        folders.into_iter().filter(|folder| left.contains(&folder.path)).collect();
    for Folder { whose, path, .. } in left.iter().filter(|folder| folder.times == 0) {
        let path = path.display();
        tracing::warn!(whose, %path, problem, "will be tried again, less and less often");
    }
    left
}

/// Where a folder will be that cannot be removed with the rights of whose it is.
fn kept_as(folder: &Path) -> Option<PathBuf> {
    Some(folder.parent()?.parent()?.join(shipway_trees::KEPT).join(folder.file_name()?))
}

#[cfg(test)]
mod tests;
