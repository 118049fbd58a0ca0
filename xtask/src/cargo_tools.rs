//! Programs that extend cargo: found, or installed into the target folder, so that nothing outside
//! of it changes and CI keeps them from run to run.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{children, repo};

/// A program of crates.io, and the versions that what is here was written for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
}

impl Tool {
    /// Where it is, if it is installed.
    pub(crate) fn find(self) -> Result<Option<PathBuf>> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
        places.push(folder()?.join("bin"));
        Ok(first_with(&places, self.name))
    }

    pub(crate) fn install(self) -> Result<PathBuf> {
        let tools = folder()?;
        let mut cargo = repo::cargo();
        cargo.args(["install", self.name, "--locked", "--quiet", "--version", self.version]);
        cargo.arg("--root").arg(&tools).env("CARGO_TARGET_DIR", tools.join("build"));
        println!("$ {}", children::describe(&cargo));
        children::run(&mut cargo)?;
        // A gigabyte that is not needed again.
        // tidy: allow(recursive-removal) because the tree is our own
        let _ = std::fs::remove_dir_all(tools.join("build"));
        Ok(tools.join("bin").join(self.name))
    }
}

fn folder() -> Result<PathBuf> {
    Ok(repo::target_dir()?.join("tools"))
}

fn first_with(places: &[PathBuf], name: &str) -> Option<PathBuf> {
    places.iter().map(|folder| folder.join(name)).find(|file: &PathBuf| Path::is_file(file))
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
        assert_eq!(first_with(&places, "cargo-deny"), None);
        std::fs::write(second.join("cargo-deny"), "").expect("a file");
        assert_eq!(first_with(&places, "cargo-deny"), Some(second.join("cargo-deny")));
    }
}
