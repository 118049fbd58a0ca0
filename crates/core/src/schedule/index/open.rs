//! Which shapes may find a place in a pass: those that are not known to fit nowhere, and of the
//! others those that may fit where room was made.

use super::common::Common;
use super::free::Free;
use super::known::{Needs, Size};
use super::nodes::NodeTable;
use crate::schedule::search::{Backlogs, Progress, Scope};
use crate::schedule::{Planner, backlog};
use crate::shape::{ShapeId, cut};
use crate::state::State;
use std::cell::Cell;
use std::collections::BTreeMap;

/// With more nodes changed than this, every shape is tried: asking each of them about each node
/// would cost more.
const MANY_HOT: usize = 256;

/// With at most so many, all shapes are asked again after every task that was put on one of them:
/// nearly always none is left then, and nobody's jobs need a look.
const FEW_HOT: usize = 4;

/// Shapes that are known to fit nowhere, as of the last time that room was made; a bit each. A
/// shape that nobody waited with then was not looked at, and is not known to.
#[derive(Debug, Clone, Default)]
pub(in crate::schedule) struct Blocked {
    words: Vec<u64>,
}

impl Blocked {
    fn place(shape: ShapeId) -> (usize, u64) {
        (shape.at() / 64, 1 << (shape.at() % 64))
    }
    #[inline]
    fn contains(&self, shape: ShapeId) -> bool {
        let (word, bit) = Blocked::place(shape);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }
    pub(in crate::schedule) fn set(&mut self, shape: ShapeId) {
        let (word, bit) = Blocked::place(shape);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        if let Some(word) = self.words.get_mut(word) {
            *word |= bit;
        }
    }
    pub(in crate::schedule) fn clear(&mut self, shape: ShapeId) {
        let (word, bit) = Blocked::place(shape);
        if let Some(word) = self.words.get_mut(word) {
            *word &= !bit;
        }
    }

    /// See `Planner::forget`.
    pub(in crate::schedule) fn forget(&mut self, shape: ShapeId, places: usize) {
        self.clear(shape);
        cut(&mut self.words, places.div_ceil(64));
    }
    /// As far as any bit is set.
    pub(in crate::schedule) fn places(&self) -> usize {
        let last = self.words.iter().rposition(|word| *word != 0);
        last.map_or(0, |last| last * 64 + 1)
    }
}

/// The shapes that may still find a place in this pass. Its lists are used again by the next one.
#[derive(Debug, Clone, Default)]
pub(in crate::schedule) struct Open {
    by_shape: Vec<Option<Scope>>,
    listed: Vec<Size>,
    len: usize,
    /// How far the search of each has come.
    pub(in crate::schedule) progress: Vec<Progress>,
    pub(in crate::schedule) backlogs: BTreeMap<ShapeId, Backlogs>,
    /// Shapes that were found to fit nowhere.
    pub(in crate::schedule) closed: Vec<ShapeId>,
    /// Those that were found to fit nowhere for one user, and are open to the others.
    pub(in crate::schedule) closed_for_one: Vec<ShapeId>,
    /// The least that anybody who waits is charged.
    pub(in crate::schedule) least: u64,
}

impl Open {
    /// Opens the shapes that may fit now.
    pub(in crate::schedule) fn renew(
        &mut self,
        state: &State,
        planner: &mut Planner,
        serving: &Cell<Option<ShapeId>>,
    ) {
        let Planner { nodes, needs, blocked, set_aside, .. } = planner;
        needs.follow(state, nodes, set_aside, serving);
        self.by_shape.fill(None);
        self.listed.clear();
        self.closed.clear();
        self.closed_for_one.clear();
        (self.len, self.least) = (0, needs.least());
        let is_hot = !nodes.hot.is_empty();
        // Of those that nobody waits with nothing is known any more once room was made.
        let known = if is_hot { std::mem::take(blocked) } else { blocked.clone() };
        let room = HotRoom::of(nodes);
        for size in needs.sizes() {
            if !known.contains(size.shape) || nodes.hot.len() > MANY_HOT {
                self.add(*size, Scope::All);
            } else if is_hot {
                if room.may_fit(*size, state, needs) {
                    self.add(*size, Scope::Hot);
                } else {
                    blocked.set(size.shape);
                }
            }
        }
    }

    /// See `Planner::forget`.
    pub(in crate::schedule) fn forget(&mut self, shape: ShapeId, places: usize) {
        if let Some(progress) = self.progress.get_mut(shape.at()) {
            *progress = Progress::default();
        }
        self.backlogs.remove(&shape);
        cut(&mut self.progress, places);
        cut(&mut self.by_shape, places);
    }

    pub(in crate::schedule) fn places(&self) -> usize {
        self.by_shape.len().max(self.progress.len())
    }

