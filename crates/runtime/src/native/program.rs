//! Finds the task's program inside the container, and starts it.

use super::error::SetupError;
use crate::plan::Container;
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where a program is looked for when the task's environment has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Starts the task, and says which process it is.
pub(super) fn start(container: &Container) -> Result<u32, SetupError> {
    let (name, args) = container.argv.split_first().expect("a validated plan has a command");
    let program = find(name, container)?;
    let mut command = Command::new(&program);
    command.arg0(name).args(args).env_clear();
    command.envs(container.env.iter().map(|(name, value)| (name, value)));
    let child = command.spawn().map_err(|error| explain(error, &program))?;
    Ok(child.id())
}

fn find(name: &str, container: &Container) -> Result<PathBuf, SetupError> {
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let path = container.env.iter().rev().find(|(name, _)| name == "PATH");
    let path = path.map_or(DEFAULT_PATH, |(_, value)| value);
    let mut refused = None;
    for directory in std::env::split_paths(path) {
        let candidate = directory.join(name);
        match access(&candidate, Access::EXEC_OK) {
            Ok(()) if !candidate.is_dir() => return Ok(candidate),
            Err(Errno::ACCESS) => refused = Some(candidate),
            Ok(()) | Err(_) => {}
        }
    }
    // What is there but may not be run is tried all the same: the kernel's answer names it.
    let not_found = || SetupError::NotInPath { program: name.into(), searched: path.into() };
    refused.ok_or_else(not_found)
}

fn explain(error: io::Error, program: &Path) -> SetupError {
    let program = program.display().to_string();
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SetupError::NoProgram { program },
        _ => SetupError::NotExecutable { program, source: error },
    }
}
