//! Licences, banned crates and sources, by cargo-deny as deny.toml says.
//!
//! Advisories need a download of their database and are not checked here.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::{Context, Done, run_shown};
use crate::{children, repo};

/// deny.toml is written for the keys of these versions.
const VERSION: &str = "^0.20";

pub(super) fn check(context: &Context) -> Result<Done> {
    let tools = repo::target_dir()?.join("tools");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    places.push(tools.join("bin"));
    let program = match find(&places) {
        Some(program) => program,
        None if context.quick && !context.ci => {
            let why = "cargo-deny is not installed; a run without --quick installs it";
            return Ok(Done::Skipped(why.to_owned()));
        }
        None => install(&tools)?,
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

fn find(places: &[PathBuf]) -> Option<PathBuf> {
    places.iter().map(|folder| folder.join("cargo-deny")).find(|file| file.is_file())
}

/// Into the target folder: nothing outside it changes, and CI keeps it from run to run.
fn install(tools: &Path) -> Result<PathBuf> {
    let mut cargo = repo::cargo();
    cargo.args(["install", "cargo-deny", "--locked", "--quiet", "--version", VERSION]);
    cargo.arg("--root").arg(tools);
    cargo.env("CARGO_TARGET_DIR", tools.join("build"));
    run_shown(&mut cargo)?;
    // A gigabyte that is not needed again.
    // tidy: allow(recursive-removal) because the tree is our own
    let _ = std::fs::remove_dir_all(tools.join("build"));
    Ok(tools.join("bin/cargo-deny"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_that_has_it_wins() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        for place in [&first, &second] {
            std::fs::create_dir(place).expect("a folder");
        }
        let places = [first, second.clone()];
        assert_eq!(find(&places), None);
        std::fs::write(second.join("cargo-deny"), "").expect("a file");
        assert_eq!(find(&places), Some(second.join("cargo-deny")));
    }
}
