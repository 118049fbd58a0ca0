//! From checks to the node's ad: which GPUs are offered, and whether the node takes work at all.
//! Pure.

use super::{About, Check, State};
use shipway_model::{DeviceId, GpuDevice, GpuSource, GpuVendor, NodeAd, Withheld};
use std::collections::BTreeMap;

/// The name by which a node says that containers start there; HTCondor's.
pub const HAS_CONTAINER: &str = "HasContainer";

/// What people call the GPUs of a node, counted for each vendor as its own tools do.
#[derive(Debug, Clone)]
pub struct Names(BTreeMap<DeviceId, String>);

impl Names {
    pub fn of(gpus: &[GpuDevice]) -> Self {
        let mut seen: BTreeMap<GpuVendor, u32> = BTreeMap::new();
        let real = gpus.iter().filter(|gpu| gpu.source != GpuSource::Declared);
        let named = real.map(|gpu| {
            let number = seen.entry(gpu.vendor).or_default();
            let vendor = match gpu.vendor {
                GpuVendor::Nvidia => "",
                GpuVendor::Amd => "AMD ",
                GpuVendor::Intel => "Intel ",
            };
            let name = format!("{vendor}GPU {number}");
            *number += 1;
            (gpu.id.clone(), name)
        });
        Names(named.collect())
    }

    pub fn get(&self, id: &DeviceId) -> String {
        self.0.get(id).cloned().unwrap_or_else(|| id.to_string())
    }
}

/// An ad in which every GPU that was really found still has to be proven.
pub fn withhold(mut ad: NodeAd, checks: &[Check]) -> NodeAd {
    let names = Names::of(&ad.gpus);
    let (declared, real) = ad.gpus.into_iter().partition(|gpu| gpu.source == GpuSource::Declared);
    ad.gpus = declared;
    let real: Vec<GpuDevice> = real;
    let held = real.into_iter().map(|gpu| Withheld { name: names.get(&gpu.id), gpu, why: None });
    ad.withheld = held.collect();
    remark(&mut ad, checks);
    ad
}

/// The same ad after the proof: what works is offered, what does not says why.
pub fn offer(mut ad: NodeAd, checks: &[Check]) -> NodeAd {
    let mut good = Vec::new();
    let mut bad = Vec::new();
    for held in std::mem::take(&mut ad.withheld) {
        let about = About::Gpu(held.gpu.id.clone());
        let failed = checks.iter().find(|check| check.is_failed() && check.about == about);
        match failed {
            None => good.push(held.gpu),
            Some(check) => bad.push(Withheld { why: Some(check.found.clone()), ..held }),
        }
    }
    // Found ones before declared ones, as they were probed.
    good.append(&mut ad.gpus);
    (ad.gpus, ad.withheld) = (good, bad);
    remark(&mut ad, checks);
    ad
}

fn remark(ad: &mut NodeAd, checks: &[Check]) {
    for check in checks.iter().filter(|check| check.state == State::Failed) {
        let text = format!("{}: {}", check.name, check.found);
        match check.about {
            About::Node => ad.unfit.push(text),
            About::Part => ad.notes.push(text),
            About::Containers => {
                ad.notes.push(text);
                ad.attributes.insert(HAS_CONTAINER.to_owned(), false.to_string());
            }
            About::Gpu(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_model::{Bytes, Capacity, NodeName};

    fn gpu(id: &str, source: GpuSource, vendor: GpuVendor) -> GpuDevice {
        GpuDevice {
            id: DeviceId::new(id).unwrap(),
            model: "H200".into(),
            memory: Bytes(1),
            vendor,
            source,
            capability: None,
            driver: None,
            slice: None,
        }
    }

    fn ad() -> NodeAd {
        NodeAd {
            node: NodeName::new("n").unwrap(),
            capacity: Capacity::default(),
            gpus: vec![
                gpu("GPU-a", GpuSource::Nvml, GpuVendor::Nvidia),
                gpu("GPU-b", GpuSource::Nvml, GpuVendor::Nvidia),
                gpu("GPU-c", GpuSource::Sysfs, GpuVendor::Amd),
                gpu("GPU-d", GpuSource::Declared, GpuVendor::Nvidia),
            ],
            notes: Vec::new(),
            unfit: Vec::new(),
            withheld: Vec::new(),
            people: None,
            attributes: BTreeMap::new(),
        }
    }

    fn ids(gpus: &[GpuDevice]) -> Vec<&str> {
        gpus.iter().map(|gpu| gpu.id.as_str()).collect()
    }

    #[test]
    fn nothing_real_is_offered_before_its_proof() {
        let before = withhold(ad(), &[]);
        assert_eq!(ids(&before.gpus), ["GPU-d"]);
        let names: Vec<&str> = before.withheld.iter().map(|held| held.name.as_str()).collect();
        assert_eq!(names, ["GPU 0", "GPU 1", "AMD GPU 0"]);
        assert_eq!(before.remarks()[0], "GPU 0 is being proven");
        assert_eq!(offer(before, &[]), ad(), "all is well, and nothing else has changed");
    }

    #[test]
    fn one_that_fails_keeps_no_other_back() {
        let about = About::Gpu(DeviceId::new("GPU-a").unwrap());
        let checks = [
            Check::ok("GPU 0", "right", "wrong").about(about).failed("replace it"),
            Check::ok("containers", "one starts", "none starts")
                .failed("allow them")
                .about(About::Containers),
            Check::ok("clock", "now", "1970").about(About::Node).failed("set it"),
            Check::ok("disk", "much", "little").warning("make room"),
        ];
        let after = offer(withhold(ad(), &[]), &checks);
        assert_eq!(ids(&after.gpus), ["GPU-b", "GPU-c", "GPU-d"]);
        assert_eq!(after.attributes.get(HAS_CONTAINER).map(String::as_str), Some("false"));
        assert_eq!(
            after.remarks(),
            ["not fit: clock: 1970", "GPU 0 failed its proof: wrong", "containers: none starts"]
        );
    }
}
