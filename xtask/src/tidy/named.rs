//! What ARCHITECTURE.md names has to be there: files, folders, functions, types.
//!
//! Only what stands between back-ticks, outside of fences, is looked at:
//! - a path (`x.rs`, `x.md`, `x/`) is counted from the root, from `crates/`, from the sources of a
//!   crate in the bold words above it (**`crates/NAME`**), or from the folder before it in the same
//!   paragraph or row, its own, that of a file, or that of the modules in a file; `NAME` in it
//!   stands for any name;
//! - `x.rs::name` and `x.rs::Type::name` are in that file, `Type::name` in any of the workspace;
//! - a word alone occurs somewhere in the sources.
//!
//! Not a parser of Rust: it trusts rustfmt, as `functions.rs` does.

use std::collections::{BTreeMap, BTreeSet};

use super::{Problem, extension};

pub(super) const DOCUMENT: &str = "ARCHITECTURE.md";
/// What ends a name of a file that is of this repository.
const FILES: [&str; 4] = ["rs", "md", "toml", "proto"];
/// Stands for whatever is added.
const PLACEHOLDER: &str = "NAME";

/// The repository's files by their path from the root.
pub(super) type Files = BTreeMap<String, String>;

pub(super) fn check(files: &Files) -> Vec<Problem> {
    let Some(text) = files.get(DOCUMENT) else { return Vec::new() };
    let mut reader =
        Reader { files, words: words(files), bases: Vec::new(), folder: None, inside: None };
    let mut problems = Vec::new();
    let mut in_fence = false;
    for (number, line) in (1..).zip(text.lines()) {
        let fence = line.starts_with("```");
        in_fence ^= fence;
        if !fence && !in_fence {
            let quoted = quoted(line);
            reader.begin(line, &quoted);
            let wrong = quoted.into_iter().filter_map(|quoted| reader.judge(&quoted));
            problems.extend(wrong.map(|why| Problem::new(DOCUMENT, number, "not there", why)));
        }
    }
    problems
}

/// Every word of the sources, for names that stand alone.
fn words(files: &Files) -> BTreeSet<&str> {
    let sources = files.iter().filter(|(file, _)| matches!(extension(file), "rs" | "proto"));
    sources.flat_map(|(_, text)| text.split(|c: char| !in_word(c))).collect()
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Something between back-ticks, and whether it is part of what is printed bold.
#[derive(Debug, PartialEq, Eq)]
struct Quoted<'t> {
    text: &'t str,
    bold: bool,
}

fn quoted(line: &str) -> Vec<Quoted<'_>> {
    let mut bold = false;
    let mut found = Vec::new();
    for (at, part) in line.split('`').enumerate() {
        match at % 2 {
            0 => bold ^= part.matches("**").count() % 2 == 1,
            _ => found.push(Quoted { text: part, bold }),
        }
    }
    found
}

/// Reads the document line by line and knows where a path of the next word is counted from.
struct Reader<'f> {
    files: &'f Files,
    words: BTreeSet<&'f str>,
    /// The sources of the crates that are spoken of.
    bases: Vec<String>,
    /// Where the path before lies.
    folder: Option<String>,
    /// What is below it, if it is a module with others in it.
    inside: Option<String>,
}

