//! Options of `sbatch` that a site's file adds, each in a line. They reach it as words, never
//! through a shell; what would make it do something else than hand one job in is refused.

/// A longer one is none that Slurm reads.
const MAX_LINE: usize = 4_096;
/// They would turn one job into several or none, wait for it, or hand it to another cluster, where
/// it is not looked for.
const REFUSED: [(&str, Option<char>); 9] = [
    ("array", Some('a')),
    ("wrap", None),
    ("wait", Some('W')),
    ("test-only", None),
    ("clusters", Some('M')),
    ("help", Some('h')),
    ("usage", None),
    ("version", Some('V')),
    ("parsable", None),
];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadLine {
    #[error("`{line}` is not an option of sbatch (write --NAME=VALUE, -X VALUE or NAME=VALUE)")]
    NoOption { line: String },
    #[error("`{line}` is refused: a pilot's job must be one job of this cluster")]
    Refused { line: String },
}

/// One line as words of the command: `-C a100` is two, `--comment=two words` one, and
/// `constraint=a100` gets its dashes.
pub(super) fn words(line: &str) -> Result<Vec<String>, BadLine> {
    let shown = || line.chars().filter(|c| !c.is_control()).take(80).collect::<String>();
    let no_option = || BadLine::NoOption { line: shown() };
    let line = line.trim();
    if line.len() > MAX_LINE || line.chars().any(char::is_control) {
        return Err(no_option());
    }
    let (option, value) = option_and_value(line).ok_or_else(no_option)?;
    if refused(&option) {
        return Err(BadLine::Refused { line: shown() });
    }
    // A colon alone begins the next of several jobs.
    let values = value.filter(|value| *value != ":").map(String::from);
    match (value, values) {
        (Some(_), None) => Err(no_option()),
        (_, values) => Ok([option].into_iter().chain(values).collect()),
    }
}

fn option_and_value(line: &str) -> Option<(String, Option<&str>)> {
    let name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let end = line.find(|c: char| !name(c)).unwrap_or(line.len());
    let (head, rest) = line.split_at(end);
    let bare = head.trim_start_matches('-');
    if bare.is_empty() || !bare.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let value = rest.strip_prefix(char::is_whitespace).map(str::trim_start);
    match (head.len() - bare.len(), rest.chars().next()) {
        // `-C[a100&nvlink]`: the value may follow at once.
        (1, Some(c)) if !c.is_whitespace() => Some((line.to_string(), None)),
        (1 | 2, None) => Some((head.to_string(), None)),
        (1 | 2, Some(c)) if c.is_whitespace() => Some((head.to_string(), value)),
        (2, Some('=')) => Some((line.to_string(), None)),
        (0, Some('=')) => Some((format!("--{line}"), None)),
        _ => None,
    }
}

/// Names may be cut as long as they are clear, and short options stand in rows.
fn refused(option: &str) -> bool {
    if let Some(long) = option.strip_prefix("--") {
        let name = long.split('=').next().unwrap_or_default();
        return REFUSED.iter().any(|(refused, _)| refused.starts_with(name));
    }
    let first = option.chars().nth(1);
    REFUSED.iter().any(|(_, short)| short.is_some() && *short == first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_options_in_words() {
        let table: [(&str, &[&str]); 9] = [
            ("--constraint=a100", &["--constraint=a100"]),
            ("  --exclusive ", &["--exclusive"]),
            ("-C a100", &["-C", "a100"]),
            ("-Ca100", &["-Ca100"]),
            ("-C[a100&nvlink]", &["-C[a100&nvlink]"]),
            ("--account physics", &["--account", "physics"]),
            ("--comment=two; $(words)", &["--comment=two; $(words)"]),
            ("qos=normal", &["--qos=normal"]),
            ("--wait-all-nodes=1", &["--wait-all-nodes=1"]),
        ];
        for (line, expected) in table {
            assert_eq!(words(line).expect(line), expected, "{line}");
        }
    }

    #[test]
    fn what_is_no_option_or_changes_the_job_is_refused() {
        for line in [
            "",
            "-",
            "--",
            "script.sh",
            "a b",
            "--x\n--wrap=id",
            "--comment=a\0b",
            ":",
            "-A :",
            "=x",
            "-=x",
            "---x",
            "#SBATCH -C a",
            "--=x",
            "; id",
        ] {
            assert!(matches!(words(line), Err(BadLine::NoOption { .. })), "{line:?}");
        }
        for line in [
            "--array=1-9",
            "-a 1-9",
            "-a1-9",
            "--wrap=id",
            "--wra=id",
            "wrap=id",
            "--wait",
            "-W",
            "--test-only",
            "--test",
            "-M all",
            "--clusters=all",
            "--help",
            "-h",
            "-V",
            "--ar 1",
        ] {
            assert!(matches!(words(line), Err(BadLine::Refused { .. })), "{line:?}");
        }
    }
}
