//! The contract of a runtime: every case, for every runtime that is installed, as an ordinary
//! user and as root on behalf of one.
//!
//! Brings its own `main`: this program is also the helper that containers are made by, and starts
//! itself once more as another user.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "a test")]

mod attacks;
mod cases;
mod escapes;
mod lifetimes;
mod limits;
mod probe;
mod site;

use shipway_runtime::Runtime;
use shipway_runtime::apptainer::Apptainer;
use shipway_runtime::crun::Crun;
use shipway_runtime::native::{self, Helper, Native};
use site::{NOBODY, Site};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;

/// Where it is installed, by whom ever: it is not in Debian's stable release.
const APPTAINERS: [&str; 2] = ["/usr/bin/apptainer", "/opt/apptainer/bin/apptainer"];
const AS_USER: &str = "as-user";
const OTHERS_AS_ROOT: &str = "others-as-root";

/// A case: its name, which runtimes it is for, and what must hold.
struct Case {
    name: &'static str,
    on: On,
    run: fn(&Site),
}

/// Which runtimes a case is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
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
            Self::All => true,
            Self::Strict => runtime != "apptainer",
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
        "--list" => ExitCode::SUCCESS,
        AS_USER => suite("user", &filter()),
        OTHERS_AS_ROOT => suite("root, others", &filter()),
        _ if rustix::process::geteuid().is_root() => {
            let as_root = suite("root", &filter());
            let others = again(OTHERS_AS_ROOT, &[], &filter());
            let ids = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
            let become_user = ["setpriv", &ids[0], &ids[1], "--clear-groups"];
            let as_user = again(AS_USER, &become_user, &filter());
            if others && as_user { as_root } else { ExitCode::FAILURE }
        }
        _ => suite("user", &filter()),
    }
}

/// The part of a name that cases are chosen by: the first argument that is no switch.
fn filter() -> String {
    let own = [AS_USER, OTHERS_AS_ROOT];
    let mut args = std::env::args().skip(1).filter(|arg| !own.contains(&arg.as_str()));
    args.find(|arg| !arg.starts_with('-')).unwrap_or_default()
}

/// Some versions of crun refuse nodes with both versions of cgroups, whatever they are asked to
/// do with them. So in a mount namespace of its own there is only one.
const ONE_KIND_OF_CGROUPS: &str =
    "umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup; exec \"$@\"";

fn again(mode: &str, by: &[&str], filter: &str) -> bool {
    // Where this program lies the other user may not look.
    let dir = tempfile::tempdir().unwrap();
    site::open_to_all(dir.path());
    let copy = dir.path().join("contract");
    std::fs::copy("/proc/self/exe", &copy).unwrap();
    // It belongs to the user, as if installed in a home: the case that needs sealing.
    std::os::unix::fs::chown(&copy, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", ONE_KIND_OF_CGROUPS, "sh"]).args(by);
    command.arg(&copy).arg(mode).arg(filter).current_dir("/");
    command.status().expect("this program starts again").success()
}

fn suite(mode: &str, filter: &str) -> ExitCode {
    let argv = vec!["contract".into(), native::COMMAND.into()];
    let helper = Arc::new(Helper::this_program(argv).expect("this program can be copied"));
    let state = tempfile::tempdir().unwrap();
    site::open_to_all(state.path());
    let mut runtimes: Vec<Box<dyn Runtime>> = Vec::new();
    if mode != "root, others" {
        runtimes.push(Box::new(Native::new(Arc::clone(&helper))));
    }
    // As root they are tried where there is one kind of cgroups only.
    if mode != "root" && is_there("/usr/bin/crun") {
        runtimes.push(Box::new(Crun::new("/usr/bin/crun", state.path(), Arc::clone(&helper))));
    }
    let apptainer = APPTAINERS.iter().find(|program| Path::new(program).exists());
    match apptainer {
        Some(_) if mode == "root" => {}
        Some(program) => runtimes.push(Box::new(Apptainer::new(*program, state.path(), helper))),
        None => {
            assert!(std::env::var_os("CI").is_none(), "apptainer is not installed");
            println!("left out as {mode}: apptainer");
        }
    }
    let (mut passed, mut failed) = (0, Vec::new());
    for runtime in &runtimes {
        let found = runtime.check();
        assert!(found.iter().all(|finding| finding.problem.is_none()), "{found:?}");
        let site = Site::new(runtime.as_ref());
        let cases = cases::ALL.iter().chain(escapes::ALL).chain(attacks::ALL);
        let cases = cases.chain(lifetimes::ALL).chain(limits::ALL);
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

/// In CI what is not installed is a failure; elsewhere it is left out and said.
fn is_there(program: &str) -> bool {
    let there = Path::new(program).exists();
    assert!(there || std::env::var_os("CI").is_none(), "{program} is not installed");
    if !there {
        println!("left out: {program} is not installed");
    }
    there
}