impl Reader<'_> {
    fn begin(&mut self, line: &str, quoted: &[Quoted<'_>]) {
        let crates = quoted.iter().filter(|it| it.bold && self.is_folder(it.text));
        let bases: Vec<String> = crates.map(|it| format!("{}/src", it.text)).collect();
        let numbered = line.split_once(". ").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
        if line.is_empty() || line.starts_with(['|', '#', '-']) || numbered || !bases.is_empty() {
            (self.folder, self.inside) = (None, None);
        }
        if line.starts_with('#') || !bases.is_empty() {
            self.bases = bases;
        }
    }

    /// What is wrong with it.
    fn judge(&mut self, Quoted { text, .. }: &Quoted<'_>) -> Option<String> {
        let (path, names) = text.split_once("::").unwrap_or((*text, ""));
        if is_path(path) {
            let Some(found) = self.find(path) else {
                return Some(format!("no `{path}`; paths are counted as {} says", file!()));
            };
            let content = self.files.get(&found).map_or("", String::as_str);
            self.inside = found.strip_suffix(".rs").map(str::to_owned);
            self.folder = match found.rsplit_once('/') {
                Some((folder, _)) if !path.ends_with('/') => Some(folder.to_owned()),
                _ => Some(found.clone()),
            };
            let there = names.is_empty() || holds(content, names);
            return (!there).then(|| format!("no `{names}` in {found}"));
        }
        if !names.is_empty() && text.chars().all(|c| in_word(c) || c == ':') {
            let mut sources = self.files.iter().filter(|(file, _)| extension(file) == "rs");
            let there = sources.any(|(_, content)| holds(content, text));
            return (!there).then(|| format!("no `{text}` in the workspace"));
        }
        let alone = !text.is_empty() && text.chars().all(in_word);
        let unknown = alone && text.parse::<u64>().is_err() && !self.words.contains(text);
        unknown.then(|| format!("the word `{text}` is not in the sources"))
    }

    /// Where a path leads, from the root.
    fn find(&self, path: &str) -> Option<String> {
        let near = [self.folder.as_deref(), self.inside.as_deref()].into_iter().flatten();
        let bases = self.bases.iter().map(String::as_str);
        let from = ["", "crates"].into_iter().chain(bases).chain(near);
        let mut places = from.map(|from| format!("{from}/{path}").trim_matches('/').to_owned());
        places.find(|place| match place.split_once(PLACEHOLDER) {
            Some((folder, _)) => self.is_folder(folder),
            None => self.files.contains_key(place) || self.is_folder(place),
        })
    }

    fn is_folder(&self, path: &str) -> bool {
        let path = format!("{}/", path.trim_end_matches('/'));
        self.files.range(path.clone()..).next().is_some_and(|(file, _)| file.starts_with(&path))
    }
}

fn is_path(text: &str) -> bool {
    let plain = text.chars().all(|c| in_word(c) || matches!(c, '/' | '.' | '-'));
    let known = FILES.contains(&extension(text)) || text.ends_with('/');
    plain && (known || text.starts_with("crates/"))
}

/// Whether a file has `name`, or `Type::name`.
fn holds(content: &str, names: &str) -> bool {
    let mut lines = content.lines();
    match names.split_once("::") {
        None => lines.any(|line| declares(line, names)),
        Some((owner, name)) => {
            let mut end = None;
            lines.any(|line| {
                if end.as_deref() == Some(line) {
                    end = None;
                }
                let inside = end.is_some();
                if let Some(indent) = opens(line, owner) {
                    end = Some(format!("{indent}}}"));
                }
                inside && (declares(line, name) || is_variant(line, name))
            })
        }
    }
}

/// True where a function, type, constant or module of this name begins.
fn declares(line: &str, name: &str) -> bool {
    const KINDS: [&str; 9] =
        ["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "union"];
    let code = line.trim_start();
    let mut words = code.split_whitespace();
    !code.starts_with("//")
        && words.any(|word| KINDS.contains(&word))
        && words.next().is_some_and(|word| word.split(|c| !in_word(c)).next() == Some(name))
}

/// True for a variant of an enum or a field.
fn is_variant(line: &str, name: &str) -> bool {
    let rest = line.trim_start().trim_start_matches("pub ").strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([',', '(', ' ', ':']))
}

/// The indent of a line that opens a block of the type: its declaration, or an `impl` for it.
fn opens<'l>(line: &'l str, owner: &str) -> Option<&'l str> {
    let code = line.trim_start();
    let indent = &line[..line.len() - code.len()];
    if code.starts_with("//") || code.ends_with(['}', ';']) {
        return None;
    }
    let is_owner = |text: &str| {
        let path = text.trim_start_matches('&').split(['<', ' ', '{', '(']).next();
        path.and_then(|path| path.rsplit("::").next()) == Some(owner)
    };
    let found = match code.strip_prefix("impl") {
        Some(rest) => match rest.split_once(" for ") {
            Some((_, owner)) => is_owner(owner),
            None => is_owner(after_generics(rest)),
        },
        None => declares(line, owner),
    };
    found.then_some(indent)
}

