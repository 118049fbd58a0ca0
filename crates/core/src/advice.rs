//! Which advice an attempt deserves, by what it used, what it asked for and what there is here.
//!
//! Rules, in order: the first that holds is said, and nothing where none does. What would have
//! ended it, or spoilt its results, comes first; then what was given and not used, by what it costs
//! others: GPUs, memory, processors. Nothing is said of what was looked at too seldom, and nothing
//! is proposed that no node here has. Docs: `docs/usage.md`.

use crate::state::State;
use shipway_model::gpu::Span;
use shipway_model::usage::{WHOLE, part_of};
use shipway_model::{
    Advice, Bytes, Cores, GpuRequest, GpuShare, Millis, Outcome, Resources, Usage,
};

/// Shorter than this, or looked at less often, an attempt has hardly begun. A look at an H200 takes
/// up to 15 ms of a processor, so that a pilot that keeps its own bound takes some 24 of them in
/// this time: asking for more would say nothing to anybody.
pub const ENOUGH_MS: u64 = 120_000;
pub const ENOUGH_LOOKS: u64 = 15;

/// Below this a GPU that was given whole has room for others.
const LOW_GPU: u64 = WHOLE / 2;
/// What is proposed leaves so much room above what was used, in ten-thousandths: peaks differ from
/// one run to the next.
const ROOM: u64 = 12_500;
/// The same for how busy a part of a GPU may be: half as much again.
const BUSY_ROOM: u64 = 15_000;
/// So close to its limit the next run may be over it.
const NEAR: u64 = 9_500;
/// Waiting so long for storage is worth a word where a GPU idles meanwhile, and where there is
/// none.
const WAITED_WITH_GPU: u64 = 3_000;
const WAITED: u64 = 4_000;
/// All its cores are busy.
const ALL_CORES: u64 = 9_000;
/// A GPU does nothing but move data.
const MEMORY_BUSY: u64 = 7_000;
const GPU_FULL: u64 = 9_000;
/// Memory and cores of which so little is used could be somebody else's; below the amounts nobody
/// would notice.
const UNUSED_MEMORY: u64 = WHOLE / 4;
const SMALL_MEMORY: u64 = 4_000_000_000;
const UNUSED_CORES: u64 = WHOLE / 2;
const FEW_CORES_MILLI: u64 = 2_000;

/// Shares that are proposed.
const SHARES: [u32; 5] = [1_000, 2_000, 2_500, 5_000, 7_500];
/// A slice `3g.40gb` has three of so many parts.
const SLICE_PARTS: u64 = 7;

/// What nodes here have that a task could ask for instead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offers {
    /// Profiles of slices, with the memory of one.
    pub slices: Vec<(String, Bytes)>,
    /// There is a whole device that shares could be given of.
    pub shares: bool,
}

impl Offers {
    /// Of nodes that are there now, for whoever asked for this. The memory that was asked for is
    /// left aside: what was used is known by now.
    pub fn of(state: &State, asked: &GpuRequest) -> Offers {
        let mut offers = Offers::default();
        let mut any = GpuRequest { memory: Span::default(), ..asked.clone() };
        for gpu in state.pilots().values().flat_map(|pilot| &pilot.ad.gpus) {
            any.slice.clone_from(&gpu.slice);
            if !any.matches(gpu) {
                continue;
            }
            match &gpu.slice {
                None => offers.shares = true,
                Some(slice) if offers.slices.iter().any(|(known, _)| known == slice) => {}
                Some(slice) => offers.slices.push((slice.clone(), gpu.memory)),
            }
        }
        offers.slices.sort_by_key(|(name, memory)| (*memory, name.clone()));
        offers
    }
}

/// One attempt that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    pub asked: &'a Resources,
    pub usage: &'a Usage,
    pub outcome: &'a Outcome,
}

