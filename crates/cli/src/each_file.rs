//! The rows of `--each`: plain lines, or one JSON object per line.

use serde_json::{Map, Value};
use shipway_model::Each;
use std::collections::BTreeMap;

#[derive(Debug, thiserror::Error)]
pub enum BadRow {
    #[error("line {line} is not a JSON object, as the first line is")]
    NotObject {
        line: usize,
        #[source]
        source: serde_json::Error,
    },
    #[error("line {line}: the field `{field}` is a list or an object, not a plain value")]
    NotPlain { line: usize, field: String },
}

/// The form of the first row is the form of all; blank lines are not rows.
pub fn parse(text: &str) -> Result<Each, BadRow> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let mut lines = lines.peekable();
    let objects = lines.peek().is_some_and(|(_, line)| line.trim_start().starts_with('{'));
    if !objects {
        let rows = lines.map(|(_, line)| vec![line.to_string()]).collect();
        return Ok(Each { fields: vec!["line".into()], rows });
    }
    let rows = lines.map(|(at, line)| object(at + 1, line)).collect::<Result<_, _>>()?;
    Ok(Each::from_rows(rows))
}

fn object(line: usize, text: &str) -> Result<BTreeMap<String, String>, BadRow> {
    let fields: Map<String, Value> =
        serde_json::from_str(text).map_err(|source| BadRow::NotObject { line, source })?;
    let plain = |(field, value): (String, Value)| {
        let text = match value {
            Value::Null => String::new(),
            Value::String(text) => text,
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Array(_) | Value::Object(_) => return Err(BadRow::NotPlain { line, field }),
        };
        Ok((field, text))
    };
    fields.into_iter().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_objects_become_rows() {
        let lines = parse("a b\n\n  c\r\n").expect("lines");
        assert_eq!(lines.rows, [["a b"], ["  c"]]);
        let objects = parse("{\"seed\": 7, \"x\": \"a\"}\n{\"x\": true}").expect("objects");
        assert_eq!(objects.fields, ["seed", "x"]);
        assert_eq!(objects.rows, [["7", "a"], ["", "true"]]);
    }

    #[test]
    fn a_bad_row_is_named_by_its_line() {
        for (text, expected) in [
            ("{\"a\": 1}\nplain", "line 2 is not a JSON object"),
            ("{\"a\": 1}\n\n{\"b\": [1]}", "line 3: the field `b`"),
            ("{broken", "line 1 is not a JSON object"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
