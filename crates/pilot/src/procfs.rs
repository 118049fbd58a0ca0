//! The few facts this crate reads from `/proc`: children, environment, and the `stat` line.
//!
//! It reads and parses; it decides nothing and signals nobody. A process may vanish between two
//! reads, so every answer about another process is an `Option`. Nor is any waited for (`looks.rs`).

use crate::looks;
use rustix::process::Pid;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Most that is read of an environment: more than the kernel hands to any program. A process may
/// say that its own is as large as it likes.
const LONGEST_ENVIRON: u64 = 8 << 20;

/// Set in the flags of a thread that has begun to end (`PF_EXITING`).
const EXITING: u64 = 0x4;

/// What this crate uses of `/proc/PID/stat`.
#[allow(clippy::struct_excessive_bools, reason = "independent facts, not a state")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    pub(crate) threads: u64,
    pub(crate) resident_pages: u64,
    /// Whether it has an environment, be it empty. It has none in the middle of `execve`, and
    /// none from the moment it begins to end.
    pub(crate) has_environ: bool,
    /// Whether its first thread has begun to end. Others may run on.
    pub(crate) first_ends: bool,
    /// Whether all of it has ended, and it only waits to be reaped.
    pub(crate) is_dead: bool,
    /// When it began, in the kernel's ticks since the machine did.
    pub(crate) start: u64,
    /// Time on processors, its own and that of children it has waited for, in ticks.
    pub(crate) cpu_ticks: u64,
    /// Whether its first thread waits for storage, or for something as slow.
    pub(crate) waits: bool,
}

/// What a process has moved between memory and storage, with the children it has waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Io {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

/// What a process has used in all its life, its children that it has waited for included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    pub cpu_ms: u64,
    /// Bytes, where they may be seen.
    pub read: Option<u64>,
    pub written: Option<u64>,
}

/// Of one that is dead and not reaped: nobody waits for that.
pub(crate) fn spent(pid: Pid) -> Option<Spent> {
    let folder = process_folder(pid);
    let stat = stat_in(&folder).filter(|stat| stat.is_dead)?;
    let io = io_in(&folder);
    let (read, written) = (io.map(|io| io.read), io.map(|io| io.written));
    Some(Spent { cpu_ms: ticks_as_ms(stat.cpu_ticks), read, written })
}

pub(crate) fn ticks_as_ms(ticks: u64) -> u64 {
    ticks.saturating_mul(1_000) / rustix::param::clock_ticks_per_second().max(1)
}

/// `None`: it is gone, or not for us to see.
pub(crate) fn io(pid: Pid) -> Option<Io> {
    looks::at(pid, move || io_in(&process_folder(pid))).flatten()
}

fn io_in(folder: &Path) -> Option<Io> {
    parse_io(&fs::read_to_string(folder.join("io")).ok()?)
}

fn parse_io(text: &str) -> Option<Io> {
    let bytes = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().parse().ok()
    };
    Some(Io { read: bytes("read_bytes:")?, written: bytes("write_bytes:")? })
}

/// What the environment of a process says of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    Is(Vec<u8>),
    /// It is not there, or we may not see it.
    Not,
    /// There is no environment at this moment, or it is not shown: it is in the middle of `execve`.
    Unclear,
    /// All its threads have begun to end, and there is no environment any more.
    Dying,
}

/// What the environment of a process says of a variable, as far as any of its threads can tell:
/// one whose first thread has ended lives on, and has no environment in the usual place.
pub(crate) fn mark(pid: Pid, name: &str) -> Mark {
    let name = name.to_owned();
    looks::at(pid, move || mark_now(pid, &name)).unwrap_or(Mark::Unclear)
}

fn mark_now(pid: Pid, name: &str) -> Mark {
    let Some(first) = stat_in(&process_folder(pid)) else { return Mark::Dying };
    let folder = match first.first_ends.then(|| living_thread(pid)) {
        None => process_folder(pid),
        Some(Some(thread)) => thread,
        Some(None) => return Mark::Dying,
    };
    let has_environ = || stat_in(&folder).is_some_and(|stat| stat.has_environ);
    let before = has_environ();
    match variable_in(&folder, name) {
        Ok(Some(value)) => Mark::Is(value),
        // It had one before and after we looked: so it is as we saw it.
        Ok(None) if before && has_environ() => Mark::Not,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Mark::Not,
        Ok(None) | Err(_) => Mark::Unclear,
    }
}

