//! The node for one more task: the fullest that fits, in the least class that will do.

use super::index::members::BLOCK;
use super::index::nodes::{ClassAt, NodeAt};
use super::needs::{Groups, Need};
use super::order::Turn;
use super::reserve::{Kept, Other, Reservation};
use super::trial::Trial;
use super::{backlog, is_short, position};
use crate::job::Job;
use crate::shape::{ShapeId, Shapes};
use crate::state::State;
use crate::usage::Standing;
use shipway_model::limits::MAX_UNSTARTED;
use shipway_model::{JobId, Resources};
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Who asks, for what, and which nodes are kept for others.
pub(super) struct Ask<'b> {
    pub(super) id: JobId,
    pub(super) need: &'b Need,
    shapes: &'b Shapes,
    shape: ShapeId,
    pub(super) standing: Standing,
    held: &'b [Reservation],
    /// A node that would do was left to another job of the same user. It may do for others.
    left_to_own: Cell<bool>,
}

impl<'b> Ask<'b> {
    pub(super) fn of(
        turn: &Turn,
        need: &'b Need,
        state: &'b State,
        held: &'b [Reservation],
    ) -> Ask<'b> {
        let (shapes, shape) = (state.shapes(), turn.shape);
        let (id, standing, left_to_own) = (turn.id, turn.standing, Cell::new(false));
        Ask { id, need, shapes, shape, standing, held, left_to_own }
    }

    /// Whether what was found holds for this user only.
    pub(super) fn is_for_one_user(&self) -> bool {
        self.left_to_own.get()
    }

    fn held_at(&self, at: NodeAt) -> impl Iterator<Item = (&'b Reservation, Kept)> {
        self.held.iter().filter_map(move |held| Some((held, held.at(at)?)))
    }

    /// Whether all that keep this node are passed in this way; if not, whose affair that is.
    fn passes(&self, at: NodeAt, is_passed: impl Fn(&Reservation, Kept) -> bool) -> bool {
        let held = self.held_at(at).filter(|(held, kept)| !is_passed(held, *kept));
        let mut in_the_way = held.peekable();
        if in_the_way.peek().is_none() {
            return true;
        }
        if in_the_way.all(|(held, _)| held.behind_own) {
            self.left_to_own.set(true);
        }
        false
    }

    /// Looked up where it matters: few ask for what the need does not say.
    pub(super) fn resources(&self) -> &'b Resources {
        &self.shapes.get(self.shape).resources
    }
}

/// Which nodes a search may find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    All,
    /// Only nodes that have more room since the last pass.
    Hot,
}

/// How far a shape's search has come in this pass. Room only shrinks, so a node that was too full
/// is not looked at again.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Progress {
    /// Classes that are done with, in the order of the need.
    class: u32,
    /// How far in the next one; `None` before it was begun.
    spot: Option<Spot>,
}

#[derive(Debug, Clone, Copy)]
struct Spot {
    class: ClassAt,
    groups: Groups,
    /// Nodes with so many devices that nobody uses, and how far among them.
    bucket: u32,
    member: u32,
    /// How many of the nodes that changed buckets were looked at.
    moved: u32,
}

/// Pilots by how much waits there, for tasks that are sent ahead.
pub(super) type Backlogs = BinaryHeap<Reverse<(u32, NodeAt)>>;

