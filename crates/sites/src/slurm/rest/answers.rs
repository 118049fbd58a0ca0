//! What short answers of slurmrestd mean, and what it says where it did not do it. Pure.

use super::super::words::{cut, trouble, unreadable};
use super::shapes::{Complaint, Complaints, Number, Words, whole};
use crate::batch::{EngineError, EngineId, EngineTrouble};
use serde::Deserialize;

/// Its words for an error that it does not know either: v0.0.38, and later ones where the
/// controller is away. Who may not do something is told so in other words.
const UNSAID: [&str; 2] = ["Unspecified error", "Operation not permitted"];
/// Its word for none.
const NO_ERROR: &str = "No error";
/// Of the codes of HTTP: whoever asked is not known.
const UNKNOWN_CALLER: u16 = 401;
/// v0.0.38 says no more than that something went wrong where the controller does not take a token.
const DOUBT: &str = "it says no more; the token may be wrong or over, or the controller away";
/// Jobs that are over: there is nothing to cancel.
const OVER: [&str; 2] = ["Invalid job id specified", "Job/step already completing or completed"];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Submitted {
    job_id: Number,
    errors: Complaints,
}

/// A job with a number was taken, whatever else is said: that it is held is told as an error.
pub(super) fn submitted(act: &str, status: u16, answer: &[u8]) -> Result<EngineId, EngineError> {
    let Ok(read) = whole::<Submitted>(answer) else { return Err(odd(act, status, answer)) };
    match read.job_id.0.filter(|id| *id > 0) {
        Some(id) => Ok(EngineId(id.to_string())),
        None if read.errors.0.is_empty() && is_good(status) => Err(odd(act, status, answer)),
        None => Err(failed(act, status, &read.errors)),
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cancelled {
    errors: Complaints,
    status: Ends,
}

/// Later versions say of each job what became of it.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
struct Ends(Vec<EndOf>);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EndOf {
    error: EndError,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EndError {
    string: Words,
    message: Words,
    code: Number,
}

pub(super) fn cancelled(act: &str, status: u16, answer: &[u8]) -> Result<(), EngineError> {
    let Ok(read) = whole::<Cancelled>(answer) else { return Err(odd(act, status, answer)) };
    let ends = read.status.0.into_iter().filter(|end| end.error.code.0.unwrap_or(0) != 0);
    let ends =
        ends.map(|EndOf { error }| Complaint { error: error.string, description: error.message });
    let told: Vec<Complaint> = read.errors.0.into_iter().chain(ends).collect();
    let is_over = |one: &Complaint| OVER.iter().any(|over| one.error.text().contains(over));
    if told.iter().all(is_over) && (is_good(status) || !told.is_empty()) {
        return Ok(());
    }
    Err(failed(act, status, &Complaints(told)))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Any {
    errors: Complaints,
}

/// Of an answer that should have had something else in it.
pub(super) fn odd(act: &str, status: u16, answer: &[u8]) -> EngineError {
    if let Ok(read) = whole::<Any>(answer)
        && !read.errors.0.is_empty()
    {
        return failed(act, status, &read.errors);
    }
    let text = String::from_utf8_lossy(answer);
    if is_good(status) {
        return unreadable(act, &text);
    }
    let mut words = cut(&format!("HTTP {status}: {text}"));
    if status == UNKNOWN_CALLER {
        words = cut(&format!("{words} (the token is missing, wrong or over)"));
    }
    EngineError { act: act.to_owned(), words, kind: EngineTrouble::NotReached }
}

/// Of an answer that says what was wrong, or at least that something was.
pub(super) fn failed(act: &str, status: u16, complaints: &Complaints) -> EngineError {
    let mut words: Vec<String> = Vec::new();
    let mut is_told = false;
    for Complaint { error, description } in &complaints.0 {
        let says = |text: &String| !["", NO_ERROR].contains(&&**text) && !UNSAID.contains(&&**text);
        let error = Some(error.text()).filter(says);
        is_told |= error.is_some();
        for text in error.into_iter().chain(Some(description.text())) {
            let is_new = !text.is_empty() && !words.iter().any(|known| known.contains(&text));
            if is_new {
                // The longer of two that say the same.
                words.retain(|known| !text.contains(known.as_str()));
                words.push(text);
            }
        }
    }
    let said = words.join("; ");
    let (words, kind) = match (is_told, said.as_str()) {
        (true, said) => (said.to_owned(), trouble(said)),
        (false, "") => (format!("HTTP {status} ({DOUBT})"), EngineTrouble::NotReached),
        (false, said) => (format!("{said} ({DOUBT})"), EngineTrouble::NotReached),
    };
    EngineError { act: act.to_owned(), words: cut(&words), kind }
}

pub(super) fn is_good(status: u16) -> bool {
    (200..300).contains(&status)
}

#[cfg(test)]
mod tests;
