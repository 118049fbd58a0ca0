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
const THIRD_ARGUMENT_AT: u32 = 32;
/// Behind an argument: its upper half.
const UPPER_HALF: u32 = 4;

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

/// What moves bytes into or out of a pipe keeps it to itself for as long as the other side lets
/// it wait: whoever reads that pipe hangs, and cannot be killed. Programs that are told that these
/// files cannot do it read and write instead. `sendfile` from a place in a file is left to them:
/// what has places does not wait for anybody.
pub(crate) const KEEPS_PIPES: [&str; 3] = ["splice", "tee", "vmsplice"];
pub(crate) const SENDS_FILES: &str = "sendfile";

/// The same in the numbers of 32-bit programs, which no container runs.
#[cfg(target_arch = "x86_64")]
const OF_32_BITS: [i64; 5] = [313, 315, 316, 187, 239];
#[cfg(target_arch = "aarch64")]
const OF_32_BITS: [i64; 5] = [340, 342, 343, 187, 239];

/// From here on numbers are those of another way to call.
const SECOND_NUMBERING: i64 = 0x4000_0000;
const IN_SECOND_NUMBERING: [i64; 4] =
    [0x4000_0000 + 275, 0x4000_0000 + 276, 0x4000_0000 + 532, 0x4000_0000 + 40];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Allow,
    /// Not permitted.
    Refuse,
    /// Not with these files.
    Invalid,
    /// Invalid if the third argument, a place in memory, is none.
    UnlessThirdIsNone,
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

/// What no task may, be it in a container or not.
fn for_everybody() -> impl Iterator<Item = (i64, Verdict)> {
    keeping_pipes(&[libc::SYS_splice, libc::SYS_tee, libc::SYS_vmsplice, libc::SYS_sendfile])
}

/// The first three are `KEEPS_PIPES`, the others kinds of `sendfile`.
fn keeping_pipes(numbers: &[i64]) -> impl Iterator<Item = (i64, Verdict)> {
    let verdict =
        |at| if at < KEEPS_PIPES.len() { Verdict::Invalid } else { Verdict::UnlessThirdIsNone };
    numbers.iter().enumerate().map(move |(at, number)| (*number, verdict(at)))
}

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
    let refused = REFUSED.iter().map(|(_, number)| (*number, Verdict::Refuse));
    let known = refused.chain(JUDGED.iter().copied()).chain(for_everybody()).collect();
    let bases = [(0, Verdict::Allow), (YOUNGEST + 1, Verdict::Unknown)];
    program.extend(search(&ranges(known, &bases)));
    program
}

/// A filter for what is no container: everything but keys that are put into a terminal and what
/// keeps pipes busy. Where `ioctl` has other numbers, whatever looks like that request is refused.
pub(super) fn plain() -> Vec<sock_filter> {
    let keys = Verdict::UnlessSecond(TERMINAL_INPUT);
    let mut known: Vec<_> = for_everybody().chain([(libc::SYS_ioctl, keys)]).collect();
    known.extend(keeping_pipes(&IN_SECOND_NUMBERING));
    let ours = search(&ranges(known, &[(0, Verdict::Allow), (SECOND_NUMBERING, keys)]));
    let over = u8::try_from(ours.len() + 1).expect("a short filter is shorter than a jump");
    let mut program =
        vec![load(ARCHITECTURE_AT), jump(JUMP_IF_EQUAL, ARCHITECTURE, 0, over), load(NUMBER_AT)];
    program.extend(ours);
    program.push(load(NUMBER_AT));
    program.extend(search(&ranges(keeping_pipes(&OF_32_BITS).collect(), &[(0, keys)])));
    program
}

