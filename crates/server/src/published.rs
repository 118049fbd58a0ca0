//! What people look at all day (jobs, tasks, nodes), as it is on disk: read by everybody, with a
//! lock of its own, and without the writer.
//!
//! With each batch comes what it changes (`changes.rs`), found in the state that the batch leaves.
//! It is put here when the batch is on disk and before anybody is told: so nobody sees here what is
//! not on disk, and everybody what they were told. A commit costs what it changed, however large
//! the state is.
//!
//! Not here: what users wrote, which is in history; and reasons, which need all of the state
//! (`crate::explained`).
//!
//! It takes two bytes for a job that nothing has happened to, about 150 for another one in memory,
//! as much again for an array and three bits for each of its tasks, and about 150 for each task
//! that is placed or runs.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod changes;
mod entries;

pub use changes::Changes;
pub use entries::{Described, Holders, JobNow, Node, NodeNow};

use crate::locks::Shared as _;
use changes::Entry;
use entries::Known;
use shipway_core::State;
use shipway_core::pilot::Active;
use shipway_core::task_table::TaskStates;
use shipway_model::{Actor, IndexSet, JobCounts, JobId, PilotId, TaskId, TaskState, UserName};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The board, with its lock. Nobody waits with it in hand.
#[derive(Debug)]
pub struct Published {
    board: RwLock<Board>,
    /// Something is on disk that is not on the board.
    is_behind: AtomicBool,
}

impl Published {
    pub fn of(state: &State) -> Self {
        Published { board: RwLock::new(Board::of(state)), is_behind: AtomicBool::new(false) }
    }

    pub fn look<A>(&self, look: impl FnOnce(&Board) -> A) -> A {
        look(&self.board.seen())
    }

    pub fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Acquire)
    }

    pub(crate) fn put(&self, changes: Changes) {
        self.board.changed().put(changes);
    }

    pub(crate) fn falls_behind(&self) {
        self.is_behind.store(true, Ordering::Release);
    }

    pub(crate) fn replace(&self, state: &State) {
        self.board.changed().replace(state);
        self.is_behind.store(false, Ordering::Release);
    }
}

/// Jobs that stand together while nothing has happened to them.
const PAGE: usize = 64;

#[derive(Debug, Default)]
pub struct Board {
    /// Jobs that nothing has happened to: a million of them may wait. By the page that they are on.
    fresh: HashMap<u64, [Fresh; PAGE]>,
    /// All others that are in memory.
    jobs: HashMap<JobId, Known>,
    /// The tasks of arrays, fresh or not.
    arrays: HashMap<JobId, Array>,
    active: BTreeMap<TaskId, Active>,
    nodes: BTreeMap<PilotId, Node>,
    stamps: Stamps,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Fresh {
    #[default]
    None,
    Waiting,
    Held,
}

#[derive(Debug, PartialEq)]
struct Array {
    indices: IndexSet,
    states: TaskStates,
}

/// Counts what may change the reasons why jobs wait, or which jobs somebody has; not that tasks
/// come and go.
#[derive(Debug, Default)]
struct Stamps {
    all: u64,
    of: HashMap<UserName, u64>,
}

/// As long as it is the same, nothing but the course of tasks has changed for this owner: they have
/// the jobs that they had, and none of their tasks was made to run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp(u64, u64);

impl Board {
    /// Of a state that is on disk.
    pub fn of(state: &State) -> Self {
        let mut board = Board::default();
        board.replace(state);
        board
    }

    /// All of it anew. Whoever compares stamps sees that everything may be different.
    pub fn replace(&mut self, state: &State) {
        let stamps = std::mem::take(&mut self.stamps);
        *self = Board { stamps: Stamps { all: stamps.all + 1, ..stamps }, ..Board::default() };
        for (id, job) in state.jobs().iter() {
            self.put_job(id, Some(Entry::of(state, id, job)));
            if job.indices != IndexSet::single() {
                self.put_array(id, job.indices.clone(), job.tasks.bits().clone());
            }
        }
        for (id, pilot) in state.pilots() {
            self.put_node(id.clone(), Some(NodeNow::of(pilot)), Some(Described::of(state, pilot)));
        }
        for (task, active) in state.active() {
            self.put_active(*task, Some(active.clone()));
        }
    }

    pub fn put(&mut self, changes: Changes) {
        let Changes { jobs, arrays, pieces, active, nodes, owners, everybody } = changes;
        for (id, entry) in jobs {
            self.put_job(id, entry);
        }
        for (id, indices, states) in arrays {
            self.put_array(id, indices, states);
        }
        for (id, piece) in pieces {
            if let Some(array) = self.arrays.get_mut(&id) {
                array.states.put(&piece, array.indices.len());
            }
        }
        for (id, now, about) in nodes {
            self.put_node(id, now, about);
        }
        for (task, active) in active {
            self.put_active(task, active);
        }
        self.stamps.all += u64::from(everybody);
        for owner in owners {
            *self.stamps.of.entry(owner).or_default() += 1;
        }
    }

    fn put_job(&mut self, id: JobId, entry: Option<Entry>) {
        let fresh = match &entry {
            Some(Entry::Fresh { held: true }) => Fresh::Held,
            Some(Entry::Fresh { held: false }) => Fresh::Waiting,
            Some(Entry::Known(_)) | None => Fresh::None,
        };
        self.put_fresh(id, fresh);
        match entry {
            Some(Entry::Known(job)) => {
                self.jobs.insert(id, job);
            }
            Some(Entry::Fresh { .. }) => {}
            None => {
                self.jobs.remove(&id);
                self.arrays.remove(&id);
            }
        }
    }

