//! The filter on system calls, as a program for the kernel.
//!
//! What tasks have no business with is refused: namespaces, mounts, modules, keys, tracing of the
//! kernel. Calls younger than this list do not exist for them, so that libraries fall back to
//! older ones. The numbers are searched by halves, eight comparisons instead of hundreds: the
//! kernel runs a filter once for every number when it is installed, and a list of comparisons
//! would cost more than the rest of a start.
//!
//! Pure: installing it is `confine.rs`.

use seccompiler::sock_filter;

// Operations of the kernel's classic packet filter machine.
const LOAD_WORD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const JUMP_IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

// Where the kernel puts the call that is judged.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const FIRST_ARGUMENT_AT: u32 = 16;
const SECOND_ARGUMENT_AT: u32 = 24;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

/// The youngest call this list was made for. All architectures number them alike by then.
const YOUNGEST: i64 = libc::SYS_mseal;

/// Every kind of namespace a `clone` or `unshare` can ask for.
#[allow(clippy::cast_sign_loss, reason = "flags, not numbers")]
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// `CLONE_NEWTIME`; only `unshare` takes it, for `clone` the same bit is part of a signal.
const NEW_TIME: u32 = 0x80;

/// Requests that put keys into the terminal of whoever started us.
pub(crate) const TERMINAL_INPUT: [u32; 2] = [0x5412, 0x541C];

/// Families of sockets: to the virtual machine's host, and to the kernel's own ciphers.
const STRANGE_FAMILIES: [u32; 2] = [40, 38];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Allow,
    /// Not permitted.
    Refuse,
    /// As if the kernel did not know it: libraries then use an older call.
    Unknown,
    /// Unless the first argument has one of these bits.
    UnlessBits(u32),
    /// Unless the first argument is one of these.
    UnlessFirst([u32; 2]),
    /// Unless the second argument is one of these.
    UnlessSecond([u32; 2]),
}

const REFUSED: &[(&str, i64)] = &[
    // Namespaces, mounts and roots.
    ("setns", libc::SYS_setns),
    ("mount", libc::SYS_mount),
    ("umount2", libc::SYS_umount2),
    ("pivot_root", libc::SYS_pivot_root),
    ("chroot", libc::SYS_chroot),
    ("open_tree", libc::SYS_open_tree),
    ("move_mount", libc::SYS_move_mount),
    ("fsopen", libc::SYS_fsopen),
    ("fsconfig", libc::SYS_fsconfig),
    ("fsmount", libc::SYS_fsmount),
    ("fspick", libc::SYS_fspick),
    ("mount_setattr", libc::SYS_mount_setattr),
    ("open_by_handle_at", libc::SYS_open_by_handle_at),
    // The kernel itself, and the whole machine.
    ("init_module", libc::SYS_init_module),
    ("finit_module", libc::SYS_finit_module),
    ("delete_module", libc::SYS_delete_module),
    ("kexec_load", libc::SYS_kexec_load),
    ("kexec_file_load", libc::SYS_kexec_file_load),
    ("reboot", libc::SYS_reboot),
    ("swapon", libc::SYS_swapon),
    ("swapoff", libc::SYS_swapoff),
    ("acct", libc::SYS_acct),
    ("quotactl", libc::SYS_quotactl),
    ("quotactl_fd", libc::SYS_quotactl_fd),
    ("syslog", libc::SYS_syslog),
    ("sethostname", libc::SYS_sethostname),
    ("setdomainname", libc::SYS_setdomainname),
    ("settimeofday", libc::SYS_settimeofday),
    ("clock_settime", libc::SYS_clock_settime),
    ("clock_adjtime", libc::SYS_clock_adjtime),
    ("adjtimex", libc::SYS_adjtimex),
    ("vhangup", libc::SYS_vhangup),
    ("nfsservctl", libc::SYS_nfsservctl),
    ("lookup_dcookie", libc::SYS_lookup_dcookie),
    #[cfg(target_arch = "x86_64")]
    ("iopl", libc::SYS_iopl),
    #[cfg(target_arch = "x86_64")]
    ("ioperm", libc::SYS_ioperm),
    #[cfg(target_arch = "x86_64")]
    ("uselib", libc::SYS_uselib),
    #[cfg(target_arch = "x86_64")]
    ("ustat", libc::SYS_ustat),
    #[cfg(target_arch = "x86_64")]
    ("sysfs", libc::SYS_sysfs),
    #[cfg(target_arch = "x86_64")]
    ("_sysctl", libc::SYS__sysctl),
    // Keys that namespaces do not keep apart.
    ("add_key", libc::SYS_add_key),
    ("request_key", libc::SYS_request_key),
    ("keyctl", libc::SYS_keyctl),
    // Large doors into the kernel, rarely needed.
    ("bpf", libc::SYS_bpf),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("userfaultfd", libc::SYS_userfaultfd),
    ("fanotify_init", libc::SYS_fanotify_init),
    ("kcmp", libc::SYS_kcmp),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("io_uring_register", libc::SYS_io_uring_register),
];

