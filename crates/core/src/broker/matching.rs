//! Waiting tasks against what sites could still give, in numbers only.
//!
//! Every task counts once over all the sites where it could run. Those with the fewest kinds that
//! will do come first, so that nobody who has a choice takes the only chance of somebody who has
//! none. What was asked for before is used before anything new is; but what has been waiting at a
//! batch system for long counts only where no other promises to come sooner: a full queue keeps
//! nobody from a free site.
//!
//! What is asked for and given back are allocations, what tasks use are the pilots that come of
//! them. So where an allocation has several nodes, the last one that is asked for may bring pilots
//! for which there is nothing to do, but never none for which there is something; and one is given
//! back only when nobody needs as many pilots as it brings.

use shipway_model::Millis;

/// A pilot in millionths, the unit in which rooms of pilots are used up.
const PILOT: u64 = 1_000_000;

/// Sites where pilots come within the same of these are alike as to how long they take.
const WAITS: [Millis; 4] =
    [Millis(60_000), Millis(600_000), Millis(3_600_000), Millis(24 * 3_600_000)];

/// Tasks that wait with the same needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    pub tasks: u64,
    /// More pilots than this, with those that are there, would have too little to do to be worth
    /// their start.
    pub most_pilots: u64,
    /// How many such tasks one pilot runs at a time, by its model; none where it cannot.
    pub slots: Vec<u64>,
    pub wants_gpus: bool,
    /// Sites where they may not go, in order.
    pub kept_from: Vec<usize>,
    pub at_most: Option<Millis>,
}

/// One kind of pilots of one site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supply {
    pub site: usize,
    /// What its pilots have: kinds of the same model have the same.
    pub model: usize,
    pub has_gpus: bool,
    /// How long its pilots live.
    pub wall: Millis,
    /// Pilots that come of one allocation, at least one.
    pub nodes: u32,
    /// How many more allocations may be asked for, by the limits of the kind.
    pub room: u32,
    /// Pilots that have come.
    pub there: u32,
    /// Pilots asked for lately, and not there yet.
    pub coming: u32,
    /// Pilots asked for so long ago that nobody knows when they come.
    pub stuck: u32,
    /// What an hour costs, in whatever unit all sites use.
    pub cost: u64,
    /// How long pilots of it waited lately, as far as it is known.
    pub wait: Millis,
}

/// What is left of one site by its own limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteRoom {
    pub allocations: u32,
}

/// Allocations, by kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matched {
    pub asks: Vec<u32>,
    /// Of those asked for already, how many nobody needs.
    pub surplus: Vec<u32>,
    /// Tasks for which nothing is there, by demand.
    pub left: Vec<u64>,
}

impl Demand {
    /// How many of its tasks a pilot of this kind runs at a time.
    fn slots_of(&self, supply: &Supply) -> u64 {
        let is_kept = !self.kept_from.is_empty() && self.kept_from.contains(&supply.site);
        let is_too_short = self.at_most.is_some_and(|limit| limit > supply.wall);
        if is_kept || is_too_short {
            return 0;
        }
        self.slots.get(supply.model).copied().unwrap_or(0)
    }
}

impl Supply {
    /// It has what these tasks do not need and others do: a GPU.
    fn is_waste_for(&self, demand: &Demand) -> bool {
        self.has_gpus && !demand.wants_gpus
    }

    fn each(&self) -> u64 {
        u64::from(self.nodes.max(1))
    }

    fn has_something(&self) -> bool {
        self.room > 0 || self.coming > 0 || self.stuck > 0
    }

    /// Smaller is better: where pilots come soon, then where some wait already, then the cheap,
    /// then as they are in the sites' files.
    fn preference(&self) -> (usize, bool, u64, Millis) {
        let slowness = WAITS.iter().filter(|bound| self.wait >= **bound).count();
        (slowness, self.stuck == 0, self.cost, self.wait)
    }
}

/// One kind while it is matched.
struct Kind<'a> {
    at: usize,
    supply: &'a Supply,
    /// What is left of pilots that are coming, in millionths.
    coming: u64,
    stuck: u64,
    room: u32,
    asks: u32,
}

struct Matching<'a> {
    /// The best first.
    kinds: Vec<Kind<'a>>,
    sites: Vec<SiteRoom>,
}

pub fn matching(demands: &[Demand], supplies: &[Supply], sites: &[SiteRoom]) -> Matched {
    let mut kinds: Vec<Kind<'_>> = supplies.iter().enumerate().map(Kind::of).collect();
    kinds.sort_by_key(|kind| (kind.supply.preference(), kind.at));
    let mut matching = Matching { kinds, sites: sites.to_vec() };
    let mut order: Vec<(usize, usize)> =
        demands.iter().enumerate().map(|(at, demand)| (choices(demand, supplies), at)).collect();
    order.sort_unstable();
    let mut left = vec![0; demands.len()];
    for (_, at) in order {
        if let (Some(demand), Some(left)) = (demands.get(at), left.get_mut(at)) {
            *left = matching.serve(demand);
        }
    }
    matching.end(left)
}

