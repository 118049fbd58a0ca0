//! How an attempt went over time: a small row of points, however long it runs.
//!
//! Time is cut into steps of one length. When there are too many, neighbours are put together and
//! the step doubles: so there are never more than a screen shows, and never fewer than half of it.
//! What is averaged is averaged over time, and a peak stays one. Nothing here looks at anything.

use serde::{Deserialize, Serialize};

/// Points of one attempt.
pub const MOST_POINTS: usize = 240;
/// The first step, in milliseconds: how often is looked at first.
pub const FIRST_STEP_MS: u64 = 1_000;

/// What was seen over one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Thousandths of a core, on average.
    pub cpu: u32,
    /// The most memory, in MiB.
    pub memory: u32,
    /// How busy its GPUs were on average, in ten-thousandths.
    pub gpu: u32,
    /// The most memory on one GPU, in MiB.
    pub gpu_memory: u32,
    /// Power of its GPUs on average, in watts.
    pub power: u32,
}

/// The row as it is sent and kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// How long a point is; the last one may be shorter.
    pub step_ms: u64,
    pub points: Vec<Point>,
    /// Whether a GPU was looked at.
    pub has_gpu: bool,
}

impl Series {
    /// The same with so many points at most: neighbours are put together until it has no more.
    #[must_use]
    pub fn thinned(mut self, most: usize) -> Series {
        while self.points.len() > most.max(1) {
            let pairs = self.points.chunks(2).map(|pair| match pair {
                [first, second] => first.with(second),
                _ => pair.first().copied().unwrap_or_default(),
            });
            self.points = pairs.collect();
            self.step_ms = self.step_ms.saturating_mul(2);
        }
        self
    }
}

impl Point {
    /// Two neighbours of one length as one.
    fn with(&self, other: &Point) -> Point {
        let mean = |one: u32, other: u32| one.midpoint(other);
        Point {
            cpu: mean(self.cpu, other.cpu),
            memory: self.memory.max(other.memory),
            gpu: mean(self.gpu, other.gpu),
            gpu_memory: self.gpu_memory.max(other.gpu_memory),
            power: mean(self.power, other.power),
        }
    }
}

/// A step as it is being filled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Bin {
    /// Milliseconds that are known of it.
    known: u64,
    /// Sums over them.
    cpu: u64,
    gpu: u64,
    power: u64,
    memory: u32,
    gpu_memory: u32,
}

impl Bin {
    fn add(&mut self, point: &Point, ms: u64) {
        let times = |value: u32| u64::from(value).saturating_mul(ms);
        self.merge(&Bin {
            known: ms,
            cpu: times(point.cpu),
            gpu: times(point.gpu),
            power: times(point.power),
            memory: point.memory,
            gpu_memory: point.gpu_memory,
        });
    }

    fn merge(&mut self, other: &Bin) {
        self.known = self.known.saturating_add(other.known);
        self.cpu = self.cpu.saturating_add(other.cpu);
        self.gpu = self.gpu.saturating_add(other.gpu);
        self.power = self.power.saturating_add(other.power);
        self.memory = self.memory.max(other.memory);
        self.gpu_memory = self.gpu_memory.max(other.gpu_memory);
    }

    fn point(&self) -> Point {
        let mean = |sum: u64| u32::try_from(sum / self.known.max(1)).unwrap_or(u32::MAX);
        Point {
            cpu: mean(self.cpu),
            memory: self.memory,
            gpu: mean(self.gpu),
            gpu_memory: self.gpu_memory,
            power: mean(self.power),
        }
    }
}

/// Makes a series as it is told what happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorder {
    step_ms: u64,
    bins: Vec<Bin>,
    /// Up to here is known, from the attempt's start.
    until_ms: u64,
    has_gpu: bool,
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder { step_ms: FIRST_STEP_MS, bins: Vec::new(), until_ms: 0, has_gpu: false }
    }
}

