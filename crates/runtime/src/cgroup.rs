//! Limits by cgroups, where a node delegates them; where it does not, it says so, and the pilot
//! looks at usage itself.
//!
//! Both versions are only directories and small files. Nothing here runs or watches anything.

use crate::crowd::processes_in;
use crate::meter::Meter;
use crate::plan::Limits;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What this node lets us do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delegation {
    /// One directory for everything.
    V2 { parent: PathBuf },
    /// A directory for each controller that is ours.
    V1 { memory: Option<PathBuf>, pids: Option<PathBuf>, cpu: Option<PathBuf> },
    /// Nothing: limits are held by looking. Why, in words.
    Polled { why: String },
}

#[derive(Debug, thiserror::Error)]
#[error("cannot {act} {}", path.display())]
pub struct GroupError {
    act: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// Where cgroup file systems are mounted.
const MOUNT: &str = "sys/fs/cgroup";
const OWN: &str = "proc/self/cgroup";

impl Delegation {
    /// `node` is the root of the node's tree: the real one, or a made one in tests.
    pub fn find(node: &Path) -> Self {
        let own = fs::read_to_string(node.join(OWN)).unwrap_or_default();
        let mount = node.join(MOUNT);
        if let Some(parent) = version_2(&mount, &own) {
            return Self::V2 { parent };
        }
        let controller = |name| version_1(&mount, &own, name);
        let (memory, pids, cpu) = (controller("memory"), controller("pids"), controller("cpu"));
        if memory.is_none() && pids.is_none() && cpu.is_none() {
            let why = "no cgroup of this process can be written by it".into();
            return Self::Polled { why };
        }
        Self::V1 { memory, pids, cpu }
    }

    /// Makes the cgroup ready for groups below it. In version 2 that can only be done where no
    /// process stands beside them, so those of this program move to a group of their own; where
    /// others are in the way nothing is delegated after all.
    #[must_use]
    pub fn take_over(self, node: &Path) -> Self {
        let Self::V2 { parent } = &self else { return self };
        match make_room(node, parent) {
            Ok(()) => self,
            Err(error) => Self::Polled { why: format!("{error}: {}", error.source) },
        }
    }

    /// Removes groups whose names begin like this: of an earlier pilot that could not do it.
    pub fn clear(&self, prefix: &str) {
        let parents: Vec<PathBuf> = match self {
            Self::V2 { parent } => vec![parent.clone(), parent.join(OWN_GROUP)],
            Self::V1 { memory, pids, cpu } => {
                [memory, pids, cpu].into_iter().flatten().cloned().collect()
            }
            Self::Polled { .. } => Vec::new(),
        };
        for entry in parents.into_iter().filter_map(|parent| fs::read_dir(parent).ok()).flatten() {
            let Ok(entry) = entry else { continue };
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                // Not while something still runs in it, and then it is somebody else's.
                let _in_use = remove_group(&entry.path());
            }
        }
    }

    /// Whether a limit on memory is held by the kernel.
    pub const fn holds_memory(&self) -> bool {
        match self {
            Self::V2 { .. } => true,
            Self::V1 { memory, .. } => memory.is_some(),
            Self::Polled { .. } => false,
        }
    }
}

/// Removes a group with those below it, of which there are a few levels at most.
pub(crate) fn remove_group(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_group(&entry.path())?;
        }
    }
    fs::remove_dir(directory)
}

/// The most processes and threads that this process and all beside it may be, if the cgroup they
/// are in says so, or one around it: a service manager's, or that of a container.
pub fn most_processes(node: &Path) -> Option<u64> {
    let own = fs::read_to_string(node.join(OWN)).ok()?;
    let mount = node.join(MOUNT);
    let limit = |group: &Path| -> Option<u64> {
        fs::read_to_string(group.join("pids.max")).ok()?.trim().parse().ok()
    };
    let groups = own.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?.trim_start_matches('/'));
        let below = if controllers.is_empty() { "" } else { "pids" };
        let counts = controllers.is_empty() || controllers.split(',').any(|name| name == "pids");
        counts.then(|| (mount.join(below), mount.join(below).join(path)))
    });
    let limits = groups.flat_map(|(top, group)| {
        let around: Vec<PathBuf> = group.ancestors().map(Path::to_owned).collect();
        around.into_iter().take_while(move |group| group.starts_with(&top))
    });
    limits.filter_map(|group| limit(&group)).min()
}

/// Where processes of this program stand while its parent holds groups of tasks.
pub(crate) const OWN_GROUP: &str = "shipway-pilot";

