//! A node's ad on the wire, and how much a pilot may say in it.

use super::BadMessage;
use crate::wire;
use crate::wire::people::Apart;
use prost::Message as _;
use shipway_model::gpu::{VERSION_PARTS, Version};
use shipway_model::node::{MAX_ATTRIBUTES, MAX_DEVICES, MAX_REMARKS};
use shipway_model::{
    Bytes, Capacity, Cores, DeviceId, GpuDevice, GpuSource, GpuVendor, NodeAd, NodeName, People,
    Withheld,
};

/// What a pilot says of its node, all together.
const MAX_AD_BYTES: usize = 1 << 20;

impl From<NodeAd> for wire::NodeAd {
    fn from(ad: NodeAd) -> Self {
        wire::NodeAd {
            node: ad.node.to_string(),
            capacity: Some(ad.capacity.into()),
            gpus: ad.gpus.into_iter().map(Into::into).collect(),
            attributes: ad.attributes,
            notes: ad.notes,
            unfit: ad.unfit,
            withheld: ad.withheld.into_iter().map(Into::into).collect(),
            people: ad.people.map(Into::into),
        }
    }
}

pub(super) fn read(ad: wire::NodeAd) -> Result<NodeAd, BadMessage> {
    let most = [
        ("list of GPUs", ad.gpus.len(), MAX_DEVICES),
        ("list of GPUs that are not offered", ad.withheld.len(), MAX_DEVICES),
        ("list of attributes", ad.attributes.len(), MAX_ATTRIBUTES),
        ("list of notes", ad.notes.len(), MAX_REMARKS),
        ("list of reasons", ad.unfit.len(), MAX_REMARKS),
        ("ad", ad.encoded_len(), MAX_AD_BYTES),
    ];
    if let Some((what, ..)) = most.into_iter().find(|(_, found, most)| found > most) {
        return Err(BadMessage::TooLong(what));
    }
    Ok(NodeAd {
        node: NodeName::new(&ad.node)?,
        capacity: read_amounts(ad.capacity.ok_or(BadMessage::Missing("capacity"))?)?,
        gpus: ad.gpus.into_iter().map(read_gpu).collect::<Result<_, _>>()?,
        attributes: ad.attributes,
        notes: ad.notes,
        unfit: ad.unfit,
        withheld: ad.withheld.into_iter().map(read_withheld).collect::<Result<_, _>>()?,
        people: ad.people.map(read_people).transpose()?,
    })
}

impl From<Capacity> for wire::Amounts {
    fn from(Capacity { cpus, memory, disk, named }: Capacity) -> Self {
        wire::Amounts { cpus_milli: cpus.milli, memory: memory.0, disk: disk.0, named }
    }
}

pub(super) fn read_amounts(amounts: wire::Amounts) -> Result<Capacity, BadMessage> {
    let wire::Amounts { cpus_milli, memory, disk, named } = amounts;
    if named.len() > MAX_ATTRIBUTES {
        return Err(BadMessage::TooLong("list of named resources"));
    }
    let cpus = Cores { milli: cpus_milli };
    Ok(Capacity { cpus, memory: Bytes(memory), disk: Bytes(disk), named })
}

impl From<GpuDevice> for wire::GpuDevice {
    fn from(gpu: GpuDevice) -> Self {
        let vendor = match gpu.vendor {
            GpuVendor::Nvidia => wire::GpuVendor::Nvidia,
            GpuVendor::Amd => wire::GpuVendor::Amd,
            GpuVendor::Intel => wire::GpuVendor::Intel,
        };
        let source = match gpu.source {
            GpuSource::Nvml => wire::GpuSource::Nvml,
            GpuSource::Sysfs => wire::GpuSource::Sysfs,
            GpuSource::Declared => wire::GpuSource::Declared,
        };
        let parts = |version: Option<Version>| version.map(|it| it.parts().to_vec());
        wire::GpuDevice {
            id: gpu.id.to_string(),
            model: gpu.model,
            memory: gpu.memory.0,
            vendor: vendor.into(),
            source: source.into(),
            capability: parts(gpu.capability).unwrap_or_default(),
            driver: parts(gpu.driver).unwrap_or_default(),
            slice: gpu.slice,
        }
    }
}

fn read_gpu(gpu: wire::GpuDevice) -> Result<GpuDevice, BadMessage> {
    let vendor = match wire::GpuVendor::try_from(gpu.vendor) {
        Ok(wire::GpuVendor::Nvidia) => GpuVendor::Nvidia,
        Ok(wire::GpuVendor::Amd) => GpuVendor::Amd,
        Ok(wire::GpuVendor::Intel) => GpuVendor::Intel,
        Ok(wire::GpuVendor::Unsaid) | Err(_) => return Err(BadMessage::Unknown("vendor of a GPU")),
    };
    let source = match wire::GpuSource::try_from(gpu.source) {
        Ok(wire::GpuSource::Nvml) => GpuSource::Nvml,
        Ok(wire::GpuSource::Sysfs) => GpuSource::Sysfs,
        Ok(wire::GpuSource::Declared) => GpuSource::Declared,
        Ok(wire::GpuSource::Unsaid) | Err(_) => return Err(BadMessage::Unknown("source of a GPU")),
    };
    Ok(GpuDevice {
        id: DeviceId::new(&gpu.id)?,
        model: gpu.model,
        memory: Bytes(gpu.memory),
        vendor,
        source,
        capability: read_version(&gpu.capability)?,
        driver: read_version(&gpu.driver)?,
        slice: gpu.slice,
    })
}

fn read_version(parts: &[u32]) -> Result<Option<Version>, BadMessage> {
    if parts.len() > VERSION_PARTS {
        return Err(BadMessage::TooLong("version"));
    }
    Ok((!parts.is_empty()).then(|| Version::new(parts)))
}

impl From<Withheld> for wire::Withheld {
    fn from(Withheld { gpu, name, why }: Withheld) -> Self {
        wire::Withheld { gpu: Some(gpu.into()), name, why }
    }
}

fn read_withheld(withheld: wire::Withheld) -> Result<Withheld, BadMessage> {
    let wire::Withheld { gpu, name, why } = withheld;
    Ok(Withheld { gpu: read_gpu(gpu.ok_or(BadMessage::Missing("GPU"))?)?, name, why })
}

impl From<People> for wire::People {
    fn from(people: People) -> Self {
        let apart = match people {
            People::ByAccount => Apart::ByAccount(true),
            People::BySubordinateId => Apart::BySubordinateId(true),
            People::No { user, why, fix } => Apart::No(wire::NotApart { user, why, fix }),
            People::Refused { why, fix } => {
                Apart::Refused(wire::NotApart { user: String::new(), why, fix })
            }
        };
        wire::People { apart: Some(apart) }
    }
}

fn read_people(people: wire::People) -> Result<People, BadMessage> {
    Ok(match people.apart.ok_or(BadMessage::Unknown("way to keep people apart"))? {
        Apart::ByAccount(_) => People::ByAccount,
        Apart::BySubordinateId(_) => People::BySubordinateId,
        Apart::No(wire::NotApart { user, why, fix }) => People::No { user, why, fix },
        Apart::Refused(wire::NotApart { why, fix, .. }) => People::Refused { why, fix },
    })
}
