//! When is looked, what is told, and whose part of a device is whose.

use super::*;
use crate::spawn::HowEnded;
use shipway_model::ids::{Attempt, JobId, TaskIndex};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::SystemTime;

fn id(index: u64) -> AttemptId {
    AttemptId { task: JobId(1).task(TaskIndex(index)), attempt: Attempt(1) }
}

fn task(since: Instant, devices: &[&str]) -> Task {
    Task {
        id: id(0),
        devices: devices.iter().map(ToString::to_string).collect(),
        share: None,
        meter: None,
        running: Some((1, since)),
        next: Some(since + YOUNG_EVERY),
        account: Account::default(),
        told_next: TOLD_FIRST,
        shown_next: SHOWN_EVERY,
    }
}

fn book(tasks: Vec<Task>) -> Book {
    let tickets = (1..).map(Ticket);
    Book { tasks: tickets.zip(tasks).collect(), ..Book::default() }
}

/// Looked at whenever it is due: how often, and how often something is told.
fn followed(minutes: u64, pause: Duration) -> (usize, Vec<u64>, usize) {
    let began = Instant::now();
    let mut book = book(vec![task(began, &[])]);
    let (mut looks, mut told, mut shown) = (0, Vec::new(), 0);
    loop {
        let now = book.tasks[&Ticket(1)].next.unwrap();
        let age = now.duration_since(began);
        if age > Duration::from_mins(minutes) {
            return (looks, told, shown);
        }
        let at_ms = u64::try_from(age.as_millis()).unwrap();
        let look = Look { at_ms, cpu_ms: Some(at_ms), ..Look::default() };
        let news = add(&mut book, vec![(Ticket(1), look)], now, pause);
        looks += 1;
        told.extend(news.used.iter().map(|_| age.as_secs()));
        shown += news.series.len();
    }
}

#[test]
fn young_tasks_are_looked_at_often_and_told_of_ever_less() {
    let (looks, told, shown) = followed(60, Duration::ZERO);
    // Ten in the first ten seconds, then one every five.
    assert!((725..=730).contains(&looks), "{looks}");
    assert_eq!(told[..4], [10, 20, 40, 80]);
    assert!((9..=13).contains(&told.len()), "{told:?}");
    assert!((54..=60).contains(&shown), "{shown}");
    // Where looking takes long, it is done less often.
    let (looks, ..) = followed(60, Duration::from_secs(30));
    assert!((119..=121).contains(&looks), "{looks}");
}

#[test]
fn there_is_an_end_to_what_is_told_at_once() {
    let began = Instant::now();
    let task = |index| Task { id: id(index), ..task(began, &[]) };
    let mut book = book((0..200).map(task).collect());
    let (mut told, mut shown) = (BTreeSet::new(), BTreeSet::new());
    for round in 0..40 {
        let now = began + SHOWN_EVERY + EVERY * round;
        let at_ms = u64::try_from(now.duration_since(began).as_millis()).unwrap();
        let due = book.due(now);
        let look = |due: &Due| (due.ticket, Look { at_ms, ..Look::default() });
        let looks = due.iter().map(look).collect();
        let news = add(&mut book, looks, now, Duration::ZERO);
        assert!(news.used.len() <= TOLD_AT_ONCE && news.series.len() <= SHOWN_AT_ONCE);
        told.extend(news.used.iter().map(|(id, _)| *id));
        shown.extend(news.series.iter().map(|(id, _)| *id));
    }
    assert_eq!((told.len(), shown.len()), (200, 200), "everybody has a turn");
}

#[test]
fn who_has_a_device_is_looked_at_with_the_others() {
    let began = Instant::now();
    let mut book = book(vec![task(began, &["GPU-a"]), task(began, &["GPU-b"]), task(began, &[])]);
    book.tasks.get_mut(&Ticket(2)).unwrap().next = Some(began + EVERY);
    book.tasks.get_mut(&Ticket(3)).unwrap().next = Some(began + EVERY);
    let mut due: Vec<u64> = book.due(began + YOUNG_EVERY).iter().map(|due| due.ticket.0).collect();
    due.sort_unstable();
    assert_eq!(due, [1, 2]);
}

#[test]
fn a_share_is_what_its_own_processes_do() {
    let own = std::process::id();
    let whole = GpuLook {
        busy: Some(9_000),
        memory: Some(100),
        memory_of: Some(1_000),
        energy_mj: Some(4_000),
        power_mw: Some(400_000),
        temperature: Some(60),
        ..GpuLook::default()
    };
    let processes = BTreeMap::from([(own, (30, Some(2_000))), (1, (70, Some(7_000)))]);
    let seen = Seen { whole, processes };
    let mut due = Due {
        ticket: Ticket(1),
        leader: own,
        since: Instant::now(),
        devices: Vec::new(),
        share: Some(2_500),
        meter: None,
    };
    let snapshot = Snapshot::take().unwrap();
    let part = own_part(&due, &seen, Some(&snapshot));
    assert_eq!((part.busy, part.memory, part.memory_of), (Some(2_000), Some(30), Some(1_000)));
    assert_eq!(
        (part.energy_mj, part.power_mw, part.temperature),
        (Some(1_000), Some(100_000), Some(60))
    );
    due.share = None;
    assert_eq!(own_part(&due, &seen, Some(&snapshot)), whole);
}

/// From a process that burns time and memory to what is said of it.
#[test]
fn what_a_process_takes_is_seen_while_it_runs_and_when_it_has_ended() {
    let (tell, told) = channel();
    let tell = move |news: News| tell.send(news.used.len()).unwrap_or_default();
    let usages = Usages::new(Arc::new(tell));
    let script = "x=$(head -c 30000000 /dev/zero | tr '\\0' a); while :; do :; done";
    let mut child = Command::new("sh").args(["-c", script]).stdout(Stdio::null()).spawn().unwrap();
    usages.expect(Ticket(1), id(0), (&[], None), None);
    usages.started(Ticket(1), child.id());
    let clock = Instant::now();
    let looked = || {
        let book = usages.shared.book();
        let usage = book.tasks[&Ticket(1)].account.usage();
        let (cpu, memory) = (usage.cpu_ms.unwrap_or(0), usage.memory.unwrap_or(0));
        (cpu > 500 && memory > 30_000_000).then_some(usage)
    };
    let seen = loop {
        if let Some(seen) = looked() {
            break seen;
        }
        assert!(clock.elapsed() < Duration::from_mins(1), "nothing is seen");
        std::thread::yield_now();
    };
    child.kill().unwrap();
    let pid = Pid::from_child(&child);
    let dead = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
    rustix::process::waitid(rustix::process::WaitId::Pid(pid), dead).unwrap();
    let ended = Ended {
        ticket: Ticket(1),
        how: HowEnded::Signal(9),
        core_dumped: false,
        started: SystemTime::now(),
        ended: SystemTime::now(),
        ran: clock.elapsed(),
        left_behind: 0,
        spent: procfs::spent(pid),
    };
    child.wait().unwrap();
    let (usage, _) = usages.ended(&ended);
    assert!(usage.cpu_ms >= seen.cpu_ms, "{usage:?} after {seen:?}");
    assert!(usage.cpu_ms <= usage.wall_ms.map(|wall| wall + 2_000), "{usage:?}");
    assert!((30_000_000..300_000_000).contains(&usage.memory.unwrap()), "{usage:?}");
    assert!(usages.shared.book().tasks.is_empty());
    assert_eq!(told.try_recv().ok(), None, "it was too young to be told of");
}
