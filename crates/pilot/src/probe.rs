//! What this node has: cores, memory, disk, GPUs.
//!
//! It reads and reports; it does not judge whether the node is fit, and nothing it cannot find is
//! an error: a node without NVML is a node without NVIDIA GPUs, and what went wrong on the way is
//! a note for whoever asks.

mod amd;
mod attributes;
mod declared;
mod nvidia;
mod slices;

pub use declared::{Declared, DeclaredError, DeclaredGpu};

use shipway_model::gpu::{GpuDevice, Version};
use shipway_model::node::Capacity;
use shipway_model::units::{Bytes, Cores};
use shipway_runtime::gpu::Assigned;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What was found, ready for the node's ad.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Probe {
    pub capacity: Capacity,
    pub gpus: Vec<GpuDevice>,
    /// The CUDA version the NVIDIA driver speaks.
    pub cuda: Option<Version>,
    /// Where a container finds each device, by its id. Declared ones are nowhere.
    pub nodes: BTreeMap<String, Assigned>,
    /// What else is known of the node, as ClassAd expressions by name.
    pub attributes: BTreeMap<String, String>,
    pub notes: Vec<String>,
    /// What was wrong with GPUs that should have answered.
    pub gpu_faults: Vec<String>,
    /// Places on the bus where NVIDIA cards are, with or without a driver.
    pub nvidia_cards: Vec<String>,
}

/// Where to look. Tests put a tree of their own in place of the system's.
#[derive(Debug, Clone)]
pub struct Places {
    /// Whose file system is the node's disk.
    pub dir: PathBuf,
    pub proc: PathBuf,
    pub sys: PathBuf,
    pub etc: PathBuf,
}

impl Places {
    pub fn of_this_node(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), proc: "/proc".into(), sys: "/sys".into(), etc: "/etc".into() }
    }
}

/// Looks at the node; what the site's file declares comes on top.
pub fn probe(places: &Places, declared: Option<Declared>) -> Probe {
    let mut notes = Vec::new();
    let capacity = capacity(places, &mut notes);
    let mut gpu_faults = Vec::new();
    let nvidia = nvidia::probe(&mut gpu_faults);
    let mut gpus = nvidia.gpus;
    let mut nodes = nvidia.nodes;
    for (gpu, node) in amd::probe(&places.sys, &mut notes) {
        nodes.extend(node.map(|node| (gpu.id.to_string(), node)));
        gpus.push(gpu);
    }
    let nvidia_cards = nvidia::cards(&places.sys);
    let cuda = nvidia.cuda;
    let attributes = attributes::of(places, cuda.as_ref());
    let mut probe =
        Probe { capacity, gpus, cuda, nodes, attributes, notes, gpu_faults, nvidia_cards };
    if let Some(declared) = declared {
        declared.apply(&mut probe);
    }
    probe
}

fn capacity(places: &Places, notes: &mut Vec<String>) -> Capacity {
    let cores = std::thread::available_parallelism().map_or_else(
        |error| {
            notes.push(format!("number of cores is unknown, taken as 1: {error}"));
            1
        },
        |cores| cores.get() as u64,
    );
    let memory = memory_bytes(places).unwrap_or_else(|| {
        notes.push(format!("cannot read the size of the memory in {}", places.proc.display()));
        0
    });
    let disk = rustix::fs::statvfs(&places.dir).map_or_else(
        |error| {
            notes.push(format!("free disk in {} is unknown: {error}", places.dir.display()));
            0
        },
        |disk| disk.f_bavail.saturating_mul(disk.f_frsize),
    );
    Capacity {
        cpus: Cores::whole(cores),
        memory: Bytes(memory),
        disk: Bytes(disk),
        ..Capacity::default()
    }
}

fn memory_bytes(places: &Places) -> Option<u64> {
    let total = total_memory(&places.proc)?;
    Some(cgroup_limit(places).map_or(total, |limit| limit.min(total)))
}

fn total_memory(proc: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(proc.join("meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The lowest memory limit of the control groups this process is in, of either version.
fn cgroup_limit(places: &Places) -> Option<u64> {
    let membership = std::fs::read_to_string(places.proc.join("self/cgroup")).ok()?;
    let mut lowest = None;
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let root = places.sys.join(root);
        // A limit on any group above binds too.
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let limit = std::fs::read_to_string(root.join(group).join(file)).ok();
            let limit = limit.and_then(|text| text.trim().parse::<u64>().ok());
            lowest = [lowest, limit].into_iter().flatten().min();
        }
    }
    lowest
}

/// The number of a slice's GPU instance, where NVML tells.
pub(crate) fn gpu_instance(slice: &nvml_wrapper::Device<'_>) -> Option<u32> {
    slices::instances(slice).map(|(gpu_instance, _)| gpu_instance)
}

#[cfg(test)]
mod tests;
