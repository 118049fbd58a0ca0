//! NVIDIA devices, looked at through NVML: what each did since the last look, and whose it was.
//!
//! What a driver or a device does not tell is left out. A whole device is told apart from a slice
//! of one, of which NVML tells the memory, and how busy it is only by its performance counters
//! (GPM, from Hopper on).

use super::account::{GpuLook, of_percent};
use crate::probe::gpu_instance;
use crate::run::shares::used_by;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{EccCounter, MemoryError, Sampling, TemperatureSensor};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};
use nvml_wrapper::{Device, Nvml};
use shipway_model::usage::WHOLE;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What holds clocks back that should not: heat, and power that is not there. That an idle device
/// is slow, or was told to be, is no trouble.
const HELD_BACK: ThrottleReasons = ThrottleReasons::SW_POWER_CAP
    .union(ThrottleReasons::HW_SLOWDOWN)
    .union(ThrottleReasons::SW_THERMAL_SLOWDOWN)
    .union(ThrottleReasons::HW_THERMAL_SLOWDOWN)
    .union(ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN);

/// Counting errors takes the driver longer than all the rest.
const ERRORS_EVERY: Duration = Duration::from_secs(30);

/// What is remembered of a device from one look to the next. It is looked at for one task after the
/// other: what was long ago is nobody's.
struct Card<'a> {
    at: Instant,
    /// The newest sample of its use, and of its processes', by the driver's clock.
    sampled: u64,
    used: u64,
    energy: Option<u64>,
    errors: Option<u64>,
    errors_at: Instant,
    counters: Option<GpmSample<'a>>,
}

/// A look at one device.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// The device as a whole.
    pub(super) whole: GpuLook,
    /// By process: its memory, and its part of the time, in ten-thousandths.
    pub(super) processes: BTreeMap<u32, (u64, Option<u64>)>,
}

pub(super) struct Cards<'a> {
    nvml: &'a Nvml,
    known: BTreeMap<String, Card<'a>>,
}

impl<'a> Cards<'a> {
    pub(super) fn new(nvml: &'a Nvml) -> Self {
        Cards { nvml, known: BTreeMap::new() }
    }

    /// Forgets devices that nobody has any more.
    pub(super) fn keep(&mut self, still: impl Fn(&str) -> bool) {
        self.known.retain(|id, _| still(id));
    }

    /// `None`: it does not answer. `shared`: its processes are wanted as well.
    pub(super) fn look(&mut self, id: &str, shared: bool, now: Instant) -> Option<Seen> {
        let device = self.nvml.device_by_uuid(id).ok()?;
        let is_slice = device.mig_is_mig_device_handle().unwrap_or(false);
        let card = self.known.entry(id.to_owned()).or_insert_with(|| Card {
            at: now,
            sampled: 0,
            used: 0,
            energy: None,
            errors: None,
            errors_at: now,
            counters: None,
        });
        let mut seen = Seen::default();
        let whole = &mut seen.whole;
        if let Ok(memory) = device.memory_info() {
            (whole.memory, whole.memory_of) = (Some(memory.used), Some(memory.total));
        }
        if is_slice {
            card.count(self.nvml, &device, true, whole);
        } else {
            card.look(&device, now, whole);
            card.count(self.nvml, &device, false, whole);
        }
        if shared {
            let parts = card.parts(&device);
            let processes = used_by(&device).into_iter();
            seen.processes = processes
                .map(|(pid, bytes)| (pid, (bytes, Some(parts.get(&pid).copied().unwrap_or(0)))))
                .collect();
            if parts.is_empty() && is_slice {
                // Of slices NVML does not tell which process did what.
                seen.processes.values_mut().for_each(|(_, part)| *part = None);
            }
        }
        card.at = now;
        Some(seen)
    }
}

