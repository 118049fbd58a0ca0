//! A tree that belongs to root, shown as if it belonged to the account of a task.
//!
//! Images are kept by the pilot, and where that is root an account could neither reach them nor
//! write above them. So while still root the helper mounts the tree once more with root's ids
//! replaced by the account's. The mount is read-only: to the account all of it would be its own.
//! The files stay as they are, and the store stays closed: only this one tree is seen.

use super::error::{Doing, SetupError};
use super::mounts::{put_below, restrict};
use super::sys::{Attributes, Namespaces, fork_into, leave, map_owner, own_mounts};
use crate::plan::User;
use rustix::fs::{CWD, Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, OpenTreeFlags, mount_change, open_tree};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, waitpid};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Shows `tree` at `place`, for this process and those it starts. Must be called as root.
pub(super) fn show(tree: &Path, place: &Path, user: &User) -> Result<(), SetupError> {
    own_mounts().doing("leave", "the node's mounts")?;
    let deaf = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", deaf).doing("keep to itself", "what is mounted")?;
    put_below(&mapped(tree, user)?, CWD, place).doing("mount on", place)
}

/// The tree as the account sees it, mounted nowhere yet. Must be called as root.
pub(super) fn mapped(tree: &Path, user: &User) -> Result<OwnedFd, SetupError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let mount = open_tree(CWD, tree, flags).doing("open", tree)?;
    match map_owner(&mount, &ids_of(user)?) {
        // A file system that cannot: then it is root's, and only what all may read is read.
        Ok(()) | Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::PERM) => {}
        Err(errno) => return Err(errno).doing("give", tree),
    }
    restrict(&mount, Attributes::READ_ONLY.and(Attributes::NO_SUID).and(Attributes::NO_DEV))?;
    Ok(mount)
}

/// A user namespace in which root is the account. Nobody ever lives in it: what counts is how it
/// translates one into the other.
fn ids_of(user: &User) -> Result<OwnedFd, SetupError> {
    let act = |act| move |source| SetupError::Act { act, source };
    let (waits, held) = pipe_with(PipeFlags::CLOEXEC).doing("make", "a pipe")?;
    let Some(child) = fork_into(Namespaces::USER).map_err(act("make a user namespace"))? else {
        drop(held);
        // Until the other side has looked at it.
        let _woken = rustix::io::read(&waits, &mut [0; 1]);
        leave()
    };
    let made = name_ids(child, user);
    drop(held);
    let _gone = waitpid(Some(child), WaitOptions::empty());
    made
}

fn name_ids(child: Pid, user: &User) -> Result<OwnedFd, SetupError> {
    let file = |name: &str| format!("/proc/{child}/{name}");
    super::identity::say(&file("uid_map"), &format!("0 {} 1", user.uid))?;
    super::identity::say(&file("gid_map"), &format!("0 {} 1", user.gid))?;
    let path = file("ns/user");
    open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).doing("open", &path)
}
