//! Checks of whole files: the opening comment, the length, the lints table of a manifest.

use super::{Problem, extension};

/// Above this a file holds more than one idea.
const FILE_LINES: usize = 800;
/// A first page that is longer is not read.
const README_LINES: usize = 150;
/// Architecture is what stays true for years; detail belongs in docs/internals.
const ARCHITECTURE_LINES: usize = 300;

pub(super) fn check(file: &str, content: &str) -> Vec<Problem> {
    [header(file, content), length(file, content), lints(file, content), module(file)]
        .into_iter()
        .flatten()
        .collect()
}

fn header(file: &str, content: &str) -> Option<Problem> {
    if extension(file) != "rs" || content.starts_with("//!") {
        return None;
    }
    let instead = "open the file with `//!`: what it is, and what it is not";
    Some(Problem::new(file, 1, "no header", instead))
}

fn length(file: &str, content: &str) -> Option<Problem> {
    let (limit, instead) = match file {
        "README.md" => (README_LINES, "move detail to docs/"),
        "ARCHITECTURE.md" => (ARCHITECTURE_LINES, "move detail to docs/internals/"),
        _ if matches!(extension(file), "rs" | "py" | "ts") => {
            (FILE_LINES, "split the file by behaviour")
        }
        _ => return None,
    };
    let lines = content.lines().count();
    let message = format!("{lines} lines, at most {limit}; {instead}");
    (lines > limit).then(|| Problem::new(file, 0, "long file", message))
}

/// One style for modules with others in them, so that nobody has to look in two places. Below
/// `tests/` it is cargo's way to say that a file is no test of its own.
fn module(file: &str) -> Option<Problem> {
    let instead = "name it after the module: NAME.rs beside the folder NAME";
    let is_module = file.ends_with("/mod.rs") && file.contains("/src/");
    is_module.then(|| Problem::new(file, 0, "module's file", instead))
}

/// A member without the table would silently be held to no lints at all.
fn lints(file: &str, content: &str) -> Option<Problem> {
    if file == "Cargo.toml" || !file.ends_with("Cargo.toml") {
        return None;
    }
    let mut lines = content.lines().map(str::trim);
    let listed = lines.any(|line| line == "[lints]") && lines.next() == Some("workspace = true");
    let instead = "add `[lints]` with `workspace = true` as its first line";
    (!listed).then(|| Problem::new(file, 0, "no lints", instead))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(file: &str, content: &str) -> Vec<&'static str> {
        check(file, content).into_iter().map(|problem| problem.rule).collect()
    }

    #[test]
    fn rust_opens_with_a_header() {
        assert_eq!(rules("a.rs", "//! What.\n"), [""; 0]);
        assert_eq!(rules("a.rs", "// What.\n"), ["no header"]);
        assert_eq!(rules("a.rs", ""), ["no header"]);
        assert_eq!(rules("a.py", "x = 1\n"), [""; 0]);
    }

    #[test]
    fn each_kind_of_file_has_its_limit() {
        assert_eq!(rules("README.md", &"x\n".repeat(150)), [""; 0]);
        assert_eq!(rules("README.md", &"x\n".repeat(151)), ["long file"]);
        assert_eq!(rules("ARCHITECTURE.md", &"x\n".repeat(301)), ["long file"]);
        assert_eq!(rules("a.rs", &"//! x\n".repeat(800)), [""; 0]);
        assert_eq!(rules("a.rs", &"//! x\n".repeat(801)), ["long file"]);
        assert_eq!(rules("openapi/shipway.json", &"x\n".repeat(9000)), [""; 0]);
    }

    #[test]
    fn modules_are_in_files_of_their_names() {
        assert_eq!(rules("crates/a/src/b/mod.rs", "//! x\n"), ["module's file"]);
        assert_eq!(rules("crates/a/src/b.rs", "//! x\n"), [""; 0]);
        assert_eq!(rules("crates/a/tests/common/mod.rs", "//! x\n"), [""; 0]);
    }

    #[test]
    fn every_member_takes_the_workspace_lints() {
        assert_eq!(rules("crates/a/Cargo.toml", "[package]\n"), ["no lints"]);
        assert_eq!(rules("crates/a/Cargo.toml", "[lints]\nworkspace = true\n"), [""; 0]);
        assert_eq!(rules("crates/a/Cargo.toml", "[lints]\n[x]\nworkspace = true\n"), ["no lints"]);
        assert_eq!(rules("Cargo.toml", "[workspace]\n"), [""; 0]);
    }
}
