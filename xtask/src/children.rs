//! Child processes that cannot outlive us: each in its own process group, ended as a group.
//!
//! A group is ended when its `Group` is dropped, and all of them on Ctrl-C or SIGTERM. The
//! signal only ends the groups and raises a flag; the main thread then sees its child fail and
//! unwinds as for any failure, so temporary folders go too. Processes that leave their group
//! (a daemon's tasks) are the business of `instance`, which knows how to find them.

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};

/// How long a group may take to end after SIGTERM: a server flushes and ends its tasks.
const GRACE: Duration = Duration::from_secs(10);
/// How often a wait looks again; short enough not to be felt, long enough not to burn a core.
const POLL: Duration = Duration::from_millis(10);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static GROUPS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// True once Ctrl-C or SIGTERM arrived; loops end when they see it.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Starts the thread that ends every group when a signal asks us to stop.
pub(crate) fn end_them_on_signals() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let signals = runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        io::Result::Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
    });
    let (mut interrupt, mut terminate) = signals.context("could not listen for signals")?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        });
        INTERRUPTED.store(true, Ordering::SeqCst);
        signal_all(Signal::TERM);
        std::thread::sleep(GRACE);
        signal_all(Signal::KILL);
    });
    Ok(())
}

fn groups() -> MutexGuard<'static, BTreeSet<i32>> {
    GROUPS.lock().expect("no thread panics while it holds the list of groups")
}

fn signal_all(signal: Signal) {
    for raw in groups().iter() {
        if let Some(pid) = Pid::from_raw(*raw) {
            // A group that is already gone is what we want.
            let _ = kill_process_group(pid, signal);
        }
    }
}

/// A child and all it started, ended together.
#[derive(Debug)]
pub(crate) struct Group {
    child: Child,
    pid: Pid,
}

impl Group {
    /// Starts a command as the leader of a new process group, with nothing to read.
    pub(crate) fn spawn(command: &mut Command) -> Result<Group> {
        if interrupted() {
            bail!("interrupted");
        }
        let name = command.get_program().to_string_lossy().into_owned();
        // The list is held over the start, so that a signal cannot fall between the two.
        let mut list = groups();
        let child = command
            .process_group(0)
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("could not start `{name}`"))?;
        let pid = Pid::from_child(&child);
        list.insert(pid.as_raw_pid());
        Ok(Group { child, pid })
    }

    /// Waits for the leader, however long it takes.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        self.child.wait().context("could not wait for a child")
    }

    /// The leader's process id.
    pub(crate) fn id(&self) -> i32 {
        self.pid.as_raw_pid()
    }

    /// The leader's status if it has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("could not look after a child")
    }

    /// Asks the leader alone to end, and waits for it up to `limit`.
    pub(crate) fn stop_leader(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        if self.ended()?.is_none() {
            kill_process(self.pid, Signal::TERM).context("could not signal a child")?;
        }
        let deadline = Instant::now() + limit;
        loop {
            let ended = self.ended()?;
            if ended.is_some() || Instant::now() >= deadline {
                return Ok(ended);
            }
            std::thread::sleep(POLL);
        }
    }

    /// True while any process of the group, dead but not collected included, is there.
    pub(crate) fn is_alive(&self) -> bool {
        test_kill_process_group(self.pid).is_ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = kill_process_group(self.pid, Signal::TERM);
        let deadline = Instant::now() + GRACE;
        while self.is_alive() && Instant::now() < deadline {
            let _ = self.child.try_wait();
            std::thread::sleep(POLL);
        }
        let _ = kill_process_group(self.pid, Signal::KILL);
        let _ = self.child.wait();
        groups().remove(&self.pid.as_raw_pid());
    }
}

/// Runs a command to its end; its output goes where ours goes. A status other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let name = describe(command);
    let status = Group::spawn(command)?.wait()?;
    if !status.success() {
        bail!("`{name}` ended with {status}");
    }
    Ok(())
}

/// Runs a command to its end and returns its status and standard output; its talk goes on.
pub(crate) fn capture(command: &mut Command) -> Result<(ExitStatus, String)> {
    let name = describe(command);
    let mut group = Group::spawn(command.stdout(Stdio::piped()))?;
    let mut text = String::new();
    let mut pipe = group.child.stdout.take().expect("standard output is piped");
    pipe.read_to_string(&mut text).with_context(|| format!("could not read from `{name}`"))?;
    Ok((group.wait()?, text))
}

/// The standard output of a command that must succeed.
pub(crate) fn stdout_of(command: &mut Command) -> Result<String> {
    let (status, text) = capture(command)?;
    if !status.success() {
        bail!("`{}` ended with {status}", describe(command));
    }
    Ok(text)
}

/// A command as one would type it, for messages.
pub(crate) fn describe(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    let mut words = vec![name.to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_group_takes_its_grandchildren_along() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 1000 & sleep 1000"]);
        let group = Group::spawn(&mut shell).expect("sh starts");
        let pid = group.pid;
        assert!(group.is_alive());
        drop(group);
        // An orphan's new parent may take a moment to collect it.
        let deadline = Instant::now() + Duration::from_secs(30);
        while test_kill_process_group(pid).is_ok() {
            assert!(Instant::now() < deadline, "the group is still there");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_failing_command_is_an_error_that_names_it() {
        let mut shell = Command::new("sh");
        let error = run(shell.args(["-c", "exit 3"])).expect_err("it exits with 3");
        assert_eq!(error.to_string(), "`sh -c exit 3` ended with exit status: 3");
    }
}
