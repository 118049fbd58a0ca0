//! A Shipway of our own for the length of a command: `shipway up` in a temporary home.
//!
//! When it goes, everything goes: the server's process group, any task that left the group, and
//! the home. Used by `bench`, `demo` and the fuzzing of the API; tests of the product have their
//! own support code.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::children::{self, Group};
use crate::repo;

/// How long `shipway up` may take to write its file; a loaded machine is slow to start anything.
const START_LIMIT: Duration = Duration::from_mins(1);
/// How long it may take to end after SIGTERM.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// How often a wait looks again.
const POLL: Duration = Duration::from_millis(1);
/// Lines of the server's log that a failure shows.
const LOG_LINES: usize = 20;

/// A running server with its own home.
#[derive(Debug)]
pub(crate) struct Instance {
    binary: PathBuf,
    /// None once it has been stopped.
    server: Option<Group>,
    folder: TempDir,
}

/// Builds the `shipway` binary and returns its path.
pub(crate) fn build(release: bool) -> Result<PathBuf> {
    let mut cargo = repo::cargo();
    cargo.args(["build", "--quiet", "--package", "shipway-cli", "--bin", "shipway"]);
    if release {
        cargo.arg("--release");
    }
    children::run(&mut cargo)?;
    let profile = if release { "release" } else { "debug" };
    Ok(repo::target_dir()?.join(profile).join("shipway"))
}

/// Tasks as plain processes: what is compared with them knows no containers.
pub(crate) const PLAIN_TASKS: [&str; 2] = ["--default-image", "none"];

impl Instance {
    /// Starts a server on a free loopback port and returns when it can be found. Its home is a
    /// new folder in `place`.
    pub(crate) fn start(binary: &Path, place: &Path) -> Result<Instance> {
        Self::start_with(binary, place, &[])
    }

    /// The same, with more options for `shipway up`.
    pub(crate) fn start_with(binary: &Path, place: &Path, options: &[&str]) -> Result<Instance> {
        let folder = TempDir::with_prefix_in("shipway-", place).context("could not make a home")?;
        let mut instance = Instance { binary: binary.to_path_buf(), server: None, folder };
        fs::create_dir(instance.home()).context("could not make a home")?;
        instance.up(options)?;
        Ok(instance)
    }

    /// Starts the server in its home.
    pub(crate) fn up(&mut self, options: &[&str]) -> Result<()> {
        let log = File::create(self.log_file()).context("could not open the server's log")?;
        let mut up = self.command(&["up", "--listen", "127.0.0.1:0"]);
        up.args(options);
        up.stdout(log.try_clone().context("could not share the server's log")?).stderr(log);
        self.server = Some(Group::spawn(&mut up)?);
        self.wait_until_ready()
    }

