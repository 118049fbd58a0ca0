//! The contract of a runtime: every case, for every runtime that is installed, as an ordinary
//! user and as root on behalf of one.
//!
//! Brings its own `main`: this program is also the helper that containers are made by, and starts
//! itself once more as another user.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "a test")]

mod attacks;
mod cases;
mod escapes;
mod handover;
mod lifetimes;
mod limits;
mod people;
mod probe;
mod site;
mod swaps;
mod table;

use shipway_runtime::Runtime;
use shipway_runtime::apptainer::Apptainer;
use shipway_runtime::crun::Crun;
use shipway_runtime::native::{self, Helper, Keeper, Native};
use shipway_runtime::subids::{Given, Holder};
use site::{NOBODY, Site};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;

/// Where it is installed, by whom ever: it is not in Debian's stable release.
const APPTAINERS: [&str; 2] = ["/usr/bin/apptainer", "/opt/apptainer/bin/apptainer"];
const AS_USER: &str = "as-user";
const OTHERS_AS_ROOT: &str = "others-as-root";
const AS_PEOPLE: &str = "as-people";
/// What the mode is called in which people are kept apart by subordinate ids.
const PEOPLE: &str = "people";

/// Cases that want to change the files of the image, which a person may not.
const NOT_FOR_PEOPLE: [&str; 2] = ["scratch in memory", "scratch in a directory"];
/// The word by which this program knows that it is an attacker.
const EXCHANGE: &str = "exchange-for-links";

/// A case: its name, which runtimes it is for, and what must hold.
struct Case {
    name: &'static str,
    on: On,
    run: fn(&Site),
}

/// Which runtimes a case is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    /// Also for plain programs.
    PlainToo,
    All,
    /// Those whose container is described in full. Apptainer adds variables, has a `/dev` and
    /// descriptors of its own, and leaves namespaces to the kernel's settings.
    Strict,
    /// What only our own way can do, or say exactly.
    Native,
}

impl On {
    fn includes(self, runtime: &str) -> bool {
        match self {
            Self::PlainToo => true,
            Self::All => runtime != "plain",
            Self::Strict => runtime != "apptainer" && runtime != "plain",
            Self::Native => runtime == "native",
        }
    }
}

fn main() -> ExitCode {
    let mode = std::env::args().nth(1).unwrap_or_default();
    match mode.as_str() {
        native::COMMAND => native::main(),
        probe::COMMAND => {
            probe::main();
            ExitCode::SUCCESS
        }
        probe::KEYS => {
            probe::say_whether_key(&std::env::args().nth(2).unwrap_or_default());
            ExitCode::SUCCESS
        }
        probe::TYPE => {
            probe::say_whether_typing();
            ExitCode::SUCCESS
        }
        probe::PIPES => {
            probe::say_which_hold_pipes();
            ExitCode::SUCCESS
        }
        probe::TRACED => {
            probe::be_traced(&std::env::args().nth(2).unwrap_or_default());
            ExitCode::from(7)
        }
        "--list" => ExitCode::SUCCESS,
        EXCHANGE => {
            let word = |at| std::env::args().nth(at).unwrap();
            handover::exchange_for_ever(Path::new(&word(2)), Path::new(&word(3)))
        }
        AS_USER => suite("user", &filter()),
        OTHERS_AS_ROOT => suite("root, others", &filter()),
        AS_PEOPLE => suite(PEOPLE, &filter()),
        _ if rustix::process::geteuid().is_root() => {
            let as_root = suite("root", &filter());
            let others = again(OTHERS_AS_ROOT, &[], &filter());
            let ids = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
            let become_user = ["setpriv", &ids[0], &ids[1], "--clear-groups"];
            let as_user = again(AS_USER, &become_user, &filter());
            let ids = [format!("--reuid={SERVICE}"), format!("--regid={SERVICE}")];
            let with_ids = ["sh", "-c", GIVE_IDS, "sh", "setpriv", &ids[0], &ids[1]];
            let with_ids = [&with_ids[..], &["--groups=64322"]].concat();
            let people =
                is_there("/usr/bin/newuidmap").then(|| again(AS_PEOPLE, &with_ids, &filter()));
            if others && as_user && people != Some(false) { as_root } else { ExitCode::FAILURE }
        }
        _ => {
            cannot("only root can run the cases for other accounts, and as people");
            suite("user", &filter())
        }
    }
}

/// What this machine cannot do is said; on the build machine it is an error.
pub(crate) fn cannot(what: &str) {
    assert!(std::env::var_os("CI").is_none(), "this must run in CI: {what}");
    println!("skipped: {what}");
}

/// The part of a name that cases are chosen by: the first argument that is no switch.
fn filter() -> String {
    let own = [AS_USER, OTHERS_AS_ROOT, AS_PEOPLE];
    let mut args = std::env::args().skip(1).filter(|arg| !own.contains(&arg.as_str()));
    args.find(|arg| !arg.starts_with('-')).unwrap_or_default()
}

/// Some versions of crun refuse nodes with both versions of cgroups, whatever they are asked to
/// do with them. So in a mount namespace of its own there is only one, and a folder for files that
/// tasks on the node's own tree see.
const ONE_KIND_OF_CGROUPS: &str = "umount -R /sys/fs/cgroup && \
    mount -t cgroup2 none /sys/fs/cgroup; mount -t tmpfs -o mode=1777 none /mnt; exec \"$@\"";

