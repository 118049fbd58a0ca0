//! Programs for tests that need processes which are hard to end.

use rustix::pipe::{SpliceFlags, splice};
use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
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

/// Somebody who keeps a pipe busy: whoever reads it hangs, and cannot be killed.
pub(crate) struct Holder {
    /// Nothing is ever written to it.
    silent: UnixStream,
    thread: Option<std::thread::JoinHandle<()>>,
    id: i32,
}

impl Holder {
    pub(crate) fn of(pipe: File) -> Self {
        Self::behind(b"", pipe)
    }

    /// With something to read in it.
    pub(crate) fn behind(bytes: &'static [u8], mut pipe: File) -> Self {
        let (silent, other) = UnixStream::pair().unwrap();
        let (say, said) = std::sync::mpsc::channel();
        let hold = move || {
            say.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            pipe.write_all(bytes).unwrap();
            // Ends when the other side does.
            let _nothing = splice(&other, None, &pipe, None, 1, SpliceFlags::empty());
        };
        let thread = Some(std::thread::spawn(hold));
        Self { silent, thread, id: said.recv().unwrap() }
    }

    /// Whether it waits inside of that call.
    pub(crate) fn holds(&self) -> bool {
        let call = std::fs::read_to_string(format!("/proc/self/task/{}/syscall", self.id));
        let splice = if cfg!(target_arch = "x86_64") { "275 " } else { "76 " };
        call.is_ok_and(|call| call.starts_with(splice))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.silent.shutdown(Shutdown::Both).unwrap();
        self.thread.take().unwrap().join().unwrap();
    }
}
