//! What tasks use: looked at now and then by a thread of its own, and added up.
//!
//! Every second while a task is young, then every five; and never so often that looking takes more
//! than a two-hundredth of a core: with many processes the pauses grow. What is told of a running
//! task is told after ten seconds, then twice as long each time up to ten minutes; how it went over
//! time once a minute at most. Of an ended task the kernel itself says what it took (`Spent`).
//!
//! - `account.rs` what was seen, added up; pure
//! - `cards.rs`   GPUs, by NVML

mod account;
mod cards;

use crate::memory::Snapshot;
use crate::procfs;
use crate::spawn::{Ended, Ticket};
use account::{Account, GpuLook, Look, Waited, share_of};
use cards::{Cards, Seen};
use nvml_wrapper::Nvml;
use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};
use shipway_model::usage::WHOLE;
use shipway_model::{AttemptId, DeviceId, Series, Usage};
use shipway_runtime::meter::Meter;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often is looked, first and then.
const YOUNG_EVERY: Duration = Duration::from_secs(1);
const EVERY: Duration = Duration::from_secs(5);
const YOUNG: Duration = Duration::from_secs(10);
/// Looking may take this part of the time, of one core; and however long it takes, some looks are
/// worth more than none.
const PART: u32 = 200;
const SELDOM: Duration = Duration::from_mins(1);
/// Tasks that are looked at: far more than a node runs at once. Of others the kernel tells at the
/// end.
const MOST_TASKS: usize = 4_096;
/// Processes of one task that are asked for what they have read and written.
const MOST_ASKED: usize = 256;

/// What running tasks have used is told at this age, and each time after twice as long.
const TOLD_FIRST: Duration = Duration::from_secs(10);
const TOLD_AT_LEAST: Duration = Duration::from_mins(10);
/// How they go over time, this often: for whoever looks at them now.
const SHOWN_EVERY: Duration = Duration::from_mins(1);
/// Of both, at one look: what is left over comes with the next. Some ten kilobytes a second.
const TOLD_AT_ONCE: usize = 64;
const SHOWN_AT_ONCE: usize = 8;

/// What is told of running tasks.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) used: Vec<(AttemptId, Usage)>,
    pub(super) series: Vec<(AttemptId, Series)>,
}

type Tell = Arc<dyn Fn(News) + Send + Sync>;

pub(super) struct Usages {
    shared: Arc<Shared>,
    tell: Tell,
}

#[derive(Default)]
struct Shared {
    book: Mutex<Book>,
    woken: Condvar,
}

#[derive(Default)]
struct Book {
    tasks: HashMap<Ticket, Task>,
    /// Whether a thread looks at it, and until when it sleeps.
    is_read: bool,
    sleeps_until: Option<Instant>,
}

struct Task {
    id: AttemptId,
    /// Whole devices and slices; a share of one device.
    devices: Vec<String>,
    share: Option<u64>,
    meter: Option<Meter>,
    running: Option<(u32, Instant)>,
    next: Option<Instant>,
    account: Account,
    told_next: Duration,
    shown_next: Duration,
}

