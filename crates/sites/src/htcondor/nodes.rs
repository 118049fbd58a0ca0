//! What machines a pool has, from the ads of their slots. Pure. What is cut out of a slot for one
//! job is not asked for: the slot it was cut from says what it had before.

use super::ad::{Ad, read};
use super::jobs::node_of;
use super::words::cut;
use crate::batch::{EngineGpus, EngineNodes};
use shipway_model::{Bytes, Cores};
use std::collections::BTreeMap;

pub(super) const ATTRIBUTES: [&str; 25] = [
    "Name",
    "State",
    "PartitionableSlot",
    "NumDynamicSlots",
    "Offline",
    "Draining",
    "DrainReason",
    "Cpus",
    "Memory",
    "GPUs",
    "TotalSlotCpus",
    "TotalSlotMemory",
    "TotalSlotGPUs",
    "GPUs_DeviceName",
    "GPUs_Capability",
    "GPUs_GlobalMemoryMb",
    // As they were called before HTCondor 10.
    "CUDADeviceName",
    "CUDACapability",
    "CUDAGlobalMemoryMb",
    "Arch",
    "OpSysAndVer",
    "Microarch",
    "HasSIF",
    "HasSingularity",
    "HasDocker",
];

/// Slots whose GPUs are of more than one kind say so only GPU by GPU, under names that cannot be
/// asked for; each of their ads is some ten kilobytes.
const MAX_MIXED: u32 = 2_000;
/// To show, not to count.
const MAX_NAMES: usize = 8;
const MAX_DOWN: usize = 20;
const MIB: u64 = 1 << 20;

/// What is asked of all slots.
pub(super) fn command() -> Vec<String> {
    let attributes = ATTRIBUTES.join(",");
    let slots = "SlotType =!= \"Dynamic\"";
    let words = ["condor_status", "-json", "-attributes", &attributes, "-constraint", slots];
    words.map(String::from).to_vec()
}

/// What is asked of slots with GPUs that differ.
pub(super) fn command_mixed() -> Vec<String> {
    let slots = "SlotType =!= \"Dynamic\" && TotalSlotGPUs > 0 && GPUs_DeviceName is undefined";
    let limit = MAX_MIXED.to_string();
    let words = ["condor_status", "-json", "-limit", &limit, "-constraint", slots];
    words.map(String::from).to_vec()
}

/// The slots of an answer.
pub(super) fn slots(stdout: &[u8]) -> Result<Vec<Slot>, String> {
    Ok(read(stdout)?.iter().filter_map(slot).collect())
}

/// Whether any has GPUs of which it did not say what they are.
pub(super) fn any_mixed(slots: &[Slot]) -> bool {
    slots.iter().any(|slot| slot.gpus.iter().any(|gpus| gpus.kind.is_none()))
}

/// The slots, with what the second answer says of those that are in it.
pub(super) fn completed(slots: Vec<Slot>, mixed: Vec<Slot>) -> Vec<Slot> {
    let mut said: BTreeMap<String, Slot> =
        mixed.into_iter().map(|slot| (slot.name.clone(), slot)).collect();
    slots.into_iter().map(|slot| said.remove(&slot.name).unwrap_or(slot)).collect()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    name: String,
    cpus: Cores,
    memory: Bytes,
    gpus: Vec<EngineGpus>,
    features: Vec<String>,
    idle: bool,
    /// Why it takes no jobs.
    down: Option<String>,
}

fn slot(ad: &Ad) -> Option<Slot> {
    let name = ad.text("Name")?.to_string();
    let cpus = ad.count("TotalSlotCpus").or(ad.count("Cpus"))?;
    let memory = ad.count("TotalSlotMemory").or(ad.count("Memory"))?;
    let state = ad.text("State").unwrap_or_default();
    let cut_up = ad.count("NumDynamicSlots").unwrap_or(0) > 0;
    let idle = state == "Unclaimed" && !cut_up;
    let features = features(ad);
    let down = down(ad, state);
    let memory = Bytes(memory.saturating_mul(MIB));
    let cpus = Cores { milli: cpus.saturating_mul(1_000) };
    Some(Slot { name, cpus, memory, gpus: gpus(ad), features, idle, down })
}

fn down(ad: &Ad, state: &str) -> Option<String> {
    let reason = ad.text("DrainReason").map(|reason| format!(": {reason}")).unwrap_or_default();
    if ad.is_true("Draining") || state == "Drained" {
        return Some(format!("drained{reason}"));
    }
    if ad.is_true("Offline") {
        return Some("offline: it sleeps".into());
    }
    (state == "Owner").then(|| "owner: its START takes no jobs now".into())
}

fn gpus(ad: &Ad) -> Vec<EngineGpus> {
    let Some(count) = ad.count("TotalSlotGPUs").or(ad.count("GPUs")).filter(|it| *it > 0) else {
        return Vec::new();
    };
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let alike = |of: [&str; 3]| {
        let [kind, capability, memory] = of;
        let kind = Some(ad.text(kind)?.to_string());
        let memory = ad.count(memory).map(|it| Bytes(it.saturating_mul(MIB)));
        Some(vec![EngineGpus { kind, count, memory, capability: ad.tenths(capability) }])
    };
    let now = ["GPUs_DeviceName", "GPUs_Capability", "GPUs_GlobalMemoryMb"];
    let before = ["CUDADeviceName", "CUDACapability", "CUDAGlobalMemoryMb"];
    let each = || Some(each_gpu(ad)).filter(|found| !found.is_empty());
    let unknown = || vec![EngineGpus { kind: None, count, memory: None, capability: None }];
    alike(now).or_else(|| alike(before)).or_else(each).unwrap_or_else(unknown)
}