    /// How far searches have come says nothing any more.
    pub(in crate::schedule) fn start_over(&mut self) {
        self.progress.clear();
        self.backlogs.clear();
    }

    /// Something was put on a node: what room was made for may be gone again.
    pub(in crate::schedule) fn room_was_used(
        &mut self,
        state: &State,
        nodes: &NodeTable,
        needs: &Needs,
    ) {
        if !(1..=FEW_HOT).contains(&nodes.hot.len()) {
            return;
        }
        let room = HotRoom::of(nodes);
        for at in (0..self.listed.len()).rev() {
            let Some(size) = self.listed.get(at).copied() else { continue };
            let hot = self.scope(size.shape) == Some(Scope::Hot);
            if hot && !room.may_fit(size, state, needs) {
                self.close(size.shape);
                self.listed.swap_remove(at);
            }
        }
    }

    /// Whether a shape may still find a place; it is out of this pass otherwise.
    #[inline]
    pub(in crate::schedule) fn may_fit(
        &mut self,
        shape: ShapeId,
        state: &State,
        nodes: &NodeTable,
        needs: &Needs,
    ) -> bool {
        let Some(scope) = self.scope(shape) else { return false };
        let few = nodes.hot.len() <= FEW_HOT;
        if scope == Scope::All || few {
            return true;
        }
        let size = needs.get(shape).map(|need| need.size(shape));
        let fits = size.is_some_and(|size| HotRoom::of(nodes).may_fit(size, state, needs));
        if !fits {
            self.close(shape);
        }
        fits
    }

    #[inline]
    fn add(&mut self, size: Size, scope: Scope) {
        let shape = size.shape;
        if self.by_shape.len() <= shape.at() {
            self.by_shape.resize(shape.at() + 1, None);
        }
        if let Some(known) = self.by_shape.get_mut(shape.at()) {
            *known = Some(scope);
        }
        self.listed.push(size);
        self.len += 1;
    }

    /// It fits nowhere, or no longer.
    pub(in crate::schedule) fn close(&mut self, shape: ShapeId) {
        if self.by_shape.get_mut(shape.at()).is_some_and(|scope| scope.take().is_some()) {
            self.len -= 1;
            self.closed.push(shape);
        }
    }

    pub(in crate::schedule) fn len(&self) -> usize {
        self.len
    }
    #[inline]
    pub(in crate::schedule) fn scope(&self, shape: ShapeId) -> Option<Scope> {
        self.by_shape.get(shape.at()).copied().flatten()
    }
    pub(in crate::schedule) fn is_open(&self, shape: ShapeId) -> bool {
        self.scope(shape).is_some()
    }
    pub(in crate::schedule) fn shapes(&self) -> impl Iterator<Item = ShapeId> + '_ {
        self.listed.iter().map(|size| size.shape).filter(|shape| self.is_open(*shape))
    }

    /// How far the search of a shape has come.
    #[expect(clippy::indexing_slicing, reason = "a shape that is open has a place in both lists")]
    pub(in crate::schedule) fn progress(&mut self, shape: ShapeId) -> &mut Progress {
        if self.progress.len() <= shape.at() {
            self.progress.resize(self.by_shape.len(), Progress::default());
        }
        &mut self.progress[shape.at()]
    }
}

/// The nodes that have more room, with the most that any of them has.
struct HotRoom<'b> {
    nodes: Vec<&'b Free>,
    most: Common,
    devices: u32,
    /// Their classes; see `ClassAt::bit`.
    classes: u64,
}

impl<'b> HotRoom<'b> {
    fn of(table: &'b NodeTable) -> Self {
        let nodes: Vec<&Free> = table.hot.iter().map(|at| table.free(*at)).collect();
        let mut room = HotRoom { nodes, most: Common::default(), devices: 0, classes: 0 };
        for free in &room.nodes {
            room.most = room.most.max(Common::of(&free.amounts));
            room.devices = room.devices.max(free.devices());
            room.classes |= free.class.bit();
        }
        room
    }

    /// Whether one more task may fit on one of them, leaving reservations aside.
    #[inline]
    fn may_fit(&self, size: Size, state: &State, needs: &Needs) -> bool {
        if size.classes & self.classes == 0 {
            return false;
        }
        let is_small = size.amounts.fits(self.most) && size.gpus <= self.devices;
        // Who needs a device is not sent ahead of it: most are turned away without a second look.
        let is_short = size.gpus == 0 && backlog::may_be_short(state.shapes().pace(size.shape));
        if !is_small && !is_short {
            return false;
        }
        let Some(need) = needs.get(size.shape) else { return false };
        let is_short = is_short && need.may_go_ahead();
        self.nodes.iter().any(|free| {
            need.groups(free.class).is_some_and(|groups| is_short || need.fits(free, groups))
        })
    }
}
