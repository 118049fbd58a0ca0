//! Checks of single lines: width and trailing space.
//!
//! Knows nothing of Rust. What a line may not *say* is in `bans`.

use super::{Problem, extension};

/// The width rustfmt is told, and the width two windows side by side can show.
const COLUMNS: usize = 100;
/// Files people write by hand, line by line. Lock files, JSON and snapshots are written by tools,
/// and a TOML table cannot be broken.
const WRAPPED: [&str; 8] = ["rs", "py", "sh", "proto", "sql", "md", "css", "ts"];
/// Recorded output: the space at a line's end may be what is being recorded.
const RECORDED: [&str; 2] = ["snap", "golden"];

pub(super) fn check(file: &str, content: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let wrapped = WRAPPED.contains(&extension(file)) || file.starts_with(".ci/");
    let recorded = RECORDED.contains(&extension(file));
    let prose = extension(file) == "md";
    let mut in_fence = false;
    for (number, line) in (1..).zip(content.lines()) {
        in_fence ^= line.trim_start().starts_with("```");
        let excused = prose && (in_fence || unbreakable(line));
        let width = line.chars().count();
        if wrapped && !excused && width > COLUMNS {
            let instead = format!("{width} columns; break the line at {COLUMNS}");
            problems.push(Problem::new(file, number, "long line", instead));
        }
        if !recorded && line.ends_with([' ', '\t']) {
            let instead = "remove the space at the end of the line";
            problems.push(Problem::new(file, number, "trailing space", instead));
        }
    }
    problems
}

/// Markdown that must stay on one line: table rows and links.
fn unbreakable(line: &str) -> bool {
    line.trim_start().starts_with('|') || line.contains("](")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(file: &str, content: &str) -> Vec<(usize, &'static str)> {
        check(file, content).into_iter().map(|problem| (problem.line, problem.rule)).collect()
    }

    #[test]
    fn width_is_counted_in_characters() {
        let fits = "ä".repeat(100);
        assert_eq!(rules("a.rs", &fits), []);
        let long = format!("ok\n{fits}ä\n");
        assert_eq!(rules("a.rs", &long), [(2, "long line")]);
    }

    #[test]
    fn tables_links_and_code_in_prose_may_be_wide() {
        let wide = "x ".repeat(60) + "x";
        assert_eq!(rules("a.md", &format!("| {wide} |\n")), []);
        assert_eq!(rules("a.md", &format!("[{wide}](b)\n")), []);
        assert_eq!(rules("a.md", &format!("```\n{wide}\n```\n")), []);
        assert_eq!(rules("a.md", &format!("```\n```\n{wide}\n")), [(3, "long line")]);
        assert_eq!(rules("a.rs", &format!("| {wide} |\n")), [(1, "long line")]);
    }

    #[test]
    fn generated_text_may_be_wide_but_not_trail() {
        let wide = "x".repeat(200);
        assert_eq!(rules("Cargo.lock", &wide), []);
        assert_eq!(rules("a.toml", "a = 1 \n"), [(1, "trailing space")]);
        assert_eq!(rules("a.snap", "a = 1 \n"), []);
    }
}
