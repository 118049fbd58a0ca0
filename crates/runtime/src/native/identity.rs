//! Who the task is: which account, and how the new user namespace knows it.

use super::error::{Doing, SetupError};
use crate::plan::User;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Gid, Uid, getegid, geteuid, set_dumpable_behavior};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

#[derive(Debug, Clone, Copy)]
pub(super) struct Identity {
    uid: u32,
    gid: u32,
}

/// Leaves root behind, if that is what this process is and the task is not root's own. From here
/// on everything is done with the rights of the task's own account.
pub(super) fn assume(user: Option<&User>) -> Result<Identity, SetupError> {
    let own = geteuid().as_raw();
    match user {
        Some(user) if own == 0 && user.is_one() => change(user)?,
        _ if own == 0 => return Err(SetupError::AsRoot),
        Some(user) if user.uid != own => {
            return Err(SetupError::OtherUser { wanted: user.uid, own });
        }
        _ => {}
    }
    Ok(Identity { uid: geteuid().as_raw(), gid: getegid().as_raw() })
}

/// There is one thread, so what is said of a thread holds for the process.
fn change(user: &User) -> Result<(), SetupError> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
    set_thread_groups(&groups).doing("change", "groups")?;
    set_thread_res_gid(gid, gid, gid).doing("change", "group")?;
    set_thread_res_uid(uid, uid, uid).doing("change", "user")?;
    // A process that was root a moment ago does not own its files in /proc, and could not write
    // the maps below.
    set_dumpable_behavior(DumpableBehavior::Dumpable).doing("own", "/proc/self")
}

impl Identity {
    /// Tells the user namespace this process is the first of that its user exists in it, under
    /// the same number, and nobody else does.
    pub(super) fn map(self) -> Result<(), SetupError> {
        let Self { uid, gid } = self;
        say("/proc/self/uid_map", &format!("{uid} {uid} 1"))?;
        say("/proc/self/setgroups", "deny")?;
        say("/proc/self/gid_map", &format!("{gid} {gid} 1"))
    }
}

/// Writes a word to a file of the kernel.
pub(super) fn say(path: &str, word: &str) -> Result<(), SetupError> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty()).doing("open", path)?;
    match rustix::io::write(&file, word.as_bytes()) {
        Ok(length) if length == word.len() => Ok(()),
        Ok(_) => Err(Errno::IO).doing("write", path),
        Err(errno) => Err(errno).doing("write", path),
    }
}
