//! What of the node is free, as the pilot counts it: cores, memory, disk and named things.
//!
//! The server counts too, but sends short tasks ahead of a free place; whether one may start now
//! is decided here. Devices are not counted: the server names them one by one.

use super::need::Need;
use shipway_model::Capacity;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Room {
    all: Amounts,
    used: Amounts,
}

#[derive(Debug, Default)]
struct Amounts {
    cpus_milli: u64,
    memory: u64,
    disk: u64,
    named: BTreeMap<String, u64>,
}

impl Room {
    pub(super) fn new(capacity: &Capacity) -> Self {
        let all = Amounts {
            cpus_milli: capacity.cpus.milli,
            memory: capacity.memory.0,
            disk: capacity.disk.0,
            named: capacity.named.clone(),
        };
        Room { all, used: Amounts::default() }
    }

    pub(super) fn fits(&self, need: &Need) -> bool {
        fits(&self.all, &self.used, need)
    }

    /// Whether it would fit on this node with nothing else running.
    pub(super) fn could_fit(&self, need: &Need) -> bool {
        fits(&self.all, &Amounts::default(), need)
    }

    pub(super) fn take(&mut self, need: &Need) {
        self.used.cpus_milli += need.cpus_milli;
        self.used.memory += need.memory;
        self.used.disk += need.disk;
        for (name, amount) in &need.named {
            *self.used.named.entry(name.clone()).or_default() += amount;
        }
    }

    pub(super) fn give_back(&mut self, need: &Need) {
        self.used.cpus_milli -= need.cpus_milli;
        self.used.memory -= need.memory;
        self.used.disk -= need.disk;
        for (name, amount) in &need.named {
            *self.used.named.entry(name.clone()).or_default() -= amount;
        }
    }
}

fn fits(all: &Amounts, used: &Amounts, need: &Need) -> bool {
    let named = need.named.iter().all(|(name, wanted)| {
        let has = all.named.get(name).copied().unwrap_or(0);
        *wanted <= has.saturating_sub(used.named.get(name).copied().unwrap_or(0))
    });
    named
        && need.cpus_milli <= all.cpus_milli.saturating_sub(used.cpus_milli)
        && need.memory <= all.memory.saturating_sub(used.memory)
        && need.disk <= all.disk.saturating_sub(used.disk)
}
