//! Where things are: the repository, its files, cargo and its target folder.
//!
//! Reads only; nothing here changes the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// The repository's root: the folder above this crate.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("this crate lives one folder below the root").to_path_buf()
}

/// Every file git tracks or would track, relative to the root, in order.
pub(crate) fn files() -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listing = output(git.current_dir(root()))?;
    let mut files: Vec<PathBuf> =
        listing.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    files.sort();
    files.dedup();
    // A file deleted but not yet committed is still listed.
    files.retain(|file| root().join(file).is_file());
    Ok(files)
}

/// The cargo that started us, without what `cargo run` adds to our environment.
///
/// Build scripts that watch those variables would otherwise run again each time the
/// same build is started from a shell and from here in turn.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(set_by_cargo_run) {
            cargo.env_remove(&name);
        }
    }
    cargo.current_dir(root());
    cargo
}

fn set_by_cargo_run(name: &str) -> bool {
    name.starts_with("CARGO_PKG_")
        || name.starts_with("CARGO_MANIFEST_")
        || matches!(name, "CARGO_CRATE_NAME" | "CARGO_BIN_NAME" | "CARGO_PRIMARY_PACKAGE")
}

/// The workspace's own packages, as cargo sees them.
pub(crate) fn metadata() -> Result<Value> {
    let mut cargo = cargo();
    cargo.args(["metadata", "--no-deps", "--format-version", "1"]);
    let text = output(&mut cargo)?;
    serde_json::from_str(&text).context("could not read what `cargo metadata` printed")
}

/// Where cargo builds, whatever the environment or a configuration file says.
pub(crate) fn target_dir() -> Result<PathBuf> {
    let metadata = metadata()?;
    let folder = metadata["target_directory"].as_str();
    Ok(folder.context("`cargo metadata` names no target folder")?.into())
}

/// Runs a short command to its end and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().with_context(|| format!("could not start `{name}`"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        bail!("`{name}` ended with {}: {}", done.status, said.trim());
    }
    String::from_utf8(done.stdout).with_context(|| format!("`{name}` printed bytes, not text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_user_reach_the_inner_cargo() {
        assert!(set_by_cargo_run("CARGO_PKG_NAME"));
        assert!(set_by_cargo_run("CARGO_MANIFEST_DIR"));
        assert!(!set_by_cargo_run("CARGO_TARGET_DIR"));
        assert!(!set_by_cargo_run("CARGO_HOME"));
    }

    #[test]
    fn this_file_is_among_the_files() {
        let files = files().expect("git lists the files of a checkout");
        assert!(files.contains(&PathBuf::from("xtask/src/repo.rs")), "{files:?}");
    }
}
