//! The few facts this crate reads from `/proc`: children, environment, and the `stat` line.
//!
//! It reads and parses; it decides nothing and signals nobody. A process may vanish between two
//! reads, so every answer about another process is an `Option`.

use rustix::process::Pid;
use std::fs;
use std::io;
use std::path::Path;

/// What this crate uses of `/proc/PID/stat`.
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

/// The children of a process that has one thread.
pub(crate) fn children_of(pid: Pid) -> Vec<Pid> {
    if let Ok(list) = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")) {
        return parse_list(&list).collect();
    }
    let mut pids = all_pids().unwrap_or_default();
    pids.retain(|child| stat(*child).is_some_and(|stat| Pid::from_raw(stat.parent) == Some(pid)));
    pids
}

/// Whether a process is the helper of a container, or the first process inside one.
pub(crate) fn is_helper(pid: Pid) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
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

/// The environment a process was started with; `None` when we may not see it. Empty also when the
/// process is dead or dying, for which kernels have different answers.
pub(crate) fn environ(pid: Pid) -> Option<Vec<u8>> {
    match fs::read(Path::new("/proc").join(pid.to_string()).join("environ")) {
        Ok(environ) => Some(environ),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
        Err(_) => Some(Vec::new()),
    }
}

/// The value of a variable in an `environ` block.
pub(crate) fn variable<'a>(environ: &'a [u8], name: &str) -> Option<&'a [u8]> {
    environ
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// The `stat` line of a process, `None` when it is gone.
pub(crate) fn stat(pid: Pid) -> Option<Stat> {
    // Bytes, because a process may give itself a name that is not UTF-8.
    let line = fs::read(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_behind_a_hostile_name() {
        let line = "7 (a) b (c) S 3 5 6 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 4096 321 99";
        let stat = parse_stat(line).unwrap();
        let (parent, group, session, threads, resident_pages) = (3, 5, 6, 1, 321);
        let has_environ = false;
        assert_eq!(stat, Stat { parent, group, session, threads, resident_pages, has_environ });
        assert_eq!(parse_stat("7 (cut"), None);
    }

    #[test]
    fn an_empty_environment_is_told_from_none() {
        assert!(stat(rustix::process::getpid()).unwrap().has_environ);
        let mut child =
            std::process::Command::new("sleep").arg("1000").env_clear().spawn().unwrap();
        let pid = Pid::from_child(&child);
        assert_eq!((environ(pid), stat(pid).unwrap().has_environ), (Some(vec![]), true));
        child.kill().unwrap();
        let dead = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), dead).unwrap();
        assert_eq!((environ(pid), stat(pid).unwrap().has_environ), (Some(vec![]), false));
        child.wait().unwrap();
    }

    #[test]
    fn a_variable_is_matched_by_its_whole_name() {
        let environ = b"XA=1\0A=2\0AB=3\0";
        assert_eq!(variable(environ, "A"), Some(&b"2"[..]));
        assert_eq!(variable(environ, "B"), None);
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
