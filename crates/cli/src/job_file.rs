//! A job file in YAML or JSON, read into specifications. Pure: it is given the text.
//!
//! Keys are checked before types, because "unknown key, did you mean" helps more than what a
//! parser says about the place where it lost its way.

mod keys;

use serde_json::Value;
use shipway_model::JobSpec;
use shipway_model::validate::{Problem, validate};
use std::error::Error;
use std::path::Path;

/// Jobs in one file; more of them belong into an array.
const MAX_DOCUMENTS: usize = 1_000;

#[derive(Debug, thiserror::Error)]
pub enum JobFileError {
    #[error("{place}: `{key}` is not a key of {of}")]
    UnknownKey { place: String, key: String, of: &'static str, nearest: Option<&'static str> },
    #[error("{place}: this is not a job file")]
    Syntax {
        place: String,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    #[error("{place}: there is no job in it")]
    Empty { place: String },
    #[error("{place}: {found} jobs; at most {MAX_DOCUMENTS}")]
    TooMany { place: String, found: usize },
    #[error("{place}: a job is written as keys and values; this is {found}")]
    NotAJob { place: String, found: &'static str },
    #[error("{place}: {problem}")]
    Problem { place: String, problem: Problem, more: usize },
}

impl JobFileError {
    pub fn hint(&self) -> Option<String> {
        match self {
            JobFileError::UnknownKey { nearest: Some(nearest), .. } => {
                Some(format!("did you mean `{nearest}`?"))
            }
            JobFileError::UnknownKey { of, .. } => {
                keys::known(of).map(|known| format!("known keys: {}", known.join(", ")))
            }
            JobFileError::Problem { more, .. } if *more > 0 => {
                Some(format!("{more} more problem(s) in this job"))
            }
            JobFileError::Empty { .. } | JobFileError::NotAJob { .. } => {
                Some("`shipway submit --help` shows a job file".into())
            }
            _ => None,
        }
    }
}

pub fn parse(name: &Path, text: &str) -> Result<Vec<JobSpec>, JobFileError> {
    let json = name.extension().is_some_and(|ext| ext.eq_ignore_ascii_case("json"))
        || text.trim_start().starts_with('{');
    let file = name.display().to_string();
    let values: Vec<Value> = read(json, &file, text)?;
    if values.iter().all(Value::is_null) {
        return Err(JobFileError::Empty { place: file });
    }
    if values.len() > MAX_DOCUMENTS {
        return Err(JobFileError::TooMany { place: file, found: values.len() });
    }
    for value in &values {
        check_keys(&file, text, value)?;
    }
    let specs: Vec<JobSpec> = read(json, &file, text)?;
    for (at, spec) in specs.iter().enumerate() {
        let place = if specs.len() == 1 { file.clone() } else { format!("{file}: job {}", at + 1) };
        first_problem(place, spec)?;
    }
    Ok(specs)
}

fn read<T: serde::de::DeserializeOwned>(
    json: bool,
    file: &str,
    text: &str,
) -> Result<Vec<T>, JobFileError> {
    if json {
        return serde_json::from_str(text).map(|job| vec![job]).map_err(|error| {
            let line = u64::try_from(error.line()).unwrap_or(0);
            JobFileError::Syntax { place: place(file, line), source: error.into() }
        });
    }
    // Only `true` and `false` are booleans: `on`, `yes` and `y` are words that people write.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        let line = error.location().map_or(0, |location| location.line());
        // The excerpt a terminal would show beside it spans lines; the place is named already.
        let source = error.without_snippet().to_string();
        JobFileError::Syntax { place: place(file, line), source: source.into() }
    })
}

fn place(file: &str, line: u64) -> String {
    if line == 0 { file.to_string() } else { format!("{file}, line {line}") }
}

fn check_keys(file: &str, text: &str, value: &Value) -> Result<(), JobFileError> {
    let found = match value {
        Value::Object(_) => "",
        Value::Null => "empty",
        Value::Array(_) => "a list",
        Value::Bool(_) | Value::Number(_) | Value::String(_) => "a single value",
    };
    if !found.is_empty() {
        return Err(JobFileError::NotAJob { place: file.into(), found });
    }
    let Some(unknown) = keys::first_unknown(value) else { return Ok(()) };
    Err(JobFileError::UnknownKey {
        place: place(file, line_of_key(text, &unknown.key)),
        nearest: keys::nearest(&unknown.key, unknown.known),
        of: unknown.of,
        key: unknown.key.chars().take(80).collect(),
    })
}

/// The first line that writes the key, from 1; 0 when it is written in some unusual way.
fn line_of_key(text: &str, key: &str) -> u64 {
    let writes = |line: &str| {
        let rest = line.find(key).map(|at| line[at + key.len()..].trim_start_matches(['"', '\'']));
        rest.is_some_and(|rest| rest.trim_start().starts_with(':'))
    };
    let at = text.lines().position(writes);
    at.and_then(|at| u64::try_from(at + 1).ok()).unwrap_or(0)
}

/// A relative directory is no problem here: the command makes it absolute.
fn first_problem(place: String, spec: &JobSpec) -> Result<(), JobFileError> {
    let mut problems = validate(spec).err().unwrap_or_default();
    problems.retain(|problem| problem.field != "workdir");
    if problems.is_empty() {
        return Ok(());
    }
    let more = problems.len() - 1;
    Err(JobFileError::Problem { place, problem: problems.swap_remove(0), more })
}

#[cfg(test)]
mod tests;
