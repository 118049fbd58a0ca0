//! What a pilot that was started inside an allocation has been given of its node, and no more.
//!
//! ```text
//! facts     the environment, the machine ad, affinity, control groups: gathered once
//! slurm, htcondor   facts → what that batch system says it gave
//! devices   names of devices as batch systems write them → devices that were found
//! ```
//!
//! `decide` is pure: from what was found, those facts and what the site says on the command line,
//! to what may be offered. Where they disagree a note says so; where nothing sane is left the node
//! is not fit. What was not given is not spoken of: it is others'.
//!
//! Without a batch system and without bounds nothing here has a say.

mod devices;
mod facts;
mod htcondor;
mod slurm;

pub use devices::Device;
pub use facts::{Facts, MachineAd};

use crate::probe::Probe;
use devices::Resolved;
use shipway_model::units::{Bytes, Cores};
use shipway_model::{DeviceId, GpuSource, GpuVendor};
use shipway_runtime::gpu::Assigned;
use std::fmt;
use std::str::FromStr;

/// Whose allocation the pilot was started in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Within {
    #[default]
    None,
    Slurm,
    HtCondor,
}

impl FromStr for Within {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Within::None),
            "slurm" => Ok(Within::Slurm),
            "htcondor" => Ok(Within::HtCondor),
            _ => Err("slurm, htcondor or none".into()),
        }
    }
}

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Within::None => "none",
            Within::Slurm => "Slurm",
            Within::HtCondor => "HTCondor",
        })
    }
}

/// What the site says on the command line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asked {
    pub within: Within,
    /// No more than this is offered, whatever there is.
    pub cpus: Option<Cores>,
    pub memory: Option<Bytes>,
    pub gpus: Option<usize>,
    /// What the allocation was asked for with: less of it is a finding.
    pub expect_gpus: Option<usize>,
}

/// What was found, as far as it matters here.
#[derive(Debug, Clone, Default)]
pub struct Found {
    pub cpus: Cores,
    pub memory: Bytes,
    pub disk: Bytes,
    /// In the order in which the node's own tools count them, declared ones behind.
    pub gpus: Vec<Device>,
    /// They were declared, so what this process may use says nothing about them.
    pub cpus_declared: bool,
    pub memory_declared: bool,
}

/// An amount, and where it was learned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learned<T> {
    pub value: T,
    pub from: &'static str,
}

/// What the pilot may offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub cpus: Learned<Cores>,
    pub memory: Learned<Bytes>,
    pub disk: Learned<Bytes>,
    pub gpus: Learned<Vec<DeviceId>>,
    pub notes: Vec<String>,
    pub unfit: Vec<String>,
    /// Every device that the batch system named was found.
    all_found: bool,
    /// Declared devices by what the batch system calls them.
    renamed: Vec<(DeviceId, DeviceId)>,
}

/// What a batch system says, read but not yet compared with what was found.
#[derive(Debug, Default)]
struct Said {
    cpus: Option<Learned<Cores>>,
    memory: Option<Learned<Bytes>>,
    disk: Option<Learned<Bytes>>,
    devices: Resolved,
    notes: Vec<String>,
    unfit: Vec<String>,
}

const MACHINE: &str = "the machine";
const DECLARED: &str = "the declaration";
const AFFINITY: &str = "the affinity of this process";
const GROUP: &str = "its control group";

impl Asked {
    /// Whether anything is to be decided at all.
    pub fn is_anything(&self) -> bool {
        *self != Asked::default()
    }
}

/// What may be offered.
pub fn decide(asked: &Asked, facts: &Facts, found: &Found) -> Given {
    let said = match asked.within {
        Within::None => Said { devices: Resolved::all(&found.gpus), ..Said::default() },
        Within::Slurm => slurm::read(facts, &found.gpus),
        Within::HtCondor => htcondor::read(facts, &found.gpus),
    };
    let Said { cpus, memory, disk, devices, mut notes, mut unfit } = said;
    let here = usable_cpus(facts, found);
    if asked.within != Within::None && unfit.is_empty() && cpus.is_none() {
        let (can, by) = (here.value, here.from);
        notes.push(format!(
            "the batch system does not say how many cores it gave; {can} can be used ({by})"
        ));
    }
    let cpus = settle("cores", cpus, here, &mut notes);
    let memory = settle("of memory", memory, usable_memory(facts, found), &mut notes);
    let on_disk = Learned { value: found.disk, from: MACHINE };
    let disk = disk.filter(|given| given.value < found.disk).unwrap_or(on_disk);
    let mut gpus = Learned { value: devices.given, from: devices.from };
    notes.extend(devices.notes);
    let most = asked.gpus.unwrap_or(usize::MAX);
    if gpus.value.len() > most {
        gpus.value.truncate(most);
        gpus.from = "--gpus";
    }
    expect(asked, &gpus, &mut notes, &mut unfit);
    let cpus = bound(cpus, asked.cpus, "--cpus");
    let memory = bound(memory, asked.memory, "--memory");
    if cpus.value == Cores::default() {
        unfit.push(format!("no core is left of what was given ({})", cpus.from));
    }
    if memory.value == Bytes(0) {
        unfit.push(format!("no memory is left of what was given ({})", memory.from));
    }
    let Resolved { all_found, renamed, .. } = devices;
    Given { cpus, memory, disk, gpus, notes, unfit, all_found, renamed }
}

