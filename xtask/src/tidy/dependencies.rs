//! Dependencies that nothing uses: they cost time to build and have to be trusted for nothing.
//!
//! A dependency counts as used where its name stands as a word in the code that may use it: `src`
//! for one that is shipped, tests and examples too for one of developers, `build.rs` for one of
//! the build.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::named::Files;
use super::{Problem, extension};

/// Used without being named, each with how: (crate, dependency, reason).
const UNNAMED: [(&str, &str, &str); 0] = [];

pub(super) fn check(files: &Files, metadata: &Value) -> Result<Vec<Problem>> {
    let packages = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;
    let root = metadata["workspace_root"].as_str().context("`cargo metadata` names no root")?;
    let mut problems = Vec::new();
    let mut wanted = BTreeSet::new();
    for package in packages {
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let manifest = manifest.trim_start_matches(root).trim_start_matches('/');
        let folder = manifest.trim_end_matches("Cargo.toml");
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let name = dependency["name"].as_str().unwrap_or_default();
            wanted.insert(name);
            let known = dependency["rename"].as_str().unwrap_or(name).replace('-', "_");
            let kind = dependency["kind"].as_str().unwrap_or("normal");
            let unnamed = UNNAMED
                .iter()
                .any(|(of, to, _)| folder.ends_with(&format!("{of}/")) && *to == name);
            if !unnamed && !is_used(files, folder, kind, &known) {
                let instead = format!(
                    "nothing in {folder}{} names `{known}`: take `{name}` out, or add it with its \
                     reason to UNNAMED in {}",
                    places(kind).join(", "),
                    file!(),
                );
                problems.push(Problem::new(manifest, 0, "unused dependency", instead));
            }
        }
    }
    let listed = files.get("Cargo.toml").map(|text| listed(text)).unwrap_or_default();
    problems.extend(listed.difference(&wanted).map(|name| {
        let instead = format!("no crate of the workspace takes `{name}`: take it out");
        Problem::new("Cargo.toml", 0, "unused dependency", instead)
    }));
    Ok(problems)
}

fn places(kind: &str) -> &'static [&'static str] {
    match kind {
        "build" => &["build.rs"],
        "dev" => &["src/", "tests/", "benches/", "examples/"],
        _ => &["src/"],
    }
}

fn is_used(files: &Files, folder: &str, kind: &str, name: &str) -> bool {
    let inside = |file: &str| {
        let rest = file.strip_prefix(folder).filter(|_| extension(file) == "rs");
        rest.is_some_and(|rest| places(kind).iter().any(|place| rest.starts_with(place)))
    };
    let mut code = files.iter().filter(|(file, _)| inside(file)).flat_map(|(_, text)| text.lines());
    code.any(|line| {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        !line.trim_start().starts_with("//") && words.any(|word| word == name)
    })
}

/// What the workspace's manifest offers to its members.
fn listed(manifest: &str) -> BTreeSet<&str> {
    let lines = manifest.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let names = lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
    names.map(|(name, _)| name.trim()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn unused(dependency: &Value, sources: &[(&str, &str)]) -> Vec<String> {
        let mut files: Files = [("Cargo.toml".to_owned(), String::new())].into();
        files.extend(sources.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())));
        let package = json!({
            "manifest_path": "/w/crates/fleet/Cargo.toml", "dependencies": [dependency],
        });
        let metadata = json!({"workspace_root": "/w", "packages": [package]});
        let problems = check(&files, &metadata).expect("packages are listed");
        problems.into_iter().map(|problem| problem.file).collect()
    }

    #[test]
    fn a_dependency_is_named_by_code_and_not_by_talk() {
        let rope = json!({"name": "long-rope", "kind": null});
        let manifest = "crates/fleet/Cargo.toml";
        assert_eq!(unused(&rope, &[("crates/fleet/src/a.rs", "use long_rope::Knot;")]), [""; 0]);
        assert_eq!(unused(&rope, &[("crates/fleet/src/a.rs", "// long_rope")]), [manifest]);
        assert_eq!(unused(&rope, &[("crates/fleet/src/a.rs", "my_long_rope()")]), [manifest]);
        assert_eq!(unused(&rope, &[("crates/boat/src/a.rs", "use long_rope::Knot;")]), [manifest]);
    }

    #[test]
    fn what_only_tests_use_is_not_shipped() {
        let test = [("crates/fleet/tests/a.rs", "use rope::Knot;")];
        assert_eq!(unused(&json!({"name": "rope", "kind": null}), &test).len(), 1);
        assert_eq!(unused(&json!({"name": "rope", "kind": "dev"}), &test), [""; 0]);
        assert_eq!(unused(&json!({"name": "rope", "kind": "build"}), &test).len(), 1);
        let build = [("crates/fleet/build.rs", "rope::knot();")];
        assert_eq!(unused(&json!({"name": "rope", "kind": "build"}), &build), [""; 0]);
    }

    #[test]
    fn a_renamed_one_is_known_by_its_new_name() {
        let renamed = json!({"name": "rope", "rename": "line", "kind": null});
        assert_eq!(unused(&renamed, &[("crates/fleet/src/a.rs", "use line::Knot;")]), [""; 0]);
        assert_eq!(unused(&renamed, &[("crates/fleet/src/a.rs", "use rope::Knot;")]).len(), 1);
    }

    #[test]
    fn what_the_workspace_offers_is_taken_by_somebody() {
        let offered =
            "[workspace.dependencies]\n# Strong.\nrope = \"1\"\nsail = \"2\"\n\n[x]\ny = 1\n";
        assert_eq!(listed(offered), BTreeSet::from(["rope", "sail"]));
        let sources = [("Cargo.toml", offered), ("crates/fleet/src/a.rs", "use rope::Knot;")];
        assert_eq!(unused(&json!({"name": "rope", "kind": null}), &sources), ["Cargo.toml"]);
    }
}
