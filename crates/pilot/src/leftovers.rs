//! Ends what earlier pilots of the same directory left running.
//!
//! Normally nothing: the guard sees to that. This is for the case that guard and pilot were both
//! killed with -9. Processes are known by a variable in their environment, so one that cleared
//! its environment is not found. It must be called with the directory's lock held.

use crate::hanging::{self, HANG_LIMIT, Whose};
use crate::inside::GO_LIMIT;
use crate::procfs::{self, Mark};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use shipway_runtime::cgroup::Delegation;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The variable every task of a node carries; its value is the node's key.
pub const NODE_KEY_VARIABLE: &str = "SHIPWAY_NODE_KEY";

/// Scans that must find nothing, and the pause after each: a process in the middle of `execve` has
/// no environment for a blink, and one scan may fall into it.
const EMPTY_SCANS: u32 = 2;
const SCAN_PAUSE: Duration = Duration::from_millis(10);

/// How long new ones are looked for. Every task knows the key, and one that is left alone could
/// make processes with it faster than they are killed: nobody else waits for that for longer.
const SWEEP_LIMIT: Duration = Duration::from_secs(5);

/// Bytes of randomness in a node's key: two directories never share one by accident.
const KEY_BYTES: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum LeftoversError {
    #[error("cannot keep the node's key in {}", path.display())]
    Key { path: PathBuf, source: io::Error },
    #[error("cannot look for processes of an earlier pilot")]
    Scan { source: io::Error },
}

/// The key of this node directory, made on first use.
pub fn node_key(dir: &Path) -> Result<String, LeftoversError> {
    let path = dir.join("node-key");
    if let Ok(text) = std::fs::read_to_string(&path)
        && is_key(&text)
    {
        return Ok(text);
    }
    write_new_key(&path).map_err(|source| LeftoversError::Key { path, source })
}

/// How the names of this node directory's cgroups begin.
pub(crate) fn group_prefix(node_key: &str) -> String {
    /// Enough to tell the pilots of a node apart.
    const KEY_LETTERS: usize = 8;
    format!("shipway-{}-", &node_key[..node_key.len().min(KEY_LETTERS)])
}

/// Removes the cgroups of tasks that are no more, when their pilot is not there to do it.
pub(crate) fn clear_groups(dir: &Path) {
    if let Ok(key) = std::fs::read_to_string(dir.join("node-key"))
        && is_key(&key)
    {
        Delegation::find(Path::new("/")).clear(&group_prefix(&key));
    }
}

fn is_key(text: &str) -> bool {
    text.len() == 2 * KEY_BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn write_new_key(path: &Path) -> io::Result<String> {
    let key = random_key()?;
    // Private, because who knows the key can make a process that this pilot would kill.
    shipway_trees::write_whole(path, key.as_bytes())?;
    Ok(key)
}

/// A fresh random key in hexadecimal.
pub(crate) fn random_key() -> io::Result<String> {
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}")))
}

/// Kills every process that carries the key, waits until all are gone, and says how many there
/// were. Never this process nor any of its ancestors. One that was killed and does not die is
/// written down in `dir` and not waited for again: its program does not go on.
pub fn end_all(dir: &Path, key: &str) -> Result<usize, LeftoversError> {
    let helpers_too_at = Instant::now() + GO_LIMIT;
    let hanging = hanging::still(dir);
    let mut spared = self_and_ancestors();
    spared.extend(hanging.iter().filter_map(|hanging| Pid::from_raw(hanging.pid)));
    let (mut ended, mut empty_scans, mut killing) = (0, 0, Duration::ZERO);
    while empty_scans < EMPTY_SCANS {
        if killing > SWEEP_LIMIT {
            tracing::warn!(ended, "processes with this node's key come as fast as they are ended");
            break;
        }
        let began = Instant::now();
        let helpers_too = Instant::now() > helpers_too_at;
        let found = kill_marked(key, &spared, helpers_too);
        let (found, helpers) = found.map_err(|source| LeftoversError::Scan { source })?;
        // Again also after some were found: one of them may have forked before it died.
        if found.is_empty() {
            empty_scans = if helpers { 0 } else { empty_scans + 1 };
            std::thread::sleep(SCAN_PAUSE);
        } else {
            empty_scans = 0;
            let left = wait_gone(&found, Instant::now() + HANG_LIMIT)?;
            ended += found.len() - left.len();
            hanging::write_down(dir, &left, Whose::Session);
            spared.extend(left);
            killing += began.elapsed();
        }
    }
    Ok(ended)
}