/// The processors this process can use, by the narrowest that holds it; of equal ones the first.
fn usable_cpus(facts: &Facts, found: &Found) -> Learned<Cores> {
    if found.cpus_declared {
        return Learned { value: found.cpus, from: DECLARED };
    }
    let affinity = facts.affinity.map(|value| Learned { value, from: AFFINITY });
    let quota = facts.cpu_quota.map(|value| Learned { value, from: GROUP });
    let machine = Learned { value: found.cpus, from: MACHINE };
    let known = affinity.into_iter().chain(quota).filter(|one| one.value <= machine.value);
    known.min_by_key(|one| one.value).unwrap_or(machine)
}

fn usable_memory(facts: &Facts, found: &Found) -> Learned<Bytes> {
    match facts.memory_limit.filter(|limit| *limit <= found.memory) {
        _ if found.memory_declared => Learned { value: found.memory, from: DECLARED },
        Some(limit) => Learned { value: limit, from: GROUP },
        None => Learned { value: found.memory, from: MACHINE },
    }
}

/// Batch systems count a little differently from the kernel: a difference of a sixteenth is none.
const SLACK_PARTS: u64 = 16;

trait Amount: Copy + Ord + fmt::Display {
    fn number(self) -> u64;
}

impl Amount for Cores {
    fn number(self) -> u64 {
        self.milli
    }
}

impl Amount for Bytes {
    fn number(self) -> u64 {
        self.0
    }
}

/// The smaller of what was given and what can be used. That more was given than can be used is a
/// finding; that less was is the rule.
fn settle<T: Amount>(
    what: &str,
    given: Option<Learned<T>>,
    here: Learned<T>,
    notes: &mut Vec<String>,
) -> Learned<T> {
    let Some(given) = given else { return here };
    if given.value <= here.value {
        return given;
    }
    let more = given.value.number() - here.value.number();
    if more > given.value.number() / SLACK_PARTS {
        let (wanted, found) = (given.value, here.value);
        let (from, by) = (given.from, here.from);
        notes.push(format!(
            "the batch system gave {wanted} {what} ({from}), and {found} can be used ({by})"
        ));
    }
    here
}

fn bound<T: Ord>(of: Learned<T>, most: Option<T>, from: &'static str) -> Learned<T> {
    match most {
        Some(most) if most < of.value => Learned { value: most, from },
        _ => of,
    }
}

/// Without a single one of the GPUs that it was asked for an allocation is worth nothing to those
/// who wait for it, and would hide it behind tasks that need none.
fn expect(
    asked: &Asked,
    gpus: &Learned<Vec<DeviceId>>,
    notes: &mut Vec<String>,
    unfit: &mut Vec<String>,
) {
    let Some(wanted) = asked.expect_gpus else { return };
    let found = gpus.value.len();
    let gpus_of = |count: usize| if count == 1 { "1 GPU".into() } else { format!("{count} GPUs") };
    let text = |found: &str| format!("asked for {}, found {found}: {}", gpus_of(wanted), gpus.from);
    match found {
        _ if found == wanted => {}
        0 => unfit.push(text("none")),
        _ => notes.push(text(&found.to_string())),
    }
}

/// What was found, as `decide` wants it.
pub fn found(probe: &Probe, cpus_declared: bool, memory_declared: bool) -> Found {
    let device = |gpu: &shipway_model::GpuDevice| {
        let minor = match probe.nodes.get(gpu.id.as_str()) {
            Some(Assigned::Nvidia { minor, .. }) => Some(*minor),
            _ => None,
        };
        let is_amd = gpu.vendor == GpuVendor::Amd;
        let declared = gpu.source == GpuSource::Declared;
        Device { id: gpu.id.clone(), minor, is_amd, declared }
    };
    let gpus = probe.gpus.iter().map(device).collect();
    let has = &probe.capacity;
    let (cpus, memory, disk) = (has.cpus, has.memory, has.disk);
    Found { cpus, memory, disk, gpus, cpus_declared, memory_declared }
}

impl Given {
    /// Leaves in the probe what may be offered. What was wrong with GPUs of others is theirs.
    pub fn narrow(&self, probe: &mut Probe) {
        probe.capacity.cpus = self.cpus.value;
        probe.capacity.memory = self.memory.value;
        probe.capacity.disk = self.disk.value;
        for gpu in &mut probe.gpus {
            let renamed = self.renamed.iter().find(|(before, _)| *before == gpu.id);
            gpu.id = renamed.map_or(&gpu.id, |(_, name)| name).clone();
        }
        probe.gpus.retain(|gpu| self.gpus.value.contains(&gpu.id));
        let is_left = |id: &str| self.gpus.value.iter().any(|gpu| gpu.as_str() == id);
        probe.nodes.retain(|id, _| is_left(id));
        probe.notes.extend(self.notes.iter().cloned());
        if self.all_found {
            probe.gpu_faults.clear();
            probe.nvidia_cards.clear();
        }
    }

    /// For the log of whoever wonders.
    pub fn log(&self) {
        tracing::info!(
            cpus = %self.cpus.value, cpus_from = self.cpus.from,
            memory = %self.memory.value, memory_from = self.memory.from,
            disk = %self.disk.value, disk_from = self.disk.from,
            gpus = ?self.gpus.value, gpus_from = self.gpus.from,
            "what was given"
        );
        for note in self.notes.iter().chain(&self.unfit) {
            tracing::warn!("{note}");
        }
    }
}

#[cfg(test)]
mod tests;
