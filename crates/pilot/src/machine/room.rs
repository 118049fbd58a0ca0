//! What of the node is free, as the pilot counts it: cores, memory, disk and named things.
//!
//! The server counts too, but sends short tasks ahead of a free place; whether one may start now
//! is decided here. Devices are not counted: the server names them one by one.

use super::need::Need;
use shipway_model::{Capacity, Counts};

#[derive(Debug)]
pub(super) struct Room {
    all: Capacity,
    used: Counts,
}

impl Room {
    pub(super) fn new(capacity: &Capacity) -> Self {
        Room { all: capacity.clone(), used: Counts::default() }
    }

    pub(super) fn fits(&self, need: &Need) -> bool {
        self.used.lacks(&self.all, &need.counts).is_none()
    }

    /// Whether it would fit on this node with nothing else running.
    pub(super) fn could_fit(&self, need: &Need) -> bool {
        Counts::default().lacks(&self.all, &need.counts).is_none()
    }

    pub(super) fn take(&mut self, need: &Need) {
        self.used.add(&need.counts);
    }

    pub(super) fn give_back(&mut self, need: &Need) {
        self.used.take(&need.counts);
    }
}
