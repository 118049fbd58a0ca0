//! The contract of a runtime: every case, for every runtime that is installed, as an ordinary
//! user and as root on behalf of one.
//!
//! Brings its own `main`: this program is also the helper that containers are made by, and starts
//! itself once more as another user.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "a test")]

mod cases;
mod escapes;
mod lifetimes;
mod site;

use shipway_runtime::Runtime;
use shipway_runtime::native::{self, Helper, Native};
use site::{NOBODY, Site};
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode};

const AS_USER: &str = "as-user";

/// A case: its name, which runtimes it is for, and what must hold.
pub(crate) struct Case {
    name: &'static str,
    run: fn(&Site),
}

fn main() -> ExitCode {
    let mode = std::env::args().nth(1).unwrap_or_default();
    match mode.as_str() {
        native::COMMAND => native::main(),
        "--list" => ExitCode::SUCCESS,
        AS_USER => suite("user", &filter()),
        _ if rustix::process::geteuid().is_root() => {
            let as_root = suite("root", &filter());
            let as_user = again_as_user(&filter());
            if as_user { as_root } else { ExitCode::FAILURE }
        }
        _ => suite("user", &filter()),
    }
}

/// The part of a name that cases are chosen by: the first argument that is no switch.
fn filter() -> String {
    let mut args = std::env::args().skip(1).filter(|arg| arg != AS_USER);
    args.find(|arg| !arg.starts_with('-')).unwrap_or_default()
}

fn again_as_user(filter: &str) -> bool {
    let mut command = Command::new("/proc/self/exe");
    command.arg(AS_USER).arg(filter).uid(NOBODY).gid(NOBODY).current_dir("/");
    command.status().expect("this program starts again").success()
}

fn suite(mode: &str, filter: &str) -> ExitCode {
    let argv = vec!["contract".into(), native::COMMAND.into()];
    let helper = Helper::this_program(argv).expect("this program can be copied");
    let runtimes: Vec<Box<dyn Runtime>> = vec![Box::new(Native::new(helper))];
    let mut failed = Vec::new();
    let mut passed = 0;
    for runtime in &runtimes {
        let site = Site::new(runtime.as_ref());
        for case in cases::ALL.iter().chain(escapes::ALL).chain(lifetimes::ALL) {
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
