//! What is used in the cgroups of one container, read from their files. Both versions. Limits are
//! `cgroup.rs`; nothing is changed here.

use std::fs;
use std::path::{Path, PathBuf};

/// Processes of one group that are listed: more than programs have that work.
const MOST_PROCESSES: usize = 4_096;

/// Where to look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meter {
    pub(crate) memory: Option<PathBuf>,
    /// Any of its directories.
    pub(crate) any: Option<PathBuf>,
    pub(crate) cpu: Option<PathBuf>,
}

/// What is there. `None`: this node does not count it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metered {
    pub cpu_ms: Option<u64>,
    /// What cannot be taken back: anonymous memory and files in memory, not what is only cached.
    pub memory: Option<u64>,
    /// How long all of it waited for storage.
    pub waited_ms: Option<u64>,
    pub processes: Vec<i32>,
}

impl Meter {
    pub fn read(&self) -> Metered {
        let memory = self.memory.as_deref().and_then(|group| text(group, "memory.stat"));
        Metered {
            cpu_ms: self.cpu.as_deref().and_then(cpu_ms),
            memory: memory.as_deref().and_then(held),
            waited_ms: self.any.as_deref().and_then(waited_ms),
            processes: self.any.as_deref().map(processes).unwrap_or_default(),
        }
    }
}

fn text(group: &Path, file: &str) -> Option<String> {
    fs::read_to_string(group.join(file)).ok()
}

fn value(text: &str, name: &str) -> Option<u64> {
    let mut found = text.lines().filter_map(|line| line.split_once(' '));
    found.find(|(known, _)| *known == name)?.1.trim().parse().ok()
}

/// Version 2 counts in microseconds, version 1 in nanoseconds.
fn cpu_ms(group: &Path) -> Option<u64> {
    let newer = text(group, "cpu.stat").and_then(|text| value(&text, "usage_usec"));
    let older = || text(group, "cpuacct.usage")?.trim().parse::<u64>().ok();
    newer.map(|micros| micros / 1_000).or_else(|| older().map(|nanos| nanos / 1_000_000))
}

/// Of version 2; of version 1 with what is below.
fn held(stat: &str) -> Option<u64> {
    let older = || value(stat, "total_rss").zip(value(stat, "total_shmem").or(Some(0)));
    let (own, files) = value(stat, "anon").zip(value(stat, "shmem")).or_else(older)?;
    Some(own.saturating_add(files))
}

fn waited_ms(group: &Path) -> Option<u64> {
    let pressure = text(group, "io.pressure")?;
    let line = pressure.lines().find_map(|line| line.strip_prefix("full "))?;
    let micros = line.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
    Some(micros.parse::<u64>().ok()? / 1_000)
}

fn processes(group: &Path) -> Vec<i32> {
    let listed = text(group, "cgroup.procs").unwrap_or_default();
    listed.lines().filter_map(|line| line.trim().parse().ok()).take(MOST_PROCESSES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(files: &[(&str, &str)]) -> (tempfile::TempDir, Meter) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let place = Some(dir.path().to_owned());
        let meter = Meter { memory: place.clone(), any: place.clone(), cpu: place };
        (dir, meter)
    }

    #[test]
    fn version_2_is_read() {
        let (_dir, meter) = group(&[
            ("cpu.stat", "usage_usec 2500000\nuser_usec 1\n"),
            ("memory.stat", "anon 100\nfile 9000\nshmem 20\n"),
            ("io.pressure", "some avg10=0 total=9000\nfull avg10=0.00 avg60=0.00 total=4000\n"),
            ("cgroup.procs", "7\n8\n"),
        ]);
        let expected = Metered {
            cpu_ms: Some(2_500),
            memory: Some(120),
            waited_ms: Some(4),
            processes: vec![7, 8],
        };
        assert_eq!(meter.read(), expected);
    }

    #[test]
    fn version_1_is_read_and_what_is_not_there_is_not_known() {
        let (_dir, meter) = group(&[
            ("cpuacct.usage", "2500000000\n"),
            ("memory.stat", "cache 9\nrss 1\ntotal_cache 9000\ntotal_rss 100\ntotal_shmem 20\n"),
        ]);
        let expected = Metered { cpu_ms: Some(2_500), memory: Some(120), ..Metered::default() };
        assert_eq!(meter.read(), expected);
        let (_dir, meter) = group(&[("memory.stat", "total_rss 100\n")]);
        assert_eq!(meter.read().memory, Some(100), "of an older kernel");
        assert_eq!(Meter::default().read(), Metered::default());
    }
}
