//! The calls no safe crate wraps, each behind a function that cannot be misused.
//!
//! One of the two files of the workspace with unsafe code; the other is `vfork.rs`. Everything in
//! it is one system call, with no memory shared beyond the call.
#![allow(unsafe_code, reason = "clone, mount_setattr and signal masks have no safe wrapper")]

use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd};

/// The kernel's `CLONE_NEW…`, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Namespaces(pub(super) u64);

impl Namespaces {
    #[allow(clippy::cast_sign_loss, reason = "flags, not numbers")]
    pub(super) const ALWAYS: Self = Self(
        (libc::CLONE_NEWUSER
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUTS
            | libc::CLONE_NEWCGROUP) as u64,
    );
    #[allow(clippy::cast_sign_loss, reason = "flags, not numbers")]
    pub(super) const USER: Self = Self(libc::CLONE_NEWUSER as u64);
    #[allow(clippy::cast_sign_loss, reason = "flags, not numbers")]
    pub(super) const NETWORK: Self = Self(libc::CLONE_NEWNET as u64);

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Forks into new namespaces; `None` is the child. Refuses when this process has other threads:
/// what they hold (a lock of the allocator) would stay held in the child for ever.
pub(super) fn fork_into(namespaces: Namespaces) -> io::Result<Option<Pid>> {
    if !is_single_threaded()? {
        return Err(io::Error::other("the helper has more than one thread"));
    }
    let flags = namespaces.0 | u64::from(libc::SIGCHLD.unsigned_abs());
    // SAFETY: without CLONE_VM the child has its own copy of everything, and with a stack of 0 it
    // goes on where the parent is, as after fork. There is one thread, checked above, so no lock
    // is held by anybody who is not there in the child.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    match i32::try_from(pid) {
        Ok(0) => Ok(None),
        Ok(pid) if pid > 0 => Ok(Pid::from_raw(pid)),
        _ => Err(io::Error::last_os_error()),
    }
}

fn is_single_threaded() -> io::Result<bool> {
    /// The directory of a process's threads: itself, its parent, and one link a thread.
    const LINKS_OF_ONE: u64 = 3;
    Ok(rustix::fs::stat("/proc/self/task")?.st_nlink == LINKS_OF_ONE)
}

/// Attributes a mount can be given; none is ever taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attributes(u64);

impl Attributes {
    pub(super) const READ_ONLY: Self = Self(libc::MOUNT_ATTR_RDONLY);
    pub(super) const NO_SUID: Self = Self(libc::MOUNT_ATTR_NOSUID);
    pub(super) const NO_DEV: Self = Self(libc::MOUNT_ATTR_NODEV);
    pub(super) const NO_EXEC: Self = Self(libc::MOUNT_ATTR_NOEXEC);

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Adds attributes to a mount and all mounts below it.
pub(super) fn add_attributes(mount: impl AsFd, attributes: Attributes) -> Result<(), Errno> {
    let wanted =
        libc::mount_attr { attr_set: attributes.0, attr_clr: 0, propagation: 0, userns_fd: 0 };
    set_attributes(mount, &wanted, libc::AT_EMPTY_PATH | libc::AT_RECURSIVE)
}

/// Shows the files of one mount with the owners that a user namespace makes of theirs.
pub(super) fn map_owner(mount: impl AsFd, namespace: impl AsFd) -> Result<(), Errno> {
    let userns_fd = u64::try_from(namespace.as_fd().as_raw_fd()).map_err(|_| Errno::BADF)?;
    let wanted = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_IDMAP,
        attr_clr: 0,
        propagation: 0,
        userns_fd,
    };
    set_attributes(mount, &wanted, libc::AT_EMPTY_PATH)
}

/// From here on this process mounts for itself and those it starts only.
pub(super) fn own_mounts() -> Result<(), Errno> {
    // SAFETY: one system call that takes a number; memory is not shared or moved by this flag.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

/// From here on this process is in a user namespace that nobody else is in. One thread only.
pub(super) fn own_users() -> Result<(), Errno> {
    // SAFETY: one system call that takes a number; memory is not shared or moved by this flag.
    let result = unsafe { libc::unshare(libc::CLONE_NEWUSER) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

/// From here on this process and those it starts have a session keyring of their own, and nothing
/// in it. A kernel without keys has none to leave.
pub(super) fn own_keyring() -> Result<(), Errno> {
    /// `KEYCTL_JOIN_SESSION_KEYRING`; without a name it is a new one.
    const JOIN: libc::c_int = 1;
    // SAFETY: numbers and a null pointer, which means that there is no name.
    let result = unsafe { libc::syscall(libc::SYS_keyctl, JOIN, std::ptr::null::<u8>()) };
    match if result < 0 { last_errno() } else { return Ok(()) } {
        Errno::NOSYS => Ok(()),
        errno => Err(errno),
    }
}

/// From here on this process has the rights over files of the user and group of this number: 0 has
/// all of them, others none but their own.
pub(super) fn take_file_rights(id: u32) -> Result<(), Errno> {
    // SAFETY: four calls that take numbers. They say who it was before, and nothing of whether it
    // worked; with an id that nobody has they change nothing and say who it is.
    let (uid, gid) = unsafe {
        libc::setfsgid(id);
        libc::setfsuid(id);
        (libc::setfsuid(libc::uid_t::MAX), libc::setfsgid(libc::gid_t::MAX))
    };
    let is = |found: libc::c_int| found.unsigned_abs() == id;
    if is(uid) && is(gid) { Ok(()) } else { Err(Errno::PERM) }
}

/// From here on this process and those it starts connect to no socket without a file that anybody
/// else listens on. Needs `no_new_privs`. False where the kernel cannot (it came with Linux 6.12).
pub(super) fn leave_sockets_without_files() -> Result<bool, Errno> {
    /// `struct landlock_ruleset_attr`; a kernel that knows less of it refuses what it does not.
    #[repr(C)]
    struct Rules {
        files: u64,
        network: u64,
        scoped: u64,
    }
    /// `LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET`.
    const SOCKETS: u64 = 1;
    let rules = Rules { files: 0, network: 0, scoped: SOCKETS };
    let (rules, size) = (&raw const rules, size_of::<Rules>());
    // SAFETY: the structure is ours and has the size that is named; the kernel only reads it, and
    // only during the call.
    let made = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, rules, size, 0) };
    let Some(made) = i32::try_from(made).ok().filter(|made| *made >= 0) else {
        return match last_errno() {
            Errno::NOSYS | Errno::OPNOTSUPP | Errno::TOOBIG | Errno::INVAL => Ok(false),
            errno => Err(errno),
        };
    };
    // SAFETY: the kernel has just made it, for nobody else.
    let made = unsafe { std::os::fd::OwnedFd::from_raw_fd(made) };
    // SAFETY: two numbers.
    let set = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, made.as_raw_fd(), 0) };
    if set == 0 { Ok(true) } else { Err(last_errno()) }
}

