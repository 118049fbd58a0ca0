//! A job as people write it, in JSON or YAML: which keys it may have and what each value must be.
//!
//! Asked only when a job could not be read, to say in plain words what is wrong with it: what a
//! parser says about its own types helps nobody. Reading a job is serde's work, and whether it can
//! run is asked of `validate`.
//!
//! - `keys.rs`   known keys, and the nearest one to a key that is not
//! - `values.rs` what each value must be
//! - `sketch.rs` what was written, in little memory

mod keys;
mod sketch;
mod values;

pub(crate) use keys::nearest;
pub use sketch::{Sketch, sketch};

use serde_json::Value;

/// Letters of somebody's text that a message repeats.
const QUOTED: usize = 60;

/// What a job was written in. In YAML a bare number or `true` may stand for a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Json,
    Yaml,
}

/// The first thing that is wrong with a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    #[error("`{key}` is not a key of {of}")]
    Key { key: String, of: &'static str, known: &'static [&'static str] },
    /// `said` is our own complaint about a text; otherwise the value is of another kind.
    #[error("{}", value_text(.path, .wanted, .found, .said.as_deref()))]
    Value { path: String, wanted: &'static str, found: String, said: Option<String>, quote: bool },
}

fn value_text(path: &str, wanted: &str, found: &str, said: Option<&str>) -> String {
    match said {
        Some(said) => format!("`{path}`: {said}"),
        None => format!("`{path}` must be {wanted}, not {found}"),
    }
}

impl Wrong {
    pub fn hint(&self) -> Option<String> {
        match self {
            Wrong::Key { key, known, .. } => Some(match keys::nearest(key, known) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => format!("known keys: {}", known.join(", ")),
            }),
            Wrong::Value { quote: true, .. } => Some("put it in quotes to make it a text".into()),
            Wrong::Value { .. } => None,
        }
    }

    /// The key that the trouble is at.
    pub fn key(&self) -> &str {
        match self {
            Wrong::Key { key, .. } => key,
            Wrong::Value { path, .. } => path.rsplit('.').next().unwrap_or(path),
        }
    }
}

/// Keys come first: of a misspelt key nobody wants to hear that its value is odd.
pub fn unknown_key(job: &Value) -> Option<Wrong> {
    keys::first_unknown(job)
}

pub fn wrong_value(job: &Value, language: Language) -> Option<Wrong> {
    values::first_wrong(job, language)
}

/// The first thing that is wrong with the jobs in a request's body, if it has any.
pub fn wrong_in_body(body: &[u8]) -> Option<Wrong> {
    let Sketch { value, is_whole } = sketch(body)?;
    let several = value.get("jobs").and_then(Value::as_array).into_iter().flatten();
    let jobs = std::iter::once(&value).chain(several).filter_map(|one| one.get("spec"));
    // A value that was cut may look wrong where it is not.
    let wrong =
        |job| unknown_key(job).or_else(|| wrong_value(job, Language::Json).filter(|_| is_whole));
    jobs.filter(|job| job.is_object()).find_map(wrong)
}

/// What serde says, without the words that only its users know.
pub fn plain_words(error: &str) -> String {
    const WORDS: &[(&str, &str)] = &[
        ("EOF while parsing a", "it ends inside a"),
        ("trailing characters", "something follows its end"),
        ("key must be a string", "a key stands in double quotes"),
        ("recursion limit exceeded", "it is nested too deep"),
        ("invalid type: ", "this is "),
        ("invalid value: ", "this is "),
        ("invalid length ", "this has a length of "),
        ("unit variant", "nothing"),
        ("data did not match any variant of untagged enum Written", "this cannot be read"),
        (", expected ", ", not "),
        ("not one of", "known are"),
        ("unknown field ", "unknown key "),
        ("missing field ", "missing key "),
        ("duplicate field ", "written twice: "),
        ("unknown variant ", "unknown word "),
        ("floating point `", "the number `"),
        ("integer `", "the number `"),
        ("string \"", "the text \""),
        ("boolean `", "the yes-or-no value `"),
        ("sequence", "list"),
        ("a string", "a text"),
        ("a boolean", "true or false"),
        ("a map", "keys and values"),
        (" map,", " keys and values,"),
        ("null", "nothing"),
        ("not i32", "not a whole number"),
        ("not i64", "not a whole number"),
        ("not u32", "not a whole number from 0"),
        ("not u64", "not a whole number from 0"),
        ("not usize", "not a whole number from 0"),
        ("invalid digit found in string", "not a whole number from 0"),
        ("number too large to fit in target type", "too large a number"),
        ("cannot parse integer from empty string", "a number is missing"),
        ("provided string was not `true` or `false`", "not `true` or `false`"),
    ];
    let mut text: String = error.split(" at line ").next().unwrap_or(error).into();
    for (word, plain) in WORDS {
        text = text.replace(word, plain);
    }
    // The names of our structures say nothing to anybody outside.
    match text.split_once("not struct ") {
        Some((before, after)) => {
            let rest = after.split_once(' ').map_or("", |(_, rest)| rest);
            format!("{before}not keys and values {rest}").trim_end().to_string()
        }
        None => text,
    }
}

/// As much of a text as a message repeats.
fn quoted(text: &str) -> String {
    let mut short: String = text.chars().take(QUOTED).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_serde_become_plain() {
        for (said, plain) in [
            ("invalid type: integer `7`, expected a string", "this is the number `7`, not a text"),
            ("missing field `user` at line 1 column 2", "missing key `user`"),
            (
                "invalid type: sequence, expected struct Submission with 1 element",
                "this is list, not keys and values with 1 element",
            ),
            ("limit: invalid digit found in string", "limit: not a whole number from 0"),
        ] {
            assert_eq!(plain_words(said), plain);
        }
    }
}
