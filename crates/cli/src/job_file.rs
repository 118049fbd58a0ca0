//! A job file in YAML or JSON, read into specifications. Pure: it is given the text.
//!
//! Keys are checked before types, because "unknown key, did you mean" helps more than what a
//! parser says about the place where it lost its way. What is wrong with a value is said by
//! `job_form`, in words of ours.

use serde::Deserialize;
use serde_json::Value;
use shipway_api::job_form::{self, Language, Wrong, plain_words};
use shipway_api::together::{MAX_TOGETHER, Named, in_turn};
use shipway_api::types::Member;
use shipway_model::validate::Problem;
use shipway_model::{AfterNamed, JobSpec};
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum JobFileError {
    #[error("{place}: {wrong}")]
    Wrong { place: String, wrong: Wrong },
    #[error("{place}: this {language} cannot be read: {said}")]
    Syntax { place: String, language: &'static str, said: String },
    /// It is YAML or JSON, but not a job; and no single value is to blame.
    #[error("{place}: this is not a job: {said}")]
    Unreadable { place: String, said: String },
    #[error("{place}: there is no job in it")]
    Empty { place: String },
    #[error("{place}: {found} jobs; at most {MAX_TOGETHER}")]
    TooMany { place: String, found: usize },
    #[error("{place}: a job is written as keys and values; this is {found}")]
    NotAJob { place: String, found: &'static str },
    #[error("{place}: {problem}")]
    Problem { place: String, problem: Problem, more: usize },
}

const SEE_HELP: &str = "`shipway submit --help` shows a job file";

impl JobFileError {
    pub fn hint(&self) -> Option<String> {
        match self {
            JobFileError::Wrong { wrong, .. } => wrong.hint().or_else(|| Some(SEE_HELP.into())),
            JobFileError::Problem { more: 0, .. } => {
                Some("change it in the file; `shipway submit --dry-run FILE` checks it".into())
            }
            JobFileError::Problem { more: 1, .. } => {
                Some("there is one more problem in this job".into())
            }
            JobFileError::Problem { more, .. } => {
                Some(format!("there are {more} more problems in this job"))
            }
            JobFileError::TooMany { .. } => {
                Some("one job may have many tasks: see `array` and `each`".into())
            }
            JobFileError::Syntax { .. }
            | JobFileError::Unreadable { .. }
            | JobFileError::Empty { .. }
            | JobFileError::NotAJob { .. } => Some(SEE_HELP.into()),
        }
    }
}

/// The jobs, each with those of the same file that it waits for.
pub fn parse(name: &Path, text: &str) -> Result<Vec<Member>, JobFileError> {
    let json = name.extension().is_some_and(|ext| ext.eq_ignore_ascii_case("json"))
        || text.trim_start().starts_with('{');
    let language = if json { Language::Json } else { Language::Yaml };
    let file = name.display().to_string();
    let mut values: Vec<Value> = read(language, text).map_err(|(line, said)| {
        let language = if json { "JSON" } else { "YAML" };
        JobFileError::Syntax { place: place(&file, line), language, said }
    })?;
    if values.iter().all(Value::is_null) {
        return Err(JobFileError::Empty { place: file });
    }
    if values.len() > MAX_TOGETHER {
        return Err(JobFileError::TooMany { place: file, found: values.len() });
    }
    for value in &values {
        check_keys(&file, text, value)?;
    }
    let named: Vec<Vec<AfterNamed>> = values.iter_mut().map(take_names).collect();
    let read: Result<Vec<JobSpec>, _> = if named.iter().all(Vec::is_empty) {
        read(language, text)
    } else {
        // What is left of them; without the lines that only the text has.
        values
            .iter()
            .map(|job| JobSpec::deserialize(job).map_err(|error| in_no_line(&error)))
            .collect()
    };
    let specs = read.map_err(|(line, said)| {
        let wrong = values.iter().find_map(|job| job_form::wrong_value(job, language));
        match wrong {
            Some(wrong) => {
                let line = if line == 0 { line_of_key(text, wrong.key()) } else { line };
                JobFileError::Wrong { place: place(&file, line), wrong }
            }
            None => JobFileError::Unreadable { place: place(&file, line), said },
        }
    })?;
    for (at, spec) in specs.iter().enumerate() {
        let place = if specs.len() == 1 { file.clone() } else { format!("{file}: job {}", at + 1) };
        first_problem(place, spec)?;
    }
    let jobs = specs.into_iter().zip(named).map(|(spec, after)| Member { spec, after });
    let jobs: Vec<Member> = jobs.collect();
    let names: Vec<Named<'_>> = jobs.iter().map(Member::named).collect();
    match in_turn(&names) {
        Ok(_) => Ok(jobs),
        Err(problem) => Err(JobFileError::Problem { place: file, problem, more: 0 }),
    }
}

fn in_no_line(error: &serde_json::Error) -> (u64, String) {
    (0, plain_words(&error.to_string()))
}

/// What of `after` is no job's id, and so the name of another job of the file. What begins like an
/// id stays, to be complained about.
fn take_names(job: &mut Value) -> Vec<AfterNamed> {
    let Some(Value::Array(after)) = job.get_mut("after") else { return Vec::new() };
    let name = |value: &Value| {
        let text = value.as_str()?;
        let word = text.split(':').next().unwrap_or(text);
        let is_like_an_id = word.bytes().all(|byte| byte.is_ascii_digit());
        if is_like_an_id { None } else { text.parse::<AfterNamed>().ok() }
    };
    let names = after.iter().filter_map(name).collect();
    after.retain(|value| name(value).is_none());
    names
}

/// Or the line (0: not known) and what is wrong there.
pub(crate) fn read<T: serde::de::DeserializeOwned>(
    language: Language,
    text: &str,
) -> Result<Vec<T>, (u64, String)> {
    if language == Language::Json {
        return serde_json::from_str(text).map(|job| vec![job]).map_err(|error| {
            (u64::try_from(error.line()).unwrap_or(0), plain_words(&error.to_string()))
        });
    }
    // Only `true` and `false` are booleans: `on`, `yes` and `y` are words that people write.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        let line = error.location().map_or(0, |location| location.line());
        // The excerpt a terminal would show beside it spans lines; the place is named already.
        (line, yaml_words(&error.without_snippet().to_string()))
    })
}