/// An account that nobody has, and that only this program sees: with subordinate ids, in a copy of
/// the node's `/etc`, in a mount namespace of its own. There its folders are not below `/tmp`,
/// which tasks on the node's own tree do not see.
const SERVICE: u32 = 64_321;
const GIVE_IDS: &str = "set -e; mount -t tmpfs -o mode=1777 none /mnt; \
    cp -a /etc /mnt; mount --bind /mnt/etc /etc; export TMPDIR=/mnt; \
    echo shipway-svc:x:64321:64321::/:/bin/sh >> /etc/passwd; \
    echo shipway-svc:x:64321: >> /etc/group; \
    echo shipway-svc:1879048192:1000 > /etc/subuid; \
    echo shipway-svc:1880000000:900 > /etc/subgid; exec \"$@\"";

fn again(mode: &str, by: &[&str], filter: &str) -> bool {
    // Where this program lies the other user may not look.
    let dir = tempfile::tempdir().unwrap();
    site::open_to_all(dir.path());
    let copy = dir.path().join("contract");
    std::fs::copy("/proc/self/exe", &copy).unwrap();
    // It belongs to the user, as if installed in a home: the case that needs sealing.
    let owner = if mode == AS_PEOPLE { SERVICE } else { NOBODY };
    std::os::unix::fs::chown(&copy, Some(owner), Some(owner)).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", ONE_KIND_OF_CGROUPS, "sh"]).args(by);
    command.arg(&copy).arg(mode).arg(filter).current_dir("/").env(swaps::SHOWN, "/mnt");
    command.status().expect("this program starts again").success()
}

fn suite(mode: &str, filter: &str) -> ExitCode {
    let argv = vec!["contract".into(), native::COMMAND.into()];
    let helper = Arc::new(Helper::this_program(argv).expect("this program can be copied"));
    let state = tempfile::tempdir().unwrap();
    site::open_to_all(state.path());
    let mut runtimes: Vec<Box<dyn Runtime>> = Vec::new();
    let keeper = (mode == PEOPLE).then(|| keeper(&helper));
    match &keeper {
        Some(keeper) => {
            let native = Native::new(Arc::clone(&helper)).with(Arc::clone(keeper));
            runtimes.push(Box::new(native));
            return run_all(mode, filter, &runtimes, &helper, Some(keeper), state.path());
        }
        None if mode != "root, others" => {
            runtimes.push(Box::new(table::Plain(Arc::clone(&helper))));
            runtimes.push(Box::new(Native::new(Arc::clone(&helper))));
        }
        None => {}
    }
    // As root they are tried where there is one kind of cgroups only.
    if mode != "root" && is_there("/usr/bin/crun") && has_one_kind_of_cgroups() {
        runtimes.push(Box::new(Crun::new("/usr/bin/crun", state.path(), Arc::clone(&helper))));
    }
    let apptainer = APPTAINERS.iter().find(|program| Path::new(program).exists());
    match apptainer {
        Some(_) if mode == "root" => {}
        Some(program) => {
            let helper = Arc::clone(&helper);
            runtimes.push(Box::new(Apptainer::new(*program, state.path(), helper)));
        }
        None => {
            cannot("apptainer is not installed");
        }
    }
    run_all(mode, filter, &runtimes, &helper, None, state.path())
}

fn keeper(helper: &Arc<Helper>) -> Arc<Keeper> {
    let read = |path| std::fs::read_to_string(path).unwrap();
    let holder = Holder { name: "shipway-svc".into(), uid: SERVICE, gid: SERVICE };
    let given = Given::read(holder, &read("/etc/subuid"), &read("/etc/subgid"));
    Keeper::make(helper, given).unwrap_or_else(|missing| panic!("{missing}"))
}

fn run_all(
    mode: &str,
    filter: &str,
    runtimes: &[Box<dyn Runtime>],
    helper: &Arc<Helper>,
    keeper: Option<&Arc<Keeper>>,
    state: &Path,
) -> ExitCode {
    let (mut passed, mut failed) = (0, Vec::new());
    for runtime in runtimes {
        let found = runtime.check();
        assert!(found.iter().all(|finding| finding.problem.is_none()), "{found:?}");
        let site = Site::new(runtime.as_ref(), Arc::clone(helper), keeper.cloned(), state);
        let cases = cases::ALL.iter().chain(escapes::ALL).chain(attacks::ALL);
        let cases = cases.chain(lifetimes::ALL).chain(limits::ALL).chain(handover::ALL);
        let cases = cases.chain(table::ALL).chain(swaps::ALL);
        let left_out = |case: &&Case| keeper.is_some() && NOT_FOR_PEOPLE.contains(&case.name);
        let cases = cases.filter(|case| !left_out(case));
        let cases = cases.chain(if keeper.is_some() { people::ALL } else { &[] });
        for case in cases.filter(|case| case.on.includes(runtime.name())) {
            let name = format!("{mode} {} {}", runtime.name(), case.name);
            if !name.contains(filter) {
                continue;
            }
            if catch_unwind(AssertUnwindSafe(|| (case.run)(&site))).is_ok() {
                passed += 1;
            } else {
                eprintln!("FAILED: {name}");
                failed.push(name);
            }
        }
    }
    println!("as {mode}: {passed} passed, {} failed {failed:?}", failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whoever is not root cannot make it so for crun.
fn has_one_kind_of_cgroups() -> bool {
    let has = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    if !has {
        cannot("crun may refuse a node with cgroups of version 1");
    }
    has
}

/// In CI what is not installed is a failure; elsewhere it is left out and said.
fn is_there(program: &str) -> bool {
    let there = Path::new(program).exists();
    if !there {
        cannot(&format!("{program} is not installed"));
    }
    there
}
