//! Dead children that cannot be reaped yet. Whoever traces a process has its end first, and may
//! keep it: nobody waits for that here.
//!
//! Their numbers are safe to keep: a number is given to nobody else before its process is reaped,
//! and only we do that.

use super::lock;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::sync::Mutex;

/// The process's, like its children.
static UNBURIED: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Reaps a child that is dead or dying: now if that can be, and otherwise when it can.
pub(super) fn bury(pid: Pid) {
    if !is_gone(pid) {
        lock(&UNBURIED).push(pid);
    }
}

/// Those that could not be reaped before.
pub(super) fn bury_the_rest() {
    lock(&UNBURIED).retain(|pid| !is_gone(*pid));
}

/// Whether it was dead and is reaped, or somebody else has done it.
pub(super) fn is_gone(pid: Pid) -> bool {
    let if_dead = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    !matches!(waitid(WaitId::Pid(pid), if_dead), Ok(None))
}
