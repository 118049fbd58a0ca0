//! Ends what stands below a process that cannot be ended itself: it is dying, and hangs in the
//! kernel, so its children are not handed to whoever is its subreaper.
//!
//! A process that has been sent SIGKILL makes no more children, so going down once from there
//! reaches all of them, but for those whose parent is gone meanwhile. They are the subreaper's by
//! then; where that is `top` itself, whoever asks has to look again.

use crate::procfs;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Most processes that are visited at once: more than a node lets one person have. What is left
/// is reached by the next look.
const MOST: usize = 100_000;

/// What is to be done with a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Do {
    /// End it, and go on below it.
    End,
    /// Go on below it.
    Pass,
    Leave,
}

/// Goes down from the children of `top`. Whether nobody was met who could not be ended.
pub(crate) fn end_below(top: Pid, mut judge: impl FnMut(Pid) -> Do) -> bool {
    let (mut parents, mut visited, mut all) = (vec![top], 0, true);
    while let Some(parent) = parents.pop() {
        for child in procfs::children_of(parent) {
            visited += 1;
            let done = match judge(child) {
                _ if visited > MOST => return false,
                Do::Leave => continue,
                Do::Pass => Ok(()),
                Do::End => kill(child, parent),
            };
            match done {
                Ok(()) => parents.push(child),
                Err(Errno::SRCH) => {}
                Err(_) => all = false,
            }
        }
    }
    all
}

/// Whether a process of ours has ended, be its end ours to see or kept by whoever traces it.
pub(crate) fn is_dead(pid: Pid) -> bool {
    procfs::stat(pid).is_none_or(|stat| stat.is_dead)
}

/// By a descriptor, and if it is that parent's child: the number may be somebody else's by now.
pub(crate) fn kill(pid: Pid, parent: Pid) -> Result<(), Errno> {
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let is_child = procfs::stat(pid).is_some_and(|stat| Pid::from_raw(stat.parent) == Some(parent));
    if is_child { pidfd_send_signal(&process, Signal::KILL) } else { Ok(()) }
}
