//! What a task runs: the program, its words and its variables.

use super::command_table::Key;
use super::error::{SubmitError, Wrong};
use super::evaluate;
use super::plan::Values;
use super::quoting;
use super::task_files::join;
use std::collections::BTreeMap;

pub(super) const PROGRAM: &[Key] = &[
    Key::Executable,
    Key::Arguments,
    Key::Arguments2,
    Key::AllowArgumentsV1,
    Key::Shell,
    Key::TransferExecutable,
    Key::ContainerImage,
    Key::DockerImage,
];
pub(super) const VARIABLES: &[Key] =
    &[Key::Environment, Key::Environment2, Key::AllowEnvironmentV1];
pub(super) const OWN_VARIABLES: &[Key] = &[Key::GetEnv];

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Program {
    /// A path from the root where it is transferred, else as written.
    pub executable: String,
    /// Its last name.
    pub name: String,
    pub arguments: Vec<String>,
    /// It is a file of the submitter's, to be brought to the task.
    pub transferred: bool,
}

pub type Variables = BTreeMap<String, String>;

pub(super) fn program(values: &Values<'_>) -> Result<Program, SubmitError> {
    if let Some(line) = values.get(Key::Shell)? {
        let arguments = vec!["-c".to_string(), line.to_string()];
        let (executable, name) = ("/bin/sh".to_string(), "sh".to_string());
        return Ok(Program { executable, name, arguments, transferred: false });
    }
    let missing = || {
        let what = "a job needs one; what an image starts by itself is not known here";
        Wrong::value("executable", what).at(&values.plan.queued.place)
    };
    let executable = values.get(Key::Executable)?.ok_or_else(missing)?;
    let has_image =
        values.get(Key::ContainerImage)?.is_some() || values.get(Key::DockerImage)?.is_some();
    let in_image = has_image && executable.starts_with('/');
    let transferred = match values.get(Key::TransferExecutable)? {
        // Only a word that begins with F says no, as with HTCondor.
        Some(text) => !text.starts_with(['f', 'F']),
        // A path from the root is one of the image, where there is one.
        None => !in_image,
    };
    let arguments = arguments(values)?;
    let here = &values.scope.setting.directory;
    let executable = if transferred { join(here, &executable) } else { executable.to_string() };
    let name = executable.rsplit('/').next().unwrap_or_default().to_string();
    Ok(Program { executable, name, arguments, transferred })
}

fn arguments(values: &Values<'_>) -> Result<Vec<String>, SubmitError> {
    let (old, new) = (values.get(Key::Arguments)?, values.get(Key::Arguments2)?);
    let wrong = |key| move |why: String| values.wrong(key, why);
    match (old, new) {
        (Some(_), Some(_)) if !values.truth(Key::AllowArgumentsV1, false)? => {
            let what = "stands beside `arguments`; say allow_arguments_v1 = true if it should";
            Err(values.wrong(Key::Arguments2, what))
        }
        (_, Some(new)) => quoting::new_arguments(&new).map_err(wrong(Key::Arguments2)),
        (Some(old), None) => quoting::arguments(&old).map_err(wrong(Key::Arguments)),
        (None, None) => Ok(Vec::new()),
    }
}

pub(super) fn variables(values: &Values<'_>) -> Result<Variables, SubmitError> {
    let (old, new) = (values.get(Key::Environment)?, values.get(Key::Environment2)?);
    let wrong = |key| move |why: String| values.wrong(key, why);
    let written = match (old, new) {
        (Some(_), Some(_)) if !values.truth(Key::AllowEnvironmentV1, false)? => {
            let what = "stands beside `environment`; say allow_environment_v1 = true if it should";
            return Err(values.wrong(Key::Environment2, what));
        }
        (_, Some(new)) => quoting::new_variables(&new).map_err(wrong(Key::Environment2))?,
        (Some(old), None) => quoting::variables(&old).map_err(wrong(Key::Environment))?,
        (None, None) => Vec::new(),
    };
    Ok(written.into_iter().collect())
}

/// Those of the caller that `getenv` takes along.
pub(super) fn own_variables(values: &Values<'_>) -> Result<Variables, SubmitError> {
    let Some(text) = values.get(Key::GetEnv)? else { return Ok(Variables::new()) };
    let all = || values.scope.outside.variables().into_iter();
    match evaluate::truth(&text) {
        Some(false) => return Ok(Variables::new()),
        Some(true) => return Ok(all().collect()),
        None => {}
    }
    let words = text.split([',', ';', ' ', '\t', '\r', '\n']).filter(|word| !word.is_empty());
    let (without, with): (Vec<&str>, Vec<&str>) = words.partition(|word| word.starts_with('!'));
    let named = |patterns: &[&str], name: &str| {
        patterns.iter().any(|pattern| matches(pattern.trim_start_matches('!'), name))
    };
    let taken = |name: &str| (with.is_empty() || named(&with, name)) && !named(&without, name);
    Ok(all().filter(|(name, _)| taken(name)).collect())
}

/// A name with one `*` in it, in any case.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_ascii_lowercase(), name.to_ascii_lowercase());
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => {
            name.len() >= before.len() + after.len()
                && name.starts_with(before)
                && name.ends_with(after)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_of_getenv() {
        assert!(matches("PATH", "path") && matches("CUDA_*", "CUDA_HOME") && matches("*", ""));
        assert!(matches("*_DIR", "X_DIR") && !matches("A*A", "A") && !matches("CUDA_*", "CUDA"));
    }
}
