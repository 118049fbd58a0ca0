//! The program that helpers are: this one, in a form that no task can change.
//!
//! A task can reach the program its container was made by (an image whose command is
//! `#!/proc/self/exe` runs it, and can then open it). Where that file belongs to the task's own
//! user it could be overwritten, and the next container would run the task's code outside. So
//! unless only root can write it, helpers run from a copy in memory that is sealed.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, memfd_create};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

/// How to start a helper.
#[derive(Debug)]
pub struct Helper {
    pub(super) program: PathBuf,
    pub(super) argv: Vec<OsString>,
    /// Open as long as helpers may be started.
    _sealed: Option<OwnedFd>,
}

impl Helper {
    /// This program, called with the words that lead to [`main`](super::main). Made once: the
    /// copy is as large as the program.
    pub fn this_program(argv: Vec<OsString>) -> io::Result<Self> {
        Self::program("/proc/self/exe".into(), argv)
    }

    /// The same for another program.
    pub fn program(program: PathBuf, argv: Vec<OsString>) -> io::Result<Self> {
        let file = File::open(&program)?;
        if only_root_can_write(&file)? {
            return Ok(Self::as_it_stands(program, argv));
        }
        Ok(Self::sealed(sealed_copy(file)?, argv))
    }

    /// A program that is nowhere but in our own memory.
    pub fn carried(program: &[u8], argv: Vec<OsString>) -> io::Result<Self> {
        Ok(Self::sealed(sealed_copy(program)?, argv))
    }

    /// A program that no task comes near, so that none can change it.
    pub const fn as_it_stands(program: PathBuf, argv: Vec<OsString>) -> Self {
        Self { program, argv, _sealed: None }
    }

    fn sealed(copy: OwnedFd, argv: Vec<OsString>) -> Self {
        let program = format!("/proc/self/fd/{}", copy.as_raw_fd()).into();
        Self { program, argv, _sealed: Some(copy) }
    }
}

/// Tasks never run as root, so what only root can write they cannot.
fn only_root_can_write(file: &File) -> io::Result<bool> {
    const GROUP_AND_OTHERS_WRITE: u32 = 0o022;
    let status = fstat(file)?;
    Ok(status.st_uid == 0 && status.st_mode & GROUP_AND_OTHERS_WRITE == 0)
}

fn sealed_copy(mut program: impl Read) -> io::Result<OwnedFd> {
    let mut copy = File::from(runnable_memory()?);
    io::copy(&mut program, &mut copy)?;
    fcntl_add_seals(
        &copy,
        SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE,
    )?;
    // Opened again for reading: what is open for writing cannot be run.
    let reading = File::open(format!("/proc/self/fd/{}", copy.as_raw_fd()))?;
    Ok(reading.into())
}

/// Newer kernels want to be told that it is to be run, older ones do not know the word.
fn runnable_memory() -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create("shipway", flags | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => memfd_create("shipway", flags),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::process::CommandExt;

    #[test]
    fn a_sealed_copy_runs_and_cannot_be_written() {
        let copy = sealed_copy(File::open("/bin/true").unwrap()).unwrap();
        let path = format!("/proc/self/fd/{}", copy.as_raw_fd());
        let mut command = std::process::Command::new(&path);
        assert!(command.arg0("true").status().unwrap().success());
        let written = std::fs::OpenOptions::new().write(true).open(&path);
        let written = written.and_then(|mut file| file.write_all(b"x"));
        assert!(written.is_err(), "a sealed file was written");
    }
}
