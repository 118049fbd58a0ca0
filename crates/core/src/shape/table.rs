//! Shapes by id and ids by shape, with how many jobs have each; and what is known of how long tasks
//! of each run. What a shape is, is in `shape.rs`.

use super::{Expressions, Gang, Shape};
use serde::{Deserialize, Serialize};
use shipway_model::{Millis, Resources, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

/// Shapes that no job in memory has, remembered for how long their tasks ran: whoever submits the
/// same each day finds an estimate.
/// Few in tests, so that ids come to stand for other shapes there.
const REMEMBERED: usize = if cfg!(test) { 3 } else { 1_000 };

#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ShapeId(u32);

impl ShapeId {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

/// How long tasks of one shape have run, as a moving average.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    pub tasks: u32,
    pub mean: Millis,
}

impl Pace {
    /// Each counts for an eighth, so that a change is followed within a few tasks.
    const WEIGHT: u64 = 8;

    fn learn(&mut self, ran: Millis) {
        let first = self.tasks == 0;
        let mean = (u128::from(self.mean.0) * u128::from(Self::WEIGHT - 1) + u128::from(ran.0))
            / u128::from(Self::WEIGHT);
        self.mean = if first { ran } else { Millis(u64::try_from(mean).unwrap_or(u64::MAX)) };
        self.tasks = self.tasks.saturating_add(1);
    }
}

/// A shape leaves with the last job in memory that has it. If tasks of it have run, it is
/// remembered for how long they did, until enough others have run since; then its id is given to
/// another shape. Which ids are free follows from what is stored, so that a state that was read
/// back goes on as the one that was written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Shapes {
    /// `None`: the id is free. The last one never is.
    by_id: Vec<Option<Arc<Shape>>>,
    #[serde(default)]
    paces: Vec<Pace>,
    /// When a task of each ended last. Apart from the paces, which are looked at far more often.
    #[serde(default)]
    ran: Vec<Timestamp>,
    #[serde(skip)]
    ids: BTreeMap<Arc<Shape>, ShapeId>,
    /// How many jobs in memory have each.
    #[serde(skip)]
    jobs: Vec<u32>,
    /// What no job has, and when it ran.
    #[serde(skip)]
    remembered: BTreeSet<(Timestamp, ShapeId)>,
    #[serde(skip)]
    free: BTreeSet<ShapeId>,
}

/// What an id without a shape stands for: nothing that any job in memory has.
static NOTHING: LazyLock<Shape> = LazyLock::new(|| Shape {
    resources: Resources::default(),
    at_most: None,
    expressions: Expressions::default(),
    gang: Gang::default(),
    kept_from: Vec::new(),
    is_guest: false,
});

impl Shapes {
    /// The id of a shape that one job more has.
    pub(crate) fn intern(&mut self, shape: Shape) -> ShapeId {
        let id = self.find(&shape).unwrap_or_else(|| self.insert(Arc::new(shape)));
        if let Some(jobs) = self.jobs.get_mut(id.at()) {
            *jobs = jobs.saturating_add(1);
        }
        self.remembered.remove(&(self.ran_at(id), id));
        id
    }

    fn insert(&mut self, shape: Arc<Shape>) -> ShapeId {
        let next = ShapeId(u32::try_from(self.by_id.len()).unwrap_or(u32::MAX));
        let id = self.free.pop_first().unwrap_or(next);
        self.resize(self.by_id.len().max(id.at() + 1));
        if let Some(place) = self.by_id.get_mut(id.at()) {
            *place = Some(Arc::clone(&shape));
        }
        self.ids.insert(shape, id);
        id
    }

    fn resize(&mut self, places: usize) {
        self.by_id.resize(places, None);
        self.paces.resize(places, Pace::default());
        self.ran.resize(places, Timestamp::default());
        self.jobs.resize(places, 0);
    }

