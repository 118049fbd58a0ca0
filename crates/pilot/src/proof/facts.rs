//! What was found on a node, as plain data: the ground on which `judge` stands. Nothing here looks
//! at anything.

use crate::hanging::Hanging;
use shipway_model::gpu::Version;
use shipway_model::{GpuDevice, Millis, People, Timestamp};
use shipway_runtime::cgroup::Delegation;
use shipway_runtime::runtime::Finding;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Facts {
    pub node: NodeFacts,
    pub tried: TriedFacts,
    /// How tasks of different people are kept apart here.
    pub people: People,
    /// The same as the pilot says that runs here now, where one does.
    pub people_now: Option<People>,
    pub image: Option<ImageFact>,
}

/// What a look is enough for.
#[derive(Debug, Clone)]
pub struct NodeFacts {
    pub work: FolderFact,
    pub images: FolderFact,
    pub clock: ClockFact,
    /// How many processes and threads there can be, of this user or on the whole node.
    pub processes: u64,
    /// What tasks left that is not for a program to remove.
    pub kept: Option<KeptFact>,
    /// What was killed and does not die.
    pub hanging: Vec<Hanging>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFact {
    pub path: PathBuf,
    /// How many tasks it is of.
    pub count: usize,
}

/// What has to be tried, and takes its time.
#[derive(Debug, Clone)]
pub struct TriedFacts {
    pub containers: ContainerFacts,
    pub gpus: Vec<GpuFact>,
    /// What NVML said instead of an answer.
    pub gpu_faults: Vec<String>,
    /// Places on the bus of NVIDIA cards, whether or not a driver knows them.
    pub nvidia_cards: Vec<String>,
    /// The CUDA version the driver speaks.
    pub cuda: Option<Version>,
}

/// A folder that something is written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderFact {
    pub path: PathBuf,
    /// Why it cannot be used, the act and the cause.
    pub problem: Option<String>,
    /// Bytes that are free for us.
    pub free: Option<u64>,
    /// Bytes without which it should get no tasks.
    pub least: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockFact {
    pub wall: Timestamp,
    /// How far the wall clock moved against the steady one while we looked.
    pub jumped: Millis,
    pub server: Option<ServerFact>,
}

/// The server that this machine's commands would talk to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFact {
    pub url: String,
    /// Its wall clock, to the second, and ours at that moment; or why there was no answer.
    pub clock: Result<(Timestamp, Timestamp), String>,
}

#[derive(Debug, Clone)]
pub struct ContainerFacts {
    /// What the runtime says of itself: one was started, or why not.
    pub findings: Vec<Finding>,
    pub overlay: Overlay,
    pub switches: Vec<Switch>,
    pub delegation: Delegation,
    /// What the kernel can do to a refused call; `None` without filters.
    pub seccomp: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Overlay {
    Works,
    /// Refused, and the way without overlays works.
    Refused(String),
    /// It could not be told.
    Unknown(String),
}

/// A setting of the kernel by which nodes refuse user namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    pub name: String,
    pub value: String,
    pub refuses: bool,
}

#[derive(Debug, Clone)]
pub struct GpuFact {
    /// `GPU 0`.
    pub name: String,
    pub device: GpuDevice,
    /// `None`: not tried.
    pub kernel: Option<KernelFact>,
    /// Its files in `/dev`: which of them cannot be opened, and why.
    pub unusable: Vec<String>,
    pub inside: Option<InsideFact>,
}

/// What became of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelFact {
    Right { numbers: u32, cuda: i32 },
    Wrong { at: u32, wanted: u32, found: u32 },
    Refused { call: String, error: String },
    NoLibrary { message: String },
    Crashed { signal: i32 },
    Late { within: Duration },
    Silent { code: i32 },
    NotTried { message: String },
}

/// Device files of GPUs in a container that was given one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InsideFact {
    pub wanted: Vec<PathBuf>,
    pub seen: Result<Vec<PathBuf>, String>,
}

/// An image that somebody named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFact {
    pub reference: String,
    pub answer: Result<String, String>,
}
