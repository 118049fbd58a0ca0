//! The node for one more task: the fullest that fits, in the least class that will do.

use super::members::BLOCK;
use super::needs::{Groups, Need};
use super::nodes::{ClassAt, NodeAt};
use super::order::Turn;
use super::reserve::Reservation;
use super::trial::Trial;
use super::{backlog, is_short};
use crate::job::Job;
use crate::state::State;
use crate::usage::Standing;
use shipway_model::{JobId, Resources};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Who asks, for what, and which nodes are kept for others.
pub(super) struct Ask<'b> {
    pub(super) id: JobId,
    pub(super) need: &'b Need,
    pub(super) resources: &'b Resources,
    pub(super) standing: Standing,
    pub(super) held: &'b [Reservation],
}

impl<'b> Ask<'b> {
    pub(super) fn of(
        turn: &Turn,
        need: &'b Need,
        state: &'b State,
        held: &'b [Reservation],
    ) -> Ask<'b> {
        let resources = &state.shapes().get(turn.shape).resources;
        Ask { id: turn.id, need, resources, standing: turn.standing, held }
    }
}

/// Which nodes a search may find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    All,
    /// Only nodes that have more room since the last pass: the others are known to have none.
    Hot,
}

/// How far a shape's search has come in this pass. Room only shrinks, so a node that was too full
/// is not looked at again.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    /// Classes that are done with, in the order of the need.
    class: usize,
    /// How far in the next one; `None` before it was begun.
    spot: Option<Spot>,
    /// Pilots by how much waits there, for tasks that are sent ahead.
    backlogs: Option<BinaryHeap<Reverse<(u32, NodeAt)>>>,
}

#[derive(Debug, Clone, Copy)]
struct Spot {
    /// Nodes with so many devices that nobody uses, and how far among them.
    bucket: usize,
    member: usize,
    /// How many of the nodes that changed buckets were looked at.
    moved: usize,
}

impl Trial<'_> {
    pub(super) fn find(
        &mut self,
        ask: &Ask<'_>,
        scope: Scope,
        progress: &mut Progress,
    ) -> Option<NodeAt> {
        let with_room = match scope {
            Scope::Hot => self.find_hot(ask),
            Scope::All => self.find_in_classes(ask, progress),
        };
        with_room.or_else(|| self.find_backlog(ask, scope, progress))
    }

    /// Whether one more task fits on this node now.
    pub(super) fn fits(&self, ask: &Ask<'_>, at: NodeAt) -> bool {
        let groups = ask.need.groups(self.table().free(at).class);
        groups.is_some_and(|groups| self.has_room(ask, at, groups))
    }

    fn has_room(&self, ask: &Ask<'_>, at: NodeAt, groups: Groups) -> bool {
        ask.need.fits(self.table().free(at), groups)
            && (!ask.need.named || self.has_named(ask.resources, at))
            && self.is_let_by(ask, at)
    }

    fn is_let_by(&self, ask: &Ask<'_>, at: NodeAt) -> bool {
        let Some(held) = ask.held.iter().find(|held| held.node == at) else { return true };
        let asked = (ask.need, Some(ask.standing));
        held.job == ask.id || held.lets_by(self.now, asked, self.table().free(at))
    }

    fn find_hot(&self, ask: &Ask<'_>) -> Option<NodeAt> {
        let fitting = self.table().hot.iter().filter(|at| self.fits(ask, **at));
        fitting.min_by_key(|at| self.table().free(**at).whole).copied()
    }

    fn find_in_classes(&mut self, ask: &Ask<'_>, progress: &mut Progress) -> Option<NodeAt> {
        while let Some((class, groups)) = ask.need.classes.get(progress.class).copied() {
            let buckets = self.table().class(class).members.buckets(ask.need);
            let moved = self.moved[class.at()].len();
            let fresh = Spot { bucket: buckets.start, member: 0, moved };
            let spot = progress.spot.get_or_insert(fresh);
            if let Some(at) = self.find_moved(ask, class, groups, spot) {
                return Some(at);
            }
            while spot.bucket < buckets.end {
                if let Some(at) = self.find_in_bucket(ask, class, groups, spot) {
                    return Some(at);
                }
                (spot.bucket, spot.member) = (spot.bucket + 1, 0);
            }
            progress.class += 1;
            progress.spot = None;
        }
        None
    }

    /// Among the nodes that became fuller since the search was here last: those it has gone by.
    fn find_moved(
        &self,
        ask: &Ask<'_>,
        class: ClassAt,
        groups: Groups,
        spot: &mut Spot,
    ) -> Option<NodeAt> {
        if ask.need.gpus == 0 {
            return None;
        }
        let rest = &self.moved[class.at()][spot.moved..];
        let found = rest.iter().position(|at| {
            let gone_by = self.table().free(*at).whole as usize <= spot.bucket;
            gone_by && self.has_room(ask, *at, groups)
        });
        spot.moved += found.unwrap_or(rest.len());
        found.map(|at| rest[at])
    }

    fn find_in_bucket(
        &mut self,
        ask: &Ask<'_>,
        class: ClassAt,
        groups: Groups,
        spot: &mut Spot,
    ) -> Option<NodeAt> {
        loop {
            let members = &self.table().class(class).members;
            let block = spot.member / BLOCK;
            let nodes = members.in_bucket(ask.need, spot.bucket, spot.member)?;
            let found = members
                .with_room(nodes, block, ask.need)
                .find(|(_, at)| self.has_room(ask, *at, groups));
            if let Some((member, at)) = found {
                spot.member = member;
                return Some(at);
            }
            if nodes != 0 {
                self.table_mut().tighten(class, block, spot.bucket);
            }
            spot.member = (block + 1) * BLOCK;
        }
    }

    /// The pilot with the shortest backlog that may still grow.
    fn find_backlog(&self, ask: &Ask<'_>, scope: Scope, progress: &mut Progress) -> Option<NodeAt> {
        if ask.need.gpus > 0 || ask.need.named {
            return None;
        }
        let job = self.job(ask.id).filter(|job| is_short(job))?;
        let backlogs = progress.backlogs.get_or_insert_with(|| self.backlogs(scope));
        while let Some(Reverse((counted, at))) = backlogs.pop() {
            let unstarted = self.table().free(at).unstarted;
            if counted != unstarted {
                backlogs.push(Reverse((unstarted, at)));
            } else if self.may_wait_at(ask, job, at, unstarted) {
                backlogs.push(Reverse((unstarted, at)));
                return Some(at);
            }
        }
        None
    }

    fn backlogs(&self, scope: Scope) -> BinaryHeap<Reverse<(u32, NodeAt)>> {
        let entry = |at: &NodeAt| Reverse((self.table().free(*at).unstarted, *at));
        if scope == Scope::Hot {
            return self.table().hot.iter().map(entry).collect();
        }
        self.table().classes().flat_map(|(_, class)| class.members.nodes()).map(entry).collect()
    }

    fn may_wait_at(&self, ask: &Ask<'_>, job: &Job, at: NodeAt, unstarted: u32) -> bool {
        let allows = |pilot| backlog::allows(job, pilot, ask.resources, unstarted);
        ask.held.iter().all(|held| held.node != at) && self.pilot(at).is_some_and(allows)
    }

    /// Nodes that could serve this need when empty; those with most devices free first.
    pub(super) fn candidates(&self, need: &Need, most: usize) -> Vec<NodeAt> {
        let classes = need.classes.iter().map(|(class, _)| self.table().class(*class));
        classes.flat_map(|class| class.members.emptiest().take(most)).collect()
    }
}
