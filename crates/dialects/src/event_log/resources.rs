//! What a task asked for and got, as HTCondor's log shows it.

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
        rows.into_iter().filter(|(_, _, amount)| *amount > 0).collect()
    }

    /// The lines below an execution's start.
    pub(super) fn write_provided(&self, out: &mut String) {
        for (name, _, amount) in self.rows() {
            line(out, &format!("\t{name} = {amount}"));
        }
    }

    /// The table below an end. How much of it was used is not measured.
    pub(super) fn write_table(&self, out: &mut String, ran_ms: Option<u64>) {
        let assigned = if self.devices.is_empty() { "" } else { "Assigned" };
        line(out, &format!("\tPartitionable Resources :    Usage  Request Allocated {assigned}"));
        for (name, unit, amount) in self.rows() {
            let devices = match name {
                "GPUs" if !self.devices.is_empty() => format!("\"{}\"", self.devices.join(",")),
                _ => String::new(),
            };
            let label = format!("{name}{unit}");
            line(out, &format!("\t   {label:<20} : {:>8} {amount:>8} {amount:>9} {devices}", ""));
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