/// From which number on which verdict holds, in order: that of the known number, and otherwise of
/// the last base at or below it.
fn ranges(mut known: Vec<(i64, Verdict)>, bases: &[(i64, Verdict)]) -> Vec<(u32, Verdict)> {
    let mut ranges = Vec::new();
    let base = |number: i64| bases.iter().rev().find(|(from, _)| *from <= number);
    known.sort_by_key(|(number, _)| *number);
    let mut starts: Vec<i64> = bases.iter().map(|(from, _)| *from).collect();
    starts.extend(known.iter().flat_map(|(number, _)| [*number, number + 1]));
    starts.sort_unstable();
    for start in starts {
        let named = known.iter().find(|(number, _)| *number == start);
        if let Some((_, verdict)) = named.or_else(|| base(start)) {
            push_range(&mut ranges, start, *verdict);
        }
    }
    ranges
}

fn push_range(ranges: &mut Vec<(u32, Verdict)>, from: i64, verdict: Verdict) {
    let from = u32::try_from(from).expect("system calls have small numbers");
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
        Verdict::Allow | Verdict::Refuse | Verdict::Invalid | Verdict::Unknown => {
            vec![answer(verdict)]
        }
        Verdict::UnlessThirdIsNone => vec![
            load(THIRD_ARGUMENT_AT),
            jump(JUMP_IF_EQUAL, 0, 0, 2),
            load(THIRD_ARGUMENT_AT + UPPER_HALF),
            jump(JUMP_IF_EQUAL, 0, 1, 0),
            answer(Verdict::Allow),
            answer(Verdict::Invalid),
        ],
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
        Verdict::Invalid => error(libc::EINVAL),
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
    const INVALID: u32 = 0x0005_0016;

    fn run(architecture: u32, number: i64, first: u32, second: u32) -> u32 {
        run_in(&program(), architecture, number, [first, second, 0, 0])
    }

    /// The kernel's machine, as far as the filter uses it.
    fn run_in(
        program: &[sock_filter],
        architecture: u32,
        number: i64,
        [first, second, third, third_upper]: [u32; 4],
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
                        THIRD_ARGUMENT_AT => third,
                        36 => third_upper,
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
                _ if for_everybody().any(|(known, _)| known == number) => INVALID,
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
    fn plain_programs_may_all_but_type_for_others_and_keep_pipes() {
        let verdict = |number, second| run_in(&plain(), ARCHITECTURE, number, [0, second, 0, 0]);
        let judged =
            |number| number == libc::SYS_ioctl || for_everybody().any(|(known, _)| known == number);
        for number in (0..1000).filter(|number| !judged(*number)) {
            assert_eq!(verdict(number, TERMINAL_INPUT[0]), ALLOWED, "system call {number}");
        }
        assert_eq!(verdict(libc::SYS_ioctl, 0x5401), ALLOWED);
        for request in TERMINAL_INPUT {
            assert_eq!(verdict(libc::SYS_ioctl, request), REFUSED_WITH);
        }
        for (architecture, number) in [(0x4000_0003, 54), (ARCHITECTURE, 0x4000_0202)] {
            let verdict = |second| run_in(&plain(), architecture, number, [0, second, 0, 0]);
            assert_eq!(verdict(TERMINAL_INPUT[0]), REFUSED_WITH);
            assert_eq!(verdict(0x5401), ALLOWED);
        }
    }

    #[test]
    fn what_keeps_pipes_is_invalid_by_every_number() {
        let other = keeping_pipes(&OF_32_BITS).map(|it| (0x4000_0003, it));
        let ours = for_everybody().chain(keeping_pipes(&IN_SECOND_NUMBERING));
        for (architecture, (number, verdict)) in ours.map(|it| (ARCHITECTURE, it)).chain(other) {
            let judged = |third| {
                let [lower, upper] = third;
                run_in(&plain(), architecture, number, [0, 0, lower, upper])
            };
            assert_eq!(judged([0, 0]), INVALID, "{number}");
            // From a place in a file, wherever that place is kept.
            let otherwise = if verdict == Verdict::Invalid { INVALID } else { ALLOWED };
            assert_eq!([judged([8, 0]), judged([0, 1])], [otherwise; 2], "{number}");
        }
    }

    #[test]
    fn other_architectures_and_the_second_numbering_are_unknown() {
        assert_eq!(run(0x4000_0003, libc::SYS_read, 0, 0), UNKNOWN);
        assert_eq!(verdict(0x4000_0000, 0, 0), UNKNOWN);
    }
}