    /// One job fewer has it. Whether that was the last one.
    pub(crate) fn release(&mut self, id: ShapeId) -> bool {
        let Some(jobs) = self.jobs.get_mut(id.at()) else { return false };
        *jobs = jobs.saturating_sub(1);
        let is_last = *jobs == 0;
        if is_last {
            self.retire(id);
            self.forget_surplus();
        }
        is_last
    }

    /// No job has it.
    fn retire(&mut self, id: ShapeId) {
        if self.pace(id).tasks > 0 {
            self.remembered.insert((self.ran_at(id), id));
        } else {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: ShapeId) {
        if let Some(shape) = self.by_id.get_mut(id.at()).and_then(Option::take) {
            self.ids.remove(&shape);
        }
        if let Some((pace, ran)) = self.paces.get_mut(id.at()).zip(self.ran.get_mut(id.at())) {
            (*pace, *ran) = Default::default();
        }
        self.free.insert(id);
    }

    /// Forgets what ran longest ago, and has no places after the last shape.
    fn forget_surplus(&mut self) {
        while self.remembered.len() > REMEMBERED
            && let Some((_, id)) = self.remembered.pop_first()
        {
            self.remove(id);
        }
        let places = self.by_id.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        cut(&mut self.by_id, places);
        cut(&mut self.paces, places);
        cut(&mut self.ran, places);
        cut(&mut self.jobs, places);
        while self.free.last().is_some_and(|id| id.at() >= places) {
            self.free.pop_last();
        }
    }

    pub fn get(&self, id: ShapeId) -> &Shape {
        self.by_id.get(id.at()).and_then(Option::as_deref).unwrap_or(&NOTHING)
    }

    /// The same, to look at when the state is no longer at hand.
    pub(crate) fn shared(&self, id: ShapeId) -> Option<&Arc<Shape>> {
        self.by_id.get(id.at()).and_then(Option::as_ref)
    }

    pub fn find(&self, shape: &Shape) -> Option<ShapeId> {
        self.ids.get(shape).copied()
    }

    /// Ids are below this.
    pub(crate) fn places(&self) -> usize {
        self.by_id.len()
    }

    pub fn pace(&self, id: ShapeId) -> Pace {
        self.paces.get(id.at()).copied().unwrap_or_default()
    }

    fn ran_at(&self, id: ShapeId) -> Timestamp {
        self.ran.get(id.at()).copied().unwrap_or_default()
    }

    pub(crate) fn learn(&mut self, id: ShapeId, ran: Millis, at: Timestamp) {
        if let Some((pace, last)) = self.paces.get_mut(id.at()).zip(self.ran.get_mut(id.at())) {
            pace.learn(ran);
            *last = at;
        }
    }

    /// What is not stored follows from the list and from the jobs there are.
    pub(crate) fn rebuild(&mut self, of_jobs: impl Iterator<Item = ShapeId>) {
        self.jobs.clear();
        self.resize(self.by_id.len());
        for id in of_jobs {
            if let Some(jobs) = self.jobs.get_mut(id.at()) {
                *jobs = jobs.saturating_add(1);
            }
        }
        (self.ids, self.remembered, self.free) = Default::default();
        for id in (0..).map(ShapeId).take(self.by_id.len()) {
            match self.by_id.get(id.at()).and_then(Option::as_ref) {
                Some(shape) => {
                    self.ids.insert(Arc::clone(shape), id);
                    if self.jobs.get(id.at()) == Some(&0) {
                        self.retire(id);
                    }
                }
                None => {
                    self.free.insert(id);
                }
            }
        }
        self.forget_surplus();
    }
}

/// Makes a list by id no longer than this. Memory is given back once most of it is of no use: what
/// was long once need not stay so.
pub(crate) fn cut<T>(list: &mut Vec<T>, places: usize) {
    list.truncate(places);
    if list.capacity() / 4 > list.len() {
        list.shrink_to(list.len() * 2);
    }
}

#[cfg(test)]
impl Shapes {
    /// How many are in memory, and how many places for them there are.
    pub(crate) fn len_and_places(&self) -> (usize, usize) {
        (self.ids.len(), self.by_id.len())
    }
}
