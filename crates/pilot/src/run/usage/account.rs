//! What one attempt has used, added up look by look. Pure: it is told what was seen, and when.

use crate::spawn::Spent;
use shipway_model::series::{Point, Recorder};
use shipway_model::usage::{WHOLE, part_of};
use shipway_model::{Series, Usage};

/// Below this, in ten-thousandths, a GPU was not used: drivers and desktops make it blink.
const IDLE: u64 = 100;
const MIB: u64 = 1 << 20;

/// What was seen of one attempt at one time. `None`: it cannot be seen here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Look {
    /// Since its start.
    pub(super) at_ms: u64,
    /// So far.
    pub(super) cpu_ms: Option<u64>,
    pub(super) read: Option<u64>,
    pub(super) written: Option<u64>,
    pub(super) waited: Waited,
    /// Now, in bytes.
    pub(super) memory: Option<u64>,
    /// One for each device that it has, in the same order every time.
    pub(super) gpus: Vec<GpuLook>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Waited {
    #[default]
    Unknown,
    /// So far, as the kernel counts it.
    SoFar(u64),
    /// Whether it does just now: one look stands for the time since the one before.
    Now(bool),
}

/// A device over the time since the last look, or its part where several share it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct GpuLook {
    /// Ten-thousandths of the time.
    pub(super) busy: Option<u64>,
    pub(super) memory_busy: Option<u64>,
    pub(super) occupancy: Option<u64>,
    /// Bytes.
    pub(super) memory: Option<u64>,
    pub(super) memory_of: Option<u64>,
    pub(super) energy_mj: Option<u64>,
    pub(super) power_mw: Option<u64>,
    pub(super) temperature: Option<u64>,
    /// Why clocks are held back by heat or power; 0: they are not.
    pub(super) throttle: Option<u64>,
    /// Since the last look.
    pub(super) ecc_errors: Option<u64>,
}

/// A mean over time.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: u64,
    known_ms: u64,
}

impl Mean {
    fn add(&mut self, value: Option<u64>, ms: u64) {
        if let Some(value) = value {
            self.sum = self.sum.saturating_add(value.saturating_mul(ms));
            self.known_ms = self.known_ms.saturating_add(ms);
        }
    }

    fn value(&self) -> Option<u64> {
        (self.known_ms > 0).then(|| self.sum / self.known_ms)
    }
}

#[derive(Debug, Default)]
struct Gpu {
    busy: Mean,
    busy_max: Option<u64>,
    memory_busy: Mean,
    occupancy: Mean,
    energy: Option<u64>,
    /// How long its energy was counted.
    energy_ms: u64,
}

#[derive(Debug, Default)]
pub(super) struct Account {
    /// All but what is only known at the end.
    usage: Usage,
    at_ms: u64,
    gpus: Vec<Gpu>,
    recorder: Recorder,
}

/// The larger of two, where one of them is known.
fn most(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.max(other)
}

