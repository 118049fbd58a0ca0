//! Nodes and jobs as ads, with the names that people know from HTCondor.

use crate::pilot::Pilot;
use crate::schedule::classes::ClassKey;
use crate::schedule::needs::MAX_GROUPS;
use crate::shape::Shape;
use shipway_classad::{Ad, Expr, Name, Value, parse_expression};
use shipway_model::amounts::{Row, Unit};
use shipway_model::node::ALLOCATION_ENDS;
use shipway_model::{Amounts, Bytes, GpuDevice, GpuVendor, Kind};
use std::sync::Arc;

/// What differs between nodes that are alike otherwise. An expression that names one of these is
/// asked of every node, not of every class.
pub(crate) const PER_NODE: [&str; 7] =
    ["Machine", "Name", "UtsnameNodename", "Disk", "TotalDisk", "DetectedGPUs", ALLOCATION_ENDS];

/// So many bytes of what a pilot says of its node are in all ads of a class together; as
/// expressions they take some twenty times that.
const MAX_SAID: usize = 128 << 10;
/// What an attribute takes beside its text.
const ATTRIBUTE: usize = 32;

/// What all nodes of a class have: one ad for each kind of its devices, or one without any. Of a
/// node that says much, requirements are asked for some of its kinds only.
pub(crate) fn class_ads(key: &ClassKey, kinds: &[(GpuDevice, u32)]) -> Vec<Arc<Ad>> {
    let base = base(key, kinds);
    if kinds.is_empty() {
        return vec![Arc::new(base)];
    }
    let most = (MAX_SAID / said(key).max(1)).clamp(1, MAX_GROUPS);
    let with_kind = |(device, _): &(GpuDevice, u32)| {
        let mut ad = base.clone();
        for (name, expr) in device_ad(device).iter() {
            ad.insert(Name::new([b"GPUs_", name.as_bytes()].concat()), expr.clone());
            // The names of before HTCondor knew other devices than CUDA's.
            let is_old = ["Capability", "DeviceName", "GlobalMemoryMb"].iter();
            if device.vendor == GpuVendor::Nvidia && is_old.clone().any(|old| name.is(old)) {
                ad.insert(Name::new([b"CUDA", name.as_bytes()].concat()), expr.clone());
            }
        }
        declare(&mut ad, key);
        Arc::new(ad)
    };
    kinds.iter().take(most).map(with_kind).collect()
}

/// How much a node's pilot says of it that is in each of its ads, in bytes.
pub(crate) fn said(key: &ClassKey) -> usize {
    key.attributes.iter().map(|(name, text)| name.len() + text.len() + ATTRIBUTE).sum()
}

fn base(key: &ClassKey, kinds: &[(GpuDevice, u32)]) -> Ad {
    let mut ad = Ad::new();
    count(&mut ad, &["", "Total", "TotalSlot", "Detected"], key.capacity.amounts(), false);
    let gpus: u32 = kinds.iter().map(|(_, count)| count).sum();
    for name in ["GPUs", "TotalGPUs", "TotalSlotGPUs"] {
        ad.set(name, i64::from(gpus));
    }
    let each = kinds.iter().flat_map(|(device, count)| {
        std::iter::repeat_n(Expr::Ad(Arc::new(device_ad(device))), *count as usize)
    });
    ad.insert("AvailableGPUs".into(), Expr::List(each.collect()));
    for (name, amount) in &key.capacity.named {
        ad.set(name, i64::try_from(*amount).unwrap_or(i64::MAX));
    }
    declare(&mut ad, key);
    ad
}

/// What the pilot says stands before what is made here. What cannot be read is left out.
fn declare(ad: &mut Ad, key: &ClassKey) {
    for (name, text) in &key.attributes {
        if let Ok(expr) = parse_expression(text) {
            ad.insert(Name::from(name.as_str()), expr);
        }
    }
}

