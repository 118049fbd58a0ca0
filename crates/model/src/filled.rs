//! How long the texts of a job's tasks can become, so that a short specification cannot ask for
//! texts without end.
//!
//! Looks at no single task: it counts as if the longest value of each field came together in one.

use crate::each::Each;
use crate::expand::{Piece, WORKDIR, pieces};
use crate::spec::JobSpec;
use std::collections::BTreeMap;

/// What is counted for the work directory, which only the node knows: longer than most.
const WORKDIR_BYTES: usize = 512;
/// The digits of a job's id or a task's index.
const NUMBER_BYTES: usize = 20;

/// The length of the longest value that can stand for each name.
pub(crate) struct Longest<'a>(BTreeMap<&'a str, usize>);

impl<'a> Longest<'a> {
    pub(crate) fn of(spec: &'a JobSpec) -> Self {
        let own = [("job", NUMBER_BYTES), ("index", NUMBER_BYTES), (WORKDIR, WORKDIR_BYTES)];
        let mut lengths = BTreeMap::from(own);
        lengths.extend(spec.each.iter().flat_map(Each::longest));
        Longest(lengths)
    }

    /// Bytes of the text with such values in it.
    pub(crate) fn filled(&self, text: &str) -> usize {
        let length = |piece: Piece<'_>| match piece {
            Piece::Text(text) => text.len(),
            Piece::Name(name) => self.0.get(name).copied().unwrap_or(name.len() + "{}".len()),
        };
        // Lengths of texts that are in memory, many times over: more than a machine can count is
        // too much as well.
        pieces(text).map(length).fold(0, usize::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use crate::spec::JobSpec;
    use crate::validate::validate;

    fn problems(json: &str) -> Vec<String> {
        let spec: JobSpec = serde_json::from_str(json).expect(json);
        let found = validate(&spec).err().unwrap_or_default();
        found.iter().map(ToString::to_string).collect()
    }

    /// Much in a field, and a word or a path that names it a few times.
    #[test]
    fn texts_that_fields_make_too_long_are_refused() {
        let long = "x".repeat(100_000);
        for (text, is_good) in [
            (r#""command":["echo","{b}"]"#, true),
            (r#""command":["echo","{a}"]"#, true),
            (r#""command":["echo","{a}{a}"]"#, false),
            (r#""command":["echo"],"env":{"V":"{a}{a}"}"#, false),
            (r#""command":["echo"],"stdout":"/tmp/{a}""#, false),
            (r#""command":["echo"],"inputs":["/tmp/{a}:x"]"#, false),
            (r#""command":["echo"],"outputs":["x:/tmp/{a}"]"#, false),
            (r#""command":["echo"],"workdir":"/tmp/{a}""#, false),
            (r#""command":["echo"],"basedir":"/tmp/{a}""#, false),
        ] {
            let json = format!(r#"{{{text},"each":[{{"a":"{long}","b":"1"}}]}}"#);
            let found = problems(&json);
            assert_eq!(found.is_empty(), is_good, "{text}: {found:?}");
        }
    }

    #[test]
    fn a_row_that_no_program_could_have_as_variables_is_refused() {
        for (bytes, is_good) in [(260_000, true), (263_000, false)] {
            let long = "x".repeat(bytes / 4);
            let fields = ["a", "b", "c", "d"].map(|name| format!(r#""{name}":"{long}""#)).join(",");
            let json = format!(r#"{{"command":["true"],"each":[{{"a":1}},{{{fields}}}]}}"#);
            assert_eq!(problems(&json).is_empty(), is_good, "{bytes}");
        }
    }

    /// Each word is short enough, all of them together are not.
    #[test]
    fn many_words_that_are_filled_are_counted_together() {
        let (words, long) = (vec![r#""{a}""#; 1_000].join(","), "x".repeat(10_000));
        let json = format!(r#"{{"command":["echo",{words}],"each":[{{"a":"{long}"}}]}}"#);
        assert_eq!(problems(&json).len(), 1);
    }
}
