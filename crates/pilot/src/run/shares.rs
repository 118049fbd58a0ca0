//! Shares of GPUs: who has more of a device's memory than its share is ended, with the reason.
//!
//! Honest polling, like `limits.rs`: the driver is asked once a second, so a task may be over its
//! share for that long. A thread of its own asks, because a driver may take its time and nobody
//! else should wait for it; it runs while a task with a share does. What counts is decided purely.

use crate::machine::{OutOfMemory, Start};
use crate::memory::Snapshot;
use crate::probe::Probe;
use crate::spawn::Ticket;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::{Device, Nvml};
use shipway_model::{Bytes, GpuShare, GpuSource};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Often enough that others notice little, rarely enough to cost nothing.
const LOOK_EVERY: Duration = Duration::from_secs(1);

type Kill = Arc<dyn Fn(Ticket) + Send + Sync>;

pub(super) struct Shares {
    /// Bytes of each whole NVIDIA GPU that NVML knows, by its id.
    memory: BTreeMap<String, u64>,
    watched: Arc<Mutex<Book>>,
    kill: Kill,
}

#[derive(Debug, Default)]
struct Book {
    tasks: HashMap<Ticket, Watched>,
    /// Whether a thread looks at it.
    is_read: bool,
}

#[derive(Debug, Clone)]
struct Watched {
    device: String,
    limit: u64,
    leader: Option<u32>,
    over: Option<u64>,
}

/// What one process has of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Use {
    device: String,
    pid: u32,
    bytes: u64,
}

impl Shares {
    pub(super) fn new(probe: &Probe, kill: Kill) -> Self {
        let whole = probe.gpus.iter();
        let whole = whole.filter(|gpu| gpu.source == GpuSource::Nvml && gpu.slice.is_none());
        let memory = whole.map(|gpu| (gpu.id.to_string(), gpu.memory.0)).collect();
        Shares { memory, watched: Arc::default(), kill }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task is about to start.
    pub(super) fn expect(&self, ticket: Ticket, start: &Start) {
        let ([device], Some(share)) = (start.devices.as_slice(), start.template.gpu_share) else {
            return;
        };
        let Some(memory) = self.memory.get(device.as_str()) else { return };
        let limit = part(*memory, share);
        let device = device.to_string();
        let watched = Watched { device, limit, leader: None, over: None };
        self.book().tasks.insert(ticket, watched);
    }

    pub(super) fn started(&self, ticket: Ticket, pid: u32) {
        let mut book = self.book();
        let Some(task) = book.tasks.get_mut(&ticket) else { return };
        task.leader = Some(pid);
        if !std::mem::replace(&mut book.is_read, true) {
            let (watched, kill) = (Arc::clone(&self.watched), Arc::clone(&self.kill));
            let thread = std::thread::Builder::new().name("gpu-shares".into());
            book.is_read = thread.spawn(move || look(&watched, &kill)).is_ok();
        }
    }

    /// It has ended, or never ran: why, if this was our doing.
    pub(super) fn ended(&self, ticket: Ticket) -> Option<OutOfMemory> {
        let Watched { limit, over, .. } = self.book().tasks.remove(&ticket)?;
        over.map(|used| OutOfMemory::OverShare { limit: Bytes(limit), used: Bytes(used) })
    }
}

/// A share of so many bytes.
pub(super) fn part(memory: u64, share: GpuShare) -> u64 {
    let part = u128::from(memory) * u128::from(share.0) / u128::from(GpuShare::WHOLE.0);
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// Looks until nobody is left to be watched.
fn look(book: &Mutex<Book>, kill: &Kill) {
    let locked = || book.lock().unwrap_or_else(PoisonError::into_inner);
    let nvml = Nvml::init();
    loop {
        std::thread::sleep(LOOK_EVERY);
        let tasks = {
            let mut book = locked();
            if book.tasks.is_empty() || nvml.is_err() {
                book.is_read = false;
                return;
            }
            book.tasks.clone()
        };
        let (Ok(nvml), Ok(processes)) = (&nvml, Snapshot::shared()) else { continue };
        let uses = uses(nvml, &tasks);
        let belongs = |pid: u32, leader: u32| processes.is_of(pid, leader);
        for (ticket, used) in over(&tasks, &uses, belongs) {
            // Marked before it dies, so that its end finds the reason.
            if let Some(task) = locked().tasks.get_mut(&ticket) {
                task.over = Some(used);
            }
            kill(ticket);
        }
    }
}

fn uses(nvml: &Nvml, tasks: &HashMap<Ticket, Watched>) -> Vec<Use> {
    let devices: BTreeSet<&String> = tasks.values().map(|task| &task.device).collect();
    let mut uses = Vec::new();
    for device in devices {
        let Ok(found) = nvml.device_by_uuid(device.as_str()) else { continue };
        let used = used_by(&found).into_iter();
        uses.extend(used.map(|(pid, bytes)| Use { device: device.clone(), pid, bytes }));
    }
    uses
}

/// The processes of a device, and what each has of its memory.
pub(super) fn used_by(device: &Device<'_>) -> Vec<(u32, u64)> {
    let mut processes = device.running_compute_processes().unwrap_or_default();
    // Behind the Multi-Process Service they are in a list of their own.
    let served = device.mps_running_compute_processes().unwrap_or_default();
    processes.retain(|one| served.iter().all(|other| other.pid != one.pid));
    let used = processes.into_iter().chain(served).filter_map(|process| {
        let UsedGpuMemory::Used(bytes) = process.used_gpu_memory else { return None };
        Some((process.pid, bytes))
    });
    used.collect()
}

/// Who is over its share, and by what its processes have together. Each is named once.
fn over(
    tasks: &HashMap<Ticket, Watched>,
    uses: &[Use],
    belongs: impl Fn(u32, u32) -> bool,
) -> Vec<(Ticket, u64)> {
    let mut over = Vec::new();
    for (ticket, task) in tasks {
        let Some(leader) = task.leader.filter(|_| task.over.is_none()) else { continue };
        let own = uses.iter().filter(|one| one.device == task.device && belongs(one.pid, leader));
        let used = own.fold(0_u64, |sum, one| sum.saturating_add(one.bytes));
        if used > task.limit {
            over.push((*ticket, used));
        }
    }
    over
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_part_of_the_memory() {
        assert_eq!(part(8_000_000_000, GpuShare(2_500)), 2_000_000_000);
        assert_eq!(part(u64::MAX, GpuShare::WHOLE), u64::MAX);
    }

    #[test]
    fn only_ones_own_processes_on_ones_own_device_count() {
        let task = |device: &str, leader, over| Watched {
            device: device.into(),
            limit: 100,
            leader,
            over,
        };
        let tasks = HashMap::from([
            (Ticket(1), task("a", Some(10), None)),
            (Ticket(2), task("a", Some(20), None)),
            (Ticket(3), task("b", Some(30), Some(7))),
            (Ticket(4), task("a", None, None)),
        ]);
        let one = |device: &str, pid, bytes| Use { device: device.into(), pid, bytes };
        // Processes 10 to 19 are the first task's, and so on.
        let belongs = |pid: u32, leader: u32| pid / 10 == leader / 10;
        let uses = [one("a", 11, 60), one("a", 12, 50), one("b", 21, 900), one("a", 22, 100)];
        assert_eq!(over(&tasks, &uses, belongs), [(Ticket(1), 110)]);
        let uses = [one("b", 31, 900), one("a", 99, 900)];
        assert_eq!(over(&tasks, &uses, belongs), [], "known already, and a stranger");
    }
}
