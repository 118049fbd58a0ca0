//! Processes that were killed and do not die: they hang in the kernel (a file system that does not
//! answer), or are held by whoever traces them. Their programs never go on, so they count as ended;
//! what is left of them keeps memory and devices, so it is written down, for people to see.
//!
//! ```text
//! hanging    a line for each: PID, START, whose it was, and behind a tab the person, if known
//! ```
//!
//! Guard and pilot write it; whoever proves the node reads it, and whoever counts what a person has
//! on it. The start tells a process from a later one of the same number. It decides nothing about
//! them.

use crate::ends;
use crate::procfs;
use rustix::process::Pid;
use shipway_trees::Draft;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long a process that was killed may take to die. Freeing the memory of a big one takes
/// seconds; one that takes longer hangs, and waiting does not help.
pub const HANG_LIMIT: Duration = Duration::from_secs(10);

const FILE: &str = "hanging";
static WRITING: Mutex<()> = Mutex::new(());
/// Most that is read of the file: ten thousand processes.
const LONGEST_FILE: u64 = 1 << 20;

/// One that is still there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hanging {
    pub pid: i32,
    start: u64,
    /// `of task 7.1`, or who else.
    pub whose: String,
    /// Whose task it was, where its pilot saw it end.
    pub person: Option<String>,
}

/// By what it is known whose a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose<'a> {
    /// Of this person's task with this leader, or the one whose session it is in.
    Leader(Pid, &'a str),
    /// Of the task whose session it is in.
    Session,
    /// It was a pilot.
    Pilot,
}

/// Adds those of `processes` that are still there, says so in the log, and forgets the dead.
pub(crate) fn write_down(dir: &Path, processes: &[Pid], whose: Whose<'_>) {
    if processes.is_empty() && !dir.join(FILE).exists() {
        return;
    }
    let _one_at_a_time = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut hanging, tasks) = (still(dir), ends::tasks(dir));
    let new = processes.iter().filter_map(|pid| {
        let stat = procfs::stat(*pid).filter(|stat| !stat.is_dead)?;
        let pid = pid.as_raw_nonzero().get();
        let of = match whose {
            Whose::Leader(leader, _) => [leader.as_raw_nonzero().get(), stat.session],
            Whose::Session | Whose::Pilot => [pid, stat.session],
        };
        let person = match whose {
            Whose::Leader(_, person) => Some(person.to_owned()),
            Whose::Session | Whose::Pilot => None,
        };
        let task = of.iter().find_map(|pid| tasks.get(pid));
        let whose = match (whose, task) {
            (Whose::Pilot, _) => "of an earlier pilot".into(),
            (_, None) => "of an earlier task".into(),
            (_, Some(task)) => format!("of task {task}"),
        };
        Some(Hanging { pid, start: stat.start, whose, person })
    });
    let is_known = |new: &Hanging| {
        hanging.iter().any(|known| (known.pid, known.start) == (new.pid, new.start))
    };
    let new: Vec<Hanging> = new.filter(|new| !is_known(new)).collect();
    for Hanging { pid, whose, .. } in &new {
        tracing::warn!(
            pid,
            "a process {whose} was killed and does not die: it hangs in the kernel, or somebody \
             traces it; it counts as ended"
        );
    }
    hanging.extend(new);
    if let Err(error) = write(dir, &hanging) {
        tracing::warn!(%error, "which processes hang cannot be written down");
    }
}

fn write(dir: &Path, hanging: &[Hanging]) -> std::io::Result<()> {
    let line = |Hanging { pid, start, whose, person }: &Hanging| {
        let person = person.as_ref().map(|person| format!("\t{person}"));
        format!("{pid} {start} {whose}{}\n", person.unwrap_or_default())
    };
    let text: String = hanging.iter().map(line).collect();
    let mut draft = Draft::of(&dir.join(FILE))?;
    draft.file.write_all(text.as_bytes())?;
    // None of them lives through a power cut, and the disk may be what they hang at.
    draft.publish_unsynced().map(drop)
}

/// Those that were written down and are still there.
pub fn still(dir: &Path) -> Vec<Hanging> {
    let mut text = Vec::new();
    let Ok(file) = File::open(dir.join(FILE)) else { return Vec::new() };
    if file.take(LONGEST_FILE).read_to_end(&mut text).is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&text);
    text.lines().filter_map(parse).filter(Hanging::is_there).collect()
}

fn parse(line: &str) -> Option<Hanging> {
    let mut words = line.splitn(3, ' ');
    let (pid, start) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let rest = words.next()?;
    let (whose, person) = match rest.split_once('\t') {
        Some((whose, person)) => (whose, Some(person.to_owned())),
        None => (rest, None),
    };
    Some(Hanging { pid, start, whose: whose.to_owned(), person })
}

impl Hanging {
    fn is_there(&self) -> bool {
        let stat = Pid::from_raw(self.pid).and_then(procfs::stat);
        stat.is_some_and(|stat| stat.start == self.start && !stat.is_dead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(still(dir.path()), []);
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid::from_child(&child);
        write_down(dir.path(), &[pid], Whose::Session);
        // Once, by whatever name.
        let text = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        std::fs::write(dir.path().join(FILE), text.replace("an earlier task", "task 7/1")).unwrap();
        write_down(dir.path(), &[pid], Whose::Session);
        let found = still(dir.path()).pop().unwrap();
        assert_eq!((found.pid, found.person), (pid.as_raw_nonzero().get(), None));
        assert_eq!(found.whose, "of task 7/1");
        // Another process of the same number, and a line that is cut off.
        let text = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        let other = format!("{} 1 of nobody\n{}", pid, &text[..3]);
        std::fs::write(dir.path().join(FILE), other).unwrap();
        assert_eq!(still(dir.path()), []);
        child.kill().unwrap();
        let dead = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), dead).unwrap();
        std::fs::write(dir.path().join(FILE), text).unwrap();
        assert_eq!(still(dir.path()), []);
        child.wait().unwrap();
    }
}