impl<'a> Card<'a> {
    fn look(&mut self, device: &Device<'_>, now: Instant, seen: &mut GpuLook) {
        let rates = device.utilization_rates().ok();
        let rate = rates.as_ref().map(|rates| of_percent(rates.gpu.into()));
        seen.busy = self.sampled(device).or(rate);
        seen.memory_busy = rates.map(|rates| of_percent(rates.memory.into()));
        seen.power_mw = device.power_usage().ok().map(u64::from);
        seen.temperature = device.temperature(TemperatureSensor::Gpu).ok().map(u64::from);
        let throttle = device.current_throttle_reasons().ok();
        seen.throttle = throttle.map(|reasons| reasons.intersection(HELD_BACK).bits());
        let energy = device.total_energy_consumption().ok();
        let before = std::mem::replace(&mut self.energy, energy);
        // Without a counter, the power that was drawn is taken to be that of the whole time.
        let by_power = || {
            let ms = u64::try_from(now.saturating_duration_since(self.at).as_millis()).ok()?;
            Some(seen.power_mw?.saturating_mul(ms) / 1_000)
        };
        seen.energy_mj = match (energy, before) {
            (Some(energy), Some(before)) => Some(energy.saturating_sub(before)),
            (Some(_), None) => Some(0),
            (None, _) => by_power(),
        };
        if self.errors.is_none() || now.saturating_duration_since(self.errors_at) >= ERRORS_EVERY {
            let counted = device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile);
            let errors = counted.ok();
            let before = std::mem::replace(&mut self.errors, errors);
            self.errors_at = now;
            let since = errors.zip(before).map(|(now, before)| now.saturating_sub(before));
            seen.ecc_errors = since.or(errors.map(|_| 0));
        }
    }

    /// The mean of the driver's own samples since the last look: six a second or so.
    fn sampled(&mut self, device: &Device<'_>) -> Option<u64> {
        let samples = device.samples(Sampling::GpuUtilization, self.sampled).ok()?;
        let new: Vec<u64> = samples
            .iter()
            .filter(|sample| sample.timestamp > self.sampled)
            .filter_map(|sample| match sample.value {
                SampleValue::U32(percent) => Some(u64::from(percent)),
                SampleValue::U64(percent) => Some(percent),
                SampleValue::F64(_) | SampleValue::I64(_) => None,
            })
            .collect();
        let is_first = self.sampled == 0;
        self.sampled = samples.iter().map(|sample| sample.timestamp).max().unwrap_or(self.sampled);
        let sum: u64 = new.iter().copied().fold(0, u64::saturating_add);
        // What it has from before the first look is not of this time.
        let is_known = !new.is_empty() && !is_first;
        is_known.then(|| (sum.saturating_mul(100) / new.len() as u64).min(WHOLE))
    }

    /// Its performance counters, where it has them.
    fn count(&mut self, nvml: &'a Nvml, device: &Device<'a>, is_slice: bool, seen: &mut GpuLook) {
        let sample = if is_slice {
            let parent = device.mig_parent_device().ok();
            parent.zip(gpu_instance(device)).and_then(|(parent, instance)| {
                nvml.device_by_uuid(parent.uuid().ok()?).ok()?.gpm_mig_sample(instance).ok()
            })
        } else {
            let offers = device.gpm_support().unwrap_or(false);
            if offers { nvml_sample(nvml, device) } else { None }
        };
        let Some(sample) = sample else { return };
        let before = self.counters.replace(sample);
        let (Some(before), Some(now)) = (before, &self.counters) else { return };
        let wanted = [GpmMetricId::SmUtil, GpmMetricId::SmOccupancy, GpmMetricId::DramBwUtil];
        let Ok(found) = gpm_metrics_get(nvml, &before, now, &wanted) else { return };
        for one in found.into_iter().flatten() {
            let part = of_share(one.value);
            match one.metric_id {
                GpmMetricId::SmOccupancy => seen.occupancy = part,
                GpmMetricId::SmUtil if is_slice => seen.busy = part,
                GpmMetricId::DramBwUtil if is_slice => seen.memory_busy = part,
                _ => {}
            }
        }
    }

    /// What part of the time each process had since the last look.
    fn parts(&mut self, device: &Device<'_>) -> BTreeMap<u32, u64> {
        let mut parts = BTreeMap::new();
        // An error is how the driver says that nobody did anything.
        for one in device.process_utilization_stats(self.used).unwrap_or_default() {
            self.used = self.used.max(one.timestamp);
            parts.insert(one.pid, of_percent(one.sm_util.into()));
        }
        parts
    }
}

fn nvml_sample<'a>(nvml: &'a Nvml, device: &Device<'_>) -> Option<GpmSample<'a>> {
    nvml.device_by_uuid(device.uuid().ok()?).ok()?.gpm_sample().ok()
}

/// A percentage of the counters, in ten-thousandths.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "within bounds that hold both, and NaN is none of them"
)]
fn of_share(percent: f64) -> Option<u64> {
    (0.0..=1_000.0).contains(&percent).then(|| ((percent * 100.0) as u64).min(WHOLE))
}
