//! `cargo xtask tidy`: the house rules that no compiler checks.
//!
//! Every failure names the place, the rule and what to do instead. Checks are pure functions of
//! text; only this file reads the repository.

mod arrows;
mod bans;
mod dependencies;
mod functions;
mod layout;
mod named;
mod text;

use std::fmt;

use anyhow::{Context as _, Result, bail};

use crate::repo;

/// Files above this many lines are counted, not refused: a habit, not a law.
const FILE_HABIT: usize = 300;
/// Nine functions in ten should be at most this long; printed for the reader to judge.
const FUNCTION_HABIT_P90: usize = 35;

/// One broken rule: where, which, and the way out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) file: String,
    /// Counted from 1; 0 when the problem is the whole file.
    pub(crate) line: usize,
    pub(crate) rule: &'static str,
    pub(crate) instead: String,
}

impl Problem {
    fn new(file: &str, line: usize, rule: &'static str, instead: impl Into<String>) -> Problem {
        Problem { file: file.to_owned(), line, rule, instead: instead.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { file, line, rule, instead } = self;
        match line {
            0 => write!(f, "{file}: {rule}: {instead}"),
            _ => write!(f, "{file}:{line}: {rule}: {instead}"),
        }
    }
}

/// What a whole pass found: problems, and numbers for the closing lines.
#[derive(Debug, Default)]
struct Findings {
    problems: Vec<Problem>,
    files: usize,
    long_files: usize,
    function_lengths: Vec<usize>,
}

pub(crate) fn run() -> Result<()> {
    let files = read_files()?;
    let mut findings = check_files(&files);
    let metadata = repo::metadata()?;
    findings.problems.extend(named::check(&files));
    findings.problems.extend(dependencies::check(&files, &metadata)?);
    let document = files.get(named::DOCUMENT).map_or("", String::as_str);
    findings.problems.extend(arrows::check(document, &metadata)?);
    for problem in &findings.problems {
        eprintln!("{problem}");
    }
    println!("{}", summary(&mut findings));
    match findings.problems.len() {
        0 => Ok(()),
        count => bail!("tidy found {count} problem(s)"),
    }
}

/// What stands after the last dot of a name: what kind of file it is.
fn extension(file: &str) -> &str {
    file.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// Every file with lines: pictures and archives have none.
fn read_files() -> Result<named::Files> {
    let mut files = named::Files::new();
    for path in repo::files()? {
        let bytes = std::fs::read(repo::root().join(&path))
            .with_context(|| format!("could not read {}", path.display()))?;
        if let Ok(content) = String::from_utf8(bytes) {
            files.insert(path.to_string_lossy().into_owned(), content);
        }
    }
    Ok(files)
}

fn check_files(files: &named::Files) -> Findings {
    let mut findings = Findings { files: files.len(), ..Findings::default() };
    for (name, content) in files {
        findings.problems.extend(text::check(name, content));
        findings.problems.extend(layout::check(name, content));
        findings.problems.extend(bans::check(name, content));
        if extension(name) == "rs" {
            findings.long_files += usize::from(content.lines().count() > FILE_HABIT);
            let functions = functions::find(content);
            findings.problems.extend(functions::check(name, &functions));
            findings.function_lengths.extend(functions.iter().map(|function| function.lines));
        }
    }
    findings
}

fn summary(findings: &mut Findings) -> String {
    let lengths = &mut findings.function_lengths;
    lengths.sort_unstable();
    let longest = lengths.last().copied().unwrap_or(0);
    format!(
        "tidy: {} files, {} above {FILE_HABIT} lines; {} functions, p90 {} lines (aim \
         {FUNCTION_HABIT_P90}), longest {longest}; {} problem(s)",
        findings.files,
        findings.long_files,
        lengths.len(),
        p90(lengths),
        findings.problems.len(),
    )
}

/// The length that nine in ten do not exceed; 0 when there are none.
fn p90(sorted: &[usize]) -> usize {
    let rank = (sorted.len() * 9).div_ceil(10);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p90_is_the_value_at_rank_nine_of_ten() {
        assert_eq!(p90(&[]), 0);
        assert_eq!(p90(&[7]), 7);
        assert_eq!(p90(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), 9);
    }

    #[test]
    fn a_problem_names_place_rule_and_remedy() {
        let problem = Problem::new("a.rs", 3, "long line", "break it");
        assert_eq!(problem.to_string(), "a.rs:3: long line: break it");
        let whole = Problem::new("a.rs", 0, "no header", "write one");
        assert_eq!(whole.to_string(), "a.rs: no header: write one");
    }
}
