//! Why a text is not an expression or an ad, and where.

use std::fmt::Write as _;

/// A line of the text, at most so many letters of it, is shown with a caret under the place.
pub(crate) const SHOWN: usize = 60;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {}: {what}", .at + 1)]
pub struct ParseError {
    /// Bytes before the place.
    pub at: usize,
    pub what: String,
}

impl ParseError {
    pub(crate) fn new(at: usize, what: impl Into<String>) -> ParseError {
        ParseError { at, what: what.into() }
    }

    /// The piece of the text around the place, and a caret under it.
    pub fn show(&self, source: &[u8]) -> String {
        let at = self.at.min(source.len());
        let (head, tail) = source.split_at(at);
        let starts = head.iter().rposition(|byte| *byte == b'\n').map_or(0, |nl| nl + 1);
        let ends = tail.iter().position(|byte| *byte == b'\n');
        let ends = ends.map_or(source.len(), |nl| at + nl);
        let from = starts.max(at.saturating_sub(SHOWN / 2));
        let until = ends.min(from + SHOWN);
        let plain = |bytes: &[u8]| -> String {
            let text = String::from_utf8_lossy(bytes);
            text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
        };
        let part = |from: usize, until: usize| plain(source.get(from..until).unwrap_or_default());
        let (before, after) = (part(from, at.min(until)), part(at.min(until), until));
        let mut shown = String::new();
        let mark = if from > starts { "… " } else { "" };
        let more = if until < ends { " …" } else { "" };
        let _ = writeln!(shown, "{mark}{before}{after}{more}");
        let indent = mark.chars().count() + before.chars().count();
        let _ = write!(shown, "{:indent$}^", "");
        shown
    }
}

#[cfg(test)]
mod tests {
    use crate::parse_expression;

    #[test]
    fn the_caret_stands_under_the_place() {
        let source = "Memory >= 1024 && && HasAVX2";
        let error = parse_expression(source).expect_err("two operators");
        assert_eq!(error.show(source.as_bytes()), format!("{source}\n                  ^"));
        assert!(error.to_string().starts_with("column 19: "), "{error}");
    }
}
