//! What a task asked for, got and used, as HTCondor's log shows it.

use super::line;

/// Of one task. What was not asked for is not shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    pub cpus_milli: u64,
    pub memory: u64,
    pub disk: u64,
    pub gpus: u64,
    /// The devices it was given.
    pub devices: Vec<String>,
    pub used: Used,
}

/// What an attempt has used; what was not measured is left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    pub cpu_ms: Option<u64>,
    /// On average, in thousandths of a core.
    pub cpus_milli: Option<u64>,
    /// At most, in bytes.
    pub memory: Option<u64>,
    /// On average, in thousandths of a GPU.
    pub gpus_milli: Option<u64>,
}

/// Thousandths as HTCondor writes them, with two places.
fn hundredths(milli: u64) -> String {
    let hundredths = milli.saturating_add(5) / 10;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

impl Resources {
    /// Names, units and amounts, as HTCondor sorts and rounds them: up, to its own units.
    fn rows(&self) -> Vec<(&'static str, &'static str, u64)> {
        let rows = [
            ("Cpus", "", self.cpus_milli.div_ceil(1_000)),
            ("Disk", " (KB)", self.disk.div_ceil(KIB)),
            ("GPUs", "", self.gpus),
            ("Memory", " (MB)", self.memory.div_ceil(MIB)),
        ];
        // What was used and not asked for is shown too, as HTCondor does.
        let is_shown = |(name, _, amount): &(&str, &str, u64)| {
            *amount > 0 || (*name == "Memory" && self.used.memory.is_some())
        };
        rows.into_iter().filter(is_shown).collect()
    }

    /// What was used of one of them.
    fn used(&self, name: &str) -> String {
        let used = &self.used;
        let shown = match name {
            "Cpus" => used.cpus_milli.map(hundredths),
            "GPUs" => used.gpus_milli.map(hundredths),
            "Memory" => used.memory.map(|bytes| bytes.div_ceil(MIB).to_string()),
            _ => None,
        };
        shown.unwrap_or_default()
    }

    /// The lines below an execution's start.
    pub(super) fn write_provided(&self, out: &mut String) {
        for (name, _, amount) in self.rows().into_iter().filter(|(_, _, amount)| *amount > 0) {
            line(out, &format!("\t{name} = {amount}"));
        }
    }

    /// The table below an end.
    pub(super) fn write_table(&self, out: &mut String, ran_ms: Option<u64>) {
        let assigned = if self.devices.is_empty() { "" } else { "Assigned" };
        line(out, &format!("\tPartitionable Resources :    Usage  Request Allocated {assigned}"));
        for (name, unit, amount) in self.rows() {
            let devices = match name {
                "GPUs" if !self.devices.is_empty() => format!("\"{}\"", self.devices.join(",")),
                _ => String::new(),
            };
            let label = format!("{name}{unit}");
            let used = self.used(name);
            let amount = if amount > 0 { amount.to_string() } else { String::new() };
            line(out, &format!("\t   {label:<20} : {used:>8} {amount:>8} {amount:>9} {devices}"));
        }
        if let Some(ran_ms) = ran_ms {
            let seconds = ran_ms / 1_000;
            line(
                out,
                &format!("\t   {:<20} : {seconds:>8} {:>8} {:>9} ", "TimeExecute (s)", "", ""),
            );
        }
    }
}
