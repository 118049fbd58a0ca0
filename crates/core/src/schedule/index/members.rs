//! The nodes of one class, in blocks of sixty-four, and those of a block in buckets by how many
//! devices nobody uses. Each bucket has an upper bound of what any of its nodes has free, so a
//! search goes by many full nodes in one look.
//!
//! Where a node stands among its like, never whether something fits: bounds only spare a look.
#![expect(
    clippy::indexing_slicing,
    reason = "places that this module gives out itself, asked for very often"
)]

use super::common::Common;
use super::free::Free;
use super::nodes::NodeAt;
use crate::schedule::needs::Need;
use std::ops::Range;

/// The bits of a word.
pub(in crate::schedule) const BLOCK: usize = u64::BITS as usize;

#[derive(Debug, Clone, Default)]
pub struct Members {
    /// In the order of their places in the table.
    nodes: Vec<NodeAt>,
    /// What each of them has free, side by side, because a search goes by dozens of nodes for one
    /// that fits.
    rooms: Vec<Common>,
    blocks: Vec<Box<[Bucket]>>,
    /// Devices of each node: after as many buckets and the one without any comes one for all.
    devices: usize,
}

/// Some nodes of one block.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// Which, a bit each.
    nodes: u64,
    /// None of them has more.
    most: Common,
    /// One of them has less than when the bounds were taken, or has left.
    loose: bool,
}

impl Bucket {
    fn add(&mut self, bit: u64, room: Common) {
        self.nodes |= bit;
        self.most = self.most.max(room);
        self.loose = true;
    }
}

impl Members {
    pub(in crate::schedule) fn new(devices: usize) -> Members {
        Members { devices, ..Members::default() }
    }

    pub fn nodes(&self) -> &[NodeAt] {
        &self.nodes
    }

    /// Puts a node where it belongs; the table has what is free on each.
    pub(in crate::schedule) fn insert(&mut self, at: NodeAt, free: &mut [Free]) {
        let place = self.nodes.partition_point(|other| *other < at);
        self.nodes.insert(place, at);
        self.renew(place / BLOCK, free);
    }

    pub(in crate::schedule) fn remove(&mut self, at: NodeAt, free: &mut [Free]) {
        if let Ok(place) = self.nodes.binary_search(&at) {
            self.nodes.remove(place);
            self.renew(place / BLOCK, free);
        }
    }

    /// Makes the blocks anew from this one on: nodes after one that came or left have moved.
    fn renew(&mut self, from: usize, free: &mut [Free]) {
        self.blocks.truncate(from);
        self.rooms.truncate(from * BLOCK);
        for (place, at) in self.nodes.iter().enumerate().skip(from * BLOCK) {
            if place % BLOCK == 0 {
                self.blocks.push(vec![Bucket::default(); self.devices + 2].into());
            }
            let (block, free) = (&mut self.blocks[place / BLOCK], &mut free[at.at()]);
            free.place = crate::schedule::position(place);
            self.rooms.push(Common::of(&free.amounts));
            block[self.devices + 1].add(1 << (place % BLOCK), Common::of(&free.amounts));
            block[free.whole as usize].add(1 << (place % BLOCK), Common::of(&free.amounts));
        }
    }

    /// What is free on a node has changed; so many of its devices were unused before.
    pub(in crate::schedule) fn changed(&mut self, whole_before: u32, free: &Free) {
        let place = free.place as usize;
        let room = Common::of(&free.amounts);
        self.rooms[place] = room;
        let (block, bit) = (&mut self.blocks[place / BLOCK], 1 << (place % BLOCK));
        if whole_before != free.whole {
            block[whole_before as usize].nodes &= !bit;
        }
        block[free.whole as usize].add(bit, room);
        block[self.devices + 1].add(bit, room);
    }

    /// The buckets where one more task is to be looked for: the fullest nodes that may do first.
    /// Who needs no device takes nodes as they come.
    pub(in crate::schedule) fn buckets(&self, need: &Need) -> Range<usize> {
        if need.gpus == 0 {
            return self.devices + 1..self.devices + 2;
        }
        // A part of a device may be found on a node without a whole one.
        let least = if need.is_whole() { need.gpus as usize } else { 0 };
        least..self.devices + 1
    }

    /// The nodes of one bucket that may have room, from this place in the class on, as far as one
    /// block goes; a bit each. `None` past the last block.
    pub(in crate::schedule) fn in_bucket(
        &self,
        need: &Need,
        bucket: usize,
        from: usize,
    ) -> Option<u64> {
        let bucket = &self.blocks.get(from / BLOCK)?[bucket];
        let may_fit = Common::of(&need.amounts).fits(bucket.most);
        Some(if may_fit { bucket.nodes & u64::MAX << (from % BLOCK) } else { 0 })
    }

    /// Those of these nodes of a block that have enough of what is no device, with their places.
    pub(in crate::schedule) fn with_room(
        &self,
        bits: u64,
        block: usize,
        need: &Need,
    ) -> impl Iterator<Item = (usize, NodeAt)> {
        let (rooms, need) = (&self.rooms[block * BLOCK..], Common::of(&need.amounts));
        each(bits, move |at| need.fits(rooms[at])).map(move |at| {
            let place = block * BLOCK + at;
            (place, self.nodes[place])
        })
    }

    /// Takes the bounds of a bucket anew, where they may be too high.
    pub(in crate::schedule) fn tighten(&mut self, block: usize, bucket: usize) {
        let known = &mut self.blocks[block][bucket];
        if known.loose {
            let nodes = std::mem::take(known).nodes;
            let rooms = &self.rooms[block * BLOCK..];
            for at in each(nodes, |_| true) {
                known.add(1 << at, rooms[at]);
            }
            known.loose = false;
        }
    }

    /// Nodes with most devices unused first.
    pub(in crate::schedule) fn emptiest(&self) -> impl Iterator<Item = NodeAt> + '_ {
        (0..=self.devices).rev().flat_map(move |whole| {
            let blocks = self.blocks.iter().enumerate();
            blocks.flat_map(move |(block, buckets)| {
                each(buckets[whole].nodes, |_| true).map(move |at| self.nodes[block * BLOCK + at])
            })
        })
    }

    /// Whether a node is listed here, and where what is free on it says.
    pub(in crate::schedule) fn lists(&self, at: NodeAt, free: &Free) -> bool {
        let place = free.place as usize;
        let mut buckets = self.blocks[place / BLOCK].iter().enumerate();
        let is_right = |(whole, bucket): (usize, &Bucket)| {
            let is_in = bucket.nodes >> (place % BLOCK) & 1 == 1;
            let is_bounded = Common::of(&free.amounts).fits(bucket.most);
            let belongs = whole == free.whole as usize || whole == self.devices + 1;
            is_in == belongs && (is_bounded || !is_in)
        };
        let is_known = self.rooms.get(place) == Some(&Common::of(&free.amounts));
        is_known && self.nodes.get(place) == Some(&at) && buckets.all(is_right)
    }
}

/// The bits that are set and good, from the least on.
fn each(mut bits: u64, is_good: impl Fn(usize) -> bool) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        while bits != 0 {
            let at = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if is_good(at) {
                return Some(at);
            }
        }
        None
    })
}
