//! What attempts have used, on the wire: sums, and how it went over time. The same form of a series
//! is what the server keeps.

use super::BadMessage;
use crate::wire;
use prost::Message as _;
use shipway_model::series::{MOST_POINTS, Point};
use shipway_model::{AttemptId, Series, Usage};

/// One message of series: some ten of the longest.
pub const MAX_SERIES_BYTES: usize = 64 << 10;

/// How one attempt went so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesOf {
    pub id: AttemptId,
    pub series: Series,
}

impl From<Usage> for wire::Usage {
    fn from(usage: Usage) -> Self {
        wire::Usage {
            wall_ms: usage.wall_ms,
            looks: usage.looks,
            cpu_ms: usage.cpu_ms,
            memory: usage.memory,
            read: usage.read,
            written: usage.written,
            waited_ms: usage.waited_ms,
            gpus: usage.gpus,
            gpus_idle: usage.gpus_idle,
            gpu_busy: usage.gpu_busy,
            gpu_busy_max: usage.gpu_busy_max,
            gpu_memory_busy: usage.gpu_memory_busy,
            gpu_memory: usage.gpu_memory,
            gpu_memory_of: usage.gpu_memory_of,
            energy_mj: usage.energy_mj,
            power_max_mw: usage.power_max_mw,
            temperature_max: usage.temperature_max,
            throttled_ms: usage.throttled_ms,
            throttle_reasons: usage.throttle_reasons,
            ecc_errors: usage.ecc_errors,
            occupancy: usage.occupancy,
        }
    }
}

/// Whatever the numbers are, they are held to what can be.
pub(super) fn read_usage(usage: &wire::Usage) -> Usage {
    let read = Usage {
        wall_ms: usage.wall_ms,
        looks: usage.looks,
        cpu_ms: usage.cpu_ms,
        memory: usage.memory,
        read: usage.read,
        written: usage.written,
        waited_ms: usage.waited_ms,
        gpu_given_ms: None,
        gpus: usage.gpus,
        gpus_idle: usage.gpus_idle,
        gpu_busy: usage.gpu_busy,
        gpu_busy_max: usage.gpu_busy_max,
        gpu_memory_busy: usage.gpu_memory_busy,
        gpu_memory: usage.gpu_memory,
        gpu_memory_of: usage.gpu_memory_of,
        energy_mj: usage.energy_mj,
        power_max_mw: usage.power_max_mw,
        temperature_max: usage.temperature_max,
        throttled_ms: usage.throttled_ms,
        throttle_reasons: usage.throttle_reasons,
        ecc_errors: usage.ecc_errors,
        occupancy: usage.occupancy,
    };
    read.bounded()
}

impl From<SeriesOf> for wire::Series {
    fn from(SeriesOf { id, series }: SeriesOf) -> Self {
        let column = |value: fn(&Point) -> u32| series.points.iter().map(value).collect();
        let of_gpu = |value: fn(&Point) -> u32| {
            if series.has_gpu { column(value) } else { Vec::new() }
        };
        wire::Series {
            id: Some(id.into()),
            step_ms: series.step_ms,
            cpu: column(|point| point.cpu),
            memory: column(|point| point.memory),
            gpu: of_gpu(|point| point.gpu),
            gpu_memory: of_gpu(|point| point.gpu_memory),
            power: of_gpu(|point| point.power),
        }
    }
}

pub(super) fn read_series(series: wire::Series) -> Result<SeriesOf, BadMessage> {
    let wire::Series { id, step_ms, cpu, memory, gpu, gpu_memory, power } = series;
    let id = id.ok_or(BadMessage::Missing("attempt"))?.into();
    let length = cpu.len();
    let is_column = |column: &Vec<u32>| column.is_empty() || column.len() == length;
    if length > MOST_POINTS {
        return Err(BadMessage::TooLong("series"));
    }
    if step_ms == 0 || ![&memory, &gpu, &gpu_memory, &power].into_iter().all(is_column) {
        return Err(BadMessage::Missing("point of a series"));
    }
    let value = |column: &[u32], at: usize| column.get(at).copied().unwrap_or(0);
    let point = |(at, cpu): (usize, &u32)| Point {
        cpu: *cpu,
        memory: value(&memory, at),
        gpu: value(&gpu, at),
        gpu_memory: value(&gpu_memory, at),
        power: value(&power, at),
    };
    let points = cpu.iter().enumerate().map(point).collect();
    Ok(SeriesOf { id, series: Series { step_ms, points, has_gpu: !gpu.is_empty() } })
}

impl SeriesOf {
    /// As it is kept.
    pub fn packed(self) -> Vec<u8> {
        wire::Series::from(self).encode_to_vec()
    }

    /// What was kept; `None` where it cannot be read.
    pub fn unpacked(bytes: &[u8]) -> Option<Self> {
        read_series(wire::Series::decode(bytes).ok()?).ok()
    }
}
