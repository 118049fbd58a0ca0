//! One user's jobs in the order they go: best first, over all shapes.

use super::index::open::Open;
use super::position;
use crate::ranks::{Following, Rank};
use crate::ready::{Head, UserQueue};
use crate::shape::ShapeId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Finding the first job of one shape costs about as much as going by so many.
const LOOKS_PER_QUEUE: usize = 32;

pub(super) struct Jobs<'a> {
    queue: &'a UserQueue,
    /// The first job of each shape that was not served yet.
    heads: Following<'a, Head>,
    /// Those of a few shapes instead, the best one last.
    picked: Option<Vec<&'a Head>>,
    /// Shapes whose first job was served.
    begun: Vec<Begun<'a>>,
    /// The next job of each of those, and its place there.
    next: BinaryHeap<Reverse<(Rank, ShapeId, u32)>>,
}

struct Begun<'a> {
    head: &'a Head,
    /// How many of those ahead of it had their turn.
    gone: usize,
    /// The jobs after those; looked up when it comes to that, which is rare.
    following: Option<Box<Following<'a>>>,
}

impl<'a> Begun<'a> {
    /// The job that comes next now.
    fn go_on(&mut self, queue: &'a UserQueue) -> Option<Rank> {
        let Head { shape, ahead, .. } = self.head;
        if let Some(rank) = ahead.get(self.gone) {
            self.gone += 1;
            return Some(rank);
        }
        if self.following.is_none() && ahead.is_full() {
            self.following = queue.queue(*shape).map(|ranks| Box::new(ranks.after_firsts()));
        }
        self.following.as_mut()?.next().copied()
    }
}

impl<'a> Jobs<'a> {
    pub(super) fn new(queue: &'a UserQueue) -> Self {
        let heads = queue.heads().following();
        Jobs { queue, heads, picked: None, begun: Vec::new(), next: BinaryHeap::new() }
    }

    /// Looks no longer at first jobs whose shapes are not open, if few are: after one task's end
    /// it is a few of a thousand, and not worth while to go by all the others. Goes by those that
    /// come next in any case.
    pub(super) fn pick(&mut self, open: &Open) {
        let is_picked = self.picked.is_some();
        if is_picked || open.len() * LOOKS_PER_QUEUE > self.queue.heads().len() {
            while self.head().is_some_and(|head| !open.is_open(head.shape)) {
                self.next_head();
            }
            return;
        }
        let Some(from) = self.head().map(|head| head.rank) else { return };
        // One before `from` was served, or its shape was closed.
        let heads = open.shapes().filter_map(|shape| self.queue.head(shape));
        let mut heads: Vec<&Head> = heads.filter(|head| head.rank >= from).collect();
        heads.sort_unstable_by_key(|head| Reverse(head.rank));
        self.picked = Some(heads);
    }

    fn head(&self) -> Option<&'a Head> {
        match &self.picked {
            Some(picked) => picked.last().copied(),
            None => self.heads.peek(),
        }
    }

    fn next_head(&mut self) -> Option<&'a Head> {
        match &mut self.picked {
            Some(picked) => picked.pop(),
            None => self.heads.next(),
        }
    }

    /// The best job that is left.
    pub(super) fn best(&self) -> Option<(Rank, ShapeId)> {
        let head = self.head().map(|head| (head.rank, head.shape));
        let next = self.next.peek().map(|Reverse((rank, shape, _))| (*rank, *shape));
        match (head, next) {
            (Some(head), Some(next)) => Some(head.min(next)),
            (head, next) => head.or(next),
        }
    }

    fn is_head_best(&self) -> bool {
        let next = self.next.peek().map(|Reverse((rank, ..))| *rank);
        self.head().is_some_and(|head| next.is_none_or(|next| head.rank < next))
    }

    /// The best job's shape is out.
    pub(super) fn leave(&mut self) {
        if self.is_head_best() {
            self.next_head();
        } else {
            self.next.pop();
        }
    }

    /// The best job's shape goes on with its next one.
    pub(super) fn go_on(&mut self) {
        if self.is_head_best() {
            let Some(head) = self.next_head() else { return };
            let mut begun = Begun { head, gone: 0, following: None };
            if let Some(next) = begun.go_on(self.queue) {
                self.next.push(Reverse((next, head.shape, position(self.begun.len()))));
                self.begun.push(begun);
            }
        } else if let Some(mut best) = self.next.peek_mut() {
            let begun = self.begun.get_mut(best.0.2 as usize);
            match begun.and_then(|begun| begun.go_on(self.queue)) {
                Some(next) => best.0.0 = next,
                None => drop(PeekMut::pop(best)),
            }
        }
    }
}