const JUDGED: &[(i64, Verdict)] = &[
    (libc::SYS_clone, Verdict::UnlessBits(NAMESPACES)),
    (libc::SYS_unshare, Verdict::UnlessBits(NAMESPACES | NEW_TIME)),
    // Its flags lie in memory, where a filter cannot look.
    (libc::SYS_clone3, Verdict::Unknown),
    (libc::SYS_ioctl, Verdict::UnlessSecond(TERMINAL_INPUT)),
    (libc::SYS_socket, Verdict::UnlessFirst(STRANGE_FAMILIES)),
    (libc::SYS_socketpair, Verdict::UnlessFirst(STRANGE_FAMILIES)),
];

/// The names of what is refused whatever its arguments, for runtimes that make their own filter.
pub(crate) fn refused_calls() -> Vec<&'static str> {
    REFUSED.iter().map(|(name, _)| *name).collect()
}

/// The filter.
pub(super) fn program() -> Vec<sock_filter> {
    let mut program = vec![
        load(ARCHITECTURE_AT),
        // Calls of another architecture have other numbers: not for us to judge.
        jump(JUMP_IF_EQUAL, ARCHITECTURE, 1, 0),
        answer(Verdict::Unknown),
        load(NUMBER_AT),
    ];
    program.extend(search(&ranges()));
    program
}

/// A filter for what is no container: everything but keys that are put into a terminal. Where a
/// call has other numbers, whatever looks like that request is refused.
pub(super) fn terminals() -> Vec<sock_filter> {
    /// From here on numbers are those of another way to call.
    const SECOND_NUMBERING: u32 = 0x4000_0000;
    let number = u32::try_from(libc::SYS_ioctl).expect("system calls have small numbers");
    let mut program = vec![
        load(ARCHITECTURE_AT),
        jump(JUMP_IF_EQUAL, ARCHITECTURE, 0, 4),
        load(NUMBER_AT),
        jump(JUMP_IF_EQUAL, number, 2, 0),
        jump(JUMP_IF_AT_LEAST, SECOND_NUMBERING, 1, 0),
        answer(Verdict::Allow),
    ];
    program.extend(judge(Verdict::UnlessSecond(TERMINAL_INPUT)));
    program
}

/// From which number on which verdict holds, in order.
fn ranges() -> Vec<(u32, Verdict)> {
    let number = |number: i64| u32::try_from(number).expect("system calls have small numbers");
    let mut known: Vec<(u32, Verdict)> =
        REFUSED.iter().map(|(_, refused)| (number(*refused), Verdict::Refuse)).collect();
    known.extend(JUDGED.iter().map(|(judged, verdict)| (number(*judged), *verdict)));
    known.push((number(YOUNGEST) + 1, Verdict::Unknown));
    known.sort_by_key(|(number, _)| *number);
    let mut ranges = vec![(0, Verdict::Allow)];
    for (index, (number, verdict)) in known.iter().enumerate() {
        push_range(&mut ranges, *number, *verdict);
        let next = known.get(index + 1).map(|(next, _)| *next);
        if next.is_some_and(|next| next > number + 1) {
            push_range(&mut ranges, number + 1, Verdict::Allow);
        }
    }
    ranges
}

fn push_range(ranges: &mut Vec<(u32, Verdict)>, from: u32, verdict: Verdict) {
    if ranges.last().is_none_or(|(_, last)| *last != verdict) {
        ranges.push((from, verdict));
    }
}

/// A search by halves; the number is loaded.
fn search(ranges: &[(u32, Verdict)]) -> Vec<sock_filter> {
    let (lower, upper) = match ranges {
        [(_, verdict)] => return judge(*verdict),
        _ => ranges.split_at(ranges.len() / 2),
    };
    let (lower, from) = (search(lower), upper[0].0);
    let over = u8::try_from(lower.len()).expect("half the filter is shorter than a jump");
    let mut program = vec![jump(JUMP_IF_AT_LEAST, from, over, 0)];
    program.extend(lower);
    program.extend(search(upper));
    program
}

fn judge(verdict: Verdict) -> Vec<sock_filter> {
    let unless = |at, [one, other]: [u32; 2]| {
        vec![
            load(at),
            jump(JUMP_IF_EQUAL, one, 2, 0),
            jump(JUMP_IF_EQUAL, other, 1, 0),
            answer(Verdict::Allow),
            answer(Verdict::Refuse),
        ]
    };
    match verdict {
        Verdict::Allow | Verdict::Refuse | Verdict::Unknown => vec![answer(verdict)],
        Verdict::UnlessBits(bits) => vec![
            load(FIRST_ARGUMENT_AT),
            jump(JUMP_IF_ANY_BIT, bits, 1, 0),
            answer(Verdict::Allow),
            answer(Verdict::Refuse),
        ],
        Verdict::UnlessFirst(values) => unless(FIRST_ARGUMENT_AT, values),
        Verdict::UnlessSecond(values) => unless(SECOND_ARGUMENT_AT, values),
    }
}