fn make_room(node: &Path, parent: &Path) -> Result<(), GroupError> {
    let failed = |act, path: &Path| {
        let path = path.to_owned();
        move |source| GroupError { act, path, source }
    };
    // The group of a whole machine is the only one without a type, and needs no room.
    if parent.join("cgroup.type").exists() {
        let own = parent.join(OWN_GROUP);
        if !own.exists() {
            fs::create_dir(&own).map_err(failed("make", &own))?;
        }
        let procs = parent.join("cgroup.procs");
        let listed = fs::read_to_string(&procs).map_err(failed("read", &procs))?;
        let door = own.join("cgroup.procs");
        for pid in listed.lines().filter(|pid| runs_this_program(node, pid)) {
            fs::write(&door, pid).map_err(failed("write", &door))?;
        }
    }
    let control = parent.join("cgroup.subtree_control");
    fs::write(&control, "+memory +pids").map_err(failed("write", &control))?;
    // Without it there is no part of the processors to give, and everything else works.
    let _not_delegated = fs::write(&control, "+cpu");
    Ok(())
}

fn runs_this_program(node: &Path, pid: &str) -> bool {
    let program = |of: &str| fs::read_link(node.join("proc").join(of).join("exe")).ok();
    program(pid).is_some_and(|found| program("self") == Some(found))
}

fn version_2(mount: &Path, own: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    // Where an earlier pilot put the server that started this one.
    let path = path.strip_suffix(OWN_GROUP).map_or(path, |above| above.trim_end_matches('/'));
    let mounts = [mount.to_owned(), mount.join("unified")];
    let group = mounts.iter().map(|mount| mount.join(path));
    let group = group.into_iter().find(|group| group.join("cgroup.controllers").exists())?;
    let controllers = fs::read_to_string(group.join("cgroup.controllers")).ok()?;
    let has = |name| controllers.split_whitespace().any(|controller| controller == name);
    (has("memory") && has("pids") && is_ours(&group)).then_some(group)
}

fn version_1(mount: &Path, own: &str, controller: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let is_it = fields.next()?.split(',').any(|name| name == controller);
        fields.next().filter(|_| is_it)
    })?;
    let group = mount.join(controller).join(path.trim_start_matches('/'));
    is_ours(&group).then_some(group)
}

fn is_ours(group: &Path) -> bool {
    use rustix::fs::{Access, access};
    let files = [group.to_owned(), group.join("cgroup.procs")];
    files.iter().all(|path| access(path, Access::WRITE_OK).is_ok())
}

/// The cgroups of one container. Removed by [`Group::remove`] when it is empty.
#[derive(Debug)]
pub struct Group {
    directories: Vec<PathBuf>,
    memory: Option<PathBuf>,
    cpu: Option<PathBuf>,
}

/// What the kernel calls the usual part of the processors, which is one core for us; and the
/// bounds between which a part must lie. Version 2 first, then version 1.
const WEIGHT: (u64, std::ops::RangeInclusive<u64>) = (100, 1..=10_000);
const SHARES: (u64, std::ops::RangeInclusive<u64>) = (1024, 2..=262_144);

impl Group {
    /// Makes the cgroups of a container; `None` where nothing is delegated.
    pub fn make(
        delegation: &Delegation,
        name: &str,
        limits: &Limits,
    ) -> Result<Option<Self>, GroupError> {
        let mut group = Self { directories: Vec::new(), memory: None, cpu: None };
        match delegation {
            Delegation::Polled { .. } => return Ok(None),
            Delegation::V2 { parent } => {
                let directory = group.add(&parent.join(name))?;
                for (file, value) in settings_2(limits) {
                    group.set(&directory, file, &value)?;
                }
                (group.memory, group.cpu) = (Some(directory.clone()), Some(directory));
            }
            Delegation::V1 { memory, pids, cpu } => {
                for (parent, settings) in
                    [(memory, memory_1(limits)), (pids, pids_1(limits)), (cpu, cpu_1(limits))]
                {
                    let Some(parent) = parent else { continue };
                    let directory = group.add(&parent.join(name))?;
                    for (file, value) in settings {
                        group.set(&directory, file, &value)?;
                    }
                }
                let of = |parent: &Option<PathBuf>| parent.as_ref().map(|it| it.join(name));
                (group.memory, group.cpu) = (of(memory), of(cpu));
            }
        }
        Ok(Some(group))
    }

    /// What cannot be limited is not left lying about.
    fn set(&mut self, directory: &Path, file: &'static str, value: &str) -> Result<(), GroupError> {
        set(directory, file, value).inspect_err(|_| drop(self.remove()))
    }

