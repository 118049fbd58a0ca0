//! People whose tasks are kept apart by subordinate ids, as a helper of theirs sees it: joining
//! the keeper's user namespace, naming the one of the container below it, and becoming the person
//! for good or for a moment. Who has which id is decided elsewhere.

use super::error::{Doing, SetupError};
use super::identity::say;
use super::sys::{own_keyring, take_file_rights};
use crate::plan::{Container, Person, Process, Reads, Within};
use crate::reach::{Reach, Use};
use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, accessat, chownat, fcntl_setfl,
    fstat, openat2,
};
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{Gid, Pid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, LinkNameSpaceType, move_into_link_name_space, set_capabilities,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// What a person is called inside: by the number that images expect their first user to have. 0
/// there is the account of the caller, to whom the image belongs.
const INSIDE: u32 = 1000;

/// The first descriptor of those that are handed to a program. Above all that a helper opens.
const HANDED_FROM: i32 = 64;

/// Where a program finds one of the files it was handed. The last part is a name, so that whoever
/// follows no links can open it.
pub fn handed(at: usize, is_folder: bool) -> PathBuf {
    let below = if is_folder { "/." } else { "" };
    PathBuf::from(format!("/proc/self/fd/{}{below}", HANDED_FROM as usize + at))
}

/// From here on this process is the caller as 0 of the keeper's user namespace, with every right
/// over the ids in it, and has no keys of the caller's.
pub(super) fn join(keeper: &OwnedFd, person: Option<Person>) -> Result<(), SetupError> {
    move_into_link_name_space(keeper.as_fd(), Some(LinkNameSpaceType::User))
        .doing("join", "the keeper's user namespace")?;
    match leave_keyring(person) {
        // As many as the person may have are held by tasks of theirs.
        Err(Errno::DQUOT) => Err(SetupError::NoRoom { source: Errno::DQUOT.into() }),
        left => left.doing("leave", "the keyring"),
    }
}

/// What a file system takes from a keyring would go over every change of user.
///
/// The kernel counts a keyring for whoever asks for it, two hundred for each, and whoever has a
/// file that was opened with it keeps it: so it is the person who asks. In the caller's name one
/// person's tasks would use up what everybody's need.
fn leave_keyring(person: Option<Person>) -> Result<(), Errno> {
    let Some(person) = person else { return own_keyring() };
    let own = Uid::ROOT;
    set_thread_res_uid(in_keeper(person).0, own, own)?;
    let left = own_keyring();
    set_thread_res_uid(own, own, own)?;
    left
}

/// Tells the user namespace of a process who is in it. Called by its parent, in the keeper's.
pub(super) fn name(child: Pid, person: Person) -> Result<(), SetupError> {
    let map = |id: NonZeroU32| format!("0 0 1\n{INSIDE} {id} 1\n");
    say(&format!("/proc/{child}/uid_map"), &map(person.uid))?;
    say(&format!("/proc/{child}/gid_map"), &map(person.gid))
}

/// The helper needs nothing of what it had, once the container is named: over its children it
/// keeps the rights of whoever made their namespace.
pub(super) fn give_up_rights() -> Result<(), SetupError> {
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, none).doing("give up", "all capabilities")
}

/// The groups of the caller are not the person's. Before anything is opened in their name.
pub(super) fn leave_groups() -> Result<(), SetupError> {
    set_thread_groups(&[]).doing("leave", "groups")
}

/// In the container, after which there is no way back. The bounding set must be empty by then.
pub(super) fn turn_into_person() -> Result<(), SetupError> {
    turn_into(inside())
}

fn turn_into((uid, gid): (Uid, Gid)) -> Result<(), SetupError> {
    set_thread_res_gid(gid, gid, gid).doing("change", "group")?;
    set_thread_res_uid(uid, uid, uid).doing("change", "user")
}

/// Does something with the rights over files that the person has, where there is one: for whatever
/// they have named.
pub(super) fn with_rights_of<T>(
    container: &Container,
    act: impl FnOnce() -> Result<T, SetupError>,
) -> Result<T, SetupError> {
    if container.person.is_none() {
        return act();
    }
    take_file_rights(INSIDE).doing("change", "rights over files")?;
    let done = act();
    take_file_rights(0).doing("change", "rights over files")?;
    done
}

