//! Who the task is: which account, and how the new user namespace knows it.

use super::error::{Doing, SetupError};
use super::sys::own_keyring;
use crate::plan::User;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Gid, Uid, getegid, geteuid, set_dumpable_behavior, umask};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// Who a task is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity {
    uid: u32,
    gid: u32,
    /// Root makes the container, and the task is somebody else.
    pub(super) by_root: bool,
}

/// What others may not do with new files unless a task says otherwise.
const USUAL_MASK: u32 = 0o022;

/// Takes the groups of the task's account, where this process is root; `become_it` follows when
/// nothing of root's is needed any more.
pub(super) fn prepare(user: Option<&User>) -> Result<Identity, SetupError> {
    let own = geteuid().as_raw();
    match user {
        Some(user) if own == 0 && user.is_one() => {
            // What root's own session holds is root's: keys, and how much it hides of new files.
            own_keyring().doing("leave", "the keyring")?;
            umask(Mode::from_raw_mode(USUAL_MASK));
            take_groups(user)?;
            Ok(Identity { uid: user.uid, gid: user.gid, by_root: true })
        }
        _ if own == 0 => Err(SetupError::AsRoot),
        Some(user) if user.uid != own => Err(SetupError::OtherUser { wanted: user.uid, own }),
        _ => Ok(Identity { uid: own, gid: getegid().as_raw(), by_root: false }),
    }
}

/// There is one thread, so what is said of a thread holds for the process.
fn take_groups(user: &User) -> Result<(), SetupError> {
    let gid = Gid::from_raw(user.gid);
    let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
    set_thread_groups(&groups).doing("change", "groups")?;
    set_thread_res_gid(gid, gid, gid).doing("change", "group")
}

impl Identity {
    /// Leaves root behind, if that is what this process is. Others of the same account cannot look
    /// into it from then on: it may still hold what is root's. Starting a program ends that.
    pub(super) fn become_it(self) -> Result<(), SetupError> {
        if !self.by_root {
            return Ok(());
        }
        let uid = Uid::from_raw(self.uid);
        set_thread_res_uid(uid, uid, uid).doing("change", "user")?;
        hide()
    }

    /// Tells the user namespace that `process` is the first of that its user exists in it, under
    /// the same number, and nobody else does.
    pub(super) fn map(self, process: &str) -> Result<(), SetupError> {
        let Self { uid, gid, .. } = self;
        let file = |name: &str| format!("/proc/{process}/{name}");
        say(&file("uid_map"), &format!("{uid} {uid} 1"))?;
        say(&file("setgroups"), "deny")?;
        say(&file("gid_map"), &format!("{gid} {gid} 1"))
    }
}

/// No other process of the same user can look into this one, write to it, or take from it.
pub(super) fn hide() -> Result<(), SetupError> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).doing("hide", "this process")
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
