//! Programs for tests that need processes which are hard to end.

use std::io::Read;
use std::process::{Child, Command, Stdio};

pub(crate) const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs");

/// Stops the process on its way out (`PTRACE_O_TRACEEXIT`): then it is killed and does not die.
pub(crate) const STOP_AT_EXIT: &str = "0x40";

/// Somebody who traces a process from outside, and never asks for its end.
pub(crate) struct Tracer(Child);

impl Tracer {
    pub(crate) fn of(pid: u32, options: &str) -> Self {
        let mut command = Command::new("python3");
        command.arg(format!("{PROGRAMS}/trace.py")).arg(pid.to_string()).arg(options);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = [0; 7];
        child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        assert_eq!(&said, b"traced\n");
        Self(child)
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}