    fn add(&mut self, directory: &Path) -> Result<PathBuf, GroupError> {
        let failed = |source| GroupError { act: "make", path: directory.to_owned(), source };
        fs::create_dir(directory).map_err(failed).inspect_err(|_| drop(self.remove()))?;
        self.directories.push(directory.to_owned());
        Ok(directory.to_owned())
    }

    /// For [`Container::cgroups`](crate::Container).
    pub fn doors(&self) -> Vec<PathBuf> {
        self.directories.iter().map(|directory| directory.join("cgroup.procs")).collect()
    }

    /// For whoever wants to know what is used inside.
    pub fn meter(&self) -> Meter {
        let (memory, cpu) = (self.memory.clone(), self.cpu.clone());
        Meter { any: memory.clone().or_else(|| self.directories.first().cloned()), memory, cpu }
    }

    /// How often the kernel killed something inside for want of memory.
    pub fn out_of_memory_kills(&self) -> u64 {
        let Some(memory) = &self.memory else { return 0 };
        // The first is version 2, the second version 1.
        let files = ["memory.events", "memory.oom_control"];
        let text = files.iter().find_map(|file| fs::read_to_string(memory.join(file)).ok());
        text.as_deref().and_then(oom_kills).unwrap_or_default()
    }

    /// Processes and threads in it.
    pub fn processes(&self) -> u64 {
        let counts = self.directories.iter().filter_map(|directory| processes_in(directory));
        counts.max().unwrap_or_default()
    }

    /// Fails while a process is left inside; it may be called again.
    pub fn remove(&mut self) -> Result<(), GroupError> {
        while let Some(path) = self.directories.last() {
            let failed = |source| GroupError { act: "remove", path: path.clone(), source };
            fs::remove_dir(path).map_err(failed)?;
            self.directories.pop();
        }
        Ok(())
    }
}

/// What not every node has: the controller of processors, the accounting of swap.
const OPTIONAL: [&str; 4] =
    ["cpu.weight", "memory.swap.max", "memory.oom.group", "memory.memsw.limit_in_bytes"];

fn set(directory: &Path, file: &'static str, value: &str) -> Result<(), GroupError> {
    let path = directory.join(file);
    if OPTIONAL.contains(&file) && !path.exists() {
        return Ok(());
    }
    fs::write(&path, value).map_err(|source| GroupError { act: "write", path, source })
}