/// The advice, if there is any. Offers are looked for only where they are needed: that takes as
/// long as there are nodes.
pub fn advise(case: &Case<'_>, offers: impl FnOnce(&GpuRequest) -> Offers) -> Option<Advice> {
    case.trouble().or_else(|| {
        // A task that was stopped, lost or that failed early has not shown what it needs.
        let is_whole = matches!(
            case.outcome,
            Outcome::Exit { .. } | Outcome::TimedOut { .. } | Outcome::Cancelled
        );
        let usage = case.usage;
        let is_enough = usage.wall_ms.is_some_and(|wall| wall >= ENOUGH_MS)
            && usage.looks.is_some_and(|looks| looks >= ENOUGH_LOOKS);
        if !is_whole || !is_enough {
            return None;
        }
        let near = case.near_memory();
        near.or_else(|| case.of_gpus(offers)).or_else(|| case.of_node())
    })
}

impl Case<'_> {
    /// What needs no sample.
    fn trouble(&self) -> Option<Advice> {
        match self.outcome {
            Outcome::OutOfMemory { on_gpu: true, .. } => {
                let share = self.asked.gpu.as_ref().map(|gpu| gpu.share)?;
                let ask = GpuShare(share.0.saturating_mul(2).min(GpuShare::WHOLE.0));
                Some(Advice::OutOfGpuMemory { share, ask })
            }
            Outcome::OutOfMemory { limit, used, .. } => {
                let seen = used.map_or(0, |used| used.0).max(self.usage.memory.unwrap_or(0));
                let seen = seen.max(limit.map_or(0, |limit| limit.0));
                let ask = rounded(grown(seen, BUSY_ROOM));
                (seen > 0).then_some(Advice::OutOfMemory { asked: *limit, ask })
            }
            Outcome::Exit { .. }
            | Outcome::Signal { .. }
            | Outcome::TimedOut { .. }
            | Outcome::NotStarted { .. }
            | Outcome::OutputsFailed { .. }
            | Outcome::Lost { .. }
            | Outcome::Cancelled => {
                let errors = self.usage.ecc_errors.filter(|errors| *errors > 0)?;
                Some(Advice::GpuErrors { errors })
            }
        }
    }

    fn over(&self) -> Millis {
        Millis(self.usage.wall_ms.unwrap_or(0))
    }

    fn near_memory(&self) -> Option<Advice> {
        let (asked, used) = (self.asked.memory, Bytes(self.usage.memory?));
        let is_near = asked.0 > 0 && part_of(used.0, asked.0) >= NEAR;
        let ask = rounded(grown(used.0, ROOM));
        is_near.then_some(Advice::NearMemory { asked, used, ask })
    }

    fn of_gpus(&self, offers: impl FnOnce(&GpuRequest) -> Offers) -> Option<Advice> {
        let asked = self.asked.gpu.as_ref()?;
        let (usage, over) = (self.usage, self.over());
        let (gpus, busy) = (usage.gpus.filter(|gpus| *gpus > 0)?, usage.gpu_busy?);
        let idle = usage.gpus_idle.unwrap_or(0);
        if idle > 0 {
            return Some(Advice::GpusUnused { gpus, idle, over });
        }
        // Of a share the same part counts as of a whole one.
        let share = u64::from(asked.share.0);
        if part_of(busy, share) < LOW_GPU {
            let cause = self.waited(WAITED_WITH_GPU, Some(busy)).or_else(|| self.few_cores(busy));
            return cause.or_else(|| {
                if gpus == 1 {
                    return self.smaller_gpu(asked, busy, &offers(asked));
                }
                let ask = grown(gpus.saturating_mul(busy), BUSY_ROOM).div_ceil(WHOLE).max(1);
                (ask < gpus).then_some(Advice::FewerGpus { gpus, busy, over, ask })
            });
        }
        let memory_busy = usage.gpu_memory_busy.filter(|memory| *memory >= MEMORY_BUSY)?;
        (busy >= GPU_FULL).then_some(Advice::GpuMemoryBound { busy, memory_busy })
    }

    fn waited(&self, least: u64, gpu_busy: Option<u64>) -> Option<Advice> {
        let part = part_of(self.usage.waited_ms?, self.usage.wall_ms?);
        (part >= least).then_some(Advice::Waited { part, gpu_busy })
    }

    /// What its processes took on average.
    fn cores_used(&self) -> Option<Cores> {
        let wall = self.usage.wall_ms.filter(|wall| *wall > 0)?;
        Some(Cores { milli: self.usage.cpu_ms?.saturating_mul(1_000) / wall })
    }

    fn few_cores(&self, gpu_busy: u64) -> Option<Advice> {
        let asked = self.asked.cpus;
        let is_full = part_of(self.cores_used()?.milli, asked.milli) >= ALL_CORES;
        (is_full && asked.milli > 0).then_some(Advice::FewCores { asked, gpu_busy })
    }

    fn smaller_gpu(&self, asked: &GpuRequest, busy: u64, offers: &Offers) -> Option<Advice> {
        let (used, of) = (self.usage.gpu_memory?, self.usage.gpu_memory_of?);
        let wanted = (grown(busy, BUSY_ROOM), grown(used, ROOM));
        let slice = offers.slices.iter().find(|(name, memory)| {
            let parts = parts_of(name).saturating_mul(WHOLE) / SLICE_PARTS;
            *memory >= Bytes(wanted.1) && memory.0 < of && parts >= wanted.0
        });
        let slice = slice.map(|(name, _)| name.clone());
        let part = part_of(wanted.1, of).max(wanted.0);
        let fits = |share: &&u32| u64::from(**share) >= part && **share < asked.share.0;
        let share = SHARES.iter().find(fits).filter(|_| offers.shares && asked.slice.is_none());
        let share = share.map(|share| GpuShare(*share));
        let over = self.over();
        let (used, of) = (Bytes(used), Bytes(of));
        let some = slice.is_some() || share.is_some();
        some.then_some(Advice::SmallerGpu { busy, used, of, over, slice, share })
    }

    fn of_node(&self) -> Option<Advice> {
        let waits = self.asked.gpu.is_none();
        let waited = if waits { self.waited(WAITED, None) } else { None };
        waited.or_else(|| self.unused_memory()).or_else(|| self.unused_cores())
    }

    fn unused_memory(&self) -> Option<Advice> {
        let (asked, used) = (self.asked.memory, Bytes(self.usage.memory?));
        let is_little = asked.0 >= SMALL_MEMORY && part_of(used.0, asked.0) <= UNUSED_MEMORY;
        let ask = rounded(grown(used.0, ROOM));
        is_little.then_some(Advice::MemoryUnused { asked, used, ask })
    }

    fn unused_cores(&self) -> Option<Advice> {
        let (asked, used) = (self.asked.cpus, self.cores_used()?);
        let is_little =
            asked.milli >= FEW_CORES_MILLI && part_of(used.milli, asked.milli) <= UNUSED_CORES;
        let ask = grown(used.milli, ROOM).div_ceil(1_000).max(1);
        let is_less = ask.saturating_mul(1_000) < asked.milli;
        (is_little && is_less).then_some(Advice::CoresUnused { asked, used, ask })
    }
}

fn grown(value: u64, by: u64) -> u64 {
    let grown = u128::from(value) * u128::from(by) / u128::from(WHOLE);
    u64::try_from(grown).unwrap_or(u64::MAX)
}

/// Up to what people would write: whole gigabytes, and below two of them 100 MB.
fn rounded(bytes: u64) -> Bytes {
    let unit = if bytes < 2_000_000_000 { 100_000_000 } else { 1_000_000_000 };
    Bytes(bytes.div_ceil(unit).max(1).saturating_mul(unit))
}

/// The 3 of `3g.40gb` and of `1c.3g.40gb`.
fn parts_of(profile: &str) -> u64 {
    let mut words = profile.split('.').filter_map(|word| word.strip_suffix('g'));
    words.next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
