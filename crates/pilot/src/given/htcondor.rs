//! What HTCondor says it gave: the machine ad of the slot, and the job's environment. Pure.
//!
//! Ids of devices are short (`GPU-a0223334`): the beginning of a UUID. A slot without GPUs has the
//! number 10000 where devices are named, so that programs find none.

use super::devices::{Device, Resolved, quoted, words};
use super::{Facts, Learned, MachineAd, Said};
use shipway_model::units::{Bytes, Cores};

const ASSIGNED: &str = "_CONDOR_AssignedGPUs";
const CUDA: &str = "CUDA_VISIBLE_DEVICES";
pub(super) const MACHINE_AD: &str = "_CONDOR_MACHINE_AD";

/// Any of these is there in every job.
const MARKS: [&str; 3] = [MACHINE_AD, "_CONDOR_SLOT", "_CONDOR_SCRATCH_DIR"];

pub(super) const VARIABLES: [&str; 4] =
    [MACHINE_AD, "_CONDOR_SLOT", "_CONDOR_SCRATCH_DIR", ASSIGNED];

const IN_AD: &str = "the machine ad";
const AD_GPUS: &str = "AssignedGPUs of the machine ad";

pub(super) fn read(facts: &Facts, found: &[Device]) -> Said {
    let mut said = Said::default();
    if MARKS.iter().all(|name| facts.get(name).is_none()) {
        said.devices = Resolved::none("no job");
        said.unfit.push("this is not in a job of HTCondor's: there is no _CONDOR_SLOT".into());
        return said;
    }
    let none = MachineAd::default();
    let ad = match &facts.machine_ad {
        Some(Ok(ad)) => ad,
        Some(Err(why)) => {
            said.unfit.push(format!("what HTCondor gave cannot be known: {why}"));
            &none
        }
        None => {
            said.unfit.push(format!("what HTCondor gave cannot be known: no {MACHINE_AD}"));
            &none
        }
    };
    let scaled = |amount: Option<u64>, unit: u64| {
        let value = Bytes(amount?.saturating_mul(unit));
        Some(Learned { value, from: IN_AD })
    };
    let cores = |count: u64| Cores { milli: count.saturating_mul(1_000) };
    said.cpus = ad.cpus.map(|count| Learned { value: cores(count), from: IN_AD });
    said.memory = scaled(ad.memory_mib, 1 << 20);
    said.disk = scaled(ad.disk_kib, 1 << 10);
    said.devices = devices(facts, ad.gpus.as_deref(), found, &mut said.notes);
    said
}

fn devices(
    facts: &Facts,
    in_ad: Option<&str>,
    found: &[Device],
    notes: &mut Vec<String>,
) -> Resolved {
    let by_name = |name: &'static str| Some((name, facts.get(name)?));
    let said = by_name(ASSIGNED).or(in_ad.map(|text| (AD_GPUS, text))).or(by_name(CUDA));
    let Some((from, text)) = said else {
        return Resolved::none("no _CONDOR_AssignedGPUs");
    };
    let Ok(read) = words(text) else {
        notes.push(format!("{from} is {}, which names no devices", quoted(text)));
        return Resolved::none(from);
    };
    let found: Vec<&Device> = found.iter().collect();
    Resolved::of(&read, from, &found, None)
}
