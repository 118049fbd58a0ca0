//! One user's jobs in the order they go: best first, over all shapes.

use super::open::Open;
use crate::ranks::{Following, Rank, Ranks};
use crate::ready::{Head, UserQueue};
use crate::shape::ShapeId;
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::BinaryHeap;

/// Finding the queue of one shape costs about as much as a look at so many first jobs.
const LOOKS_PER_QUEUE: usize = 8;

pub(super) struct Jobs<'a> {
    queue: &'a UserQueue,
    /// The first job of each shape that was not served yet.
    heads: Following<'a, Head>,
    /// Those of a few shapes instead, the best one last.
    picked: Option<Vec<Head>>,
    /// Shapes whose first job was served.
    begun: Vec<Begun<'a>>,
    /// The next job of each of those, and its place there.
    next: BinaryHeap<Reverse<(Rank, usize)>>,
}

struct Begun<'a> {
    head: Head,
    /// How many of those ahead of it had their turn.
    gone: usize,
    /// The jobs after those; looked up when it comes to that, which is rare.
    following: Option<Following<'a>>,
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
            self.following = queue.queue(shape).map(Ranks::after_firsts);
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
        let head = |shape| {
            let (rank, ahead) = self.queue.queue(shape)?.firsts()?;
            // One before `from` was served, or its shape was closed.
            (rank >= from).then_some(Head { rank, shape, ahead })
        };
        let mut heads: Vec<Head> = open.shapes().filter_map(head).collect();
        heads.sort_unstable_by_key(|head| Reverse(head.rank));
        self.picked = Some(heads);
    }

    fn head(&self) -> Option<&Head> {
        match &self.picked {
            Some(picked) => picked.last(),
            None => self.heads.peek(),
        }
    }

    fn next_head(&mut self) -> Option<Head> {
        match &mut self.picked {
            Some(picked) => picked.pop(),
            None => self.heads.next().copied(),
        }
    }

    /// The best job that is left.
    pub(super) fn best(&self) -> Option<(Rank, ShapeId)> {
        let head = self.head().map(|head| (head.rank, head.shape));
        let next = self.next.peek().map(|Reverse((rank, at))| (*rank, self.begun[*at].head.shape));
        match (head, next) {
            (Some(head), Some(next)) => Some(head.min(next)),
            (head, next) => head.or(next),
        }
    }

    fn is_head_best(&self) -> bool {
        let next = self.next.peek().map(|Reverse((rank, _))| *rank);
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
                self.next.push(Reverse((next, self.begun.len())));
                self.begun.push(begun);
            }
        } else if let Some(mut best) = self.next.peek_mut() {
            match self.begun[best.0.1].go_on(self.queue) {
                Some(next) => best.0.0 = next,
                None => drop(PeekMut::pop(best)),
            }
        }
    }
}
