//! From a text to its logical lines: trimmed, and put together where `\` ends one.
//!
//! What a line means is said elsewhere. As with HTCondor, a comment inside a continued line is part
//! of it.

use super::error::{SourcePosition, SubmitError, Wrong};
use super::limits::MAX_LINE_BYTES;

#[derive(Debug)]
pub(super) struct Lines<'a> {
    file: String,
    rest: std::str::Lines<'a>,
    number: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn new(file: &str, text: &'a str) -> Self {
        Lines { file: file.into(), rest: text.lines(), number: 0 }
    }

    /// Of the last line that was read.
    pub(super) fn place(&self) -> SourcePosition {
        SourcePosition { file: self.file.clone(), line: self.number }
    }

    /// The next logical line; it may be empty.
    pub(super) fn next(&mut self) -> Result<Option<String>, SubmitError> {
        let mut whole = String::new();
        let mut begun = false;
        for line in self.rest.by_ref() {
            self.number += 1;
            begun = true;
            let comment = whole.is_empty() && line.trim_start().starts_with('#');
            whole.push_str(line.trim_matches(is_space));
            if whole.len() > MAX_LINE_BYTES {
                return Err(Wrong::LongLine.at(&self.place()));
            }
            if !whole.ends_with('\\') || comment {
                return Ok(Some(whole));
            }
            whole.pop();
        }
        Ok(begun.then_some(whole))
    }
}

/// As C's `isspace` has it.
pub(super) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_trimmed_and_joined() {
        let text = "  a = 1 \\\n   2\\\n3  \n# no \\\nb\n\nlast \\";
        let mut lines = Lines::new("x", text);
        let mut read = Vec::new();
        while let Some(line) = lines.next().expect("short") {
            read.push((line, lines.place().line));
        }
        let expected = [("a = 1 23", 3), ("# no \\", 4), ("b", 5), ("", 6), ("last ", 7)];
        assert_eq!(read, expected.map(|(line, at)| (line.to_string(), at)));
    }

    #[test]
    fn a_line_without_end_is_refused_where_it_is() {
        let text = "a\n".to_string() + &"x".repeat(MAX_LINE_BYTES + 1);
        let mut lines = Lines::new("x", &text);
        lines.next().expect("short");
        assert_eq!(
            lines.next().expect_err("long").to_string().split(':').next(),
            Some("x, line 2")
        );
    }
}
