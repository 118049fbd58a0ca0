//! The files of a task: where it runs, where its streams lead, what is brought to it and taken
//! from it.

use super::command_table::Key;
use super::error::{SubmitError, Warning};
use super::plan::Values;
use super::quoting::without_quotes;

pub(super) const FILES: &[Key] = &[
    Key::InitialDir,
    Key::Input,
    Key::Output,
    Key::Error,
    Key::Log,
    Key::TransferInputFiles,
    Key::TransferOutputFiles,
    Key::TransferOutputRemaps,
    Key::ShouldTransferFiles,
    Key::WhenToTransferOutput,
];

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Files {
    /// Where relative paths begin; absolute.
    pub directory: String,
    /// Absolute, like the other three; `None` is nothing, or `/dev/null`.
    pub input: Option<String>,
    pub output: Option<String>,
    pub error: Option<String>,
    pub log: Option<String>,
    /// Absolute.
    pub inputs: Vec<String>,
    /// `None`: whatever is new.
    pub outputs: Option<Vec<String>>,
    /// From a name in the task's folder to a path.
    pub remaps: Vec<(String, String)>,
    pub transfer: Transfer,
    pub taken: Taken,
}

/// Whether files are brought and taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transfer {
    Yes,
    No,
    IfNeeded,
}

/// After which ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Taken {
    OnExit,
    OnSuccess,
}

pub(super) fn files(
    values: &Values<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<Files, SubmitError> {
    let here = &values.scope.setting.directory;
    let directory = values.get(Key::InitialDir)?.map_or_else(|| here.clone(), |d| join(here, &d));
    let inside = |key| -> Result<Option<String>, SubmitError> {
        let file = values.get(key)?.filter(|file| &**file != "/dev/null");
        Ok(file.map(|file| join(&directory, &file)))
    };
    let listed = |key| -> Result<Option<Vec<String>>, SubmitError> {
        Ok(values.get(key)?.map(|text| list(without_quotes(&text))))
    };
    let (transfer, taken) = transfer(values)?;
    let (inputs, outputs) = (listed(Key::TransferInputFiles)?, listed(Key::TransferOutputFiles)?);
    if let Some(url) = inputs.iter().flatten().find(|name| name.contains("://")) {
        let why = format!("`{url}` would have to be fetched; name files of this machine");
        return Err(values.refused(Key::TransferInputFiles, why));
    }
    if transfer == Transfer::No && (inputs.is_some() || outputs.is_some()) {
        let what = "is `no`, but files are named that are to be transferred";
        return Err(values.wrong(Key::ShouldTransferFiles, what));
    }
    let remaps = remaps(values, &directory)?;
    if let Some(outputs) = &outputs {
        let unused = remaps.iter().filter(|(name, _)| !outputs.contains(name));
        warnings.extend(unused.map(|(name, _)| {
            let what = format!("names `{name}`, which is not in transfer_output_files");
            values.warning(Key::TransferOutputRemaps, what)
        }));
    }
    Ok(Files {
        input: inside(Key::Input)?,
        output: inside(Key::Output)?,
        error: inside(Key::Error)?,
        log: inside(Key::Log)?,
        inputs: inputs.iter().flatten().map(|name| join(&directory, name)).collect(),
        outputs,
        remaps,
        transfer,
        taken,
        directory,
    })
}

/// Separated by commas.
fn list(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(str::to_string).collect()
}

fn transfer(values: &Values<'_>) -> Result<(Transfer, Taken), SubmitError> {
    let should = values.get(Key::ShouldTransferFiles)?;
    let when = values.get(Key::WhenToTransferOutput)?;
    let transfer = match should.as_deref().map(str::to_ascii_uppercase).as_deref() {
        None => None,
        Some("YES" | "ALWAYS" | "TRUE") => Some(Transfer::Yes),
        Some("NO" | "NEVER" | "FALSE") => Some(Transfer::No),
        Some("IF_NEEDED" | "AUTO" | "AUTOMATIC") => Some(Transfer::IfNeeded),
        Some(_) => {
            let what = "is neither yes, no nor if_needed";
            return Err(values.wrong(Key::ShouldTransferFiles, what));
        }
    };
    let (taken, evicted) = match when.as_deref().map(str::to_ascii_uppercase).as_deref() {
        None | Some("ON_EXIT") => (Taken::OnExit, false),
        Some("ON_EXIT_OR_EVICT") => (Taken::OnExit, true),
        Some("ON_SUCCESS") => (Taken::OnSuccess, false),
        Some("NEVER") if transfer == Some(Transfer::No) => (Taken::OnExit, false),
        Some(_) => {
            let what = "is neither on_exit, on_exit_or_evict nor on_success";
            return Err(values.wrong(Key::WhenToTransferOutput, what));
        }
    };
    let contradiction = match transfer {
        Some(Transfer::No) => when.is_some_and(|when| !when.eq_ignore_ascii_case("never")),
        Some(Transfer::IfNeeded) => evicted,
        Some(Transfer::Yes) | None => false,
    };
    if contradiction {
        let what = "contradicts should_transfer_files";
        return Err(values.wrong(Key::WhenToTransferOutput, what));
    }
    let usual = if evicted { Transfer::Yes } else { Transfer::IfNeeded };
    Ok((transfer.unwrap_or(usual), taken))
}

/// `name = path; name = path`, with `\;` and `\=` for letters of a name.
fn remaps(values: &Values<'_>, directory: &str) -> Result<Vec<(String, String)>, SubmitError> {
    let Some(text) = values.get(Key::TransferOutputRemaps)? else { return Ok(Vec::new()) };
    let mut pairs = Vec::new();
    for pair in split_at(without_quotes(&text), ';') {
        if pair.trim().is_empty() {
            continue;
        }
        let mut sides = split_at(&pair, '=').into_iter().map(|side| side.trim().to_string());
        match (sides.next(), sides.next(), sides.next()) {
            (Some(name), Some(path), None) if !name.is_empty() && !path.is_empty() => {
                pairs.push((name, join(directory, &path)));
            }
            _ => {
                let what = format!("`{pair}` is not NAME = PATH");
                return Err(values.wrong(Key::TransferOutputRemaps, what));
            }
        }
    }
    Ok(pairs)
}

fn split_at(text: &str, mark: char) -> Vec<String> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == mark {
            parts.push(std::mem::take(&mut part));
            continue;
        }
        match (letter, letters.next_if(|next| letter == '\\' && *next == mark)) {
            (_, Some(mark)) => part.push(mark),
            (letter, None) => part.push(letter),
        }
    }
    parts.push(part);
    parts
}

/// A path as seen from a folder, without `//` and `/./`.
pub(super) fn join(folder: &str, path: &str) -> String {
    let whole = if path.starts_with('/') { path.to_string() } else { format!("{folder}/{path}") };
    let parts = whole.split('/').filter(|part| !part.is_empty() && *part != ".");
    let mut out = String::with_capacity(whole.len());
    for part in parts {
        out.push('/');
        out.push_str(part);
    }
    if out.is_empty() || whole.ends_with('/') {
        out.push('/');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_put_together() {
        assert_eq!(join("/home/u", "a/b"), "/home/u/a/b");
        assert_eq!(join("/home/u/", "./a//b"), "/home/u/a/b");
        assert_eq!(join("/home", "/x"), "/x");
        assert_eq!(join("/home", "d/"), "/home/d/");
        assert_eq!(join("/", "."), "/");
    }

    #[test]
    fn escaped_marks_are_letters() {
        assert_eq!(split_at(r"a\;b;c", ';'), ["a;b", "c"]);
    }
}
