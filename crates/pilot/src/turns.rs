//! Threads that work for several people, with a fair turn for each: files are copied, folders
//! removed and images fetched by such threads. Whatever one person's work waits for, another's
//! goes on.
//!
//! Whoever has nothing under way may begin at once, however busy the others keep the threads. What
//! is beyond that is shared: who has least under way comes first, then who has waited longest for
//! a turn, and nobody has more than a part of it. Everybody's own work is done in order.
//!
//! `Turns` decides and does nothing; `Workers` has the threads. What the work is, neither knows.

use shipway_runtime::again;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

/// How much is done at the same time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtOnce {
    /// For all together, but for the one that everybody may have.
    pub(crate) all: usize,
    /// For one person. Less than for all: the rest is for who comes next.
    pub(crate) each: usize,
}

/// What waits, and how much is under way for whom.
#[derive(Debug)]
pub(crate) struct Turns<E> {
    at_once: AtOnce,
    /// Those who have something waiting or under way.
    owners: BTreeMap<String, Owner<E>>,
    going: usize,
    /// Turns that were given.
    given: u64,
}

#[derive(Debug)]
struct Owner<E> {
    waiting: VecDeque<E>,
    going: usize,
    /// When their last turn was.
    last: u64,
}

impl<E> Turns<E> {
    pub(crate) const fn new(at_once: AtOnce) -> Self {
        Turns { at_once, owners: BTreeMap::new(), going: 0, given: 0 }
    }

    /// Something of somebody's waits from now on.
    pub(crate) fn add(&mut self, owner: &str, entry: E) {
        let new = || Owner { waiting: VecDeque::new(), going: 0, last: self.given };
        let owner = self.owners.entry(owner.to_owned()).or_insert_with(new);
        owner.waiting.push_back(entry);
    }

    /// Whose turn it is, if something may begin.
    fn chosen(&self) -> Option<String> {
        let AtOnce { all, each } = self.at_once;
        let may_begin = |owner: &Owner<E>| {
            let has_room = self.going < all && owner.going < each;
            !owner.waiting.is_empty() && (owner.going == 0 || has_room)
        };
        let next = self.owners.iter().filter(|(_, owner)| may_begin(owner));
        let next = next.min_by_key(|(_, owner)| (owner.going, owner.last));
        next.map(|(name, _)| name.clone())
    }

    /// What is to be done now. It is under way until `done` is called for its owner.
    pub(crate) fn next(&mut self) -> Option<(String, E)> {
        let name = self.chosen()?;
        let owner = self.owners.get_mut(&name)?;
        let entry = owner.waiting.pop_front()?;
        self.given += 1;
        self.going += 1;
        owner.going += 1;
        owner.last = self.given;
        Some((name, entry))
    }

    pub(crate) fn done(&mut self, owner: &str) {
        let Some(found) = self.owners.get_mut(owner) else { return };
        found.going -= 1;
        self.going -= 1;
        self.forget_if_idle(owner);
    }

    /// Takes something back that has not begun.
    pub(crate) fn withdraw(&mut self, owner: &str, is_it: impl Fn(&E) -> bool) -> Option<E> {
        let found = self.owners.get_mut(owner)?;
        let at = found.waiting.iter().position(is_it)?;
        let withdrawn = found.waiting.remove(at);
        self.forget_if_idle(owner);
        withdrawn
    }

    fn forget_if_idle(&mut self, owner: &str) {
        let is_idle = |found: &Owner<E>| found.going == 0 && found.waiting.is_empty();
        if self.owners.get(owner).is_some_and(is_idle) {
            self.owners.remove(owner);
        }
    }
}

/// Threads that are there while there is something to do.
pub(crate) struct Workers<E> {
    shared: Arc<Shared<E>>,
    /// Wakes a thread that is always there, for when there is no room for another one.
    standby: mpsc::Sender<()>,
}

struct Shared<E> {
    name: &'static str,
    turns: Mutex<Turns<E>>,
    work: Box<dyn Fn(E) + Send + Sync>,
}

impl<E> std::fmt::Debug for Workers<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

impl<E: Send + 'static> Workers<E> {
    pub(crate) fn new(
        name: &'static str,
        at_once: AtOnce,
        work: impl Fn(E) + Send + Sync + 'static,
    ) -> Self {
        let (turns, work) = (Mutex::new(Turns::new(at_once)), Box::new(work));
        let shared = Arc::new(Shared { name, turns, work });
        let (standby, wanted) = mpsc::channel();
        let standing = Arc::clone(&shared);
        let started = again::thread(name, move || {
            while wanted.recv().is_ok() {
                standing.work_on();
            }
        });
        if let Err(error) = started {
            tracing::error!(%error, "no thread stands by for {name}");
        }
        Workers { shared, standby }
    }

    /// Has something done, on a thread, when it is its owner's turn.
    pub(crate) fn add(&self, owner: &str, entry: E) {
        let mut turns = self.shared.turns();
        turns.add(owner, entry);
        if turns.chosen().is_none() {
            return;
        }
        drop(turns);
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(self.shared.name.into());
        if let Err(error) = thread.spawn(move || shared.work_on()) {
            tracing::warn!(%error, "no room for a thread for {}", self.shared.name);
            let _ = self.standby.send(());
        }
    }

    /// Takes something back that has not begun.
    pub(crate) fn withdraw(&self, owner: &str, is_it: impl Fn(&E) -> bool) -> Option<E> {
        self.shared.turns().withdraw(owner, is_it)
    }
}

impl<E> Shared<E> {
    fn turns(&self) -> MutexGuard<'_, Turns<E>> {
        // It is consistent between any two statements.
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until nothing may begin. What ends makes room for one more, and this thread does that.
    fn work_on(&self) {
        loop {
            let next = self.turns().next();
            let Some((owner, entry)) = next else { return };
            (self.work)(entry);
            self.turns().done(&owner);
        }
    }
}

#[cfg(test)]
mod tests;
