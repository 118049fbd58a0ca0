//! Which crate may depend on which, and what the pure crates may reach at all.
//!
//! The picture is in ARCHITECTURE.md, and is read from there: a crate uses those of ours that its
//! arrow points at, in some table of its manifest, and no others.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::Problem;
use super::named::DOCUMENT;
use crate::repo;

/// The line above the picture.
const PICTURE: &str = "Arrows point at what a crate uses";

/// Crates that decide: no clock, file, process, socket or random source may be in reach.
const PURE: [&str; 5] = ["model", "classad", "core", "dialects", "shell"];

/// All that the pure crates may reach. A list of what is allowed, because a list of what is
/// forbidden would not know the next crate that opens a socket.
const HARMLESS: [&str; 32] = [
    "shipway-classad",
    "shipway-core",
    "shipway-dialects",
    "shipway-model",
    "shipway-shell",
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

/// Crates, and those of ours that they use.
type Arrows<'p> = BTreeMap<&'p str, BTreeSet<&'p str>>;

pub(super) fn check(document: &str, metadata: &Value) -> Result<Vec<Problem>> {
    let mut problems = arrows(&drawn(document), metadata)?;
    for name in PURE {
        let mut cargo = repo::cargo();
        cargo.args(["tree", "--package", &format!("shipway-{name}")]);
        cargo.args(["--edges", "normal", "--prefix", "none", "--format", "{p}"]);
        problems.extend(reach(name, &repo::output(&mut cargo)?));
    }
    Ok(problems)
}

/// The picture: `a, b ─▶ c, d` in the fence below its heading, with room between two of a line.
fn drawn(document: &str) -> Arrows<'_> {
    let picture = document.lines().skip_while(|line| !line.starts_with(PICTURE));
    let picture = picture.skip_while(|line| *line != "```").skip(1);
    let lines = picture.take_while(|line| *line != "```").flat_map(|line| line.split("    "));
    let mut arrows = Arrows::new();
    for (from, to) in lines.filter_map(|drawn| drawn.split_once("─▶")) {
        let to: BTreeSet<&str> = to.split(',').map(str::trim).filter(|to| *to != "none").collect();
        arrows.extend(from.split(',').map(|from| (from.trim(), to.clone())));
    }
    arrows
}

fn arrows(drawn: &Arrows<'_>, metadata: &Value) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    let packages = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;
    for package in packages {
        let name = short(package["name"].as_str().unwrap_or_default());
        let manifest = manifest_of(name);
        let Some(allowed) = drawn.get(name) else {
            let instead = format!("draw its arrow in {DOCUMENT}, under \"{PICTURE}\"");
            problems.push(Problem::new(&manifest, 0, "unknown crate", instead));
            continue;
        };
        let used = our_dependencies(package);
        problems.extend(used.difference(allowed).map(|to| {
            let instead = format!(
                "`{name}` may not depend on `{to}`: {DOCUMENT} draws no such arrow; move what both \
                 need to a crate below them",
            );
            Problem::new(&manifest, 0, "arrow", instead)
        }));
        problems.extend(allowed.difference(&used).map(|to| {
            let instead = format!("`{name}` does not depend on `{to}`: take the arrow away");
            Problem::new(DOCUMENT, 0, "arrow", instead)
        }));
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

    const DRAWN: &str = "Arrows point at what a crate uses; so:\n\n```\n\
                         core, dialects ─▶ model     model, pilot  ─▶ none\n```\nx ─▶ y\n";

    fn rules(packages: &[Value]) -> Vec<(String, &'static str)> {
        let metadata = json!({ "packages": packages });
        let problems = arrows(&drawn(DRAWN), &metadata).expect("packages are listed");
        problems.into_iter().map(|problem| (problem.file, problem.rule)).collect()
    }

    #[test]
    fn arrows_are_those_that_are_drawn() {
        assert_eq!(rules(&[package("shipway-core", &["shipway-model"])]), []);
        assert_eq!(rules(&[package("shipway-model", &[])]), []);
        let core = || ("crates/core/Cargo.toml".to_owned(), "arrow");
        let drawn = || (DOCUMENT.to_owned(), "arrow");
        let both = ["shipway-model", "shipway-server"];
        assert_eq!(rules(&[package("shipway-core", &both)]), [core()]);
        assert_eq!(rules(&[package("shipway-core", &[])]), [drawn()]);
    }

    #[test]
    fn a_crate_not_in_the_picture_is_refused() {
        let stray = "crates/x/Cargo.toml".to_owned();
        assert_eq!(rules(&[package("shipway-x", &[])]), [(stray, "unknown crate")]);
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