/// The folder of a thread that has not begun to end.
fn living_thread(pid: Pid) -> Option<PathBuf> {
    let threads = fs::read_dir(process_folder(pid).join("task")).ok()?;
    let mut folders = threads.flatten().map(|thread| thread.path());
    folders.find(|folder| stat_in(folder).is_some_and(|stat| !stat.first_ends))
}

fn process_folder(pid: Pid) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

/// The value of a variable, without more of the environment than is needed in memory.
fn variable_in(folder: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
    let file = fs::File::open(folder.join("environ"))?.take(LONGEST_ENVIRON);
    let (mut file, mut entry) = (BufReader::with_capacity(1 << 16, file), Vec::new());
    while file.read_until(0, &mut entry)? > 0 {
        let text = entry.strip_suffix(b"\0").unwrap_or(&entry);
        let value = text.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        if let Some(value) = value {
            return Ok(Some(value.to_vec()));
        }
        entry.clear();
    }
    Ok(None)
}

/// As whom a process runs, be it dead.
pub(crate) fn real_uid(pid: Pid) -> Option<u32> {
    status(pid, "Uid:")?.parse().ok()
}

/// Whether a process that ends as a whole, or not at all, has begun to: its first thread has, or
/// hangs and would.
pub(crate) fn is_ending(pid: Pid) -> bool {
    /// The bit of SIGKILL.
    const KILLED: u64 = 1 << 8;
    let pending = || u64::from_str_radix(&status(pid, "SigPnd:")?, 16).ok();
    stat(pid).is_some_and(|stat| stat.first_ends)
        || pending().is_some_and(|pending| pending & KILLED != 0)
}

/// The first word behind a name in the `status` of a process.
fn status(pid: Pid, name: &str) -> Option<String> {
    let read = looks::at(pid, move || fs::read(process_folder(pid).join("status")));
    let status = read?.ok()?;
    let status = String::from_utf8_lossy(&status);
    let words = status.lines().find_map(|line| line.strip_prefix(name))?;
    words.split_ascii_whitespace().next().map(str::to_owned)
}

/// Every process id in `/proc`.
pub(crate) fn all_pids() -> io::Result<Vec<Pid>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        pids.extend(name.to_str().and_then(parse_pid));
    }
    Ok(pids)
}

/// The children of every thread of this process. Complete, because only this process can make
/// one of them vanish: by reaping it.
pub(crate) fn own_children() -> io::Result<Vec<Pid>> {
    let mut pids = Vec::new();
    for task in fs::read_dir("/proc/self/task")? {
        match fs::read_to_string(task?.path().join("children")) {
            Ok(list) => pids.extend(parse_list(&list)),
            // A kernel without CONFIG_PROC_CHILDREN, or a thread that just ended (its children
            // moved to another thread): ask every process for its parent instead.
            Err(_) => return children_by_scan(),
        }
    }
    Ok(pids)
}

/// The same answer as `own_children`, at the price of one read for each process of the node.
pub(crate) fn children_by_scan() -> io::Result<Vec<Pid>> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let mut pids = all_pids()?;
    pids.retain(|pid| stat(*pid).is_some_and(|stat| stat.parent == own));
    Ok(pids)
}

/// The children of all threads of a process.
pub(crate) fn children_of(pid: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(process_folder(pid).join("task")).into_iter().flatten().flatten();
    let lists: io::Result<Vec<String>> =
        threads.map(|thread| fs::read_to_string(thread.path().join("children"))).collect();
    if let Ok(lists) = lists {
        return lists.iter().flat_map(|list| parse_list(list)).collect();
    }
    let mut pids = all_pids().unwrap_or_default();
    pids.retain(|child| stat(*child).is_some_and(|stat| Pid::from_raw(stat.parent) == Some(pid)));
    pids
}

/// Whether a process is the helper of a container, or the first process inside one.
pub(crate) fn is_helper(pid: Pid) -> bool {
    let read = looks::at(pid, move || fs::read(process_folder(pid).join("cmdline")));
    let words = read.and_then(Result::ok).unwrap_or_default();
    let mut words = words.split(|byte| *byte == 0);
    let _name = words.next();
    words.next() == Some(shipway_runtime::native::COMMAND.as_bytes()) && words.all(<[u8]>::is_empty)
}

/// The pids of a `children` file.
pub(crate) fn parse_list(list: &str) -> impl Iterator<Item = Pid> + '_ {
    list.split_ascii_whitespace().filter_map(parse_pid)
}

fn parse_pid(text: &str) -> Option<Pid> {
    text.parse().ok().and_then(Pid::from_raw)
}

