//! Which crate may depend on which, and what the pure crates may reach at all.
//!
//! The picture is in ARCHITECTURE.md; here it is as a table that can fail.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::Problem;
use crate::repo;

/// Crates of ours, and those of ours they may name, in any table of their manifest.
const ARROWS: [(&str, &[&str]); 16] = [
    ("model", &[]),
    ("classad", &[]),
    ("core", &["classad", "model"]),
    ("dialects", &["classad", "model"]),
    ("api", &["model", "trust"]),
    ("sites", &["model", "trees"]),
    ("trees", &[]),
    ("trust", &[]),
    ("runtime", &["model", "trees"]),
    ("container", &["runtime"]),
    ("images", &["model", "trees", "trust"]),
    ("pilot", &["api", "classad", "images", "model", "runtime", "trees"]),
    ("server", &["api", "core", "dialects", "images", "model", "sites", "trees"]),
    (
        "cli",
        &["api", "classad", "dialects", "images", "model", "pilot", "runtime", "server", "trees"],
    ),
    ("sim", &["api", "core", "model", "pilot"]),
    ("xtask", &[]),
];

/// Crates that decide: no clock, file, process, socket or random source may be in reach.
const PURE: [&str; 4] = ["model", "classad", "core", "dialects"];

/// All that the pure crates may reach. A list of what is allowed, because a list of what is
/// forbidden would not know the next crate that opens a socket.
const HARMLESS: [&str; 31] = [
    "shipway-classad",
    "shipway-core",
    "shipway-dialects",
    "shipway-model",
    "serde",
    "serde_core",
    "serde_derive",
    "thiserror",
    "thiserror-impl",
    // Text and digests, from memory to memory.
    "aho-corasick",
    "regex",
    "regex-automata",
    "regex-syntax",
    "serde_json",
    "strsim",
    "itoa",
    "memchr",
    "zmij",
    "sha2",
    "block-buffer",
    "cfg-if",
    "const-oid",
    "cpufeatures",
    "crypto-common",
    "digest",
    "hybrid-array",
    "typenum",
    // Those below run in the compiler, not in our program.
    "proc-macro2",
    "quote",
    "syn",
    "unicode-ident",
];

pub(super) fn check() -> Result<Vec<Problem>> {
    let mut problems = arrows(&repo::metadata()?)?;
    for name in PURE {
        let mut cargo = repo::cargo();
        cargo.args(["tree", "--package", &format!("shipway-{name}")]);
        cargo.args(["--edges", "normal", "--prefix", "none", "--format", "{p}"]);
        problems.extend(reach(name, &repo::output(&mut cargo)?));
    }
    Ok(problems)
}

fn arrows(metadata: &Value) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    let packages = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;
    for package in packages {
        let name = short(package["name"].as_str().unwrap_or_default());
        let manifest = manifest_of(name);
        let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == name) else {
            let instead = "add it to ARROWS in xtask/src/tidy/arrows.rs and to ARCHITECTURE.md";
            problems.push(Problem::new(&manifest, 0, "unknown crate", instead));
            continue;
        };
        for to in our_dependencies(package).difference(&allowed.iter().copied().collect()) {
            let instead = format!(
                "`{name}` may not depend on `{to}`, only on: {}; move what both need to a crate \
                 below them",
                if allowed.is_empty() { "none of ours".to_owned() } else { allowed.join(", ") },
            );
            problems.push(Problem::new(&manifest, 0, "arrow", instead));
        }
    }
    Ok(problems)
}

/// Dependencies that are members of this workspace: those that have a path.
fn our_dependencies(package: &Value) -> BTreeSet<&str> {
    let all = package["dependencies"].as_array().into_iter().flatten();
    let ours = all.filter(|dependency| dependency["path"].is_string());
    ours.filter_map(|dependency| dependency["name"].as_str()).map(short).collect()
}

/// What a pure crate reaches beyond the harmless, from `cargo tree --prefix none --format {p}`.
fn reach(name: &str, tree: &str) -> Vec<Problem> {
    let reached: BTreeSet<&str> =
        tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let strange = reached.into_iter().filter(|found| !HARMLESS.contains(found));
    strange
        .map(|found| {
            let instead = format!(
                "`{name}` reaches `{found}`; keep it out of the pure crates, or add it to HARMLESS \
                 in xtask/src/tidy/arrows.rs if it touches no clock, file, process, socket or \
                 random source",
            );
            Problem::new(&manifest_of(name), 0, "impure", instead)
        })
        .collect()
}

fn short(package: &str) -> &str {
    package.strip_prefix("shipway-").unwrap_or(package)
}

fn manifest_of(name: &str) -> String {
    if name == "xtask" { "xtask/Cargo.toml".into() } else { format!("crates/{name}/Cargo.toml") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, ours: &[&str]) -> Value {
        let dependencies: Vec<Value> =
            ours.iter().map(|name| json!({"name": name, "path": "/x"})).collect();
        json!({"name": name, "dependencies": dependencies})
    }

    fn rules(packages: &[Value]) -> Vec<(String, &'static str)> {
        let problems = arrows(&json!({ "packages": packages })).expect("packages are listed");
        problems.into_iter().map(|problem| (problem.file, problem.rule)).collect()
    }

    #[test]
    fn arrows_point_down() {
        assert_eq!(rules(&[package("shipway-core", &["shipway-model"])]), []);
        let core = "crates/core/Cargo.toml".to_owned();
        assert_eq!(rules(&[package("shipway-core", &["shipway-server"])]), [(core, "arrow")]);
    }

    #[test]
    fn a_crate_not_in_the_picture_is_refused() {
        let stray = "crates/stray/Cargo.toml".to_owned();
        assert_eq!(rules(&[package("shipway-stray", &[])]), [(stray, "unknown crate")]);
    }

    #[test]
    fn dependencies_from_outside_have_no_arrow() {
        let outside = json!({"name": "shipway-pilot", "dependencies": [{"name": "server"}]});
        assert_eq!(rules(&[outside]), []);
    }

    #[test]
    fn a_pure_crate_reaches_only_the_harmless() {
        let tree = "shipway-core v0.1.0 (/x)\nserde v1.0.0\nserde_derive v1.0.0 (proc-macro)\n";
        assert_eq!(reach("core", tree), []);
        let problems = reach("core", &format!("{tree}tokio v1.0.0\nserde v1.0.0 (*)\n"));
        assert_eq!(problems.len(), 1);
        assert!(problems[0].instead.contains("`tokio`"), "{}", problems[0]);
    }
}
