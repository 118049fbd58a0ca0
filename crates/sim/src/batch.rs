//! A simulated batch system: what was handed in to it, what it lets run and for how long it keeps
//! word of what is over. It answers like a real one: only to whoever asks, and by its own books.

use shipway_core::command::SeenAllocation;
use shipway_core::site::Phase;
use shipway_model::{AllocationEnd, AllocationId, PilotId, SiteSpec};
use std::collections::BTreeMap;
use std::ops::Range;

/// What is over is known for so long, as with Slurm.
const KEPT: u64 = 300_000;

/// What becomes of the pilots that are started there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Health {
    #[default]
    Works,
    /// Their nodes fail the proof.
    Unfit,
    /// They end with an error before they come.
    Fails,
    /// They come, and die after so many milliseconds.
    Dies(u64),
}

#[derive(Debug)]
pub struct BatchSystem {
    pub spec: SiteSpec,
    /// How many pilots of each class may run at a time; none where nothing is said.
    pub places: BTreeMap<String, u32>,
    pub health: Health,
    pub known: BTreeMap<AllocationId, HandedIn>,
    /// How many were ever handed in, by class.
    pub taken: BTreeMap<String, u32>,
}

#[derive(Debug, Clone)]
pub struct HandedIn {
    pub class: String,
    /// One on each of its nodes.
    pub pilots: Vec<PilotId>,
    /// Pilots that have ended, and whether any of them did so with an error.
    pub gone: usize,
    pub failed: bool,
    pub stands: Stands,
    /// In which order they came.
    pub number: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stands {
    Waits,
    /// On this node of the world, and as many after it as it has pilots.
    Runs(usize),
    Over(AllocationEnd, u64),
}

impl HandedIn {
    fn size(&self) -> u32 {
        u32::try_from(self.pilots.len()).unwrap_or(u32::MAX)
    }

    /// The nodes of the world that it has.
    pub fn nodes(&self) -> Range<usize> {
        let Stands::Runs(first) = self.stands else { return 0..0 };
        first..first + self.pilots.len()
    }
}

impl BatchSystem {
    pub fn new(spec: SiteSpec, places: &[(&str, u32)]) -> BatchSystem {
        let places = places.iter().map(|(class, count)| ((*class).to_owned(), *count));
        BatchSystem {
            spec,
            places: places.collect(),
            health: Health::Works,
            known: BTreeMap::new(),
            taken: BTreeMap::new(),
        }
    }

    /// Takes an allocation. One that it has already is not taken again: whoever hands in looks for
    /// its name first.
    pub fn take(&mut self, id: &AllocationId, class: &str, pilots: &[PilotId]) {
        if !self.known.contains_key(id) {
            let number = self.taken.values().map(|count| u64::from(*count)).sum();
            *self.taken.entry(class.to_owned()).or_default() += 1;
            let (class, pilots, stands) = (class.to_owned(), pilots.to_vec(), Stands::Waits);
            let handed_in = HandedIn { class, pilots, gone: 0, failed: false, stands, number };
            self.known.insert(id.clone(), handed_in);
        }
    }

    /// Those whose turn it is, the oldest first.
    pub fn due(&self) -> Vec<AllocationId> {
        let mut places = self.places.clone();
        for one in self.known.values().filter(|one| matches!(one.stands, Stands::Runs(_))) {
            if let Some(left) = places.get_mut(&one.class) {
                *left = left.saturating_sub(one.size());
            }
        }
        let mut waiting: Vec<_> =
            self.known.iter().filter(|(_, one)| one.stands == Stands::Waits).collect();
        waiting.sort_by_key(|(_, one)| one.number);
        let mut has_place = |one: &HandedIn| {
            let left = places.get_mut(&one.class).filter(|left| **left >= one.size());
            left.map(|left| *left -= one.size()).is_some()
        };
        let due = waiting.into_iter().filter(|(_, one)| has_place(one));
        due.map(|(id, _)| id.clone()).collect()
    }

    pub fn is_over(&mut self, id: &AllocationId, end: AllocationEnd, now: u64) {
        if let Some(one) = self.known.get_mut(id)
            && !matches!(one.stands, Stands::Over(..))
        {
            one.stands = Stands::Over(end, now);
        }
    }

    pub fn forget_old(&mut self, now: u64) {
        self.known.retain(|_, one| match one.stands {
            Stands::Over(_, at) => at + KEPT > now,
            Stands::Waits | Stands::Runs(_) => true,
        });
    }

    /// What its command prints of ours.
    pub fn seen(&self) -> Vec<SeenAllocation> {
        let seen = |(id, one): (&AllocationId, &HandedIn)| {
            let (phase, words) = match one.stands {
                Stands::Waits => (Phase::Queued, "PENDING (Resources)".to_owned()),
                Stands::Runs(_) => (Phase::Running, "RUNNING".to_owned()),
                Stands::Over(end, _) => (Phase::Ended(end), end.to_string()),
            };
            let engine_id = one.number.to_string();
            SeenAllocation { allocation: id.clone(), engine_id, phase, words }
        };
        self.known.iter().map(seen).collect()
    }

    pub fn waiting(&self) -> usize {
        self.known.values().filter(|one| one.stands == Stands::Waits).count()
    }

    /// Allocations of one class that were ever handed in.
    pub fn taken_of(&self, class: &str) -> u32 {
        self.taken.get(class).copied().unwrap_or(0)
    }
}
