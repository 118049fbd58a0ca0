//! An error as it is shown: what failed, why, and what to do. On standard error, always.

use super::paper::clean;
use crate::failure::Failure;
use serde::Serialize;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Causes shown; a chain longer than this says nothing new.
const MAX_CAUSES: usize = 10;

#[derive(Debug, Serialize)]
struct Shown<'a> {
    error: Body<'a>,
}

#[derive(Debug, Serialize)]
struct Body<'a> {
    code: &'a str,
    message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
}

pub fn show(failure: &Failure, json: bool) {
    let text = if json { as_json(failure) } else { as_text(failure) };
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// What was typed is repeated in it, and may be somebody else's text: then it is shown plain.
pub fn show_usage(usage: &clap::Error) {
    let text = usage.to_string();
    let lines: Vec<String> = text.lines().map(clean).collect();
    // Nobody may be there to read it; the exit code says it too.
    let _ = if lines.iter().map(String::as_str).eq(text.lines()) {
        usage.print()
    } else {
        writeln!(io::stderr().lock(), "{}", lines.join("\n"))
    };
}

fn body(failure: &Failure) -> Body<'_> {
    let causes = std::iter::successors(failure.source(), |error| (*error).source());
    Body {
        code: failure.code(),
        message: failure.to_string(),
        causes: causes.take(MAX_CAUSES).map(ToString::to_string).collect(),
        hint: failure.hint(),
        request_id: failure.request_id(),
    }
}

pub fn as_json(failure: &Failure) -> String {
    let shown = Shown { error: body(failure) };
    super::json(&shown)
}

pub fn as_text(failure: &Failure) -> String {
    let body = body(failure);
    let mut text = format!("error: {}\n", clean(&body.message));
    if let Failure::Classad(bad) = failure {
        for line in bad.shown.lines() {
            let _ = writeln!(text, "  {}", clean(line));
        }
    }
    for cause in &body.causes {
        let _ = writeln!(text, "  caused by: {}", clean(cause));
    }
    if let Some(hint) = &body.hint {
        let _ = writeln!(text, "hint: {}", clean(hint));
    }
    text
}
