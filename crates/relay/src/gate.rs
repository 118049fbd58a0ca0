//! How many connections there may be: altogether, from one neighbour, and of the newer kind of
//! addresses from one network too, so that none of them can take everybody's. Counts only; whoever
//! is turned away is turned away elsewhere.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(crate) struct Gate {
    most: usize,
    most_each: usize,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    all: usize,
    each: HashMap<IpAddr, usize>,
    networks: HashMap<[u16; 4], usize>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    gate: Arc<Gate>,
    whose: IpAddr,
}

/// Why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    ForAll,
    ForOne,
}

impl Gate {
    pub(crate) fn new(most: usize, most_each: usize) -> Arc<Self> {
        Arc::new(Gate { most, most_each, inside: Mutex::default() })
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(self: &Arc<Self>, peer: IpAddr) -> Result<Slot, Full> {
        let whose = peer.to_canonical();
        let mut inside = self.inside();
        if inside.all >= self.most {
            return Err(Full::ForAll);
        }
        let own = inside.each.get(&whose).copied().unwrap_or_default();
        let network = network(whose);
        let of_network =
            network.and_then(|it| inside.networks.get(&it)).copied().unwrap_or_default();
        // A site's nodes may be one network, and one machine may have all addresses of it.
        if own >= self.most_each || of_network >= (self.most / 2).max(self.most_each) {
            return Err(Full::ForOne);
        }
        inside.each.insert(whose, own + 1);
        if let Some(network) = network {
            inside.networks.insert(network, of_network + 1);
        }
        inside.all += 1;
        drop(inside);
        Ok(Slot { gate: Arc::clone(self), whose })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut inside = self.gate.inside();
        inside.all = inside.all.saturating_sub(1);
        one_fewer(&mut inside.each, &self.whose);
        if let Some(network) = network(self.whose) {
            one_fewer(&mut inside.networks, &network);
        }
    }
}

fn one_fewer<K: Eq + Hash>(counts: &mut HashMap<K, usize>, of: &K) {
    if let Some(count) = counts.get_mut(of) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(of);
        }
    }
}

/// Of the newer kind one machine may have 2^64 addresses, all of one network.
fn network(peer: IpAddr) -> Option<[u16; 4]> {
    match peer {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Some([a, b, c, d])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn one_neighbour_leaves_places_to_others_and_places_come_back() {
        let gate = Gate::new(3, 2);
        let one = gate.enter(from("10.0.0.1")).expect("the first");
        let _two = gate.enter(from("::ffff:10.0.0.1")).expect("the second");
        assert_eq!(gate.enter(from("10.0.0.1")).err(), Some(Full::ForOne));
        let _other = gate.enter(from("fd00::1")).expect("another's");
        assert_eq!(gate.enter(from("10.0.0.2")).err(), Some(Full::ForAll));
        drop(one);
        let _again = gate.enter(from("fd00::2")).expect("a place is free");
    }

    #[test]
    fn nodes_of_one_network_have_places_each_and_leave_half_to_others() {
        let gate = Gate::new(8, 2);
        let enter = |last: u32| gate.enter(from(&format!("fd00::{last:x}")));
        let _two = [enter(1), enter(1)].map(|place| place.expect("of one"));
        assert_eq!(enter(1).err(), Some(Full::ForOne));
        let two = [enter(2), enter(3)].map(|place| place.expect("of others"));
        assert_eq!(enter(4).err(), Some(Full::ForOne), "half of them");
        let _other = gate.enter(from("fd00:0:0:1::1")).expect("another network's");
        drop(two);
        let _again = enter(4).expect("a place is free");
    }

    #[test]
    fn nothing_is_remembered_of_who_has_gone() {
        let gate = Gate::new(10, 10);
        for last in 0..=255 {
            drop(gate.enter(from(&format!("10.0.0.{last}"))));
        }
        let inside = gate.inside();
        assert_eq!((inside.all, inside.each.len(), inside.networks.len()), (0, 0, 0));
    }
}
