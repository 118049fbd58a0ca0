//! How much memory and time tasks use, read from `/proc`, and how often the kernel ran out of
//! memory.
//!
//! For nodes where no cgroup can be had: whoever enforces a limit with this polls, and says so.
//! It reads; it kills nobody. What one has just seen serves the others too.

use crate::procfs::{self, Stat};
use rustix::fs::{Mode, OFlags, ResolveFlags, fstatfs, open, openat2};
use rustix::process::Pid;
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// All processes at about one instant. One pass serves every task of a node.
#[derive(Debug)]
pub struct Snapshot {
    processes: HashMap<i32, Stat>,
    children: HashMap<i32, Vec<i32>>,
    page_size: u64,
}

impl Snapshot {
    pub fn take() -> io::Result<Self> {
        let raw = |pid: Pid| pid.as_raw_nonzero().get();
        let processes: HashMap<i32, Stat> = procfs::all_pids()?
            .into_iter()
            .filter_map(|pid| Some((raw(pid), procfs::stat(pid)?)))
            .collect();
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for (pid, stat) in &processes {
            children.entry(stat.parent).or_default().push(*pid);
        }
        Ok(Self { processes, children, page_size: rustix::param::page_size() as u64 })
    }

    /// The same, and lets others have it for a while: reading all of them takes milliseconds.
    pub fn shared() -> io::Result<Arc<Self>> {
        let snapshot = Arc::new(Self::take()?);
        *last() = Some((Instant::now(), Arc::clone(&snapshot)));
        Ok(snapshot)
    }

    /// The last one that somebody took to share, if it is no older than this, or a new one.
    pub fn recent(age: Duration) -> io::Result<Arc<Self>> {
        let known = last().as_ref().filter(|(at, _)| at.elapsed() <= age).cloned();
        known.map_or_else(Self::shared, |(_, snapshot)| Ok(snapshot))
    }

    /// The processes of a task, as far as it can be told, and what they have used.
    pub fn seen(&self, leader: u32) -> Seen {
        let mut seen = Seen::default();
        let mut ticks = 0_u64;
        for (pid, stat) in self.members(leader) {
            seen.processes.push(pid);
            ticks = ticks.saturating_add(stat.cpu_ticks);
            seen.resident = seen.resident.saturating_add(stat.resident_pages);
            seen.waits |= stat.waits;
        }
        seen.cpu_ms = procfs::ticks_as_ms(ticks);
        seen.resident = seen.resident.saturating_mul(self.page_size);
        seen
    }

    /// Resident bytes of the task whose leader is `leader`: its process group, its session, and
    /// everything below it. Pages shared by several of its processes count for each.
    pub fn resident_bytes(&self, leader: u32) -> u64 {
        let pages: u64 = self.members(leader).map(|(_, stat)| stat.resident_pages).sum();
        pages.saturating_mul(self.page_size)
    }

    /// Processes and threads of the same.
    pub fn threads(&self, leader: u32) -> u64 {
        // A process that is dead and not yet buried has none, and takes a place all the same.
        self.members(leader).map(|(_, stat)| stat.threads.max(1)).sum()
    }

    /// Processes and threads of these and all below them.
    pub fn threads_below(&self, roots: impl IntoIterator<Item = i32>) -> u64 {
        self.below(roots.into_iter().collect()).map(|(_, stat)| stat.threads.max(1)).sum()
    }

    fn members(&self, leader: u32) -> impl Iterator<Item = (i32, &Stat)> {
        let leader = i32::try_from(leader).unwrap_or(-1);
        let named = self
            .processes
            .iter()
            .filter(move |(_, stat)| stat.group == leader || stat.session == leader);
        self.below(named.map(|(pid, _)| *pid).chain([leader]).collect())
    }

    /// These and all below them, each once: in time that does not depend on how they descend from
    /// each other.
    fn below(&self, mut found: HashSet<i32>) -> impl Iterator<Item = (i32, &Stat)> {
        let mut open: Vec<i32> = found.iter().copied().collect();
        while let Some(above) = open.pop() {
            let below = self.children.get(&above).into_iter().flatten();
            open.extend(below.copied().filter(|pid| found.insert(*pid)));
        }
        found.into_iter().filter_map(|pid| Some((pid, self.processes.get(&pid)?)))
    }

