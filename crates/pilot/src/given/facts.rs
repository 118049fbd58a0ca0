//! What is known around the pilot when it starts, gathered once: the edge of `given` that looks.

use super::htcondor::{self, MACHINE_AD};
use super::{devices::quoted, slurm};
use crate::probe::Places;
use shipway_classad::{Ad, Context, Name, Sides, Value, evaluate_attribute, parse_old_ad};
use shipway_model::units::{Bytes, Cores};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Machine ads have a few hundred lines.
const MAX_AD_BYTES: u64 = 256 << 10;
/// Longest value of a variable that is looked at.
const MAX_VALUE_BYTES: usize = 64 << 10;
/// No period of a group is as short; what is written otherwise is no quota.
const LEAST_PERIOD: u64 = 1_000;

#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Variables that batch systems set, those that are set.
    pub environment: BTreeMap<String, String>,
    /// The slot's ad where one is named; why it could not be read.
    pub machine_ad: Option<Result<MachineAd, String>>,
    /// The processors this process may run on.
    pub affinity: Option<Cores>,
    /// What the control groups of this process leave it, of either version.
    pub cpu_quota: Option<Cores>,
    pub memory_limit: Option<Bytes>,
}

/// What of a slot's ad matters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineAd {
    pub cpus: Option<u64>,
    pub memory_mib: Option<u64>,
    pub disk_kib: Option<u64>,
    pub gpus: Option<String>,
}

impl Facts {
    pub fn gather(places: &Places) -> Self {
        let names = slurm::VARIABLES.iter().chain(&htcondor::VARIABLES);
        let value = |name: &&str| {
            let value = std::env::var(name).ok().filter(|text| text.len() <= MAX_VALUE_BYTES)?;
            Some(((*name).to_owned(), value))
        };
        let environment: BTreeMap<String, String> = names.filter_map(value).collect();
        let machine_ad = environment.get(MACHINE_AD).map(|path| read_ad(Path::new(path)));
        let affinity = rustix::thread::sched_getaffinity(None).ok();
        let affinity = affinity.map(|set| Cores::whole(u64::from(set.count())));
        let groups = Groups::of_this_process(places);
        Facts {
            environment,
            machine_ad,
            affinity,
            cpu_quota: groups.lowest_quota(),
            memory_limit: groups.lowest_memory(),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str)
    }

    pub(super) fn number(&self, name: &str, notes: &mut Vec<String>) -> Option<u64> {
        let text = self.get(name)?;
        let number = text.trim().parse().ok();
        if number.is_none() {
            notes.push(format!("{name} is {}, which is not a number", quoted(text)));
        }
        number
    }
}

fn read_ad(path: &Path) -> Result<MachineAd, String> {
    let failed = |why: String| format!("cannot read {}: {why}", path.display());
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut text = Vec::new();
    let read = file.take(MAX_AD_BYTES + 1).read_to_end(&mut text);
    read.map_err(|error| failed(error.to_string()))?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > MAX_AD_BYTES {
        return Err(failed(format!("it is longer than {MAX_AD_BYTES} bytes")));
    }
    MachineAd::parse(&text).map_err(failed)
}

impl MachineAd {
    /// From an ad of one attribute a line. What it says in expressions is worked out.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let ad: Ad = parse_old_ad(text).map_err(|error| error.to_string())?;
        let sides = Sides::new(Arc::new(ad), Arc::default());
        let context = Context::default();
        let value = |name: &str| evaluate_attribute(&Name::from(name), &sides, &context).value;
        let number = |name: &str| match value(name) {
            Value::Integer(number) => u64::try_from(number).ok(),
            _ => None,
        };
        let text = |name: &str| match value(name) {
            Value::String(text) => Some(String::from_utf8_lossy(&text).into_owned()),
            _ => None,
        };
        Ok(MachineAd {
            cpus: number("Cpus"),
            memory_mib: number("Memory"),
            disk_kib: number("Disk"),
            gpus: text("AssignedGPUs"),
        })
    }
}

/// The folders of the control groups that this process is in, with all above them: a limit on any
/// of those binds too.
struct Groups {
    /// With the controllers of the hierarchy; none for the one of version 2.
    folders: Vec<(String, PathBuf)>,
}

