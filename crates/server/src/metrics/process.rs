//! This process as the kernel sees it, under the names that Prometheus' own libraries use. What
//! cannot be read is left out.

use super::text::{Kind, Text, decimal};
use shipway_model::Timestamp;
use std::fs;

pub(super) fn write(text: &mut Text, started: Timestamp) {
    let began = decimal(started.0, 3);
    let help = "When the server started.";
    text.single("process_start_time_seconds", Kind::Gauge, help, began);
    let page = rustix::param::page_size() as u64;
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut sizes = statm.split(' ').map_while(|pages| pages.parse::<u64>().ok());
    if let (Some(all), Some(resident)) = (sizes.next(), sizes.next()) {
        let help = "Virtual memory.";
        text.single("process_virtual_memory_bytes", Kind::Gauge, help, all * page);
        let help = "Resident memory.";
        text.single("process_resident_memory_bytes", Kind::Gauge, help, resident * page);
    }
    if let Some(ticks) = cpu_ticks(&fs::read_to_string("/proc/self/stat").unwrap_or_default()) {
        let hundredths = ticks * 100 / rustix::param::clock_ticks_per_second().max(1);
        let seconds = decimal(hundredths, 2);
        let help = "Time on the processors, in user and kernel mode.";
        text.single("process_cpu_seconds_total", Kind::Counter, help, seconds);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        let help = "Open file descriptors.";
        text.single("process_open_fds", Kind::Gauge, help, open.count());
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if let Some(limit) = limit {
        let help = "File descriptors that may be open.";
        text.single("process_max_fds", Kind::Gauge, help, limit);
    }
}

/// The 14th and 15th fields; the second is the program's name, which may hold anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_does_not_shift_the_fields() {
        let stat = "7 (a ) 9 b) S 1 7 7 0 -1 4194560 1 0 0 0 12 30 0 0 20 0 9 0 55 1 1";
        assert_eq!(cpu_ticks(stat), Some(42));
    }
}