    /// Bytes of files that the container of a task keeps in memory. No process owns them, so they
    /// are asked for from inside, by way of any process of the task that is there.
    pub fn file_bytes(&self, leader: u32, which: FilesIn) -> u64 {
        let own = std::fs::read_link("/proc/self/ns/mnt").ok();
        let inside = self.members(leader).find_map(|(pid, _)| {
            let process = Path::new("/proc").join(pid.to_string());
            // The helper outside sees the node's files, and its first process inside is closed.
            let mounts = process.join("ns/mnt").read_link().ok();
            mounts.filter(|mounts| Some(mounts) != own.as_ref())?;
            open(process.join("root"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()
        });
        let Some(root) = inside else { return 0 };
        let places: &[&str] = match which {
            FilesIn::Nothing => &[],
            FilesIn::Tmp => &["tmp", "dev/shm"],
            FilesIn::TmpAndRoot => &["tmp", "dev/shm", "."],
        };
        places.iter().filter_map(|place| used_in_memory(&root, place)).sum()
    }

    /// Whether a process is one of the task whose leader is `leader`.
    pub fn is_of(&self, pid: u32, leader: u32) -> bool {
        let (Ok(pid), Ok(leader)) = (i32::try_from(pid), i32::try_from(leader)) else {
            return false;
        };
        self.processes.get(&pid).is_some_and(|stat| self.is_part(pid, stat, leader))
    }

    fn is_part(&self, pid: i32, stat: &Stat, leader: i32) -> bool {
        stat.group == leader || stat.session == leader || self.is_below(pid, leader)
    }

    fn is_below(&self, mut pid: i32, ancestor: i32) -> bool {
        // The parents of a snapshot taken while processes come and go could form a ring.
        for _ in 0..self.processes.len() {
            if pid == ancestor {
                return true;
            }
            match self.processes.get(&pid) {
                Some(stat) => pid = stat.parent,
                None => return false,
            }
        }
        false
    }
}

/// What a snapshot shows of one task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    pub processes: Vec<i32>,
    /// With children that were waited for.
    pub cpu_ms: u64,
    /// Bytes; pages shared by several processes count for each.
    pub resident: u64,
    /// Whether one of them waits for storage.
    pub waits: bool,
}

/// The last snapshot that was taken to be shared.
fn last() -> MutexGuard<'static, Option<(Instant, Arc<Snapshot>)>> {
    static LAST: Mutex<Option<(Instant, Arc<Snapshot>)>> = Mutex::new(None);
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a container keeps in memory, as far as it can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilesIn {
    Nothing,
    /// `/tmp` and `/dev/shm`.
    Tmp,
    /// And what is written to the image.
    TmpAndRoot,
}

/// What a file system in memory holds, be it itself or the upper layer of an overlay. The task may
/// have put a link where it is expected, which would lead us about the node: none is followed.
fn used_in_memory(root: &OwnedFd, place: &str) -> Option<u64> {
    const TMPFS: i64 = 0x0102_1994;
    const OVERLAY: i64 = 0x794c_7630;
    let stay = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let place = openat2(root, place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), stay).ok()?;
    let found = fstatfs(&place).ok()?;
    // The kernel's own type for these numbers differs between processors.
    #[allow(clippy::unnecessary_cast, trivial_numeric_casts, reason = "see above")]
    let (kind, block) = (found.f_type as i64, found.f_bsize as i64);
    let used = found.f_blocks.saturating_sub(found.f_bfree);
    let block = u64::try_from(block).ok()?;
    [TMPFS, OVERLAY].contains(&kind).then(|| used.saturating_mul(block))
}

/// How many processes the kernel has killed for want of memory since it started. A task that died
/// of SIGKILL while this rose may have been one of them.
pub fn kernel_oom_kills() -> io::Result<u64> {
    Ok(parse_oom_kills(&std::fs::read_to_string("/proc/vmstat")?).unwrap_or(0))
}

fn parse_oom_kills(vmstat: &str) -> Option<u64> {
    vmstat.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn the_counter_is_found_among_its_neighbours() {
        assert_eq!(parse_oom_kills("pgfault 3\noom_kill 7\noom_killer 9\n"), Some(7));
        assert_eq!(parse_oom_kills("pgfault 3\n"), None);
        kernel_oom_kills().unwrap();
    }

    #[test]
    fn no_link_of_a_task_leads_to_file_systems_of_the_node() {
        let inside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev", inside.path().join("dev")).unwrap();
        let used = |root: &Path| {
            let root = open(root, OFlags::PATH, Mode::empty()).unwrap();
            used_in_memory(&root, "dev/shm")
        };
        assert!(used(Path::new("/")).is_some(), "it is in memory on every node");
        assert_eq!(used(inside.path()), None);
    }

    #[test]
    fn a_group_counts_its_children_too() {
        // The leader's child holds about 8 MB in a shell variable and says so.
        let script =
            "(x=$(head -c 8000000 /dev/zero | tr '\\0' a); echo ready; sleep 1000; :) & wait";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let snapshot = Snapshot::shared().unwrap();
        let used = snapshot.resident_bytes(child.id());
        let seen = Snapshot::recent(Duration::from_mins(9)).unwrap().seen(child.id());
        assert!(seen.resident >= 8_000_000, "{seen:?}");
        assert!(seen.processes.len() >= 2, "{seen:?}");
        let newer = Snapshot::recent(Duration::ZERO).unwrap();
        assert!(!Arc::ptr_eq(&newer, &snapshot));
        rustix::process::kill_process_group(Pid::from_child(&child), rustix::process::Signal::KILL)
            .unwrap();
        child.wait().unwrap();
        assert_eq!(line, "ready\n");
        assert!((8_000_000..1_000_000_000).contains(&used), "{used}");
        // The rest of the group is dying; nobody tells us when it is dead.
        let clock = std::time::Instant::now();
        while Snapshot::take().unwrap().resident_bytes(child.id()) > 0 {
            assert!(
                clock.elapsed() < std::time::Duration::from_mins(1),
                "a dead group uses memory"
            );
            std::thread::yield_now();
        }
    }
}