fn each_gpu(ad: &Ad) -> Vec<EngineGpus> {
    let mut kinds: BTreeMap<_, u32> = BTreeMap::new();
    for gpu in ad.nested("GPUs_") {
        let Some(name) = gpu.text("DeviceName") else { continue };
        let memory = gpu.count("GlobalMemoryMb").map(|it| Bytes(it.saturating_mul(MIB)));
        let kind = (name.to_string(), gpu.tenths("Capability"), memory);
        *kinds.entry(kind).or_default() += 1;
    }
    let gpus = kinds.into_iter().map(|((kind, capability, memory), count)| EngineGpus {
        kind: Some(kind),
        count,
        memory,
        capability,
    });
    gpus.collect()
}

fn features(ad: &Ad) -> Vec<String> {
    let words = ["Arch", "OpSysAndVer", "Microarch"].map(|name| ad.text(name).map(String::from));
    let able = ["HasSIF", "HasSingularity", "HasDocker"];
    let able = able.map(|name| ad.is_true(name).then(|| name.to_string()));
    words.into_iter().chain(able).flatten().map(|word| cut(&word)).collect()
}

/// Alike slots together, the larger sets first.
pub(super) fn alike(slots: Vec<Slot>) -> Vec<EngineNodes> {
    let mut kinds: BTreeMap<_, EngineNodes> = BTreeMap::new();
    for slot in slots {
        let key = (slot.cpus, slot.memory.0, slot.gpus.clone(), slot.features.clone());
        let key = (key.0.milli, key.1, key.2, key.3);
        let node = node_of(&slot.name);
        let nodes = kinds.entry(key).or_insert_with(|| empty(&slot));
        nodes.count += 1;
        nodes.up += u32::from(slot.down.is_none());
        nodes.idle += u32::from(slot.down.is_none() && slot.idle);
        if let Some(why) = slot.down.filter(|_| nodes.down.len() < MAX_DOWN) {
            nodes.down.push(cut(&format!("{node}: {why}")));
        }
        if nodes.names.len() < MAX_NAMES && !nodes.names.contains(&node) {
            nodes.names.push(node);
        }
    }
    let mut nodes: Vec<EngineNodes> = kinds.into_values().collect();
    nodes.sort_by_key(|nodes| std::cmp::Reverse(nodes.count));
    nodes
}

fn empty(slot: &Slot) -> EngineNodes {
    EngineNodes {
        partition: None,
        names: Vec::new(),
        count: 0,
        up: 0,
        idle: 0,
        cpus: slot.cpus,
        memory: slot.memory,
        gpus: slot.gpus.clone(),
        features: slot.features.clone(),
        longest: None,
        down: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(text: &str) -> Vec<EngineNodes> {
        alike(slots(text.as_bytes()).expect("readable"))
    }

    #[test]
    fn what_takes_no_jobs_is_not_up_and_says_why() {
        let of = |name: &str, rest: &str| {
            format!(r#"{{"Name": "slot1@{name}", "Cpus": 4, "Memory": 1000, {rest}}}"#)
        };
        let slots = [
            of("a", r#""State": "Unclaimed", "NumDynamicSlots": 0"#),
            of("b", r#""State": "Unclaimed", "NumDynamicSlots": 2"#),
            of("c", r#""State": "Drained", "Draining": true, "DrainReason": "bad PSU""#),
            of("d", r#""State": "Unclaimed", "Offline": true"#),
            of("e", r#""State": "Owner""#),
            of("f", r#""State": "Claimed""#),
        ];
        let all = nodes(&format!("[{}]", slots.join(",")));
        let [all] = all.as_slice() else { panic!("alike, but {all:?}") };
        assert_eq!((all.count, all.up, all.idle), (6, 3, 1));
        assert_eq!(all.down[0], "c: drained: bad PSU");
        assert_eq!(all.down.len(), 3);
    }

    #[test]
    fn gpus_that_differ_are_counted_by_kind() {
        let text = r#"[{"Name": "a", "Cpus": 4, "Memory": "1000", "TotalSlotGPUs": 3.0,
            "GPUs_GPU_1": {"DeviceName": "B", "Capability": 8.0, "GlobalMemoryMb": 10},
            "GPUs_GPU_2": {"DeviceName": "A"}, "GPUs_GPU_3": {"DeviceName": "A"}}]"#;
        let found = nodes(text).remove(0).gpus;
        let kinds: Vec<_> = found.iter().map(|it| (it.kind.as_deref(), it.count)).collect();
        assert_eq!(kinds, [(Some("A"), 2), (Some("B"), 1)]);
        assert_eq!(found[1].capability.as_deref(), Some("8.0"));
        let told = slots(text.as_bytes()).expect("readable");
        let bare = slots(br#"[{"Name": "a", "Cpus": 4, "Memory": 1000, "TotalSlotGPUs": 3}]"#);
        let bare = bare.expect("readable");
        assert!(any_mixed(&bare) && !any_mixed(&told));
        assert_eq!(completed(bare, told.clone()), told);
    }

    #[test]
    fn older_pools_call_gpus_by_another_name() {
        let text = r#"[{"Name": "a", "Cpus": 4, "Memory": 1000, "TotalSlotGPUs": 1,
            "CUDADeviceName": "V100", "CUDACapability": 7.0, "CUDAGlobalMemoryMb": 16384}]"#;
        let gpus = nodes(text).remove(0).gpus.remove(0);
        assert_eq!((gpus.kind.as_deref(), gpus.memory), (Some("V100"), Some(Bytes(16 << 30))));
    }
}
