//! The needs of shapes that were worked out before: some in each pass, kept until there are other
//! classes. What a need is, is in `needs.rs`.

use super::common::Common;
use super::nodes::NodeTable;
use crate::schedule::needs::Need;
use crate::shape::{ShapeId, cut};
use crate::state::State;
use shipway_model::UserName;
use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::{mem, vec};

/// Steps that one pass takes to work out needs that are not known yet: some thirty milliseconds,
/// in which nobody is answered. What is left waits for the next one, which follows at once.
const MAX_LEARNT_STEPS: u64 = 250_000;
/// What a need takes beside its expressions, in steps; and for each class.
const STEPS: u64 = 64;
const STEPS_OF_CLASS: u64 = 8;

/// The needs of all shapes that anybody has waited with, as far as they are known.
#[derive(Debug, Clone, Default)]
pub(in crate::schedule) struct Needs {
    by_shape: Vec<Option<Need>>,
    /// The classes there were when they were made; see `NodeTable::version_of_classes`.
    classes: u64,
    /// Of the shapes that somebody waits with, in their order; as of this version of the demand.
    sizes: Vec<Size>,
    version: Option<u64>,
    /// The least that any of them is charged.
    least: u64,
    /// Whose was worked out last: the next pass begins with who comes after.
    last: Option<UserName>,
    /// There were more to work out than one pass does.
    is_behind: bool,
}

/// What is asked first of every shape, apart from the rest: a look at a thousand shapes is a look
/// at a few pages of memory.
#[derive(Debug, Clone, Copy)]
pub(in crate::schedule) struct Size {
    pub(in crate::schedule) shape: ShapeId,
    pub(in crate::schedule) gpus: u32,
    pub(in crate::schedule) amounts: Common,
    /// The classes that could serve it when empty; see `ClassAt::bit`.
    pub(in crate::schedule) classes: u64,
}

impl Needs {
    /// Works out the needs of the shapes that somebody waits with, as many as one pass may.
    pub(in crate::schedule) fn follow(
        &mut self,
        state: &State,
        table: &NodeTable,
        set_aside: &BTreeSet<ShapeId>,
        serving: &Cell<Option<ShapeId>>,
    ) {
        if !self.are_of(table) {
            let (classes, last) = (table.version_of_classes(), self.last.take());
            *self = Needs { classes, last, ..Needs::default() };
        }
        let version = Some(state.ready().demand().version());
        if self.version == version {
            return;
        }
        self.is_behind = false;
        if !self.list(state, set_aside) {
            self.learn(state, table, set_aside, serving);
            self.list(state, set_aside);
        }
        self.version = version.filter(|_| !self.is_behind);
    }

    /// Lists what is known. Whether that is all.
    fn list(&mut self, state: &State, set_aside: &BTreeSet<ShapeId>) -> bool {
        let (mut are_all, mut least) = (true, u64::MAX);
        let mut sizes = mem::take(&mut self.sizes);
        sizes.clear();
        for shape in state.ready().demand().shapes().filter(|shape| !set_aside.contains(shape)) {
            if let Some(need) = self.get(shape) {
                least = least.min(need.charge);
                sizes.push(need.size(shape));
            } else {
                are_all = false;
            }
        }
        (self.sizes, self.least) = (sizes, least);
        are_all
    }

    /// One of each user's in turn, so that thousands of one keep nobody else's waiting.
    fn learn(
        &mut self,
        state: &State,
        table: &NodeTable,
        set_aside: &BTreeSet<ShapeId>,
        serving: &Cell<Option<ShapeId>>,
    ) {
        let is_new = |shape: &ShapeId| self.get(*shape).is_none() && !set_aside.contains(shape);
        let mut line: VecDeque<(&UserName, vec::IntoIter<ShapeId>)> = VecDeque::new();
        for (user, queue) in state.ready().users() {
            let new: Vec<ShapeId> = queue.shapes().map(|(shape, _)| shape).filter(is_new).collect();
            line.push_back((user, new.into_iter()));
        }
        let begin = line.partition_point(|(user, _)| Some(*user) <= self.last.as_ref());
        line.rotate_left(begin);
        let mut steps = 0_u64;
        while let Some((user, mut new)) = line.pop_front() {
            let Some(shape) = new.next() else { continue };
            if steps >= MAX_LEARNT_STEPS {
                self.is_behind = true;
                break;
            }
            serving.set(Some(shape));
            steps = steps.saturating_add(self.learn_one(state, table, shape));
            self.last = Some(user.clone());
            line.push_back((user, new));
        }
        serving.set(None);
    }

    /// In how many steps.
    fn learn_one(&mut self, state: &State, table: &NodeTable, shape: ShapeId) -> u64 {
        if self.by_shape.len() <= shape.at() {
            self.by_shape.resize(shape.at() + 1, None);
        }
        // Two users may have come with the same.
        let Some(place @ None) = self.by_shape.get_mut(shape.at()) else { return 0 };
        let need = place.insert(Need::of(state.shapes().get(shape), table));
        let classes = u64::try_from(table.class_count()).unwrap_or(u64::MAX);
        need.steps().saturating_add(STEPS).saturating_add(STEPS_OF_CLASS.saturating_mul(classes))
    }

    /// There is more to work out right now.
    pub(in crate::schedule) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// See `Planner::forget`.
    pub(in crate::schedule) fn forget(&mut self, shape: ShapeId, places: usize) {
        if let Some(known) = self.by_shape.get_mut(shape.at()) {
            *known = None;
        }
        cut(&mut self.by_shape, places);
    }

    pub(in crate::schedule) fn places(&self) -> usize {
        self.by_shape.len()
    }

    /// What was learnt, if it is of the classes there are now.
    pub(in crate::schedule) fn known(&self, shape: ShapeId, table: &NodeTable) -> Option<&Need> {
        self.get(shape).filter(|_| self.are_of(table))
    }

    /// Whether they are of the classes there are now.
    pub(in crate::schedule) fn are_of(&self, table: &NodeTable) -> bool {
        self.classes == table.version_of_classes()
    }

    /// Known of the shapes that are listed.
    #[inline]
    pub(in crate::schedule) fn get(&self, shape: ShapeId) -> Option<&Need> {
        self.by_shape.get(shape.at())?.as_ref()
    }
    /// Of every shape that somebody waits with and that is known.
    pub(in crate::schedule) fn sizes(&self) -> &[Size] {
        &self.sizes
    }
    pub(in crate::schedule) fn least(&self) -> u64 {
        self.least
    }
}
