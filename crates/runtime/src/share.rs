//! What tasks leave of the kernel's room to whoever runs them, where both are one user.
//!
//! Processes, descriptors in flight, queued signals and message queues are counted for each user,
//! and each process is refused at its own limit. So tasks have lower ones than pilot and server:
//! what tasks use up is theirs. And when memory ends, the kernel is told whom to kill first. How
//! many processes a person has is another matter, which the pilot counts.

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, write};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

/// Kept back of every limit: an eighth of it, but no more than this. A pilot and a server start a
/// few dozen processes and threads at once, and send a few descriptors and signals.
const MOST_KEPT_BACK: u64 = 1_024;
/// The same of bytes: they have no message queues, but programs of their user may.
const MOST_BYTES_KEPT_BACK: u64 = 1 << 20;
const PART_KEPT_BACK: u64 = 8;

/// Limits that one user's processes have together, how much is kept back and the most that tasks
/// have of each. Who starts processes that start processes has all numbers of a node before anybody
/// has counted them, where the limit is higher than there are numbers.
const SHARED: [(Resource, u64, Option<u64>); 4] = [
    (Resource::Nproc, MOST_KEPT_BACK, Some(MOST_PROCESSES)),
    (Resource::Nofile, MOST_KEPT_BACK, None),
    (Resource::Sigpending, MOST_KEPT_BACK, None),
    (Resource::Msgqueue, MOST_BYTES_KEPT_BACK, None),
];
/// Processes and threads of one task, where there is room for more: far above what programs use
/// that work, and half of the numbers that a node has for them, unless it was told to have more.
pub const MOST_PROCESSES: u64 = 16_384;

/// Descriptors that a pilot opens at most: six for each task, whatever its user's shells may have.
/// More would be a matter of programs that close all they could have.
const MOST_FILES: u64 = 65_536;
/// What tells a helper how many files a task usually opens, as its starter may open more.
const USUAL_FILES: &str = "SHIPWAY_USUAL_FILES";

/// The limit that this process was started with, if it has raised it.
static RAISED_FROM: OnceLock<u64> = OnceLock::new();

/// For who runs many tasks: as many open files as it may have. Tasks have what there was before.
pub fn open_more_files() {
    let own = getrlimit(Resource::Nofile);
    let Some(usual) = own.current.filter(|usual| *usual < MOST_FILES) else { return };
    let most = own.maximum.map_or(MOST_FILES, |maximum| maximum.min(MOST_FILES)).max(usual);
    let raised = Rlimit { current: Some(most), maximum: own.maximum };
    if setrlimit(Resource::Nofile, raised).is_ok() {
        let _first_time = RAISED_FROM.set(usual);
    }
}

/// To be told to helpers.
pub fn usual_files() -> Option<(&'static str, String)> {
    RAISED_FROM.get().map(|usual| (USUAL_FILES, usual.to_string()))
}

/// Of this process, or as it was told by who started it.
fn usual_limit(what: Resource) -> Rlimit {
    let own = getrlimit(what);
    if what != Resource::Nofile {
        return own;
    }
    let told = || std::env::var(USUAL_FILES).ok()?.parse().ok();
    let usual = RAISED_FROM.get().copied().or_else(told);
    Rlimit { current: usual.or(own.current), maximum: own.maximum }
}

/// A task goes before anything on the node that has not asked for it: half of all memory counts as
/// its own beside what it has.
const TASKS_GO_FIRST: i32 = 500;
/// Server, guard and pilot stay for longer than a program of their size would.
const WE_STAY: i32 = -250;

/// How much of a limit tasks have.
fn of_tasks(limit: u64, kept_back: u64) -> u64 {
    limit - (limit / PART_KEPT_BACK).min(kept_back)
}

fn lowered(own: Rlimit, kept_back: u64, most: Option<u64>) -> Option<Rlimit> {
    let part = own.maximum.map(|limit| of_tasks(limit, kept_back));
    let maximum = part.into_iter().chain(most).min()?;
    let current = own.current.map_or(maximum, |current| current.min(maximum));
    Some(Rlimit { current: Some(current), maximum: Some(maximum) })
}

/// What a task may have, told from what this process may.
#[derive(Debug)]
pub struct Share {
    limits: Vec<(Resource, Rlimit)>,
    goes_first: String,
}

impl Share {
    pub fn of_tasks() -> Self {
        let lower = |(what, kept, most)| Some((what, lowered(usual_limit(what), kept, most)?));
        let own = own_score().unwrap_or_default();
        let goes_first = own.max(TASKS_GO_FIRST).to_string();
        Self { limits: SHARED.into_iter().filter_map(lower).collect(), goes_first }
    }

    /// Takes it for this process, and all that it will start. Nothing is allocated: a child that
    /// has its parent's memory does this too.
    pub(crate) fn take(&self) -> Result<(), Errno> {
        for (what, limit) in &self.limits {
            setrlimit(*what, *limit)?;
        }
        // A node may not let it; then memory is shared as anywhere.
        let file = own_score_file(OFlags::WRONLY);
        let _refused = file.and_then(|file| write(&file, self.goes_first.as_bytes()));
        Ok(())
    }
}

/// The lower, the later a process is killed when memory ends.
const OWN_SCORE: &CStr = c"/proc/self/oom_score_adj";

fn own_score_file(to: OFlags) -> Result<OwnedFd, Errno> {
    open(OWN_SCORE, to | OFlags::CLOEXEC, Mode::empty())
}

fn own_score() -> io::Result<i32> {
    let mut text = String::new();
    File::from(own_score_file(OFlags::RDONLY)?).read_to_string(&mut text)?;
    text.trim().parse().map_err(io::Error::other)
}

/// For those who run tasks: nothing of theirs is killed first when memory ends. Only root may say
/// so, and a site that has said something else knows why.
pub fn stay_when_memory_ends() {
    if own_score().is_ok_and(|score| score == 0) {
        let file = own_score_file(OFlags::WRONLY);
        let _refused = file.and_then(|file| write(&file, WE_STAY.to_string().as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_have_less_than_those_who_run_them_and_large_jobs_enough() {
        let limit = |current, maximum| Rlimit { current, maximum };
        let less = |own, most| lowered(own, MOST_KEPT_BACK, most);
        assert_eq!(less(limit(None, None), None), None);
        let large = less(limit(Some(1_024), Some(1_048_576)), None).unwrap();
        assert_eq!(large, limit(Some(1_024), Some(1_047_552)));
        assert_eq!(less(limit(Some(400), Some(400)), None), Some(limit(Some(350), Some(350))));
        assert_eq!(less(limit(Some(1), Some(1)), None), Some(limit(Some(1), Some(1))));
        let most = Some(limit(Some(100), Some(100)));
        assert_eq!(less(limit(None, None), Some(100)), most);
        assert_eq!(less(limit(Some(400), Some(400)), Some(100)), most);
    }
}
