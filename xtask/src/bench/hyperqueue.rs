//! HyperQueue, the peer: from PyPI in a Python environment of its own, or a built `hq`.
//!
//! The wheel carries server and worker as a library but no `hq`; where the variable `HQ` names
//! one, that is used, as its users would.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::slots;
use crate::children::{self, Group};

/// Driven in Python, because that is the interface the wheel has.
const DRIVER: &str = include_str!("hq.py");
/// How long a built `hq` may take to start its server.
const START_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

pub(super) enum HyperQueue {
    Wheel {
        python: PathBuf,
        driver: PathBuf,
    },
    /// The groups are held for their lives' sake: worker first, so that it ends first.
    Binary {
        hq: PathBuf,
        server_dir: PathBuf,
        _worker: Group,
        _server: Group,
    },
}

impl HyperQueue {
    /// `place` is kept from run to run, `scratch` is not.
    pub(super) fn prepare(place: &Path, scratch: &Path) -> Result<HyperQueue> {
        match std::env::var_os("HQ") {
            Some(hq) => start_binary(hq.into(), scratch.join("hq")),
            None => prepare_wheel(&place.join("hyperqueue-venv"), scratch),
        }
    }

    /// Which HyperQueue it is: the two are not equally fast.
    pub(super) fn describe(&self) -> String {
        match self {
            HyperQueue::Wheel { .. } => "HyperQueue: the wheel's LocalCluster, in a Python \
                                         process; name a built `hq` in HQ to measure that"
                .to_owned(),
            HyperQueue::Binary { hq, .. } => format!("HyperQueue: {}", hq.display()),
        }
    }

    /// Tasks a second, from submission on, start of the cluster not counted.
    pub(super) fn rate(&self, program: &str, tasks: u32) -> Result<f64> {
        match self {
            HyperQueue::Wheel { python, driver } => {
                let mut command = Command::new(python);
                command.arg(driver).arg(tasks.to_string()).arg(slots().to_string()).arg(program);
                parse_rate(&children::stdout_of(command.stderr(Stdio::null()))?)
            }
            HyperQueue::Binary { hq, server_dir, .. } => {
                let start = Instant::now();
                submit_and_wait(hq, server_dir, program, tasks)?;
                Ok(f64::from(tasks) / start.elapsed().as_secs_f64())
            }
        }
    }
}

fn prepare_wheel(venv: &Path, scratch: &Path) -> Result<HyperQueue> {
    let python = venv.join("bin/python");
    let import = || Command::new(&python).args(["-c", "import hyperqueue"]).status();
    if !import().is_ok_and(|status| status.success()) {
        println!("installing HyperQueue from PyPI into {}", venv.display());
        children::run(Command::new("python3").args(["-m", "venv"]).arg(venv))?;
        let pip = ["-m", "pip", "install", "--quiet", "hyperqueue"];
        children::run(Command::new(&python).args(pip))?;
    }
    let driver = scratch.join("hq.py");
    std::fs::write(&driver, DRIVER).context("could not write the driver")?;
    Ok(HyperQueue::Wheel { python, driver })
}

/// The driver's last line; the library prints a table of its own before it.
fn parse_rate(printed: &str) -> Result<f64> {
    let line = printed.lines().last().unwrap_or_default();
    let value: Value = serde_json::from_str(line).context("could not read the driver's result")?;
    match (value["tasks"].as_f64(), value["seconds"].as_f64()) {
        (Some(tasks), Some(seconds)) if seconds > 0.0 => Ok(tasks / seconds),
        _ => bail!("the driver printed `{line}`"),
    }
}

fn start_binary(hq: PathBuf, server_dir: PathBuf) -> Result<HyperQueue> {
    let mut server = command(&hq, &server_dir);
    let server = Group::spawn(server.args(["server", "start", "--host", "127.0.0.1"]))?;
    let deadline = Instant::now() + START_LIMIT;
    while !command(&hq, &server_dir).args(["server", "info"]).status()?.success() {
        if children::interrupted() || Instant::now() >= deadline {
            bail!("`hq server start` did not come up");
        }
        std::thread::sleep(POLL);
    }
    let mut worker = command(&hq, &server_dir);
    worker.args(["worker", "start", "--detect-resources", "none"]);
    let worker = Group::spawn(worker.args(["--cpus", &slots().to_string()]))?;
    // One task, so that the worker's start is not part of the first round.
    submit_and_wait(&hq, &server_dir, "true", 1)?;
    Ok(HyperQueue::Binary { hq, server_dir, _worker: worker, _server: server })
}

fn submit_and_wait(hq: &Path, server_dir: &Path, program: &str, tasks: u32) -> Result<()> {
    let mut submit = command(hq, server_dir);
    submit.args(["submit", "--array", &format!("1-{tasks}"), "--stdout", "none"]);
    children::run(submit.args(["--stderr", "none", program]))?;
    children::run(command(hq, server_dir).args(["job", "wait", "last"]))
}

fn command(hq: &Path, server_dir: &Path) -> Command {
    let mut command = Command::new(hq);
    command.arg("--server-dir").arg(server_dir).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_on_the_last_line() {
        let printed = "+---+\n| a |\n{\"tasks\": 300, \"seconds\": 1.5}\n";
        assert_eq!(parse_rate(printed).ok(), Some(200.0));
        assert!(parse_rate("").is_err());
        assert!(parse_rate("{\"tasks\": 3, \"seconds\": 0}").is_err());
    }
}