/// What the reader of YAML says, in words for who wrote the file and not for its programmer.
fn yaml_words(said: &str) -> String {
    const WORDS: &[(&str, &str)] = &[
        ("budget breached: Nodes", "it has too many values, aliases written out; use JSON"),
        ("budget breached", "it is too large, aliases written out"),
        ("recursive references", "an alias stands inside of what it names"),
        ("unknown anchor", "an alias (*name) names nothing (&name)"),
        ("non-finite", "not every number can be used: .nan and .inf cannot"),
        ("!!binary", "a job is made of texts; !!binary is not taken"),
        ("expected string scalar", "a text is wanted here"),
    ];
    if let Some((_, rest)) = said.split_once("duplicate mapping key: ") {
        let key = rest.split(", set ").next().unwrap_or(rest);
        return format!("the key `{key}` is given twice");
    }
    let known = WORDS.iter().find(|(word, _)| said.contains(word));
    known.map_or_else(|| plain_words(said), |(_, plain)| (*plain).to_string())
}

pub(crate) fn place(file: &str, line: u64) -> String {
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
    let Some(wrong) = job_form::unknown_key(value) else { return Ok(()) };
    Err(JobFileError::Wrong { place: place(file, line_of_key(text, wrong.key())), wrong })
}

/// The first line that writes the key, from 1; 0 when it is written in some unusual way.
pub(crate) fn line_of_key(text: &str, key: &str) -> u64 {
    let writes = |line: &str| {
        let rest = line.find(key).map(|at| line[at + key.len()..].trim_start_matches(['"', '\'']));
        rest.is_some_and(|rest| rest.trim_start().starts_with(':'))
    };
    let at = text.lines().position(writes);
    at.and_then(|at| u64::try_from(at + 1).ok()).unwrap_or(0)
}

/// A relative path is no problem here: the command makes it absolute.
fn first_problem(place: String, spec: &JobSpec) -> Result<(), JobFileError> {
    let mut problems = crate::expressions::problems(spec);
    problems.retain(|problem| !["workdir", "image", "basedir"].contains(&problem.field));
    if problems.is_empty() {
        return Ok(());
    }
    let more = problems.len() - 1;
    Err(JobFileError::Problem { place, problem: problems.swap_remove(0), more })
}

#[cfg(test)]
mod tests;