/// The kinds that have something for such tasks.
fn choices(demand: &Demand, supplies: &[Supply]) -> usize {
    supplies.iter().filter(|it| it.has_something() && demand.slots_of(it) > 0).count()
}

impl Matching<'_> {
    /// Tasks for which there is nothing.
    fn serve(&mut self, demand: &Demand) -> u64 {
        let (mut tasks, mut there, mut others) = (demand.tasks, 0_u64, false);
        for Kind { supply, .. } in &self.kinds {
            if demand.slots_of(supply) > 0 {
                there = there.saturating_add(supply.there.into());
                others |= !supply.is_waste_for(demand);
            }
        }
        // Who needs no GPU takes one only where nothing else could ever run it.
        let may_use = |supply: &Supply| !(others && supply.is_waste_for(demand));
        // Those that are there may be busy with other things for long: one more may always come.
        let mut pilots = demand.most_pilots.saturating_sub(there).max(1);
        for kind in self.kinds.iter_mut().filter(|kind| kind.coming > 0 && may_use(kind.supply)) {
            let slots = demand.slots_of(kind.supply);
            let taken = take(&mut kind.coming, slots, tasks);
            tasks -= taken;
            pilots = pilots.saturating_sub(taken.div_ceil(slots.max(1)));
        }
        for kind in &mut self.kinds {
            if tasks == 0 {
                break;
            }
            let supply = kind.supply;
            if kind.room == 0 && kind.stuck == 0 || !may_use(supply) {
                continue;
            }
            let slots = demand.slots_of(supply);
            if slots == 0 {
                continue;
            }
            let taken = take(&mut kind.stuck, slots, tasks);
            tasks -= taken;
            pilots = pilots.saturating_sub(taken.div_ceil(slots));
            let Some(site) = self.sites.get_mut(supply.site) else { continue };
            let wanted = tasks.div_ceil(slots).min(pilots);
            let new = u32::try_from(wanted.div_ceil(supply.each())).unwrap_or(u32::MAX);
            let new = new.min(site.allocations).min(kind.room);
            site.allocations -= new;
            kind.ask(new);
            pilots = pilots.saturating_sub(u64::from(new).saturating_mul(supply.each()));
            tasks -= take(&mut kind.coming, slots, tasks);
        }
        tasks
    }

    fn end(self, left: Vec<u64>) -> Matched {
        let mut matched =
            Matched { asks: vec![0; self.kinds.len()], surplus: vec![0; self.kinds.len()], left };
        for kind in self.kinds {
            // What was asked for just now is not given back just now.
            let known = kind.supply.coming.saturating_add(kind.supply.stuck);
            let unused = (kind.coming / PILOT + kind.stuck / PILOT).min(known.into());
            if let Some(asks) = matched.asks.get_mut(kind.at) {
                *asks = kind.asks;
            }
            if let Some(surplus) = matched.surplus.get_mut(kind.at) {
                *surplus = u32::try_from(unused / kind.supply.each()).unwrap_or(u32::MAX);
            }
        }
        matched
    }
}

impl<'a> Kind<'a> {
    fn of((at, supply): (usize, &'a Supply)) -> Self {
        let millionths = |count: u32| u64::from(count) * PILOT;
        let (coming, stuck) = (millionths(supply.coming), millionths(supply.stuck));
        Kind { at, supply, coming, stuck, room: supply.room, asks: 0 }
    }

    /// They count as coming from now on.
    fn ask(&mut self, allocations: u32) {
        self.room = self.room.saturating_sub(allocations);
        self.asks = self.asks.saturating_add(allocations);
        let pilots = u64::from(allocations).saturating_mul(self.supply.each());
        self.coming = self.coming.saturating_add(pilots.saturating_mul(PILOT));
    }
}

/// Puts as many tasks as fit onto pilots, each with so many slots; how many those are.
fn take(left: &mut u64, slots: u64, tasks: u64) -> u64 {
    if slots == 0 || *left == 0 || tasks == 0 {
        return 0;
    }
    let each = PILOT.div_ceil(slots);
    // A part of a task is a whole one, and of a whole pilot no slot is lost to rounding.
    let (whole, part) = (*left / PILOT, *left % PILOT);
    let fitting = whole.saturating_mul(slots).saturating_add(part / each);
    let taken = tasks.min(fitting);
    let used = (taken / slots).saturating_mul(PILOT).saturating_add(taken % slots * each);
    *left = left.saturating_sub(used);
    taken
}

#[cfg(test)]
mod tests;
