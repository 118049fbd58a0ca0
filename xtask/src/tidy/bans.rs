//! Words that may not appear, each with what to write instead.
//!
//! A line can be excused by `tidy: allow(NAME) because REASON` in a comment on it or right above
//! it. This file is the only one that is not checked: it has to spell the words.

use super::{Problem, extension};

const THIS_FILE: &str = "xtask/src/tidy/bans.rs";
/// What reads as text written by people. Lock files and recorded output are not ours to word.
const CHECKED: [&str; 8] = ["rs", "py", "sh", "proto", "sql", "toml", "md", "ts"];

/// Where a ban holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Every file people write, comments too.
    Everywhere,
    /// Rust code, wherever it stands; comments may speak of it.
    Rust,
    /// Rust code of tests.
    Tests,
    /// Rust code that ships or builds what ships.
    NotTests,
    /// The code that decides. `model` reads what people write, and people write `0.5`.
    Core,
}

/// One ban: matched as whole words.
#[derive(Debug)]
struct Ban {
    /// For the message and for an excuse.
    name: &'static str,
    words: &'static str,
    scope: Scope,
    instead: &'static str,
}

const fn ban(name: &'static str, words: &'static str, scope: Scope, instead: &'static str) -> Ban {
    Ban { name, words, scope, instead }
}

const NO_LATER: &str = "finish it, or leave it out and say so where a user would look";
const WAIT: &str = "wait on a condition with a generous deadline; only the helper that pauses \
                    between two looks sleeps, and says `tidy: allow(sleep-in-test) because …`";
const NAME_IT: &str = "name the module after what it holds";
const FIXED_POINT: &str = "use the fixed-point types of shipway-model; floats do not add up";

const ANY_DEPTH: &str = "use shipway_trees: this calls itself for every folder in a folder, and a \
                         task may leave more of them than the stack takes";

const BANS: [Ban; 21] = [
    ban("todo", "todo!", Scope::Rust, NO_LATER),
    ban("unimplemented", "unimplemented!", Scope::Rust, NO_LATER),
    ban("dbg", "dbg!", Scope::Rust, "use tracing, or take it out"),
    ban("later", "FIXME", Scope::Everywhere, NO_LATER),
    ban("later", "TODO", Scope::Everywhere, NO_LATER),
    ban("later", "XXX", Scope::Everywhere, NO_LATER),
    ban("ignored-test", "#[ignore", Scope::Rust, "make it pass, or delete it; skips are counted"),
    ban("should-panic", "#[should_panic", Scope::Rust, "assert on the error, so its text is seen"),
    ban("sleep-in-test", "thread::sleep", Scope::Tests, WAIT),
    ban("sleep-in-test", "time::sleep", Scope::Tests, WAIT),
    ban("unwrap", ".unwrap()", Scope::NotTests, "use `?`, or `.expect(\"why it cannot fail\")`"),
    ban("vague-error", "Other(String)", Scope::Rust, "a variant that names the act and the object"),
    ban("vague-module", "mod util", Scope::Rust, NAME_IT),
    ban("vague-module", "mod utils", Scope::Rust, NAME_IT),
    ban("vague-module", "mod helpers", Scope::Rust, NAME_IT),
    ban("recursive-removal", "remove_dir_all", Scope::NotTests, ANY_DEPTH),
    ban("old-lazy", "lazy_static!", Scope::Rust, "use std::sync::LazyLock"),
    ban("old-lazy", "once_cell", Scope::Rust, "use std::sync::{OnceLock, LazyLock}"),
    ban("float", "f32", Scope::Core, FIXED_POINT),
    ban("float", "f64", Scope::Core, FIXED_POINT),
    ban("hash-order", "RandomState", Scope::Core, "use BTreeMap: its order is the same every time"),
];

pub(super) fn check(file: &str, content: &str) -> Vec<Problem> {
    let read = CHECKED.contains(&extension(file)) || file.starts_with(".ci/");
    if file == THIS_FILE || !read {
        return Vec::new();
    }
    let mut problems = Vec::new();
    let mut above = "";
    let mut tests = TestRegion::of(file);
    for (number, line) in (1..).zip(content.lines()) {
        let in_tests = tests.step(line);
        for ban in &BANS {
            let applies = applies(ban.scope, file, line, in_tests) && has_words(line, ban.words);
            if applies && !excused(ban.name, above) && !excused(ban.name, line) {
                let instead = format!("`{}` is banned: {}", ban.words, ban.instead);
                problems.push(Problem::new(file, number, ban.name, instead));
            }
        }
        above = line;
    }
    problems
}

