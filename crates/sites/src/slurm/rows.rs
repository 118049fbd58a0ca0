//! Rows of fields as we have Slurm's commands print them: what they share, and what it guards
//! against.
//!
//! Text, and not JSON: `--json` came with 21.08, has changed its shapes with almost each version
//! since, needs a plugin that sites leave out, and in its first versions ignores all filters.
//! `--format` is the same from the oldest version in use to the newest. Names and reasons may hold
//! any sign, `|` too, so fields are told apart by the unit separator, which nobody types.

/// U+001F.
pub(super) const BETWEEN: char = '\u{1f}';
/// Beyond this the rest is not looked at: more than all jobs or nodes a site has.
const MAX_ROWS: usize = 1_000_000;
/// A longer field is none that Slurm would print for what we ask.
const MAX_FIELD: usize = 64 * 1024;

/// Those with as many fields as were asked for, trimmed. A shell's greeting before them, and a name
/// with a line break in it, make rows of another length: they are passed over.
pub(super) fn rows<const FIELDS: usize>(text: &str) -> impl Iterator<Item = [&str; FIELDS]> {
    text.lines().take(MAX_ROWS).filter_map(|line| {
        let mut fields = [""; FIELDS];
        let mut parts = line.split(BETWEEN);
        for field in &mut fields {
            *field = parts.next().filter(|part| part.len() <= MAX_FIELD)?.trim();
        }
        parts.next().is_none().then_some(fields)
    })
}

/// `%i`, `%j` and so on, with the separator between them.
pub(super) fn format(fields: &[&str]) -> String {
    fields.join(&BETWEEN.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_another_length_are_passed_over() {
        let text = "Welcome!\na\u{1f}b|c\nx\u{1f}y\u{1f}z\n  1 \u{1f}\n\n\u{1f}\r\n";
        let read: Vec<[&str; 2]> = rows(text).collect();
        assert_eq!(read, [["a", "b|c"], ["1", ""], ["", ""]]);
        let long = format!("{}\u{1f}b", "a".repeat(MAX_FIELD + 1));
        assert_eq!(rows::<2>(&long).count(), 0);
    }
}