impl Groups {
    fn of_this_process(places: &Places) -> Self {
        let membership = std::fs::read_to_string(places.proc.join("self/cgroup"));
        let mut folders = Vec::new();
        for line in membership.unwrap_or_default().lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(names), Some(path)) = (fields.next(), fields.next()) else { continue };
            // Version 2 is mounted by itself, or beside the others; a hierarchy of version 1 by the
            // name of any of its controllers.
            let own =
                if names.is_empty() { vec!["", "unified"] } else { names.split(',').collect() };
            for mount in own.into_iter().chain((!names.is_empty()).then_some(names)) {
                let mount = places.sys.join("fs/cgroup").join(mount);
                let above = Path::new(path.trim_start_matches('/')).ancestors();
                folders.extend(above.map(|group| (names.to_owned(), mount.join(group))));
            }
        }
        Groups { folders }
    }

    fn of<'a>(&'a self, controller: &'a str) -> impl Iterator<Item = (bool, &'a Path)> {
        self.folders.iter().filter_map(move |(names, folder)| {
            let is_second = names.is_empty();
            let has = is_second || names.split(',').any(|name| name == controller);
            has.then_some((is_second, folder.as_path()))
        })
    }

    fn lowest_memory(&self) -> Option<Bytes> {
        let limit = |(is_second, folder): (bool, &Path)| {
            let file = if is_second { "memory.max" } else { "memory.limit_in_bytes" };
            read(folder, file)?.parse().ok().map(Bytes)
        };
        self.of("memory").filter_map(limit).min()
    }

    fn lowest_quota(&self) -> Option<Cores> {
        let quota = |(is_second, folder): (bool, &Path)| {
            if is_second {
                let text = read(folder, "cpu.max")?;
                let (quota, period) = text.split_once(' ')?;
                return cores(quota, period);
            }
            // Without one it is -1, which is not a number here.
            cores(&read(folder, "cpu.cfs_quota_us")?, &read(folder, "cpu.cfs_period_us")?)
        };
        self.of("cpu").filter_map(quota).min()
    }
}

fn cores(quota: &str, period: &str) -> Option<Cores> {
    let (quota, period) = (quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?);
    let milli = quota.checked_mul(1_000)?.checked_div(period)?;
    (period >= LEAST_PERIOD).then_some(Cores { milli })
}

fn read(folder: &Path, file: &str) -> Option<String> {
    let text = std::fs::read_to_string(folder.join(file)).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_control_groups_are_found_in_both_versions() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let places = Places {
            dir: root.into(),
            proc: root.join("proc"),
            sys: root.join("sys"),
            etc: root.into(),
        };
        let limits = || {
            let groups = Groups::of_this_process(&places);
            (groups.lowest_quota(), groups.lowest_memory())
        };
        assert_eq!(limits(), (None, None), "there is nothing to read");
        write("proc/self/cgroup", "0::/slurm/job_7/step_batch\n");
        write("sys/fs/cgroup/slurm/job_7/cpu.max", "250000 100000\n");
        write("sys/fs/cgroup/slurm/job_7/step_batch/cpu.max", "max 100000\n");
        write("sys/fs/cgroup/slurm/job_7/step_batch/memory.max", "5000\n");
        assert_eq!(limits(), (Some(Cores { milli: 2_500 }), Some(Bytes(5_000))));
        write("proc/self/cgroup", "4:cpu,cpuacct:/condor/slot1\n7:memory:/condor\n");
        write("sys/fs/cgroup/cpu,cpuacct/condor/cpu.cfs_quota_us", "150000\n");
        write("sys/fs/cgroup/cpu,cpuacct/condor/cpu.cfs_period_us", "100000\n");
        write("sys/fs/cgroup/cpu,cpuacct/condor/slot1/cpu.cfs_quota_us", "-1\n");
        write("sys/fs/cgroup/cpu,cpuacct/condor/slot1/cpu.cfs_period_us", "100000\n");
        write("sys/fs/cgroup/memory/condor/memory.limit_in_bytes", "4000\n");
        assert_eq!(limits(), (Some(Cores { milli: 1_500 }), Some(Bytes(4_000))));
    }

    #[test]
    fn an_ad_says_what_of_the_machine_is_in_the_slot() {
        let text = b"Cpus = 4\nMemory = 1024 * 2\nDisk = 123456\nTotalCpus = 64\n\
                     AssignedGPUs = \"GPU-a0223334\"\n";
        let (cpus, memory_mib, disk_kib) = (Some(4), Some(2_048), Some(123_456));
        let gpus = Some("GPU-a0223334".to_owned());
        let expected = MachineAd { cpus, memory_mib, disk_kib, gpus };
        assert_eq!(MachineAd::parse(text).unwrap(), expected);
        let odd = MachineAd::parse(b"Cpus = -1\nMemory = \"much\"\nAssignedGPUs = undefined\n");
        assert_eq!(odd.unwrap(), MachineAd::default());
        assert!(MachineAd::parse(b"Cpus 4").is_err());
    }
}
