//! AMD GPUs, from what their kernel driver shows below `/sys`.
//!
//! No library of the vendor is needed. Older cards have no `unique_id`; their place on the bus
//! stands in for it, which is stable until somebody moves the card.

use shipway_model::gpu::{GpuDevice, GpuSource, GpuVendor};
use shipway_model::ids::DeviceId;
use shipway_model::units::Bytes;
use shipway_runtime::gpu::Assigned;
use std::path::{Path, PathBuf};

const AMD_VENDOR: &str = "0x1002";

/// Each with the number of its node, where the driver has made one.
pub(super) fn probe(sys: &Path, notes: &mut Vec<String>) -> Vec<(GpuDevice, Option<Assigned>)> {
    let mut gpus = Vec::new();
    for device in cards(&sys.join("class/drm")) {
        if read(&device, "vendor").as_deref() != Some(AMD_VENDOR) {
            continue;
        }
        match describe(&device, sys) {
            Some(gpu) => gpus.push((gpu, node(&device))),
            None => notes.push(format!("AMD GPU at {} does not say what it is", device.display())),
        }
    }
    gpus
}

/// The devices behind `card0`, `card1`, … in that order; `card0-DP-1` is a socket, not a card.
fn cards(drm: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(drm) else { return Vec::new() };
    let mut cards: Vec<(u32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix("card")?.parse().ok()?;
            Some((number, entry.path().join("device")))
        })
        .collect();
    cards.sort();
    cards.into_iter().map(|(_, device)| device).collect()
}

/// `drm/renderD128` below the device.
fn node(device: &Path) -> Option<Assigned> {
    let entries = std::fs::read_dir(device.join("drm")).ok()?.flatten();
    let mut numbers = entries
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("renderD")?.parse().ok());
    numbers.next().map(|render| Assigned::Amd { render })
}

fn describe(device: &Path, sys: &Path) -> Option<GpuDevice> {
    let memory = read(device, "mem_info_vram_total")?.parse().ok()?;
    let name = match read(device, "unique_id") {
        Some(unique) => format!("GPU-{unique}"),
        None => format!("pci-{}", device.canonicalize().ok()?.file_name()?.to_str()?),
    };
    Some(GpuDevice {
        id: DeviceId::new(&name).ok()?,
        model: read(device, "product_name").unwrap_or_else(|| "AMD GPU".to_owned()),
        memory: Bytes(memory),
        vendor: GpuVendor::Amd,
        source: GpuSource::Sysfs,
        capability: None,
        driver: read(&sys.join("module/amdgpu"), "version").and_then(|text| text.parse().ok()),
        slice: None,
    })
}

/// The text of a small file; `None` also when it is empty.
fn read(directory: &Path, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(directory.join(name)).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