/// Something that the caller has made for this task becomes the person's. It lies in a folder of
/// the caller's, where nobody can put something else.
pub(super) fn give(container: &Container, path: &Path) -> Result<(), SetupError> {
    if container.person.is_none() {
        return Ok(());
    }
    give_to(inside(), path)
}

fn give_to((uid, gid): (Uid, Gid), path: &Path) -> Result<(), SetupError> {
    chownat(CWD, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW).doing("give away", path)
}

/// The pipes that the task writes to are its own, so that it can open them by name. Never files:
/// what is kept of its output is not the person's to change.
pub(super) fn give_pipes() -> Result<(), SetupError> {
    let (uid, gid) = inside();
    for stream in [rustix::stdio::stdout(), rustix::stdio::stderr()] {
        let kind = FileType::from_raw_mode(fstat(stream).doing("look at", "output")?.st_mode);
        if kind == FileType::Fifo {
            rustix::fs::fchown(stream, Some(uid), Some(gid)).doing("give away", "a pipe")?;
        }
    }
    Ok(())
}

/// Opens what the task reads and puts it in its place. With the rights of the person.
pub(super) fn open_input(file: &Reads, reach: &Reach) -> Result<(), SetupError> {
    let path = &file.path;
    // Without waiting: it may be a pipe that nobody writes to.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let links = if file.resolved { ResolveFlags::NO_SYMLINKS } else { ResolveFlags::NO_MAGICLINKS };
    let opened = openat2(CWD, path, flags, Mode::empty(), links).doing("read", path)?;
    reach.judge(&opened, path, Use::Read)?;
    let kind = FileType::from_raw_mode(fstat(&opened).doing("look at", path)?.st_mode);
    if kind != FileType::RegularFile {
        return Err(SetupError::NotAFile { path: path.clone() });
    }
    fcntl_setfl(&opened, OFlags::empty()).doing("read", path)?;
    rustix::stdio::dup2_stdin(&opened).doing("read", path)
}

/// Whether the person may write to the directory that the task stands in. Said before it starts:
/// most programs find out much later.
pub(super) fn may_write(directory: &OwnedFd, shown: &Path) -> Result<(), SetupError> {
    match accessat(directory, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::empty()) {
        Err(Errno::ACCESS | Errno::PERM) => Err(SetupError::NotWritable { path: shown.to_owned() }),
        _ => Ok(()),
    }
}

/// A plain program joins the keeper, and becomes who it is to be there.
pub(super) fn become_within(keeper: &OwnedFd, process: &Process) -> Result<(), SetupError> {
    let Some(within) = process.within else { return Ok(()) };
    let person = if let Within::Person(person) = within { Some(person) } else { None };
    join(keeper, person)?;
    leave_groups()?;
    for (at, path) in (0..).zip(&process.handed) {
        if let Within::Person(person) = within {
            give_to(in_keeper(person), path)?;
        }
        hand(HANDED_FROM + at, path)?;
    }
    match within {
        Within::Keeper => Ok(()),
        Within::Person(person) => {
            super::confine::empty_bounding_set()?;
            turn_into(in_keeper(person))?;
            give_up_rights()
        }
    }
}

/// Who a person is in a container.
fn inside() -> (Uid, Gid) {
    (Uid::from_raw(INSIDE), Gid::from_raw(INSIDE))
}

/// Who they are in the keeper's namespace.
fn in_keeper(person: Person) -> (Uid, Gid) {
    (Uid::from_raw(person.uid.get()), Gid::from_raw(person.gid.get()))
}

/// Opens a file or folder of the caller's, for the program that this process turns into.
fn hand(number: i32, path: &Path) -> Result<(), SetupError> {
    let resolve = ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat2(CWD, path, flags, Mode::empty(), resolve).doing("open", path)?;
    let handed = fcntl_dupfd_cloexec(&file, number).doing("hand over", path)?;
    if handed.as_raw_fd() != number {
        return Err(Errno::MFILE).doing("hand over", path);
    }
    fcntl_setfd(&handed, FdFlags::empty()).doing("hand over", path)?;
    // Open until the program has taken it over.
    std::mem::forget(handed);
    Ok(())
}
