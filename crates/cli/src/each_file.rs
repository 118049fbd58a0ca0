//! The rows of `--each`: plain lines, or one JSON object per line.

use serde_json::{Map, Value};
use shipway_model::each::{LINE, ManyValues};
use shipway_model::{Each, EachBuilder, TextList};

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
    #[error("line {line} is one too many")]
    Many {
        line: usize,
        #[source]
        source: ManyValues,
    },
}

/// The form of the first row is the form of all; blank lines are not rows.
pub fn parse(text: &str) -> Result<Each, BadRow> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let mut lines = lines.peekable();
    let objects = lines.peek().is_some_and(|(_, line)| line.trim_start().starts_with('{'));
    if !objects {
        let values: TextList = lines.map(|(_, line)| line).collect();
        return Ok(Each::from_columns(values.len(), vec![(LINE.into(), values)]));
    }
    let mut rows = EachBuilder::default();
    for (at, line) in lines {
        object(at + 1, line, &mut rows)?;
    }
    Ok(rows.finish())
}

fn object(line: usize, text: &str, rows: &mut EachBuilder) -> Result<(), BadRow> {
    let fields: Map<String, Value> =
        serde_json::from_str(text).map_err(|source| BadRow::NotObject { line, source })?;
    let many = |source| BadRow::Many { line, source };
    for (field, value) in fields {
        let text = match value {
            Value::Null => String::new(),
            Value::String(text) => text,
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Array(_) | Value::Object(_) => return Err(BadRow::NotPlain { line, field }),
        };
        rows.set(&field, &text).map_err(many)?;
    }
    rows.end_row().map_err(many)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_objects_become_rows() {
        let lines = parse("a b\n\n  c\r\n").expect("lines");
        let rows = |each: &Each| [0, 1].map(|at| each.values(at).collect::<Vec<_>>().join("|"));
        assert_eq!(rows(&lines), ["a b", "  c"]);
        let objects = parse("{\"seed\": 7, \"x\": \"a\"}\n{\"x\": true}").expect("objects");
        assert_eq!(objects.fields().collect::<Vec<_>>(), ["seed", "x"]);
        assert_eq!(rows(&objects), ["7|a", "|true"]);
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
