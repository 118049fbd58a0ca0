//! What Slurm says it gave, in the environment of a batch script or of a step. Pure.
//!
//! Seen with 22.05 (`tests.rs` has what was recorded):
//!
//! - In a step on another node than the script's `SLURM_JOB_GPUS` is still of the script's node:
//!   `srun` takes it along. `CUDA_VISIBLE_DEVICES` is always this node's, and is not there when no
//!   GPU was given.
//! - What the submitter had in their own environment comes along, from another job even:
//!   `SLURM_STEP_GPUS`, `SLURM_STEP_ID`, `SLURM_MEM_PER_NODE`. `CUDA_VISIBLE_DEVICES` does not.
//!
//! Not seen but documented: where devices are constrained by control groups,
//! `CUDA_VISIBLE_DEVICES` counts from 0 among the visible ones, and the other two are numbers of
//! files.

use super::devices::{Device, Resolved, Word, quoted, words};
use super::{Facts, Learned, Said};
use shipway_model::units::{Bytes, Cores};

const CUDA: &str = "CUDA_VISIBLE_DEVICES";
const ROCR: &str = "ROCR_VISIBLE_DEVICES";
const ORDINAL: &str = "GPU_DEVICE_ORDINAL";
const STEP_GPUS: &str = "SLURM_STEP_GPUS";
const JOB_GPUS: &str = "SLURM_JOB_GPUS";

pub(super) const VARIABLES: [&str; 15] = [
    "SLURM_JOB_ID",
    "SLURM_JOBID",
    "SLURM_CPUS_ON_NODE",
    "SLURM_JOB_CPUS_PER_NODE",
    "SLURM_NODEID",
    "SLURM_LOCALID",
    "SLURM_MEM_PER_NODE",
    "SLURM_MEM_PER_CPU",
    "SLURM_MEM_PER_GPU",
    CUDA,
    ROCR,
    ORDINAL,
    STEP_GPUS,
    JOB_GPUS,
    "SLURM_GPUS_ON_NODE",
];

/// Amounts of memory without a unit are in MiB.
const MIB: u64 = 1 << 20;

pub(super) fn read(facts: &Facts, found: &[Device]) -> Said {
    let mut said = Said::default();
    if facts.get("SLURM_JOB_ID").or_else(|| facts.get("SLURM_JOBID")).is_none() {
        said.devices = Resolved::none("no job");
        said.unfit.push("this is not in a job of Slurm's: there is no SLURM_JOB_ID".into());
        return said;
    }
    if let Some(other) = facts.number("SLURM_LOCALID", &mut said.notes).filter(|at| *at > 0) {
        said.unfit.push(format!(
            "another task of the same step on this node is a pilot already (SLURM_LOCALID is \
             {other}); start one on each node, with --ntasks-per-node=1"
        ));
    }
    said.cpus = cpus(facts, &mut said.notes);
    said.devices = devices(facts, found, &mut said.notes);
    let gpus = said.devices.given.len();
    said.memory = memory(facts, said.cpus.as_ref(), gpus, &mut said.notes);
    said
}

fn cpus(facts: &Facts, notes: &mut Vec<String>) -> Option<Learned<Cores>> {
    const ON_NODE: &str = "SLURM_CPUS_ON_NODE";
    const PER_NODE: &str = "SLURM_JOB_CPUS_PER_NODE";
    if let Some(count) = facts.number(ON_NODE, notes) {
        return Some(Learned { value: cores(count), from: ON_NODE });
    }
    let text = facts.get(PER_NODE)?;
    let node = facts.number("SLURM_NODEID", notes).unwrap_or(0);
    let count = of_node(text, node);
    if count.is_none() {
        notes.push(format!("{PER_NODE} is {}, which says nothing of this node", quoted(text)));
    }
    count.map(|count| Learned { value: cores(count), from: PER_NODE })
}

fn cores(count: u64) -> Cores {
    Cores { milli: count.saturating_mul(1_000) }
}