fn load(at: u32) -> sock_filter {
    sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: at }
}

fn jump(code: u16, value: u32, if_so: u8, if_not: u8) -> sock_filter {
    sock_filter { code, jt: if_so, jf: if_not, k: value }
}

fn answer(verdict: Verdict) -> sock_filter {
    const ALLOW: u32 = 0x7FFF_0000;
    const ERROR: u32 = 0x0005_0000;
    let error = |errno: i32| ERROR | errno.unsigned_abs();
    let value = match verdict {
        Verdict::Allow => ALLOW,
        Verdict::Unknown => error(libc::ENOSYS),
        _ => error(libc::EPERM),
    };
    sock_filter { code: RETURN, jt: 0, jf: 0, k: value }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: u32 = 0x7FFF_0000;
    const REFUSED_WITH: u32 = 0x0005_0001;
    const UNKNOWN: u32 = 0x0005_0026;

    fn run(architecture: u32, number: i64, first: u32, second: u32) -> u32 {
        run_in(&program(), architecture, number, first, second)
    }

    /// The kernel's machine, as far as the filter uses it.
    fn run_in(
        program: &[sock_filter],
        architecture: u32,
        number: i64,
        first: u32,
        second: u32,
    ) -> u32 {
        let (mut word, mut at) = (0, 0);
        loop {
            let step = &program[at];
            at += 1;
            let over = |holds: bool| usize::from(if holds { step.jt } else { step.jf });
            match step.code {
                LOAD_WORD => {
                    word = match step.k {
                        NUMBER_AT => u32::try_from(number).unwrap(),
                        ARCHITECTURE_AT => architecture,
                        FIRST_ARGUMENT_AT => first,
                        SECOND_ARGUMENT_AT => second,
                        other => panic!("load from {other}"),
                    }
                }
                JUMP_IF_EQUAL => at += over(word == step.k),
                JUMP_IF_AT_LEAST => at += over(word >= step.k),
                JUMP_IF_ANY_BIT => at += over(word & step.k != 0),
                RETURN => return step.k,
                other => panic!("operation {other:#x}"),
            }
        }
    }

    fn verdict(number: i64, first: u32, second: u32) -> u32 {
        run(ARCHITECTURE, number, first, second)
    }

    #[test]
    fn every_number_has_the_verdict_of_the_lists() {
        for number in 0..1000 {
            let expected = match number {
                _ if REFUSED.iter().any(|(_, refused)| *refused == number) => REFUSED_WITH,
                _ if number > YOUNGEST || number == libc::SYS_clone3 => UNKNOWN,
                _ => ALLOWED,
            };
            assert_eq!(verdict(number, 0, 0), expected, "system call {number}");
        }
    }

    #[test]
    fn arguments_are_judged() {
        let user = 0x1000_0000;
        assert_eq!(verdict(libc::SYS_clone, user | 0x11, 0), REFUSED_WITH);
        assert_eq!(verdict(libc::SYS_clone, 0x0001_0F00, 0), ALLOWED);
        assert_eq!(verdict(libc::SYS_unshare, NEW_TIME, 0), REFUSED_WITH);
        assert_eq!(verdict(libc::SYS_unshare, 0x400, 0), ALLOWED);
        assert_eq!(verdict(libc::SYS_ioctl, 0, 0x5412), REFUSED_WITH);
        assert_eq!(verdict(libc::SYS_ioctl, 0x5412, 0x5401), ALLOWED);
        assert_eq!(verdict(libc::SYS_socket, 40, 0), REFUSED_WITH);
        assert_eq!(verdict(libc::SYS_socket, 2, 1), ALLOWED);
    }

    #[test]
    fn plain_programs_may_all_but_type_for_others() {
        let verdict = |number, second| run_in(&terminals(), ARCHITECTURE, number, 0, second);
        for number in (0..1000).filter(|number| *number != libc::SYS_ioctl) {
            assert_eq!(verdict(number, TERMINAL_INPUT[0]), ALLOWED, "system call {number}");
        }
        assert_eq!(verdict(libc::SYS_ioctl, 0x5401), ALLOWED);
        for request in TERMINAL_INPUT {
            assert_eq!(verdict(libc::SYS_ioctl, request), REFUSED_WITH);
        }
        for (architecture, number) in [(0x4000_0003, 54), (ARCHITECTURE, 0x4000_0202)] {
            let verdict = |second| run_in(&terminals(), architecture, number, 0, second);
            assert_eq!(verdict(TERMINAL_INPUT[0]), REFUSED_WITH);
            assert_eq!(verdict(0x5401), ALLOWED);
        }
    }

    #[test]
    fn other_architectures_and_the_second_numbering_are_unknown() {
        assert_eq!(run(0x4000_0003, libc::SYS_read, 0, 0), UNKNOWN);
        assert_eq!(verdict(0x4000_0000, 0, 0), UNKNOWN);
    }
}