fn small(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

impl Account {
    pub(super) fn add(&mut self, look: &Look) {
        let ms = look.at_ms.saturating_sub(self.at_ms);
        let usage = &mut self.usage;
        let cpu_before = usage.cpu_ms.unwrap_or(0);
        usage.looks = Some(usage.looks.unwrap_or(0) + 1);
        // What others have not waited for is gone with it: so it never becomes less.
        usage.cpu_ms = most(usage.cpu_ms, look.cpu_ms);
        usage.read = most(usage.read, look.read);
        usage.written = most(usage.written, look.written);
        usage.memory = most(usage.memory, look.memory);
        match look.waited {
            Waited::Unknown => {}
            Waited::SoFar(waited) => usage.waited_ms = most(usage.waited_ms, Some(waited)),
            Waited::Now(waits) => {
                let more = if waits { ms } else { 0 };
                usage.waited_ms = Some(usage.waited_ms.unwrap_or(0).saturating_add(more));
            }
        }
        let cpu = usage.cpu_ms.unwrap_or(0).saturating_sub(cpu_before);
        self.add_gpus(&look.gpus, ms);
        self.at_ms = self.at_ms.max(look.at_ms);
        let count = (look.gpus.len() as u64).max(1);
        let sum = |of: fn(&GpuLook) -> Option<u64>| -> u64 {
            look.gpus.iter().filter_map(of).fold(0, u64::saturating_add)
        };
        let memory = look.gpus.iter().filter_map(|gpu| gpu.memory).max();
        let point = Point {
            cpu: small(cpu.saturating_mul(1_000) / ms.max(1)),
            memory: small(look.memory.unwrap_or(0).div_ceil(MIB)),
            gpu: small(sum(|gpu| gpu.busy) / count),
            gpu_memory: small(memory.unwrap_or(0).div_ceil(MIB)),
            power: small(sum(|gpu| gpu.power_mw) / 1_000),
        };
        self.recorder.add(look.at_ms, &point, !look.gpus.is_empty());
    }

    fn add_gpus(&mut self, looks: &[GpuLook], ms: u64) {
        self.gpus.resize_with(self.gpus.len().max(looks.len()), Gpu::default);
        let usage = &mut self.usage;
        let mut is_throttled = false;
        for (gpu, look) in self.gpus.iter_mut().zip(looks) {
            // The first look begins; what was before it is somebody else's.
            if ms > 0 {
                gpu.busy.add(look.busy, ms);
                gpu.busy_max = most(gpu.busy_max, look.busy);
                gpu.memory_busy.add(look.memory_busy, ms);
                gpu.occupancy.add(look.occupancy, ms);
                if let Some(energy) = look.energy_mj {
                    gpu.energy = Some(gpu.energy.unwrap_or(0).saturating_add(energy));
                    gpu.energy_ms = gpu.energy_ms.saturating_add(ms);
                }
                if let Some(errors) = look.ecc_errors {
                    let errors = usage.ecc_errors.unwrap_or(0).saturating_add(errors);
                    usage.ecc_errors = Some(errors);
                }
                usage.gpu_memory = most(usage.gpu_memory, look.memory);
                usage.temperature_max = most(usage.temperature_max, look.temperature);
            }
            usage.gpu_memory_of = most(usage.gpu_memory_of, look.memory_of);
            if let Some(why) = look.throttle {
                let reasons = usage.throttle_reasons.unwrap_or(0) | why;
                usage.throttle_reasons = Some(reasons);
                usage.throttled_ms.get_or_insert(0);
                is_throttled |= why != 0;
            }
        }
        if let Some(throttled) = usage.throttled_ms.as_mut().filter(|_| is_throttled) {
            *throttled = throttled.saturating_add(ms);
        }
        let power = looks.iter().filter_map(|gpu| gpu.power_mw).reduce(u64::saturating_add);
        usage.power_max_mw = most(usage.power_max_mw, power);
    }

    /// So far.
    pub(super) fn usage(&self) -> Usage {
        self.until(self.at_ms)
    }

    pub(super) fn series(&self) -> Option<Series> {
        Some(self.recorder.series()).filter(|series| series.points.len() > 1)
    }

    fn until(&self, wall_ms: u64) -> Usage {
        let gpus = &self.gpus;
        let mean = |of: fn(&Gpu) -> Option<u64>| {
            let known: Vec<u64> = gpus.iter().filter_map(of).collect();
            let sum = known.iter().copied().fold(0, u64::saturating_add);
            (!known.is_empty()).then(|| sum / known.len() as u64)
        };
        let is_idle = |gpu: &&Gpu| gpu.busy_max.is_some_and(|busy| busy < IDLE);
        let known = gpus.iter().any(|gpu| gpu.busy_max.is_some());
        // What came after the last look is taken to be like what was before.
        let energy = |gpu: &Gpu| {
            let whole = u128::from(gpu.energy?) * u128::from(wall_ms.max(gpu.energy_ms));
            u64::try_from(whole / u128::from(gpu.energy_ms.max(1))).ok()
        };
        Usage {
            wall_ms: Some(wall_ms),
            gpus: (!gpus.is_empty()).then_some(gpus.len() as u64),
            gpus_idle: known.then(|| gpus.iter().filter(is_idle).count() as u64),
            gpu_busy: mean(|gpu| gpu.busy.value()),
            gpu_busy_max: gpus.iter().filter_map(|gpu| gpu.busy_max).max(),
            gpu_memory_busy: mean(|gpu| gpu.memory_busy.value()),
            occupancy: mean(|gpu| gpu.occupancy.value()),
            energy_mj: gpus.iter().filter_map(energy).reduce(u64::saturating_add),
            ..self.usage.clone()
        }
    }

    /// In all: it ran for so long, and the kernel says this of it.
    pub(super) fn end(&self, ran_ms: u64, spent: Option<Spent>) -> Usage {
        let usage = self.until(ran_ms);
        let spent_cpu = spent.map(|spent| spent.cpu_ms);
        Usage {
            cpu_ms: most(usage.cpu_ms, spent_cpu),
            read: most(usage.read, spent.and_then(|spent| spent.read)),
            written: most(usage.written, spent.and_then(|spent| spent.written)),
            ..usage
        }
    }
}

/// A part of a device's energy or power, for one of several that share it.
pub(super) fn share_of(value: u64, share: u64) -> u64 {
    let part = u128::from(value) * u128::from(share) / u128::from(WHOLE);
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// A percentage, in ten-thousandths.
pub(super) fn of_percent(percent: u64) -> u64 {
    part_of(percent, 100).min(WHOLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(at_ms: u64) -> Look {
        Look { at_ms, ..Look::default() }
    }

    #[test]
    fn time_is_what_was_seen_last_and_memory_the_most() {
        let mut account = Account::default();
        for (ms, cpu, memory) in
            [(1_000, 500, 10 << 20), (2_000, 1_500, 30 << 20), (7_000, 1_400, 5)]
        {
            account.add(&Look { cpu_ms: Some(cpu), memory: Some(memory), ..at(ms) });
        }
        let usage = account.usage();
        assert_eq!(
            (usage.cpu_ms, usage.memory, usage.looks),
            (Some(1_500), Some(30 << 20), Some(3))
        );
        assert_eq!((usage.wall_ms, usage.gpus, usage.read), (Some(7_000), None, None));
        let points = account.series().unwrap().points;
        let found: Vec<_> = points.iter().map(|point| (point.cpu, point.memory)).collect();
        assert_eq!(found[..3], [(500, 10), (1_000, 30), (0, 1)]);
        // The kernel knows what it did after the last look, and before the first.
        let spent = Spent { cpu_ms: 9_000, read: Some(4_096), written: None };
        let end = account.end(8_000, Some(spent));
        assert_eq!((end.cpu_ms, end.wall_ms, end.read), (Some(9_000), Some(8_000), Some(4_096)));
        assert_eq!(end.written, None, "not for us to see");
    }

    #[test]
    fn an_attempt_that_nobody_looked_at_has_used_what_the_kernel_says() {
        let spent = Spent { cpu_ms: 7, read: Some(0), written: Some(1) };
        let end = Account::default().end(20, Some(spent));
        let expected = Usage {
            wall_ms: Some(20),
            cpu_ms: Some(7),
            read: Some(0),
            written: Some(1),
            ..Usage::default()
        };
        assert_eq!(end, expected);
        assert_eq!(Account::default().series(), None);
    }

    #[test]
    fn waiting_is_counted_or_seen() {
        let mut account = Account::default();
        for (ms, waits) in [(1_000, true), (2_000, false), (5_000, true)] {
            account.add(&Look { waited: Waited::Now(waits), ..at(ms) });
        }
        assert_eq!(account.usage().waited_ms, Some(4_000));
        let mut account = Account::default();
        account.add(&Look { waited: Waited::SoFar(250), ..at(1_000) });
        assert_eq!(account.usage().waited_ms, Some(250));
    }

    #[test]
    fn gpus_are_averaged_over_time_and_over_each_other() {
        let mut account = Account::default();
        let gpu = |busy, memory, energy_mj| GpuLook {
            busy: Some(busy),
            memory: Some(memory),
            memory_of: Some(100),
            energy_mj: Some(energy_mj),
            power_mw: Some(300_000),
            temperature: Some(busy / 200),
            throttle: Some(u64::from(busy > 9_000) * 4),
            ..GpuLook::default()
        };
        // What was there before it began is not its own.
        account.add(&Look { gpus: vec![gpu(10_000, 90, 5_000), gpu(0, 0, 0)], ..at(0) });
        account.add(&Look { gpus: vec![gpu(2_000, 10, 1_000), gpu(50, 1, 10)], ..at(1_000) });
        account.add(&Look { gpus: vec![gpu(9_500, 20, 3_000), gpu(0, 1, 10)], ..at(4_000) });
        let usage = account.usage();
        // (2,000 for one second and 9,500 for three, and next to nothing) in halves.
        assert_eq!(usage.gpu_busy, Some(7_625_u64.midpoint(12)));
        assert_eq!(
            (usage.gpu_busy_max, usage.gpus, usage.gpus_idle),
            (Some(9_500), Some(2), Some(1))
        );
        assert_eq!((usage.gpu_memory, usage.gpu_memory_of), (Some(20), Some(100)));
        assert_eq!((usage.energy_mj, usage.power_max_mw), (Some(4_020), Some(600_000)));
        assert_eq!((usage.throttled_ms, usage.throttle_reasons), (Some(3_000), Some(4)));
        assert_eq!(usage.temperature_max, Some(47));
        // The last second was like those before it.
        assert_eq!(account.end(5_000, None).energy_mj, Some(5_025));
        let series = account.series().unwrap();
        assert!(series.has_gpu);
        assert_eq!((series.points[0].gpu, series.points[0].power), (1_025, 600));
    }

    #[test]
    fn parts_of_a_shared_card_are_parts() {
        assert_eq!((share_of(1_000, 2_500), share_of(7, WHOLE)), (250, 7));
        assert_eq!((of_percent(37), of_percent(250)), (3_700, WHOLE));
    }
}
