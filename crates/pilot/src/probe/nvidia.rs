//! NVIDIA GPUs, asked through NVML, the driver's own library.
//!
//! It is loaded when the probe runs: a node without it has no NVIDIA driver, which is nothing to
//! speak of. A device that does not answer is left out, and is a fault.

use super::slices;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml, cuda_driver_version_major, cuda_driver_version_minor};
use shipway_model::gpu::{GpuDevice, GpuSource, GpuVendor, Version};
use shipway_model::ids::DeviceId;
use shipway_model::units::Bytes;
use shipway_runtime::gpu::Assigned;
use std::collections::BTreeMap;
use std::path::Path;

/// What NVML calls an enabled MIG mode.
const MIG_ENABLED: u32 = 1;

const BYTES_IN_MIB: u64 = 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) gpus: Vec<GpuDevice>,
    pub(super) cuda: Option<Version>,
    pub(super) nodes: BTreeMap<String, Assigned>,
}

pub(super) fn probe(faults: &mut Vec<String>) -> Found {
    match Nvml::init() {
        Ok(nvml) => ask(&nvml, faults),
        Err(NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound) => Found::default(),
        Err(error) => {
            faults.push(format!("NVML is installed and does not start: {error}"));
            Found::default()
        }
    }
}

/// Where NVIDIA's display and 3D controllers are on the bus, from what the kernel itself sees.
pub(super) fn cards(sys: &Path) -> Vec<String> {
    const VENDOR: &str = "0x10de";
    const DISPLAY_CLASS: &str = "0x03";
    let Ok(entries) = std::fs::read_dir(sys.join("bus/pci/devices")) else { return Vec::new() };
    let mut cards: Vec<String> = entries
        .flatten()
        .filter(|entry| {
            let read = |name| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
            read("vendor").trim() == VENDOR && read("class").starts_with(DISPLAY_CLASS)
        })
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    cards.sort();
    cards
}

fn ask(nvml: &Nvml, faults: &mut Vec<String>) -> Found {
    let driver = nvml.sys_driver_version().ok().and_then(|text| text.parse().ok());
    let cuda = nvml.sys_cuda_driver_version().ok().and_then(cuda_version);
    let mut found = Found { cuda, ..Found::default() };
    let count = nvml.device_count().unwrap_or_else(|error| {
        faults.push(format!("NVML does not say how many GPUs there are: {error}"));
        0
    });
    for index in 0..count {
        match nvml.device_by_index(index).and_then(|device| devices(&device, driver.as_ref())) {
            Ok(gpus) => {
                for (gpu, node) in gpus {
                    found.nodes.extend(node.map(|node| (gpu.id.to_string(), node)));
                    found.gpus.push(gpu);
                }
            }
            Err(error) => faults.push(format!("GPU {index} does not answer: {error}")),
        }
    }
    found
}

fn cuda_version(version: i32) -> Option<Version> {
    let part = |number: i32| u32::try_from(number).ok();
    let major = part(cuda_driver_version_major(version))?;
    Some(Version::new(&[major, part(cuda_driver_version_minor(version))?]))
}

/// A device, and its file where NVML tells which that is.
type Placed = (GpuDevice, Option<Assigned>);

/// The device itself, or its slices when it is cut into some: then it cannot be used whole.
fn devices(device: &Device<'_>, driver: Option<&Version>) -> Result<Vec<Placed>, NvmlError> {
    let capability = device.cuda_compute_capability()?;
    let part = |number: i32| u32::try_from(number).unwrap_or(0);
    let whole = GpuDevice {
        id: device_id(device)?,
        model: device.name()?,
        memory: Bytes(device.memory_info()?.total),
        vendor: GpuVendor::Nvidia,
        source: GpuSource::Nvml,
        capability: Some(Version::new(&[part(capability.major), part(capability.minor)])),
        driver: driver.cloned(),
        slice: None,
    };
    let minor = device.minor_number().ok();
    // Devices without MIG answer with an error, which says the same as "disabled".
    if !device.mig_mode().is_ok_and(|mode| mode.current == MIG_ENABLED) {
        let uuid = whole.id.to_string();
        return Ok(vec![(whole, minor.map(|minor| Assigned::Nvidia { minor, uuid }))]);
    }
    let mut found = Vec::new();
    for index in 0..device.mig_device_count()? {
        // The count is a maximum; the places between may be empty.
        let Ok(slice) = device.mig_device_by_index(index) else { continue };
        let gpu = GpuDevice {
            id: device_id(&slice)?,
            memory: Bytes(slice.attributes()?.memory_size_mb.saturating_mul(BYTES_IN_MIB)),
            slice: slice_profile(&slice.name()?),
            ..whole.clone()
        };
        let uuid = gpu.id.to_string();
        let node = minor.zip(slices::instances(&slice)).map(|(minor, instances)| {
            let (gpu_instance, compute_instance) = instances;
            Assigned::NvidiaSlice { minor, gpu_instance, compute_instance, uuid }
        });
        found.push((gpu, node));
    }
    Ok(found)
}

fn device_id(device: &Device<'_>) -> Result<DeviceId, NvmlError> {
    DeviceId::new(&device.uuid()?).map_err(|_| NvmlError::Unknown)
}

/// NVML names a slice `NVIDIA A100-SXM4-40GB MIG 1g.5gb`.
fn slice_profile(name: &str) -> Option<String> {
    name.rsplit_once("MIG ").map(|(_, profile)| profile.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions_are_taken_apart() {
        assert_eq!(slice_profile("NVIDIA A100-SXM4-40GB MIG 1g.5gb").as_deref(), Some("1g.5gb"));
        assert_eq!(slice_profile("NVIDIA A100-SXM4-40GB"), None);
        assert_eq!(cuda_version(12_080), Some(Version::new(&[12, 8])));
    }
}
