//! What is printed, and the only place that prints: data on standard output, talk on standard
//! error.
//!
//! A view is a plain value made by a command. Its serde form is what `--json` prints; its text
//! is complete without colours. Neither asks the clock or the server.

pub mod acted;
mod advice;
pub mod classad;
pub mod doctor;
pub mod dry_run;
pub mod failure;
pub mod fetching;
pub mod gpus;
pub mod images;
pub mod job_detail;
pub mod job_table;
pub mod nodes;
pub mod output;
pub mod outputs;
pub mod paper;
pub mod progress;
mod prospect;
pub mod reason;
pub mod registries;
pub mod simple;
mod site_gpus;
pub mod sites;
pub mod table;
pub mod talk;
pub mod task_table;
pub mod time;
pub mod tokens;
mod usage;
pub mod users;
pub mod why;

use crate::failure::Failure;
use crate::settings::Output;
use paper::Paper;
use serde::Serialize;
use std::io::{self, Write};

pub trait View: Serialize {
    fn text(&self, paper: &mut Paper);
}

/// Prints a view on standard output, as text or as one JSON document.
pub fn show(view: &impl View, output: Output) -> Result<(), Failure> {
    let text = if output.json { json(view) } else { text(view, output.colour) };
    write_out(text.as_bytes())
}

pub fn text(view: &impl View, colour: bool) -> String {
    let mut paper = Paper::new(colour);
    view.text(&mut paper);
    paper.into_text()
}

pub fn json(view: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(view).expect("views are plain data");
    text.push('\n');
    text
}

/// Bytes as they are, at once.
pub fn write_out(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(Failure::Output)
}

#[cfg(test)]
mod tests;