impl Trial<'_> {
    /// Whether one more task fits on this node now.
    pub(super) fn fits(&self, ask: &Ask<'_>, at: NodeAt) -> bool {
        let groups = ask.need.groups(self.table().free(at).class);
        groups.is_some_and(|groups| self.has_room(ask, at, groups))
    }

    fn has_room(&self, ask: &Ask<'_>, at: NodeAt, groups: Groups) -> bool {
        let free = self.table().free(at);
        // Those that start together may be more than a node is given one by one.
        let takes_more = free.unstarted < MAX_UNSTARTED || !ask.need.gang.is_one();
        takes_more
            && !(ask.need.is_guest && self.is_wanted(free.class))
            && ask.need.fits(free, groups)
            && self.table().has_time(at, ask.need.at_most, self.now)
            && (!ask.need.named || self.has_named(ask.resources(), at))
            && (!ask.need.per_node || self.has_own_room(ask.need, at))
            && self.is_let_by(ask, at)
    }

    /// The same where each node has to be asked which of its devices will do.
    fn has_own_room(&self, need: &Need, at: NodeAt) -> bool {
        let groups = self.groups_at(need, at);
        groups.is_some_and(|groups| need.fits(self.table().free(at), groups))
    }

    /// The kinds of a node's devices that a need may use.
    pub(super) fn groups_at(&self, need: &Need, at: NodeAt) -> Option<Groups> {
        need.on_node(self.table(), (at, self.now), || self.pilot(at))
    }

    fn is_let_by(&self, ask: &Ask<'_>, at: NodeAt) -> bool {
        let lets_by = |held: &Reservation, kept: Kept| {
            let is_own = held.behind_own && self.is_own(ask, held);
            let other = Other { need: ask.need, standing: Some(ask.standing), is_own };
            held.job == ask.id || held.lets_by(kept, self.now, &other, self.table().free(at))
        };
        ask.passes(at, lets_by)
    }

    fn is_own(&self, ask: &Ask<'_>, held: &Reservation) -> bool {
        let owner = |id: JobId| self.job(id).map(|job| &job.owner);
        owner(ask.id) == owner(held.job)
    }

    /// Among the nodes that have more room since the last pass: the others are known to have none.
    pub(super) fn find_hot(&self, ask: &Ask<'_>) -> Option<NodeAt> {
        let fitting = self.table().hot.iter().filter(|at| self.fits(ask, **at));
        fitting.min_by_key(|at| self.table().free(**at).whole).copied()
    }

    pub(super) fn find(&mut self, ask: &Ask<'_>, progress: &mut Progress) -> Option<NodeAt> {
        loop {
            let spot = match &mut progress.spot {
                Some(spot) => spot,
                none => none.insert(self.first_spot(ask.need, progress.class as usize)?),
            };
            let found = self.find_moved(ask, spot).or_else(|| self.find_in_class(ask, spot));
            if found.is_some() {
                return found;
            }
            progress.class += 1;
            progress.spot = None;
        }
    }

    /// Where the search begins in one of the classes.
    fn first_spot(&self, need: &Need, class: usize) -> Option<Spot> {
        let (class, groups) = *need.classes.get(class)?;
        let bucket = self.table().class(class).members.buckets(need).start;
        let moved = position(self.moved(class, 0).len());
        Some(Spot { class, groups, bucket: position(bucket), member: 0, moved })
    }

    /// Among the nodes that became fuller since the search was here last: those it has gone by.
    fn find_moved(&self, ask: &Ask<'_>, spot: &mut Spot) -> Option<NodeAt> {
        if ask.need.gpus == 0 {
            return None;
        }
        let least = if ask.need.is_whole() { ask.need.gpus } else { 0 };
        let rest = self.moved(spot.class, spot.moved as usize);
        let found = rest.iter().position(|at| {
            let is_gone_by = (least..=spot.bucket).contains(&self.table().whole(*at));
            is_gone_by && self.has_room(ask, *at, spot.groups)
        });
        spot.moved += position(found.unwrap_or(rest.len()));
        found.and_then(|at| rest.get(at).copied())
    }

    fn find_in_class(&mut self, ask: &Ask<'_>, spot: &mut Spot) -> Option<NodeAt> {
        let end = position(self.table().class(spot.class).members.buckets(ask.need).end);
        while spot.bucket < end {
            let found = self.find_in_bucket(ask, spot);
            if found.is_some() {
                return found;
            }
            (spot.bucket, spot.member) = (spot.bucket + 1, 0);
        }
        None
    }

    fn find_in_bucket(&mut self, ask: &Ask<'_>, spot: &mut Spot) -> Option<NodeAt> {
        let bucket = spot.bucket as usize;
        loop {
            let members = &self.table().class(spot.class).members;
            let block = spot.member as usize / BLOCK;
            let nodes = members.in_bucket(ask.need, bucket, spot.member as usize)?;
            let found = members
                .with_room(nodes, block, ask.need)
                .find(|(_, at)| self.has_room(ask, *at, spot.groups));
            if let Some((member, at)) = found {
                spot.member = position(member);
                return Some(at);
            }
            if nodes != 0 {
                self.table_mut().tighten(spot.class, block, bucket);
            }
            spot.member = position((block + 1) * BLOCK);
        }
    }

    /// The same without remembering how far the search has come, for what may be taken back. The
    /// node of the one before, while it has room; of others the one with the fewest devices left.
    pub(super) fn find_anew(&self, ask: &Ask<'_>, last: Option<NodeAt>) -> Option<NodeAt> {
        if let Some(last) = last.filter(|last| self.fits(ask, *last)) {
            return Some(last);
        }
        ask.need.classes.iter().find_map(|(class, groups)| {
            let nodes = self.table().class(*class).members.nodes().iter();
            let fitting = nodes.filter(|at| self.has_room(ask, **at, *groups));
            fitting.min_by_key(|at| self.table().free(**at).whole).copied()
        })
    }

    /// The pilot with the shortest backlog that may still grow.
    pub(super) fn find_backlog(
        &self,
        ask: &Ask<'_>,
        scope: Scope,
        backlogs: &mut BTreeMap<ShapeId, Backlogs>,
    ) -> Option<NodeAt> {
        if !ask.need.may_go_ahead() {
            return None;
        }
        let job = self.job(ask.id).filter(|job| is_short(job))?;
        let backlogs = backlogs.entry(job.shape).or_insert_with(|| self.backlogs(scope));
        let mut for_others = Vec::new();
        let found = loop {
            let Some(Reverse((counted, at))) = backlogs.pop() else { break None };
            let unstarted = self.table().free(at).unstarted;
            let entry = Reverse((unstarted, at));
            if counted != unstarted {
                backlogs.push(entry);
            } else if self.may_wait_at(ask, job, at, unstarted) {
                backlogs.push(entry);
                break Some(at);
            } else if ask.held_at(at).next().is_some_and(|(held, _)| held.behind_own) {
                for_others.push(entry);
            }
        };
        backlogs.extend(for_others);
        found
    }

    fn backlogs(&self, scope: Scope) -> Backlogs {
        let entry = |at: &NodeAt| Reverse((self.table().free(*at).unstarted, *at));
        if scope == Scope::Hot {
            return self.table().hot.iter().map(entry).collect();
        }
        self.table().classes().flat_map(|(_, class)| class.members.nodes()).map(entry).collect()
    }

    fn is_guest_at(&self, need: &Need, at: NodeAt) -> bool {
        need.is_guest && self.table().class(self.table().free(at).class).key.guests.is_some()
    }

    fn may_wait_at(&self, ask: &Ask<'_>, job: &Job, at: NodeAt, unstarted: u32) -> bool {
        let allows = |pilot| backlog::allows(job, pilot, ask.resources(), unstarted);
        let is_passed = |held: &Reservation, _| held.behind_own && !self.is_own(ask, held);
        !self.is_guest_at(ask.need, at)
            && self.table().has_time(at, ask.need.at_most, self.now)
            && self.pilot(at).is_some_and(allows)
            && ask.passes(at, is_passed)
    }

    /// Nodes that could serve this need when empty; those with most devices free first.
    pub(super) fn candidates(&self, need: &Need, most: usize) -> Vec<NodeAt> {
        // Nothing is kept for guests.
        let lets_guests = |at| self.table().class(at).key.guests.is_some();
        let classes = need.classes.iter().filter(|(at, _)| !(need.is_guest && lets_guests(*at)));
        let classes = classes.map(|(class, _)| self.table().class(*class));
        let suiting = |at: &NodeAt| {
            self.table().has_time(*at, need.at_most, self.now)
                && (!need.per_node || self.groups_at(need, *at).is_some())
        };
        let nodes = classes.flat_map(|class| class.members.emptiest().filter(suiting).take(most));
        nodes.collect()
    }
}