/// What follows the `<…>` of an `impl`.
fn after_generics(text: &str) -> &str {
    let mut depth = 0_i32;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if !text[..at].ends_with('-') => depth -= 1,
            _ if depth == 0 && c != ' ' => return &text[at..],
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIP: &str = "//! A ship.\npub(crate) struct Ship {\n    mast: u8,\n}\n\n\
                        impl<'a> Ship {\n    pub async fn sail(&self) {}\n}\n\nenum Wind {\n    \
                        /// North.\n    North,\n    West(u8),\n}\n\nfn dock() {}\n";

    fn wrong(document: &str) -> Vec<(usize, String)> {
        let files = [
            (DOCUMENT, document),
            ("docs/harbour.md", ""),
            ("crates/fleet/src/ship.rs", SHIP),
            ("crates/fleet/src/yard/mod.rs", "fn build() {}\n"),
            ("crates/fleet/src/yard/crane.rs", "//! Lifts.\n"),
            ("crates/dock/src/berth.rs", ""),
        ];
        let files = files.map(|(file, text)| (file.to_owned(), text.to_owned())).into();
        check(&files).into_iter().map(|problem| (problem.line, problem.instead)).collect()
    }

    fn right(document: &str) {
        assert_eq!(wrong(document), [], "{document}");
    }

    fn lacks(document: &str, what: &str) {
        let found = wrong(document);
        assert_eq!(found.len(), 1, "{document}: {found:?}");
        assert!(found[0].1.contains(&format!("`{what}`")), "{document}: {found:?}");
    }

    #[test]
    fn paths_are_found_from_the_root_from_crates_and_from_the_crate_in_bold() {
        right("`docs/harbour.md` `crates/fleet/src/ship.rs` `fleet/src/ship.rs` `fleet/src/yard/`");
        right("**`crates/fleet`**: `ship.rs`\nand `yard/crane.rs`\n\nand `ship.rs`");
        right("**From `crates/dock` to `crates/fleet`**: `ship.rs`, `berth.rs`");
        lacks("`ship.rs`", "ship.rs");
        lacks("**`crates/fleet`**: `ship.rs`\n## Next\n`ship.rs`", "ship.rs");
        lacks("`docs/port.md`", "docs/port.md");
        lacks("**`crates/fleet`**: `boat.rs`", "boat.rs");
        lacks("The small `crates/boat`", "crates/boat");
    }

    #[test]
    fn a_path_may_be_counted_from_the_one_before_it_in_the_same_step() {
        right("1. `fleet/src/yard/mod.rs` and\n   `crane.rs`");
        right("1. `fleet/src/yard/` and `crane.rs`");
        lacks("1. `fleet/src/yard/mod.rs`\n2. `crane.rs`", "crane.rs");
        lacks("| `fleet/src/yard/mod.rs` |\n| `crane.rs` |", "crane.rs");
    }

    #[test]
    fn a_function_is_in_the_file_that_is_named() {
        right("`fleet/src/ship.rs::dock` `fleet/src/ship.rs::Ship::sail`");
        lacks("`fleet/src/yard/mod.rs::dock`", "dock");
        lacks("`fleet/src/ship.rs::sink`", "sink");
        lacks("`fleet/src/ship.rs::Ship::dock`", "Ship::dock");
        lacks("`fleet/src/ship.rs::Wind::sail`", "Wind::sail");
    }

    #[test]
    fn members_without_a_path_are_anywhere_and_are_members() {
        right("`Ship::sail` `Ship::mast` `Wind::North` `Wind::West`");
        lacks("`Ship::dock`", "Ship::dock");
        lacks("`Wind::South`", "Wind::South");
    }

    #[test]
    fn a_word_alone_is_in_the_sources_and_talk_is_not_looked_at() {
        right("`Ship` `mast` `7` `shipway run` `--array` `DIR/lock`\n```\n`nowhere`\n```\n");
        lacks("`Boat`", "Boat");
    }

    #[test]
    fn what_is_to_be_added_names_a_folder_that_is_there() {
        right("`fleet/src/yard/NAME.rs`");
        lacks("`fleet/src/dock/NAME.rs`", "fleet/src/dock/NAME.rs");
    }
}