/// One device, as HTCondor's `condor_gpu_discovery -nested` has it.
fn device_ad(device: &GpuDevice) -> Ad {
    let mut ad = Ad::new();
    ad.set("DeviceName", device.model.as_str());
    ad.set("GlobalMemoryMb", megabytes(device.memory));
    ad.set("Vendor", vendor(device.vendor));
    if let Some(capability) = &device.capability {
        // As a number, `8.0`: that is how it is compared.
        if let Ok(number) = parse_expression(&capability.to_string()) {
            ad.insert("Capability".into(), number);
        }
    }
    if let Some(driver) = &device.driver {
        ad.set("NVIDIADriver", driver.to_string());
    }
    if let Some(slice) = &device.slice {
        ad.set("Slice", slice.as_str());
    }
    ad
}

fn vendor(vendor: GpuVendor) -> &'static str {
    match vendor {
        GpuVendor::Nvidia => "NVIDIA",
        GpuVendor::Amd => "AMD",
        GpuVendor::Intel => "Intel",
    }
}

/// The ad of a class, with what is the node's own.
pub(super) fn node_ad(class: &Ad, pilot: &Pilot) -> Ad {
    let (mut ad, node) = (class.clone(), &pilot.ad);
    for name in ["Machine", "UtsnameNodename"] {
        ad.set(name, node.node.as_str());
    }
    // As of HTCondor's slots, several of which may be on one machine.
    ad.set("Name", pilot.name().as_str());
    count(&mut ad, &["", "Total"], node.capacity.amounts(), true);
    let devices: Vec<&str> = node.gpus.iter().map(|gpu| gpu.id.as_str()).collect();
    ad.set("DetectedGPUs", devices.join(", "));
    let ends = node.attributes.get(ALLOCATION_ENDS).map(|text| parse_expression(text));
    if let Some(Ok(ends)) = ends {
        ad.insert(ALLOCATION_ENDS.into(), ends);
    }
    ad
}

/// What a job asks for: the same for all jobs of a shape.
pub(crate) fn job_ad(shape: &Shape) -> Ad {
    let mut ad = Ad::new();
    let need = &shape.resources;
    for is_nodes_own in [false, true] {
        count(&mut ad, &["Request"], need.amounts(), is_nodes_own);
    }
    ad.set("RequestGPUs", i64::from(need.gpu.as_ref().map_or(0, |gpu| gpu.count)));
    for (name, amount) in &need.named {
        ad.set(format!("Request{name}"), i64::try_from(*amount).unwrap_or(i64::MAX));
    }
    if let Some(owner) = &shape.expressions.owner {
        ad.set("Owner", owner.as_str());
        ad.set("User", owner.as_str());
    }
    ad
}

/// Says how much there is of each kind that is the node's own, or of each that is not, with these
/// words before the name of the kind.
fn count(ad: &mut Ad, words: &[&str], amounts: Amounts, is_nodes_own: bool) {
    for kind in Kind::ALL.into_iter().filter(|kind| kind.row().is_nodes_own == is_nodes_own) {
        let value = value(kind, amounts.get(kind));
        for word in words {
            ad.insert(Name::from(format!("{word}{}", kind.row().ad).as_str()), value.clone());
        }
    }
}

/// Whole cores as a whole number; of bytes only the whole ones of the unit.
fn value(kind: Kind, amount: u64) -> Expr {
    let Row { unit, ad_unit, .. } = kind.row();
    let (whole, rest) = (amount / ad_unit, amount % ad_unit);
    if unit == Unit::Bytes || rest == 0 {
        return Expr::literal(i64::try_from(whole).unwrap_or(i64::MAX));
    }
    let text = format!("{whole}.{rest:03}");
    parse_expression(&text).unwrap_or_else(|_| Expr::literal(Value::Undefined))
}

fn megabytes(bytes: Bytes) -> i64 {
    i64::try_from(bytes.0 >> 20).unwrap_or(i64::MAX)
}