    /// Kills the server as a crash would; its home stays.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let pid = Pid::from_raw(self.pid()).context("the server has no number")?;
        kill_process(pid, Signal::KILL).context("could not kill the server")?;
        drop(self.server.take());
        fs::remove_file(self.contact()).context("could not remove the old contact")
    }

    /// The server's process id.
    pub(crate) fn pid(&self) -> i32 {
        self.server.as_ref().expect("the server was started").id()
    }

    /// What a client needs to know of the server, as the server wrote it.
    pub(crate) fn contact_text(&self) -> Result<String> {
        fs::read_to_string(self.contact()).context("could not read the server's contact")
    }

    fn contact(&self) -> PathBuf {
        self.home().join("server.json")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("up.log")
    }

    /// The real command line, pointed at this server and at no other.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(args).env("SHIPWAY_HOME", self.home());
        command.env_remove("SHIPWAY_URL").env_remove("SHIPWAY_TOKEN");
        command
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        let contact = self.contact();
        while !is_json(&contact) {
            let server = self.server.as_mut().expect("the server was just started");
            if let Some(status) = server.ended()? {
                bail!("`shipway up` ended with {status}; it said:\n{}", self.log_tail());
            }
            if children::interrupted() {
                bail!("interrupted");
            }
            if Instant::now() >= deadline {
                bail!("`shipway up` wrote no {}; it said:\n{}", contact.display(), self.log_tail());
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// The last lines the server printed.
    pub(crate) fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.log_file()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    /// Asks the server to end, checks that nothing stayed behind, and removes the home.
    pub(crate) fn stop(mut self) -> Result<()> {
        let mut server = self.server.take().expect("an instance is stopped once");
        let ended = server.stop_leader(STOP_LIMIT)?;
        let left = using(self.folder.path());
        match ended {
            None => bail!("`shipway up` did not end on SIGTERM; it said:\n{}", self.log_tail()),
            Some(status) if !status.success() => {
                bail!("`shipway up` ended with {status}; it said:\n{}", self.log_tail())
            }
            Some(_) if server.is_alive() || !left.is_empty() => {
                bail!("`shipway up` left processes behind: {left:?}")
            }
            Some(_) => Ok(()),
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        drop(self.server.take());
        for pid in using(self.folder.path()) {
            if let Some(pid) = Pid::from_raw(pid) {
                // It may have ended by itself since we looked.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

fn is_json(file: &Path) -> bool {
    let Ok(text) = fs::read_to_string(file) else { return false };
    serde_json::from_str::<serde_json::Value>(&text).is_ok()
}

/// Processes that have the folder in their environment, their command line or as working folder.
///
/// Tasks run in groups and sessions of their own, so the folder, which is ours alone, is the mark.
fn using(folder: &Path) -> Vec<i32> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let own = rustix::process::getpid().as_raw_pid();
    pids.filter(|pid| *pid != own && is_using(*pid, folder)).collect()
}

fn is_using(pid: i32, folder: &Path) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let needle = folder.as_os_str().as_bytes();
    let mentions = |file: &str| {
        let bytes = fs::read(process.join(file)).unwrap_or_default();
        bytes.windows(needle.len()).any(|window| window == needle)
    };
    let inside = fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
    inside || mentions("environ") || mentions("cmdline")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A stand-in for `shipway` that is only asked to start, be found and end.
    ///
    /// A shell writes it: were it open for writing here, a child that another test starts at that
    /// moment would hold it open too, and Linux would refuse to run it.
    pub(crate) fn stand_in(folder: &Path, body: &str) -> PathBuf {
        let file = folder.join("shipway");
        let mut shell = Command::new("sh");
        shell.args(["-c", "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh"]);
        children::run(shell.arg(body).arg(&file)).expect("a script");
        file
    }

    const READY: &str = "echo '{}' > $SHIPWAY_HOME/server.json";

    #[test]
    fn a_server_that_ends_early_is_quoted() {
        let folder = tempfile::tempdir().expect("a folder");
        let binary = stand_in(folder.path(), "echo no disk >&2; exit 3");
        let error = Instance::start(&binary, folder.path()).expect_err("it ended").to_string();
        assert!(error.contains("exit status: 3") && error.contains("no disk"), "{error}");
    }

    #[test]
    fn stopping_removes_the_home() {
        let folder = tempfile::tempdir().expect("a folder");
        // Ready only when it knows what to do about the signal: it may come at once.
        let first = "sleep 1000 & child=$!; trap 'kill $child; wait; exit 0' TERM";
        let binary = stand_in(folder.path(), &format!("{first}; {READY}; wait"));
        let instance = Instance::start(&binary, folder.path()).expect("it is ready");
        let home = instance.home();
        assert!(home.is_dir());
        instance.stop().expect("it ends");
        assert!(!home.exists());
    }

    #[test]
    fn a_task_left_behind_is_reported_and_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        // The task is in a session of its own, out of reach of the server's group.
        let body = format!("setsid sleep 1000 & trap 'exit 0' TERM; {READY}; while :; do :; done");
        let binary = stand_in(folder.path(), &body);
        let instance = Instance::start(&binary, folder.path()).expect("it is ready");
        let place = instance.folder.path().to_path_buf();
        let error = instance.stop().expect_err("the task is still there").to_string();
        assert!(error.contains("left processes behind"), "{error}");
        let deadline = Instant::now() + START_LIMIT;
        while !using(&place).is_empty() {
            assert!(Instant::now() < deadline, "the task is still there");
            std::thread::yield_now();
        }
    }
}