/// What the thread has to know of a task to look at it.
struct Due {
    ticket: Ticket,
    leader: u32,
    since: Instant,
    devices: Vec<String>,
    share: Option<u64>,
    meter: Option<Meter>,
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Usages {
    pub(super) fn new(tell: Tell) -> Self {
        Usages { shared: Arc::default(), tell }
    }

    /// A task is about to start. `share`: of its one device, in ten-thousandths.
    pub(super) fn expect(
        &self,
        ticket: Ticket,
        id: AttemptId,
        (devices, share): (&[DeviceId], Option<u64>),
        meter: Option<Meter>,
    ) {
        let mut book = self.shared.book();
        if book.tasks.len() >= MOST_TASKS {
            return;
        }
        let task = Task {
            id,
            devices: devices.iter().map(ToString::to_string).collect(),
            share: share.filter(|share| *share < WHOLE),
            meter,
            running: None,
            next: None,
            account: Account::default(),
            told_next: TOLD_FIRST,
            shown_next: SHOWN_EVERY,
        };
        book.tasks.insert(ticket, task);
    }

    pub(super) fn started(&self, ticket: Ticket, pid: u32) {
        let mut book = self.shared.book();
        let Some(task) = book.tasks.get_mut(&ticket) else { return };
        let now = Instant::now();
        task.running = Some((pid, now));
        // What its devices did before it began is not its own, and has to be known.
        let first = if task.devices.is_empty() { now + YOUNG_EVERY } else { now };
        task.next = Some(first);
        if !std::mem::replace(&mut book.is_read, true) {
            let (shared, tell) = (Arc::clone(&self.shared), Arc::clone(&self.tell));
            let thread = std::thread::Builder::new().name("usage".into());
            book.is_read = thread.spawn(move || look_on(&shared, &tell)).is_ok();
        } else if book.sleeps_until.is_some_and(|until| until > first) {
            // Seldom: mostly it wakes within a second anyway.
            self.shared.woken.notify_one();
        }
    }

    /// In all, and how it went.
    pub(super) fn ended(&self, ended: &Ended) -> (Usage, Option<Series>) {
        let task = self.shared.book().tasks.remove(&ended.ticket);
        let account = task.map(|task| task.account).unwrap_or_default();
        let ran = u64::try_from(ended.ran.as_millis()).unwrap_or(u64::MAX);
        (account.end(ran, ended.spent), account.series())
    }

    /// It never ran.
    pub(super) fn forget(&self, ticket: Ticket) {
        self.shared.book().tasks.remove(&ticket);
    }
}

/// Looks until nobody is left to be looked at.
fn look_on(shared: &Shared, tell: &Tell) {
    // A node without it has no NVIDIA driver.
    let nvml = Nvml::init().ok();
    let mut cards = nvml.as_ref().map(Cards::new);
    loop {
        let began = own_time();
        let Some(due) = wait(shared) else { return };
        let looks = look_at(&due, cards.as_mut());
        let now = Instant::now();
        // Others do a part of it for this thread, about as long as itself (`looks.rs`).
        let took = own_time().saturating_sub(began).saturating_mul(2);
        let pause = took.saturating_mul(PART).min(SELDOM);
        let news = add(&mut shared.book(), looks, now, pause);
        if !news.used.is_empty() || !news.series.is_empty() {
            tell(news);
        }
    }
}

/// What this thread has taken of a processor.
fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
    seconds + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Those whose time has come, when it has; `None`: there is nobody any more.
fn wait(shared: &Shared) -> Option<Vec<Due>> {
    let mut book = shared.book();
    loop {
        let now = Instant::now();
        if book.tasks.is_empty() {
            book.is_read = false;
            book.sleeps_until = None;
            return None;
        }
        let next = book.tasks.values().filter_map(|task| task.next).min();
        let until = next.unwrap_or(now + EVERY);
        if until <= now {
            book.sleeps_until = None;
            return Some(book.due(now));
        }
        book.sleeps_until = Some(until);
        let waited = shared.woken.wait_timeout(book, until - now);
        book = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

impl Book {
    /// Whoever has a device is looked at whenever one of those is: what it did since the last look
    /// is then the same time for all.
    fn due(&self, now: Instant) -> Vec<Due> {
        let is_due = |task: &Task| task.next.is_some_and(|next| next <= now);
        let some_gpu = self.tasks.values().any(|task| is_due(task) && !task.devices.is_empty());
        let due = self.tasks.iter().filter_map(|(ticket, task)| {
            let (leader, since) = task.running?;
            (is_due(task) || (some_gpu && !task.devices.is_empty())).then(|| Due {
                ticket: *ticket,
                leader,
                since,
                devices: task.devices.clone(),
                share: task.share,
                meter: task.meter.clone(),
            })
        });
        due.collect()
    }
}

fn look_at(due: &[Due], mut cards: Option<&mut Cards<'_>>) -> Vec<(Ticket, Look)> {
    let wants_all = due.iter().any(|task| task.meter.is_none() || task.share.is_some());
    // Whoever holds limits by looking has one that is as good.
    let snapshot = if wants_all { Snapshot::recent(YOUNG_EVERY / 2).ok() } else { None };
    let snapshot = snapshot.as_deref();
    let now = Instant::now();
    let mut devices: BTreeMap<&str, Option<Seen>> = BTreeMap::new();
    if let Some(cards) = cards.as_mut() {
        cards.keep(|id| due.iter().any(|task| task.devices.iter().any(|own| own == id)));
        for id in due.iter().flat_map(|task| &task.devices) {
            let shared = due.iter().any(|task| task.share.is_some() && task.devices.contains(id));
            devices.entry(id).or_insert_with(|| cards.look(id, shared, now));
        }
    }
    let look = |task: &Due| {
        let mut look = of_processes(task, snapshot);
        let at = now.saturating_duration_since(task.since).as_millis();
        look.at_ms = u64::try_from(at).unwrap_or(u64::MAX);
        let seen = task.devices.iter().filter_map(|id| devices.get(id.as_str())?.as_ref());
        look.gpus = seen.map(|seen| own_part(task, seen, snapshot)).collect();
        (task.ticket, look)
    };
    due.iter().map(look).collect()
}

/// What of a device is a task's own: all of it, or where it has a share what its processes do and
/// the share of the power.
fn own_part(task: &Due, seen: &Seen, snapshot: Option<&Snapshot>) -> GpuLook {
    let Some(share) = task.share else { return seen.whole };
    let belongs = |pid: u32| snapshot.is_some_and(|all| all.is_of(pid, task.leader));
    let own: Vec<(u64, Option<u64>)> =
        seen.processes.iter().filter(|(pid, _)| belongs(**pid)).map(|(_, used)| *used).collect();
    let memory = own.iter().map(|(bytes, _)| *bytes).fold(0, u64::saturating_add);
    let is_told = seen.processes.values().all(|(_, part)| part.is_some());
    let busy = own.iter().filter_map(|(_, part)| *part).fold(0, u64::saturating_add);
    GpuLook {
        memory: Some(memory),
        busy: is_told.then(|| busy.min(WHOLE)),
        // Whose they are, nobody knows.
        memory_busy: None,
        occupancy: None,
        energy_mj: seen.whole.energy_mj.map(|energy| share_of(energy, share)),
        power_mw: seen.whole.power_mw.map(|power| share_of(power, share)),
        ..seen.whole
    }
}

/// By its cgroup where it has one that counts, and by its processes for the rest.
fn of_processes(task: &Due, snapshot: Option<&Snapshot>) -> Look {
    let metered = task.meter.as_ref().map(Meter::read).unwrap_or_default();
    let mut look = Look { memory: metered.memory, cpu_ms: metered.cpu_ms, ..Look::default() };
    let mut processes = metered.processes;
    let mut waits = None;
    if processes.is_empty() {
        let Some(seen) = snapshot.map(|snapshot| snapshot.seen(task.leader)) else { return look };
        if seen.processes.is_empty() {
            return look;
        }
        look.cpu_ms = look.cpu_ms.or(Some(seen.cpu_ms));
        look.memory = look.memory.or(Some(seen.resident));
        (processes, waits) = (seen.processes, Some(seen.waits));
    } else if look.cpu_ms.is_none() || metered.waited_ms.is_none() {
        let stats = processes.iter().take(MOST_ASKED).filter_map(|pid| Pid::from_raw(*pid));
        let stats: Vec<_> = stats.filter_map(procfs::stat).collect();
        let ticks = stats.iter().map(|stat| stat.cpu_ticks).fold(0, u64::saturating_add);
        look.cpu_ms = look.cpu_ms.or(Some(procfs::ticks_as_ms(ticks)));
        waits = Some(stats.iter().any(|stat| stat.waits));
    }
    look.waited = match (metered.waited_ms, waits) {
        (Some(waited), _) => Waited::SoFar(waited),
        (None, Some(waits)) => Waited::Now(waits),
        (None, None) => Waited::Unknown,
    };
    let asked = processes.iter().take(MOST_ASKED).filter_map(|pid| Pid::from_raw(*pid));
    for io in asked.filter_map(procfs::io) {
        let more = |sum: Option<u64>, bytes| Some(sum.unwrap_or(0).saturating_add(bytes));
        (look.read, look.written) = (more(look.read, io.read), more(look.written, io.written));
    }
    look
}

/// Adds what was seen, says when is looked again, and what is to be told.
fn add(book: &mut Book, looks: Vec<(Ticket, Look)>, now: Instant, pause: Duration) -> News {
    let (mut to_tell, mut to_show) = (Vec::new(), Vec::new());
    for (ticket, look) in looks {
        // It may have ended meanwhile.
        let Some(task) = book.tasks.get_mut(&ticket) else { continue };
        let Some((_, since)) = task.running else { continue };
        task.account.add(&look);
        let age = now.saturating_duration_since(since);
        let every = if age < YOUNG { YOUNG_EVERY } else { EVERY };
        task.next = Some(now + every.max(pause));
        if age >= task.told_next {
            to_tell.push((since + task.told_next, ticket));
        }
        if age >= task.shown_next {
            to_show.push((since + task.shown_next, ticket));
        }
    }
    let used = longest_due(book, to_tell, TOLD_AT_ONCE, |book, ticket| {
        let task = book.tasks.get_mut(&ticket)?;
        task.told_next = next_told(task.age(now)?);
        Some((task.id, task.account.usage()))
    });
    let series = longest_due(book, to_show, SHOWN_AT_ONCE, |book, ticket| {
        let task = book.tasks.get_mut(&ticket)?;
        task.shown_next = task.age(now)? + SHOWN_EVERY;
        Some((task.id, task.account.series()?))
    });
    News { used, series }
}

/// Those that have waited longest, and not more than so many: the others come next.
fn longest_due<T>(
    book: &mut Book,
    mut due: Vec<(Instant, Ticket)>,
    most: usize,
    mut take: impl FnMut(&mut Book, Ticket) -> Option<T>,
) -> Vec<T> {
    due.sort_unstable_by_key(|(at, _)| *at);
    due.into_iter().take(most).filter_map(|(_, ticket)| take(book, ticket)).collect()
}

impl Task {
    fn age(&self, now: Instant) -> Option<Duration> {
        self.running.map(|(_, since)| now.saturating_duration_since(since))
    }
}

/// When is told again what was told at this age.
fn next_told(age: Duration) -> Duration {
    age + age.clamp(TOLD_FIRST, TOLD_AT_LEAST)
}

#[cfg(test)]
mod tests;