impl Recorder {
    /// This was so since what was said last, until so many milliseconds after the start. What is
    /// said of the past is not heard.
    pub fn add(&mut self, until_ms: u64, point: &Point, has_gpu: bool) {
        self.has_gpu |= has_gpu;
        let mut from = self.until_ms;
        while until_ms.div_ceil(self.step_ms) > MOST_POINTS as u64 {
            self.halve();
        }
        while from < until_ms {
            let at = from / self.step_ms;
            let end = (at + 1).saturating_mul(self.step_ms).min(until_ms);
            let at = usize::try_from(at).unwrap_or(usize::MAX).min(MOST_POINTS - 1);
            if self.bins.len() <= at {
                self.bins.resize(at + 1, Bin::default());
            }
            if let Some(bin) = self.bins.get_mut(at) {
                bin.add(point, end - from);
            }
            from = end;
        }
        self.until_ms = self.until_ms.max(until_ms);
    }

    /// Puts neighbours together.
    fn halve(&mut self) {
        self.step_ms = self.step_ms.saturating_mul(2);
        let pairs = self.bins.chunks(2).map(|pair| {
            let mut whole = Bin::default();
            for bin in pair {
                whole.merge(bin);
            }
            whole
        });
        self.bins = pairs.collect();
    }

    pub fn series(&self) -> Series {
        let points = self.bins.iter().map(Bin::point).collect();
        Series { step_ms: self.step_ms, points, has_gpu: self.has_gpu }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(cpu: u32) -> Point {
        Point { cpu, memory: cpu, ..Point::default() }
    }

    #[test]
    fn averages_are_over_time_and_peaks_stay() {
        let mut recorder = Recorder::default();
        recorder.add(500, &cpu(1_000), false);
        recorder.add(1_000, &cpu(0), false);
        // One look over three steps, of which the last has just begun.
        recorder.add(3_250, &cpu(200), true);
        let series = recorder.series();
        let found: Vec<_> = series.points.iter().map(|it| (it.cpu, it.memory)).collect();
        assert_eq!(found, [(500, 1_000), (200, 200), (200, 200), (200, 200)]);
        assert_eq!((series.step_ms, series.has_gpu), (1_000, true));
        recorder.add(3_000, &cpu(9_000), false);
        assert_eq!(recorder.series(), series, "that is over");
    }

    #[test]
    fn a_full_row_doubles_its_step() {
        let mut recorder = Recorder::default();
        for second in 1..=MOST_POINTS as u64 {
            recorder.add(second * 1_000, &cpu(u32::try_from(second).unwrap()), false);
        }
        let full = recorder.series();
        assert_eq!((full.points.len(), full.step_ms), (MOST_POINTS, 1_000));
        recorder.add(241_000, &cpu(7), false);
        let halved = recorder.series();
        assert_eq!((halved.points.len(), halved.step_ms), (MOST_POINTS / 2 + 1, 2_000));
        // 1 and 2, whole numbers; of both the larger.
        assert_eq!((halved.points[0].cpu, halved.points[0].memory), (1, 2));
        assert_eq!(halved.points[119].memory, 240);
        assert_eq!((halved.points[120].cpu, halved.points[120].memory), (7, 7));
    }

    #[test]
    fn what_is_kept_for_long_gets_thinner() {
        let points =
            [(10, 5), (20, 1), (40, 9)].map(|(cpu, memory)| Point { memory, ..self::cpu(cpu) });
        let series = Series { step_ms: 1_000, points: points.to_vec(), has_gpu: false };
        let thin = series.clone().thinned(2);
        let found: Vec<_> = thin.points.iter().map(|it| (it.cpu, it.memory)).collect();
        assert_eq!((thin.step_ms, found), (2_000, vec![(15, 5), (40, 9)]));
        assert_eq!(series.clone().thinned(3), series);
        assert_eq!(series.thinned(0).points.len(), 1);
    }

    /// Whatever is said, there is an end to it, and the mean of all is what was said.
    #[test]
    fn a_row_has_an_end_and_loses_nothing() {
        let mut recorder = Recorder::default();
        let mut at = 0;
        for look in 0..5_000_u64 {
            at += 1 + look * 37 % 9_000;
            recorder.add(at, &cpu(1_000), false);
            assert!(recorder.bins.len() <= MOST_POINTS);
        }
        let known: u64 = recorder.bins.iter().map(|bin| bin.known).sum();
        assert_eq!(known, at);
        assert!(recorder.series().points.iter().all(|point| point.cpu == 1_000));
        recorder.add(u64::MAX, &cpu(1), false);
        assert!(recorder.bins.len() <= MOST_POINTS);
    }
}
