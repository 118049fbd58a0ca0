//! Ten thousand nodes of twelve kinds, as large sites have them: old and new GPUs, and none.

use shipway_core::Event;
use shipway_core::State;
use shipway_core::command::PilotJoined;
use shipway_core::event::Joined;
use shipway_core::evolve::evolve;
use shipway_model::{
    Bytes, Capacity, ConnectionNumber, Cores, DeviceId, GpuDevice, GpuSource, GpuVendor, NodeAd,
    NodeName, PilotId, Timestamp,
};
use std::collections::BTreeMap;

pub const GB: u64 = 1_000_000_000;

#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub cpus: u64,
    pub memory_gb: u64,
    pub gpus: u32,
    pub model: &'static str,
    pub gpu_memory_gb: u64,
    /// How many of a hundred nodes are of this kind.
    pub percent: u32,
}

const fn kind(
    cpus: u64,
    memory_gb: u64,
    gpus: u32,
    model: &'static str,
    gpu_memory_gb: u64,
    percent: u32,
) -> Kind {
    Kind { cpus, memory_gb, gpus, model, gpu_memory_gb, percent }
}

pub const KINDS: [Kind; 12] = [
    kind(16, 64, 0, "", 0, 15),
    kind(32, 128, 0, "", 0, 15),
    kind(64, 256, 0, "", 0, 10),
    kind(128, 512, 0, "", 0, 10),
    kind(32, 128, 1, "Tesla T4", 16, 8),
    kind(48, 192, 2, "Tesla V100", 32, 8),
    kind(48, 384, 4, "Tesla V100", 32, 6),
    kind(64, 512, 4, "NVIDIA A100", 40, 8),
    kind(128, 1_024, 8, "NVIDIA A100", 80, 8),
    kind(96, 1_024, 4, "NVIDIA L40S", 48, 6),
    kind(192, 2_048, 8, "NVIDIA H100", 80, 4),
    kind(224, 2_048, 8, "NVIDIA H200", 141, 2),
];

/// The kind of the node at this place, so that any stretch of nodes is mixed like the whole.
pub fn kind_at(node: u32) -> Kind {
    let mut rest = node.wrapping_mul(37) % 100;
    for kind in KINDS {
        if rest < kind.percent {
            return kind;
        }
        rest -= kind.percent;
    }
    KINDS[0]
}

pub fn pilot(node: u32) -> PilotId {
    PilotId::new(&format!("p{node}")).expect("a good id")
}

pub fn ad(node: u32, kind: Kind) -> NodeAd {
    let device = |at: u32| GpuDevice {
        id: DeviceId::new(&format!("GPU-{node}-{at}")).expect("a good id"),
        model: kind.model.into(),
        memory: Bytes(kind.gpu_memory_gb * GB),
        vendor: GpuVendor::Nvidia,
        source: GpuSource::Declared,
        capability: None,
        driver: None,
        slice: None,
    };
    NodeAd {
        node: NodeName::new(&format!("n{node}")).expect("a good name"),
        capacity: Capacity {
            cpus: Cores::whole(kind.cpus),
            memory: Bytes(kind.memory_gb * GB),
            disk: Bytes(1_000 * GB),
            ..Capacity::default()
        },
        gpus: (0..kind.gpus).map(device).collect(),
        notes: Vec::new(),
        unfit: Vec::new(),
        withheld: Vec::new(),
        people: None,
        attributes: BTreeMap::new(),
    }
}

pub fn join(state: &mut State, node: u32, kind: Kind) {
    let from = PilotJoined {
        pilot: pilot(node),
        connection: ConnectionNumber(1),
        ad: ad(node, kind),
        lease: None,
        held: Vec::new(),
        folder: None,
    };
    let joined = Event::PilotJoined(Box::new(Joined::new(&from, Vec::new(), Vec::new())));
    evolve(state, Timestamp(1), &joined);
}
