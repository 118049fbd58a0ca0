//! Finds the task's program inside the container, and starts it.

use super::error::SetupError;
use crate::again::patiently;
use crate::plan::Container;
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where a program is looked for when the task's environment has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Starts the task, and says which process it is.
pub(super) fn start(container: &Container) -> Result<u32, SetupError> {
    let (name, args) = container.argv.split_first().expect("a validated plan has a command");
    let path = container.env.iter().rev().find(|(name, _)| name == "PATH");
    let program = find(OsStr::new(name), path.map(|(_, value)| OsStr::new(value)))?;
    let mut command = Command::new(&program);
    command.arg0(name).args(args).env_clear();
    command.envs(container.env.iter().map(|(name, value)| (name, value)));
    let child = patiently(|| command.spawn()).map_err(|error| explain(error, &program))?;
    Ok(child.id())
}

/// As the kernel would not do it, with a message that says where.
pub(super) fn find(name: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, SetupError> {
    if name.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(name));
    }
    let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
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
    let text = |text: &OsStr| text.to_string_lossy().into_owned();
    let not_found = || SetupError::NotInPath { program: text(name), searched: text(path) };
    refused.ok_or_else(not_found)
}

pub(super) fn explain(error: io::Error, program: &Path) -> SetupError {
    let program = program.display().to_string();
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SetupError::NoProgram { program },
        _ => SetupError::NotExecutable { program, source: error },
    }
}