/// Who was killed, and whether helpers were seen that are to go by themselves; see `inside.rs`.
fn kill_marked(
    key: &str,
    spared: &[Pid],
    helpers_too: bool,
) -> io::Result<(Vec<(Pid, OwnedFd)>, bool)> {
    let (mut killed, mut helpers) = (Vec::new(), false);
    for pid in procfs::all_pids()? {
        if spared.contains(&pid) || !carries(pid, key) {
            continue;
        }
        if !helpers_too && procfs::is_helper(pid) {
            helpers = true;
            continue;
        }
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        // Asked again through a pid that cannot be somebody else's by now, or else the signal
        // goes to the dead process the descriptor stands for.
        if carries(pid, key) && pidfd_send_signal(&pidfd, Signal::KILL).is_ok() {
            killed.push((pid, pidfd));
        }
    }
    Ok((killed, helpers))
}

fn carries(pid: Pid, key: &str) -> bool {
    procfs::mark(pid, NODE_KEY_VARIABLE) == Mark::Is(key.into())
}

/// Those that are not gone in time.
fn wait_gone(found: &[(Pid, OwnedFd)], deadline: Instant) -> Result<Vec<Pid>, LeftoversError> {
    let mut left = Vec::new();
    for (pid, pidfd) in found {
        let time = deadline.saturating_duration_since(Instant::now());
        let timeout = time.try_into().expect("a limit of seconds fits a timespec");
        let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => left.push(*pid),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(LeftoversError::Scan { source: errno.into() }),
        }
    }
    Ok(left)
}

fn self_and_ancestors() -> Vec<Pid> {
    let mut line = vec![getpid()];
    while let Some(parent) = line.last().and_then(|pid| procfs::stat(*pid)) {
        match Pid::from_raw(parent.parent) {
            Some(pid) => line.push(pid),
            None => break,
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn the_key_is_kept_and_a_broken_one_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let key = node_key(dir.path()).unwrap();
        assert!(is_key(&key));
        assert_eq!(node_key(dir.path()).unwrap(), key);
        std::fs::write(dir.path().join("node-key"), "half").unwrap();
        assert_ne!(node_key(dir.path()).unwrap(), key);
    }

    /// Each that is ended is replaced at once: there is an end to it all the same.
    #[test]
    fn whoever_makes_more_of_them_holds_up_the_start_for_a_while_only() {
        let dir = tempfile::tempdir().unwrap();
        let (key, over) = (random_key().unwrap(), AtomicBool::new(false));
        let keep_one = || {
            while !over.load(Ordering::Relaxed) {
                let mut sleep = Command::new("sleep");
                let mut child = sleep.arg("60").env(NODE_KEY_VARIABLE, &key).spawn().unwrap();
                while child.try_wait().unwrap().is_none() && !over.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                let _ended = (child.kill(), child.wait());
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(keep_one);
            scope.spawn(keep_one);
            let ended = end_all(dir.path(), &key);
            over.store(true, Ordering::Relaxed);
            assert!(ended.unwrap() > 0);
        });
    }

    #[test]
    fn this_process_and_its_parents_are_spared() {
        let line = self_and_ancestors();
        assert_eq!(line[0], getpid());
        assert_eq!(Some(line[1]), rustix::process::getppid());
    }
}
