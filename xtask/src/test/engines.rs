//! Tests with real batch systems: what they need is put on the machine, and then the tests of the
//! crates `sites` and `cli` start one for themselves. Without the variables set here they skip.

use std::process::Command;

use anyhow::{Result, anyhow, ensure};

use super::{Context, Done, packages, run_shown};
use crate::repo;

const SLURM: &str = "SHIPWAY_TEST_SLURM";
const HTCONDOR: &str = "SHIPWAY_TEST_HTCONDOR";
pub(super) const VARIABLES: [&str; 2] = [SLURM, HTCONDOR];

const OF_SLURM: [&str; 6] = [
    "slurmctld slurmd slurm-client slurm-wlm-basic-plugins",
    "slurmrestd slurm-wlm-jwt-plugin",
    "munge",
    "slurmdbd",
    "mariadb-server-core mariadb-client-core",
    "openssh-server",
];
/// They wait for batch systems more than they compute.
const AT_ONCE: &str = "6";
const NOT_ROOT: &str = "only root can start their daemons";
const OF_HTCONDOR: [&str; 2] = ["debootstrap", "htcondor"];

pub(super) fn slurm(context: &Context) -> Result<Done> {
    if let Some(why) = not_now(context, &OF_SLURM)? {
        return Ok(Done::Skipped(why));
    }
    at_once([
        tests("shipway-sites", "slurm", &[]).env(SLURM, "1"),
        tests("shipway-cli", "sites", &["slurm::", "speed::", "together::"]).env(SLURM, "1"),
    ])
}

/// And all sites together, which need both.
pub(super) fn htcondor(context: &Context) -> Result<Done> {
    if let Some(why) = not_now(context, &[&OF_SLURM[..], &OF_HTCONDOR].concat())? {
        return Ok(Done::Skipped(why));
    }
    let mut with_server = tests("shipway-cli", "sites", &["htcondor::", "federated::"]);
    at_once([
        tests("shipway-sites", "htcondor", &[]).env(HTCONDOR, "1"),
        with_server.env(SLURM, "1").env(HTCONDOR, "1"),
    ])
}

/// Each with engines of its own. What they take is mostly waiting: for limits that are minutes, and
/// for the next time that a batch system thinks of its queue.
fn at_once(commands: [&mut Command; 2]) -> Result<Done> {
    std::thread::scope(|scope| {
        let running = commands.map(|command| scope.spawn(|| run_shown(command)));
        let ended = running.map(|one| one.join().map_err(|_| anyhow!("it panicked")));
        ended.into_iter().try_fold(Done::Passed, |_, done| done?)
    })
}

/// Why not, if not: they start daemons as root, and take minutes.
fn not_now(context: &Context, packages: &[&str]) -> Result<Option<String>> {
    if context.quick {
        return Ok(Some("run in the full run only".to_owned()));
    }
    if let Done::Skipped(why) = packages::of_step(context, packages)? {
        return Ok(Some(why));
    }
    let is_root = rustix::process::geteuid().is_root();
    ensure!(is_root || !context.ci, "{NOT_ROOT}");
    Ok((!is_root).then(|| NOT_ROOT.to_owned()))
}

/// Only those whose names have one of these in them; all where none is named.
fn tests(package: &str, binary: &str, names: &[&str]) -> Command {
    let mut cargo = repo::cargo();
    cargo.args(["test", "--package", package, "--test", binary, "--"]).args(names);
    cargo.args(["--test-threads", AT_ONCE]);
    cargo
}