fn applies(scope: Scope, file: &str, line: &str, in_tests: bool) -> bool {
    let code = extension(file) == "rs" && !line.trim_start().starts_with("//");
    let core = file.starts_with("crates/core/src/");
    match scope {
        Scope::Everywhere => true,
        Scope::Rust => code,
        Scope::Tests => code && in_tests,
        Scope::NotTests => code && !in_tests,
        Scope::Core => code && core,
    }
}

/// True if the words stand in the line and are not part of longer ones.
fn has_words(line: &str, words: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(words).any(|(at, _)| {
        let joined_before = words.starts_with(part) && line[..at].ends_with(part);
        let joined_after = words.ends_with(part) && line[at + words.len()..].starts_with(part);
        !joined_before && !joined_after
    })
}

fn excused(name: &str, line: &str) -> bool {
    let excuse = line.split_once("tidy: allow(").and_then(|(_, rest)| rest.split_once(')'));
    excuse.is_some_and(|(allowed, reason)| {
        let reason = reason.trim_start().strip_prefix("because ");
        allowed == name && reason.is_some_and(|reason| !reason.trim().is_empty())
    })
}

/// Whether a line belongs to a test: by the file's place, or inside `#[cfg(test)] mod … { … }`.
#[derive(Debug)]
struct TestRegion {
    whole_file: bool,
    after_attribute: bool,
    inside: bool,
}

impl TestRegion {
    fn of(file: &str) -> TestRegion {
        let whole_file = file.starts_with("tests/")
            || file.contains("/tests/")
            || file.ends_with("/tests.rs")
            || file.ends_with("_tests.rs");
        TestRegion { whole_file, after_attribute: false, inside: false }
    }

    fn step(&mut self, line: &str) -> bool {
        if self.after_attribute && line.contains("mod ") && line.ends_with('{') {
            self.inside = true;
        }
        self.after_attribute = line == "#[cfg(test)]";
        let belongs = self.whole_file || self.inside;
        // rustfmt closes a module in the column where it began.
        if line == "}" {
            self.inside = false;
        }
        belongs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(file: &str, content: &str) -> Vec<(usize, &'static str)> {
        check(file, content).into_iter().map(|problem| (problem.line, problem.rule)).collect()
    }

    #[test]
    fn words_are_whole_words() {
        assert!(has_words("x.unwrap();", ".unwrap()"));
        assert!(has_words("mod util;", "mod util"));
        assert!(!has_words("mod utility;", "mod util"));
        assert!(!has_words("mktemp XXXXXX", "XXX"));
        assert!(has_words("// XXX here", "XXX"));
    }

    #[test]
    fn comments_may_name_code_but_not_promise() {
        assert_eq!(rules("a.rs", "// never dbg!\n"), []);
        assert_eq!(rules("a.rs", "dbg!(x);\n"), [(1, "dbg")]);
        assert_eq!(rules("a.rs", "// FIXME: soon\n"), [(1, "later")]);
        assert_eq!(rules("a.md", "TODO\n"), [(1, "later")]);
        assert_eq!(rules("a.snap", "TODO\n"), []);
    }

    #[test]
    fn tests_may_unwrap_but_not_sleep() {
        let code = "x.unwrap();\n#[cfg(test)]\nmod tests {\n    x.unwrap();\n    \
                    thread::sleep(d);\n}\nthread::sleep(d);\n";
        assert_eq!(rules("a.rs", code), [(1, "unwrap"), (5, "sleep-in-test")]);
        assert_eq!(rules("crates/cli/tests/a.rs", "x.unwrap();\n"), []);
        assert_eq!(rules("crates/cli/tests/a.rs", "time::sleep(d);\n"), [(1, "sleep-in-test")]);
    }

    #[test]
    fn a_test_module_in_its_own_file_does_not_open_a_region() {
        assert_eq!(rules("a.rs", "#[cfg(test)]\nmod tests;\nx.unwrap();\n"), [(3, "unwrap")]);
    }

    #[test]
    fn floats_are_banned_where_decisions_are_made() {
        assert_eq!(rules("crates/core/src/a.rs", "let x: f64 = y;\n"), [(1, "float")]);
        assert_eq!(rules("crates/cli/src/a.rs", "let x: f64 = y;\n"), []);
    }

    #[test]
    fn an_excuse_needs_the_name_and_a_reason() {
        let above = |comment: &str| format!("// {comment}\ntodo!()\n");
        assert_eq!(rules("a.rs", &above("tidy: allow(todo) because it is quoted")), []);
        assert_eq!(rules("a.rs", &above("tidy: allow(todo)")), [(2, "todo")]);
        assert_eq!(rules("a.rs", &above("tidy: allow(dbg) because it is quoted")), [(2, "todo")]);
    }
}
