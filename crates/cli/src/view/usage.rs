//! What an attempt has used, in a few lines: sums, how it went over time, and a piece of advice.

use super::job_detail::fact;
use super::paper::{Paper, Tone};
use super::time::short;
use shipway_api::types::{AdviceView, SeriesView};
use shipway_model::usage::{WHOLE, part_of};
use shipway_model::{Bytes, Cores, Millis, Usage};

/// Characters of a line over time.
const WIDTH: usize = 60;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What is known, each in a line of its own; nothing where nothing is.
pub(super) fn write_usage(paper: &mut Paper, usage: &Usage) {
    for (name, line) in [
        ("cpu", cpu(usage)),
        ("memory", usage.memory.map(|bytes| format!("{} at most", Bytes(bytes)))),
        ("storage", storage(usage)),
        ("gpu", gpu(usage)),
        ("gpu memory", gpu_memory(usage)),
        ("gpu power", power(usage)),
        ("gpu given", usage.gpu_given_ms.map(|given| format!("{} of GPU time", time(given)))),
    ] {
        if let Some(line) = line {
            fact(paper, name, &line);
        }
    }
    if let Some(errors) = usage.ecc_errors.filter(|errors| *errors > 0) {
        fact(paper, "gpu errors", &format!("{errors} that could not be corrected"));
    }
}

pub(super) fn write_advice(paper: &mut Paper, advice: Option<&AdviceView>) {
    if let Some(advice) = advice {
        paper.write(Tone::Faint, "  advice      ");
        paper.write(Tone::Strong, &advice.words);
        paper.end_line();
    }
}

/// How it went over time: processors, and the GPUs where there are some.
pub(super) fn write_series(paper: &mut Paper, series: &SeriesView) {
    if series.cpu_milli.len() < 2 {
        return;
    }
    let most = series.cpu_milli.iter().copied().max().unwrap_or(0);
    let cores = Cores { milli: u64::from(most).div_ceil(10) * 10 };
    fact(paper, "cpu", &format!("{}  up to {cores} cores", bars(&series.cpu_milli, most)));
    let most = series.memory_mib.iter().copied().max().unwrap_or(0);
    let bytes = Bytes(u64::from(most) << 20);
    fact(paper, "memory", &format!("{}  up to {bytes}", bars(&series.memory_mib, most)));
    if !series.gpu_busy.is_empty() {
        let whole = u32::try_from(WHOLE).unwrap_or(u32::MAX);
        fact(paper, "gpu", &format!("{}  of 100 %", bars(&series.gpu_busy, whole)));
    }
}

fn cpu(usage: &Usage) -> Option<String> {
    let (cpu, wall) = (usage.cpu_ms?, usage.wall_ms.filter(|wall| *wall > 0)?);
    let cores = Cores { milli: cpu.saturating_mul(100) / wall * 10 };
    Some(format!("{} on processors, {cores} cores on average", time(cpu)))
}

fn storage(usage: &Usage) -> Option<String> {
    let (read, written) = (Bytes(usage.read?), Bytes(usage.written?));
    let waited = usage.waited_ms.zip(usage.wall_ms).map(|(waited, wall)| part_of(waited, wall));
    let waited = waited.filter(|part| *part >= 100);
    let waited = waited.map(|part| format!(", waited {} of the time", percent(part)));
    Some(format!("{read} read, {written} written{}", waited.unwrap_or_default()))
}

fn gpu(usage: &Usage) -> Option<String> {
    let (busy, most) = (usage.gpu_busy?, usage.gpu_busy_max?);
    let mut parts = vec![format!("{} busy", percent(busy)), format!("{} at most", percent(most))];
    parts.extend(usage.gpu_memory_busy.map(|part| format!("its memory {}", percent(part))));
    parts.extend(usage.occupancy.map(|part| format!("multiprocessors {} full", percent(part))));
    if let (Some(gpus), Some(idle)) = (usage.gpus.filter(|gpus| *gpus > 1), usage.gpus_idle) {
        parts.push(format!("mean of {gpus} of which {idle} were never busy"));
    }
    Some(parts.join(", "))
}

fn gpu_memory(usage: &Usage) -> Option<String> {
    let (used, of) = (Bytes(usage.gpu_memory?), usage.gpu_memory_of.map(Bytes));
    let of = of.map(|of| format!(" of {of}")).unwrap_or_default();
    Some(format!("{used}{of} at most"))
}

fn power(usage: &Usage) -> Option<String> {
    let kilowatt_hours = |mj: u64| Cores { milli: mj / 3_600_000 };
    let mut parts = Vec::new();
    if let Some(energy) = usage.energy_mj {
        // Thousandths of a joule: a kilowatt-hour is 3.6 million joules. Below a tenth of one it
        // has too few digits.
        parts.push(match energy {
            0..360_000_000 => format!("{} J", energy / 1_000),
            _ => format!("{} kWh", kilowatt_hours(energy)),
        });
    }
    parts.extend(usage.power_max_mw.map(|most| format!("{} W at most", most / 1_000)));
    parts.extend(usage.temperature_max.map(|most| format!("{most} °C at most")));
    let held = usage.throttled_ms.zip(usage.wall_ms).map(|(held, wall)| part_of(held, wall));
    let held = held.filter(|part| *part >= 100);
    parts.extend(held.map(|part| format!("clocks held back {} of the time", percent(part))));
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn time(ms: u64) -> String {
    short(Millis(ms))
}

fn percent(part: u64) -> String {
    format!("{} %", (part + 50) / (WHOLE / 100))
}

/// One character for each point, or for several neighbours: their mean.
fn bars(values: &[u32], most: u32) -> String {
    let each = values.len().div_ceil(WIDTH).max(1);
    let mean = |some: &[u32]| {
        some.iter().map(|value| u64::from(*value)).sum::<u64>() / some.len().max(1) as u64
    };
    let bar = |value: u64| {
        let top = BARS.len() as u64 - 1;
        let at = value.saturating_mul(top).saturating_add(u64::from(most) / 2);
        let at = (at / u64::from(most.max(1))).min(top);
        usize::try_from(at).ok().and_then(|at| BARS.get(at)).copied().unwrap_or(' ')
    };
    values.chunks(each).map(|some| bar(mean(some))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_over_time_is_as_wide_as_it_may_be() {
        assert_eq!(bars(&[0, 5_000, 10_000], 10_000), "▁▅█");
        assert_eq!(bars(&[0, 0], 0), "▁▁");
        assert_eq!(bars(&[1; 240], 1).chars().count(), WIDTH);
        assert_eq!(bars(&[20_000], 10_000), "█");
    }

    #[test]
    fn energy_and_power_are_in_the_units_people_know() {
        let some = |energy| Usage { energy_mj: Some(energy), ..Usage::default() };
        assert_eq!(power(&some(359_999_999)).as_deref(), Some("359999 J"));
        assert_eq!(power(&some(1_260_000_000)).as_deref(), Some("0.35 kWh"));
        assert_eq!(power(&Usage::default()), None);
    }
}
