//! ClassAds against HTCondor's own engine: the same expressions and ads by the hundred thousand,
//! read, printed, evaluated and matched by both (docs/internals/classads.md).

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::{Context, Done, tools};
use crate::{children, repo};

/// The engine's Python bindings, from PyPI.
const PACKAGE: &str = "htcondor";
const VERSION: &str = "25.14.1";
const COUNT: &str = "200000";
const COUNT_QUICK: &str = "20000";
/// The same each time, so that a failure is one for everybody.
const SEED: &str = "1";

pub(super) fn check(context: &Context) -> Result<Done> {
    let folder = match tools::python(context, PACKAGE, VERSION)? {
        Ok(folder) => folder,
        Err(why) => return Ok(Done::Skipped(why)),
    };
    let mut build = repo::cargo();
    build.args(["build", "--quiet", "-p", "shipway-classad", "--example", "judge"]);
    children::run(&mut build)?;
    let count = if context.quick { COUNT_QUICK } else { COUNT };
    let program = repo::target_dir()?.join("debug/examples/judge");
    let mut ours = Command::new(program).args([count, SEED]).stdout(Stdio::piped()).spawn()?;
    let lines = ours.stdout.take().context("the other end of the pipe is gone")?;
    let mut theirs = Command::new(folder.join("bin/python"));
    theirs.arg(repo::root().join("xtask/src/test/judge.py")).env("TZ", "UTC").stdin(lines);
    let status = theirs.status().context("could not start Python");
    let ours = ours.wait()?;
    if !status?.success() || !ours.success() {
        bail!("ClassAds are not what HTCondor makes of them; the differences are above");
    }
    Ok(Done::Passed)
}
