//! Runs one command in a container, to look at what it sees.
//!
//! `run_in [--tree DIR] [--gpu MINOR]… -- COMMAND…`; without a tree on the node's own.

#![allow(clippy::print_stderr, reason = "this program is for reading")]

use shipway_runtime::gpu::{Assigned, access};
use shipway_runtime::native::{self, Helper, Native};
use shipway_runtime::plan::{Container, Root, User};
use shipway_runtime::report::Ending;
use shipway_runtime::{Runtime, cgroup};
use std::path::Path;
use std::process::ExitCode;

/// Whoever runs this as root is this account inside.
const NOBODY: u32 = 65534;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (mut root, mut devices) = (Root::Host, Vec::new());
    let value = |args: &mut dyn Iterator<Item = String>| args.next().expect("a value follows");
    while let Some(arg) = args.next() {
        match arg.as_str() {
            native::COMMAND => return native::main(),
            "--tree" => root = Root::Tree(value(&mut args).into()),
            "--gpu" => {
                let minor = value(&mut args).parse().expect("a number");
                devices.push(Assigned::Nvidia { minor, uuid: String::new() });
            }
            _ => break,
        }
    }
    let mut container = Container::new(root, args.collect());
    container.env = vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())];
    if rustix::process::geteuid().is_root() {
        container.user = Some(User { uid: NOBODY, gid: NOBODY, groups: Vec::new() });
    }
    match access(Path::new("/"), &devices) {
        Ok(access) => access.add_to(&mut container),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    eprintln!("{:?}", cgroup::Delegation::find(Path::new("/")));
    run(&container)
}

fn run(container: &Container) -> ExitCode {
    let argv = vec!["run_in".into(), native::COMMAND.into()];
    let native = Native::new(Helper::this_program(argv).expect("a helper").into());
    for finding in native.check() {
        eprintln!("{finding:?}");
    }
    let (mut command, after) = native.launch(container, None).expect("a plan").into_command();
    let ending = after.ending(command.status().expect("the helper starts"));
    eprintln!("{ending:?}");
    if ending == Ending::Exit(0) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