/// The number of the node of this position in `4(x2),2`.
pub(super) fn of_node(text: &str, node: u64) -> Option<u64> {
    let mut before = 0_u64;
    for part in text.split(',') {
        let (count, times) = match part.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse().ok()?),
            None => (part, 1_u64),
        };
        before = before.checked_add(times)?;
        if node < before {
            return count.trim().parse().ok();
        }
    }
    None
}

/// Slurm sets one of the three, and the submitter's environment may bring another: the smallest
/// cannot be too much. With 0, or none of them, memory is not what is shared out.
fn memory(
    facts: &Facts,
    cpus: Option<&Learned<Cores>>,
    gpus: usize,
    notes: &mut Vec<String>,
) -> Option<Learned<Bytes>> {
    let cpus = cpus.map_or(0, |cpus| cpus.value.milli / 1_000);
    let gpus = u64::try_from(gpus).unwrap_or(u64::MAX);
    let each =
        [("SLURM_MEM_PER_NODE", 1), ("SLURM_MEM_PER_CPU", cpus), ("SLURM_MEM_PER_GPU", gpus)];
    let mut amount = |(name, times): (&'static str, u64)| {
        let text = facts.get(name)?;
        let Some(bytes) = amount_of_memory(text) else {
            notes.push(format!("{name} is {}, which is not an amount of memory", quoted(text)));
            return None;
        };
        let value = Bytes(bytes.saturating_mul(times));
        (value > Bytes(0)).then_some(Learned { value, from: name })
    };
    each.into_iter().filter_map(&mut amount).min_by_key(|one| one.value)
}

/// `500`, `500M`, `4G`.
fn amount_of_memory(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(end)?;
    let unit = match unit {
        "" | "M" | "MB" => MIB,
        "K" | "KB" => 1 << 10,
        "G" | "GB" => 1 << 30,
        "T" | "TB" => 1 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

fn devices(facts: &Facts, found: &[Device], notes: &mut Vec<String>) -> Resolved {
    // Of AMD's, only those that were found by their own driver: declared ones are tried by the
    // variable that every job with GPUs has.
    let (amd, others): (Vec<&Device>, Vec<&Device>) =
        found.iter().partition(|device| device.is_amd && !device.declared);
    let (names, found): (&[&str], _) = if others.is_empty() && !amd.is_empty() {
        (&[ROCR, ORDINAL], amd)
    } else {
        (&[CUDA], others)
    };
    let set = names.iter().find_map(|name| Some((*name, facts.get(name)?)));
    let Some((name, text)) = set else {
        if !found.is_empty() {
            let count = found.len();
            notes.push(format!("Slurm gave none of the {count} GPUs of this node"));
        }
        return Resolved::none("no CUDA_VISIBLE_DEVICES");
    };
    let read = match words(text) {
        Ok(read) => read,
        Err(text) => {
            notes.push(format!("{name} is {text}, which names no devices"));
            return Resolved::none(from(name));
        }
    };
    let global = global(facts, &read);
    Resolved::of(&read, from(name), &found, global.as_deref())
}

fn from(name: &str) -> &'static str {
    [CUDA, ROCR, ORDINAL].into_iter().find(|known| *known == name).unwrap_or(CUDA)
}

/// The same devices by the numbers of their files, where those are known. One of the lists may be
/// of another node or another job: the one that says what is visible is right, and otherwise the
/// step's.
fn global(facts: &Facts, visible: &[Word]) -> Option<Vec<u32>> {
    let list = |name| numbers(&words(facts.get(name)?).ok()?);
    let visible = numbers(visible)?;
    let known: Vec<Vec<u32>> = [STEP_GPUS, JOB_GPUS].into_iter().filter_map(list).collect();
    if known.is_empty() || known.contains(&visible) {
        return Some(visible);
    }
    known.into_iter().find(|list| list.len() == visible.len())
}

fn numbers(words: &[Word]) -> Option<Vec<u32>> {
    let number = |word: &Word| match word {
        Word::Number(number) => Some(*number),
        Word::Id(_) => None,
    };
    words.iter().map(number).collect()
}