    fn put_fresh(&mut self, id: JobId, fresh: Fresh) {
        let (number, at) = place(id);
        if fresh == Fresh::None && !self.fresh.contains_key(&number) {
            return;
        }
        let page = self.fresh.entry(number).or_insert([Fresh::None; PAGE]);
        if let Some(place) = page.get_mut(at) {
            *place = fresh;
        }
        if fresh == Fresh::None && page.iter().all(|place| *place == Fresh::None) {
            self.fresh.remove(&number);
        }
    }

    fn put_array(&mut self, id: JobId, indices: IndexSet, states: TaskStates) {
        self.arrays.insert(id, Array { indices, states });
    }

    fn put_node(&mut self, id: PilotId, now: Option<NodeNow>, about: Option<Described>) {
        let Some(now) = now else {
            self.nodes.remove(&id);
            return;
        };
        match (self.nodes.get_mut(&id), about) {
            (Some(node), about) => {
                node.now = now;
                if let Some(about) = about {
                    node.about = about;
                }
            }
            (None, Some(about)) => {
                self.nodes.insert(id, Node { about, now, holding: BTreeSet::new() });
            }
            (None, None) => {}
        }
    }

    fn put_active(&mut self, task: TaskId, active: Option<Active>) {
        let is_holding = |it: &&Active| !it.devices.is_empty();
        if let Some(old) = self.active.get(&task).filter(is_holding)
            && let Some(node) = self.nodes.get_mut(&old.pilot)
        {
            node.holding.remove(&task);
        }
        if let Some(new) = active.as_ref().filter(is_holding)
            && let Some(node) = self.nodes.get_mut(&new.pilot)
        {
            node.holding.insert(task);
        }
        match active {
            Some(active) => self.active.insert(task, active),
            None => self.active.remove(&task),
        };
    }

    /// A job that is in memory. How many tasks it has, history knows.
    pub fn job(&self, id: JobId, tasks: u32) -> Option<JobNow> {
        if let Some(job) = self.jobs.get(&id) {
            return Some(job.now);
        }
        let (number, at) = place(id);
        let fresh = *self.fresh.get(&number)?.get(at)?;
        let counts = JobCounts { waiting: tasks, ..JobCounts::default() };
        let is_array = self.arrays.contains_key(&id);
        let now = JobNow { counts, is_array, ..JobNow::default() };
        (fresh != Fresh::None).then_some(JobNow { held: fresh == Fresh::Held, ..now })
    }

    /// Shows the tasks of a job that is in memory.
    pub fn tasks<A>(&self, id: JobId, show: impl FnOnce(&IndexSet, &TaskStates) -> A) -> Option<A> {
        if let Some(array) = self.arrays.get(&id) {
            return Some(show(&array.indices, &array.states));
        }
        let counts = self.job(id, 1)?.counts;
        let state = match counts {
            JobCounts { active: 1.., .. } => TaskState::Placed,
            JobCounts { succeeded: 1.., .. } => TaskState::Succeeded,
            JobCounts { failed: 1.., .. } => TaskState::Failed,
            JobCounts { cancelled: 1.., .. } => TaskState::Cancelled,
            JobCounts { .. } => TaskState::Waiting,
        };
        Some(show(&IndexSet::single(), &TaskStates::one(state)))
    }

    pub fn active(&self, task: TaskId) -> Option<&Active> {
        self.active.get(&task)
    }

    pub fn node(&self, pilot: &PilotId) -> Option<&Node> {
        self.nodes.get(pilot)
    }

    pub fn nodes(&self) -> impl Iterator<Item = (&PilotId, &Node)> {
        self.nodes.iter()
    }

    /// Those of one node, as far as somebody may see their jobs.
    pub fn holders(&self, node: &Node, by: &Actor) -> Holders {
        let mut holders = Holders::new();
        for task in &node.holding {
            let job = self.jobs.get(&task.job);
            let visible = job.is_some_and(|job| by.may_touch(&job.owned()));
            let Some(active) = self.active.get(task).filter(|_| visible) else { continue };
            for device in &active.devices {
                holders.entry(device.clone()).or_default().push(*task);
            }
        }
        holders
    }

    /// Whether it is in memory and nothing has happened to it: then none of its tasks ever ran.
    pub fn is_fresh(&self, id: JobId) -> bool {
        let (number, at) = place(id);
        let fresh = self.fresh.get(&number).and_then(|page| page.get(at));
        fresh.is_some_and(|fresh| *fresh != Fresh::None)
    }

    /// As long as it is the same, no job has got another owner.
    pub fn stamp_of_all(&self) -> Stamp {
        Stamp(self.stamps.all, 0)
    }

    pub fn stamp(&self, owner: &UserName) -> Stamp {
        Stamp(self.stamps.all, self.stamps.of.get(owner).copied().unwrap_or_default())
    }
}

fn place(id: JobId) -> (u64, usize) {
    let page = PAGE as u64;
    (id.0 / page, usize::try_from(id.0 % page).unwrap_or(0))
}

#[cfg(test)]
mod tests;