fn set_attributes(
    mount: impl AsFd,
    wanted: &libc::mount_attr,
    flags: libc::c_int,
) -> Result<(), Errno> {
    // SAFETY: the path is a literal that ends with NUL, the structure is ours and has the size
    // that is named; the kernel only reads both, and only during the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const *wanted,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

/// From here on no signal but KILL and STOP does anything to this process.
pub(super) fn block_signals() -> io::Result<()> {
    change_mask(libc::SIG_BLOCK)
}

/// For the first process inside, to which signals do nothing anyway, before it starts the task,
/// which begins with the same mask.
pub(super) fn unblock_signals() -> io::Result<()> {
    change_mask(libc::SIG_UNBLOCK)
}

/// A wish to end that came while signals were blocked.
pub(super) fn wish_to_end() -> Option<Signal> {
    let mut waiting = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT].into_iter().find(|signal| {
        // SAFETY: a set of zeroes is a set; sigpending only writes it, sigismember only reads it.
        unsafe {
            libc::sigpending(waiting.as_mut_ptr()) == 0
                && libc::sigismember(waiting.as_ptr(), signal.as_raw()) == 1
        }
    })
}

fn change_mask(how: libc::c_int) -> io::Result<()> {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset writes the whole set before sigprocmask reads it; no old set is asked for.
    let result = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::sigprocmask(how, all.as_ptr(), std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Ends this process by a signal, as the task was ended. Returns if the signal does not do that.
pub(super) fn die_of(signal: Signal) {
    // SAFETY: the default action is no code of ours.
    unsafe { libc::signal(signal.as_raw(), libc::SIG_DFL) };
    let _still_blocked = change_mask(libc::SIG_UNBLOCK);
    let _alive = rustix::process::kill_process(rustix::process::getpid(), signal);
}

/// Ends a process that was only forked, without anything that its parent would do at its end.
pub(super) fn leave() -> ! {
    // SAFETY: takes a number, and does not return.
    unsafe { libc::_exit(0) }
}

/// Lets a child go on that has asked to be traced and stands still, with this signal or none (0).
/// One that does not is not touched.
pub(super) fn stop_tracing(child: Pid, signal: libc::c_int) {
    let pid = child.as_raw_nonzero().get();
    // SAFETY: takes numbers; this request reads and writes no memory, of the child's or ours.
    unsafe { libc::ptrace(libc::PTRACE_DETACH, pid, 0, signal) };
}

/// Every descriptor above the standard three is closed when a program is started.
pub(super) fn keep_descriptors_to_ourselves() -> Result<(), Errno> {
    const FIRST: libc::c_uint = 3;
    let flags = libc::CLOSE_RANGE_CLOEXEC;
    // SAFETY: with this flag nothing is closed now, so no descriptor changes its meaning.
    let result = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, flags) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Signals that nobody answers, but which end or stop a process, do so again: who started us may
/// have asked for something else, and what is ignored stays ignored in every program started.
pub(super) fn answer_signals_as_usual() {
    /// One more than the highest signal.
    const SIGNALS: libc::c_int = 65;
    for number in 1..SIGNALS {
        // The runtime of the language wants to be told of a broken pipe in another way, and sees
        // to it when a program is started.
        if number != libc::SIGPIPE {
            // SAFETY: the default action is no code of ours. Numbers that cannot be changed are
            // refused, which changes nothing.
            unsafe { libc::signal(number, libc::SIG_DFL) };
        }
    }
}

/// Adds a filter on system calls to this thread. It must have given up gaining rights.
pub(super) fn install_filter(program: &[seccompiler::sock_filter]) -> Result<(), Errno> {
    let length = u16::try_from(program.len()).map_err(|_| Errno::INVAL)?;
    let program = libc::sock_fprog {
        len: length,
        filter: program.as_ptr().cast::<libc::sock_filter>().cast_mut(),
    };
    let (filter, as_fast_as_before) =
        (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW);
    // SAFETY: both types of instruction are the kernel's own, eight bytes with the same layout; the
    // kernel copies the program during the call and does not write to it.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, filter, as_fast_as_before, &raw const program) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}
