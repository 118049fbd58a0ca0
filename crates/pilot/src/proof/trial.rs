//! A process that is given a time to do something, and is ended when it takes longer.
//!
//! For what may hang or crash, as drivers do. It does not know what is tried.

use crate::spawn::ATTEMPT_KEY_VARIABLE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Longest output that is read: a line or two is expected.
const OUTPUT_LIMIT: u64 = 64 << 10;
/// How long a killed process may take to die. One that waits inside a driver may never.
const DIES_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Tried {
    /// `None`: it was not over in time.
    pub(super) status: Option<ExitStatus>,
    /// What it wrote to its standard output, as far as it came.
    pub(super) output: Vec<u8>,
}

impl Tried {
    pub(super) fn signal(&self) -> Option<i32> {
        self.status.and_then(|status| status.signal())
    }
}

/// Runs it to its end, or kills it when the time is over.
pub(super) fn run(command: &mut Command, within: Duration) -> io::Result<Tried> {
    // A file rather than a pipe: it never fills up, and a grandchild that keeps it open holds up
    // nobody.
    let mut output = File::from(memfd_create("shipway-trial", MemfdFlags::CLOEXEC)?);
    command.stdout(Stdio::from(output.try_clone()?)).stderr(Stdio::null());
    // Whoever looks for what tasks left behind must not take it for that.
    command.env(ATTEMPT_KEY_VARIABLE, "proof");
    let mut child = command.spawn()?;
    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    let in_time = is_over(&pidfd, within)?;
    if !in_time {
        pidfd_send_signal(&pidfd, Signal::KILL)?;
    }
    let is_dead = in_time || is_over(&pidfd, DIES_WITHIN)?;
    // What cannot even be killed becomes somebody else's to reap: nobody waits for it.
    let status = if is_dead { Some(child.wait()?) } else { None };
    let mut said = Vec::new();
    output.rewind()?;
    output.take(OUTPUT_LIMIT).read_to_end(&mut said)?;
    Ok(Tried { status: status.filter(|_| in_time), output: said })
}

fn is_over(pidfd: &OwnedFd, within: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + within;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_mins(2);

    fn shell(line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        command
    }

    #[test]
    fn an_end_and_a_crash_are_told_apart() {
        let tried = run(&mut shell("echo said; exit 3"), LONG).unwrap();
        let status = tried.status.unwrap();
        assert_eq!((status.code(), tried.output.as_slice()), (Some(3), &b"said\n"[..]));
        let tried = run(&mut shell("kill -SEGV $$"), LONG).unwrap();
        assert_eq!(tried.signal(), Some(11));
    }

    #[test]
    fn one_that_hangs_is_killed() {
        // Were it waited for, this would not end.
        let mut hanging = shell("echo before; exec sleep 1000000");
        let tried = run(&mut hanging, Duration::from_secs(1)).unwrap();
        assert!(tried.status.is_none() && tried.signal().is_none(), "{tried:?}");
    }
}
