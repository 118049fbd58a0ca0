//! Licences, banned crates and sources, by cargo-deny as deny.toml says.
//!
//! Advisories need a download of their database and are not checked here.

use std::process::Command;

use anyhow::Result;

use super::{Context, Done, run_shown};
use crate::cargo_tools::Tool;
use crate::{children, repo};

/// deny.toml is written for the keys of these versions.
const DENY: Tool = Tool { name: "cargo-deny", version: "^0.20" };

pub(super) fn check(context: &Context) -> Result<Done> {
    let program = match DENY.find()? {
        Some(program) => program,
        None if context.quick && !context.ci => {
            let why = "cargo-deny is not installed; a run without --quick installs it";
            return Ok(Done::Skipped(why.to_owned()));
        }
        None => DENY.install()?,
    };
    // Crates for other systems are in the lock file but not yet on this machine.
    children::run(repo::cargo().args(["fetch", "--locked", "--quiet"]))?;
    let mut deny = Command::new(program);
    deny.current_dir(repo::root());
    run_shown(deny.args([
        "--offline",
        "check",
        "--hide-inclusion-graph",
        "bans",
        "licenses",
        "sources",
    ]))
}