fn oom_kills(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

type Settings = Vec<(&'static str, String)>;

fn part(millicpus: u32, (one, bounds): (u64, std::ops::RangeInclusive<u64>)) -> String {
    (u64::from(millicpus) * one / 1000).clamp(*bounds.start(), *bounds.end()).to_string()
}

fn settings_2(limits: &Limits) -> Settings {
    let mut settings = Settings::new();
    if let Some(bytes) = limits.memory {
        settings.push(("memory.max", bytes.to_string()));
        // Or else the limit on memory is only where swapping begins.
        settings.push(("memory.swap.max", "0".into()));
        // A task of which one process was killed is seldom of use.
        settings.push(("memory.oom.group", "1".into()));
    }
    settings.extend(limits.pids.map(|pids| ("pids.max", pids.to_string())));
    settings.extend(limits.millicpus.map(|millis| ("cpu.weight", part(millis, WEIGHT))));
    settings
}

fn memory_1(limits: &Limits) -> Settings {
    // The second counts swapping too, and cannot be below the first.
    let files = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"];
    let bytes = limits.memory.map(|bytes| bytes.to_string());
    bytes.iter().flat_map(|bytes| files.map(|file| (file, bytes.clone()))).collect()
}

fn pids_1(limits: &Limits) -> Settings {
    limits.pids.iter().map(|pids| ("pids.max", pids.to_string())).collect()
}

fn cpu_1(limits: &Limits) -> Settings {
    limits.millicpus.iter().map(|millis| ("cpu.shares", part(*millis, SHARES))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(own: &str, files: &[&str]) -> tempfile::TempDir {
        let node = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = node.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(OWN, own);
        for file in files {
            let text = if file.ends_with("controllers") { "cpu memory pids\n" } else { "" };
            put(&format!("{MOUNT}/{file}"), text);
        }
        node
    }

    fn limits() -> Limits {
        Limits { memory: Some(1 << 20), pids: Some(9), millicpus: Some(1500) }
    }

    #[test]
    fn version_2_is_one_directory() {
        let files = ["user/me/cgroup.controllers", "user/me/cgroup.procs"];
        let node = node("0::/user/me\n", &files);
        let parent = node.path().join(MOUNT).join("user/me");
        let found = Delegation::find(node.path());
        assert_eq!(found, Delegation::V2 { parent: parent.clone() });
        let group = Group::make(&found, "task", &limits()).unwrap().unwrap();
        let value = |file: &str| fs::read_to_string(parent.join("task").join(file)).unwrap();
        assert_eq!((value("memory.max"), value("pids.max")), ("1048576".into(), "9".into()));
        assert!(!parent.join("task/cpu.weight").exists(), "not every node has it");
        assert_eq!((part(1500, WEIGHT), part(1, WEIGHT)), ("150".into(), "1".into()));
        assert_eq!((part(1500, SHARES), part(0, SHARES)), ("1536".into(), "2".into()));
        assert_eq!(group.doors(), [parent.join("task/cgroup.procs")]);
        fs::write(parent.join("task/cpu.stat"), "usage_usec 7000\n").unwrap();
        fs::write(parent.join("task/memory.stat"), "anon 1\nshmem 2\n").unwrap();
        let metered = group.meter().read();
        assert_eq!((metered.cpu_ms, metered.memory), (Some(7), Some(3)));
        assert_eq!(group.out_of_memory_kills(), 0);
        fs::write(parent.join("task/memory.events"), "oom 3\noom_kill 2\n").unwrap();
        assert_eq!(group.out_of_memory_kills(), 2);
    }

    #[test]
    fn version_2_makes_room_for_groups_of_tasks() {
        let files = ["me/cgroup.controllers", "me/cgroup.procs", "me/cgroup.type"];
        let node = node("0::/me/shipway-pilot\n", &files);
        let parent = node.path().join(MOUNT).join("me");
        let found = Delegation::find(node.path());
        assert_eq!(found, Delegation::V2 { parent: parent.clone() }, "not inside its own group");
        fs::write(parent.join("cgroup.procs"), "7\n8\n").unwrap();
        for (process, program) in [("self", "/bin/shipway"), ("7", "/bin/shipway"), ("8", "/sh")] {
            fs::create_dir_all(node.path().join("proc").join(process)).unwrap();
            let exe = node.path().join("proc").join(process).join("exe");
            std::os::unix::fs::symlink(program, exe).unwrap();
        }
        assert_eq!(found.clone().take_over(node.path()), found);
        let read = |file: &str| fs::read_to_string(parent.join(file)).unwrap();
        assert_eq!(read("shipway-pilot/cgroup.procs"), "7", "nobody else's process is moved");
        assert_eq!(read("cgroup.subtree_control"), "+cpu");
        fs::remove_file(parent.join("cgroup.subtree_control")).unwrap();
        fs::create_dir(parent.join("cgroup.subtree_control")).unwrap();
        let refused = found.take_over(node.path());
        assert!(matches!(&refused, Delegation::Polled { why } if why.contains("subtree_control")));
    }

    #[test]
    fn what_an_earlier_pilot_left_is_removed() {
        let node = node("5:memory:/batch\n", &["memory/batch/cgroup.procs"]);
        let parent = node.path().join(MOUNT).join("memory/batch");
        let found = Delegation::find(node.path());
        for name in ["shipway-ab-1", "shipway-cd-1"] {
            fs::create_dir(parent.join(name)).unwrap();
        }
        found.clear("shipway-ab-");
        assert!(!parent.join("shipway-ab-1").exists() && parent.join("shipway-cd-1").exists());
    }

    #[test]
    fn version_1_is_a_directory_a_controller() {
        let own = "5:memory:/batch\n4:cpu,cpuacct:/batch\n0::/x\n";
        let node = node(own, &["memory/batch/cgroup.procs"]);
        let parent = node.path().join(MOUNT).join("memory/batch");
        let found = Delegation::find(node.path());
        let expected = Delegation::V1 { memory: Some(parent.clone()), pids: None, cpu: None };
        assert_eq!(found, expected);
        let group = Group::make(&found, "task", &limits()).unwrap().unwrap();
        let limit = fs::read_to_string(parent.join("task/memory.limit_in_bytes")).unwrap();
        assert_eq!(limit, "1048576");
        let control = "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n";
        fs::write(parent.join("task/memory.oom_control"), control).unwrap();
        assert_eq!(group.out_of_memory_kills(), 1);
    }

    #[test]
    fn nothing_delegated_is_said() {
        let found = Delegation::find(node("0::/\n", &[]).path());
        assert!(matches!(&found, Delegation::Polled { .. }), "{found:?}");
        assert!(!found.holds_memory());
        assert!(Group::make(&found, "task", &limits()).unwrap().is_none());
    }
}