/// The `stat` line of a process, `None` when it is gone or is not shown.
pub(crate) fn stat(pid: Pid) -> Option<Stat> {
    looks::at(pid, move || stat_in(&process_folder(pid))).flatten()
}

fn stat_in(folder: &Path) -> Option<Stat> {
    // Bytes, because a process may give itself a name that is not UTF-8.
    let line = fs::read(folder.join("stat")).ok()?;
    parse_stat(&String::from_utf8_lossy(&line))
}

fn parse_stat(line: &str) -> Option<Stat> {
    // The name is in parentheses and may hold spaces and parentheses itself: count from the last.
    let after_name = &line[line.rfind(')')? + 1..];
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<i64>().ok();
    Some(Stat {
        parent: i32::try_from(number(1)?).ok()?,
        group: i32::try_from(number(2)?).ok()?,
        session: i32::try_from(number(3)?).ok()?,
        threads: u64::try_from(number(17)?).unwrap_or(0),
        resident_pages: u64::try_from(number(21)?).unwrap_or(0),
        // An address, which may not fit a signed number; zero when there is none.
        has_environ: fields.get(48).is_some_and(|end| *end != "0"),
        first_ends: u64::try_from(number(6)?).unwrap_or(0) & EXITING != 0,
        is_dead: matches!(fields.first(), Some(&("Z" | "X"))) && number(17)? <= 1,
        start: u64::try_from(number(19)?).unwrap_or(0),
        cpu_ticks: (11..15).filter_map(number).filter_map(|it| u64::try_from(it).ok()).sum(),
        waits: fields.first() == Some(&"D"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_behind_a_hostile_name() {
        let line = "7 (a) b (c) D 3 5 6 0 -1 4 0 0 0 0 1 20 300 4000 20 0 1 0 100 4096 321 99";
        let stat = parse_stat(line).unwrap();
        assert_eq!((stat.cpu_ticks, stat.waits), (4_321, true));
        assert_eq!((stat.parent, stat.group, stat.session, stat.threads), (3, 5, 6, 1));
        assert_eq!((stat.start, stat.is_dead), (100, false));
        assert_eq!((stat.resident_pages, stat.has_environ, stat.first_ends), (321, false, true));
        assert_eq!(parse_stat("7 (cut"), None);
    }

    #[test]
    fn what_was_moved_to_and_from_storage_is_found() {
        let text = "rchar: 9\nwchar: 8\nsyscr: 1\nread_bytes: 4096\nwrite_bytes: 512\n\
                    cancelled_write_bytes: 7\n";
        assert_eq!(parse_io(text), Some(Io { read: 4_096, written: 512 }));
        assert_eq!(parse_io("read_bytes: 4096\n"), None);
        assert!(io(rustix::process::getpid()).is_some());
    }

    /// With what its children have used, which nobody else can tell any more.
    #[test]
    fn the_dead_tell_what_they_have_spent() {
        let burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let script = format!("sh -c '{burn}'; exit 0");
        let mut child = std::process::Command::new("sh").args(["-c", &script]).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let dead = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), dead).unwrap();
        let spent = spent(pid).unwrap();
        assert!((20..60_000).contains(&spent.cpu_ms), "{spent:?}");
        child.wait().unwrap();
        assert_eq!(super::spent(rustix::process::getpid()), None, "it lives");
    }

    #[test]
    fn an_empty_environment_is_told_from_none() {
        let mut child =
            std::process::Command::new("sleep").arg("1000").env_clear().spawn().unwrap();
        let pid = Pid::from_child(&child);
        assert_eq!(mark(pid, "A"), Mark::Not);
        child.kill().unwrap();
        let dead = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), dead).unwrap();
        assert_eq!(mark(pid, "A"), Mark::Dying);
        assert_eq!(real_uid(pid), Some(rustix::process::getuid().as_raw()));
        child.wait().unwrap();
    }

    #[test]
    fn a_variable_is_matched_by_its_whole_name() {
        let mut command = std::process::Command::new("sleep");
        // What stands behind a long text is found as well.
        let text = "x".repeat(100_000);
        let child = command.arg("1000").env_clear().env("XA", &text).env("A", "2");
        let mut child = child.env("AB", "3").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let marks = ["A", "AB", "B"].map(|name| mark(pid, name));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(marks, [Mark::Is(b"2".into()), Mark::Is(b"3".into()), Mark::Not]);
    }

    #[test]
    fn both_ways_to_list_children_agree() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let (listed, scanned) = (own_children().unwrap(), children_by_scan().unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(listed.contains(&pid) && scanned.contains(&pid));
    }
}
