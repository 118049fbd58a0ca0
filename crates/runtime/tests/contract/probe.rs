//! Runs inside a container and tries system calls that a task has no business with.
#![allow(unsafe_code, reason = "calls that no safe crate wraps, to see them refused")]

use std::io;
use std::os::fd::AsRawFd;

/// The word by which this program knows that it is the probe.
pub(crate) const COMMAND: &str = "probe";

/// Name, number and arguments.
type Call = (&'static str, libc::c_long, [i64; 5]);

const CALLS: [Call; 15] = [
    ("bpf", libc::SYS_bpf, [0; 5]),
    ("keyctl", libc::SYS_keyctl, [0, -3, 0, 0, 0]),
    ("add_key", libc::SYS_add_key, [0, 0, 0, 0, -3]),
    ("userfaultfd", libc::SYS_userfaultfd, [1, 0, 0, 0, 0]),
    ("perf_event_open", libc::SYS_perf_event_open, [0, 0, -1, -1, 0]),
    ("kexec_load", libc::SYS_kexec_load, [0; 5]),
    ("init_module", libc::SYS_init_module, [0; 5]),
    ("open_by_handle_at", libc::SYS_open_by_handle_at, [-100, 0, 0, 0, 0]),
    ("setns", libc::SYS_setns, [0; 5]),
    ("pivot_root", libc::SYS_pivot_root, [0; 5]),
    ("swapon", libc::SYS_swapon, [0; 5]),
    ("reboot", libc::SYS_reboot, [0; 5]),
    ("setuid", libc::SYS_setuid, [0; 5]),
    ("mount namespace", libc::SYS_unshare, [libc::CLONE_NEWNS as i64, 0, 0, 0, 0]),
    ("user namespace", libc::SYS_unshare, [libc::CLONE_NEWUSER as i64, 0, 0, 0, 0]),
];

/// The word by which it looks for a key in the keyring of its session.
pub(crate) const KEYS: &str = "probe-keys";

pub(crate) fn say_whether_key(name: &str) {
    println!("{}", if has_key(name) { "there" } else { "absent" });
}

/// Puts a key into the keyring of this session.
pub(crate) fn add_key(name: &str) -> bool {
    let name = std::ffi::CString::new(name).unwrap();
    let (kind, ring) = (c"user".as_ptr(), SESSION_KEYRING);
    // SAFETY: texts that end with NUL, and a byte; the kernel only reads them, during the call.
    unsafe { libc::syscall(libc::SYS_add_key, kind, name.as_ptr(), b"x".as_ptr(), 1, ring) >= 0 }
}

pub(crate) fn has_key(name: &str) -> bool {
    /// `KEYCTL_SEARCH`.
    const SEARCH: libc::c_int = 10;
    let name = std::ffi::CString::new(name).unwrap();
    let (kind, ring) = (c"user".as_ptr(), SESSION_KEYRING);
    // SAFETY: texts that end with NUL; the kernel only reads them, during the call.
    unsafe { libc::syscall(libc::SYS_keyctl, SEARCH, ring, kind, name.as_ptr(), 0) >= 0 }
}

/// `KEY_SPEC_SESSION_KEYRING`.
const SESSION_KEYRING: libc::c_int = -3;

/// The word by which it tries to put keys into the terminal that it reads from, if it is one.
pub(crate) const TYPE: &str = "probe-typing";

pub(crate) fn say_whether_typing() {
    /// Keys, and what the console of a machine can be asked for.
    const REQUESTS: [u64; 2] = [0x5412, 0x541C];
    /// The kernel looks at the lower half only.
    const UPPER: u64 = 1 << 32;
    for request in REQUESTS.into_iter().flat_map(|request| [request, request | UPPER]) {
        // SAFETY: one byte that the kernel reads. What is read from is no terminal of anybody's.
        let result = unsafe { libc::syscall(libc::SYS_ioctl, 0, request, b"x".as_ptr()) };
        let errno = io::Error::last_os_error().raw_os_error();
        // Let through, it is said to be no terminal.
        let refused = result < 0 && errno == Some(libc::EPERM);
        println!("{}", if refused { "refused" } else { "allowed" });
    }
}

/// The word by which it tries to keep a pipe busy: its reader would hang, whatever it asked for.
pub(crate) const PIPES: &str = "probe-pipes";

/// Says of each call with what it was refused, or that it was not. None of them has to wait.
pub(crate) fn say_which_hold_pipes() {
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let (full, fill) = rustix::pipe::pipe().unwrap();
    rustix::io::write(&fill, b"x").unwrap();
    let (_reading, writing) = rustix::pipe::pipe().unwrap();
    let (file, from, to) = (file.as_raw_fd(), full.as_raw_fd(), writing.as_raw_fd());
    let byte = libc::iovec { iov_base: c"x".as_ptr().cast_mut().cast(), iov_len: 1 };
    let (none, mut start) = (std::ptr::null_mut::<i64>(), 0_i64);
    let said = |name, result: isize| match result {
        1.. => println!("{name}: allowed"),
        _ => println!("{name}: {:?}", io::Error::last_os_error().raw_os_error()),
    };
    // SAFETY: descriptors that are open, one byte that the kernel reads, and a number that it
    // writes, each of which outlives its call.
    unsafe {
        said("splice", libc::splice(file, none, to, none, 1, 0));
        said("tee", libc::tee(from, to, 1, libc::SPLICE_F_NONBLOCK));
        said("vmsplice", libc::vmsplice(to, &raw const byte, 1, 0));
        said("sendfile", libc::sendfile(to, file, none, 1));
        said("sendfile of what has a size", libc::sendfile(to, file, &raw mut start, 1));
    }
}

/// The word by which it asks to be traced, and then does what the next word says.
pub(crate) const TRACED: &str = "probe-traced";

pub(crate) fn be_traced(what: &str) {
    // SAFETY: numbers only; signals whose usual answer is to end the process, or nothing.
    unsafe {
        assert_eq!(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0), 0);
        match what {
            "signal" => libc::raise(libc::SIGWINCH),
            "end" => libc::raise(libc::SIGTERM),
            _ => 0,
        };
    }
    if what == "program" {
        use std::os::unix::process::CommandExt;
        let error = std::process::Command::new("/bin/true").exec();
        panic!("{error}");
    }
    println!("went on");
}

/// As `nohup` does it, and back.
pub(crate) fn ignore_hangups(ignored: bool) {
    let answer = if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: neither answer is code of ours.
    unsafe { libc::signal(libc::SIGHUP, answer) };
}

pub(crate) fn main() {
    for (name, number, [a, b, c, d, e]) in CALLS {
        // SAFETY: every call gets numbers only, or null pointers that the kernel refuses to read.
        // What is allowed makes a descriptor, a namespace or a key of this process, which ends now.
        let result = unsafe { libc::syscall(number, a, b, c, d, e) };
        // A null pointer that was looked at means that the call was let through.
        let errno = io::Error::last_os_error().raw_os_error();
        let refused = result < 0 && errno != Some(libc::EFAULT);
        println!("{name}: {}", if refused { "refused" } else { "allowed" });
    }
}
