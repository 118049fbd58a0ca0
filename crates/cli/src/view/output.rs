//! What tasks have written, passed on: raw bytes to the stream they belong to, or with `--json`
//! one object a line.

use crate::failure::Failure;
use serde::Serialize;
use shipway_model::TaskId;
use std::io::{self, Write};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    pub fn as_str(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }
}

#[derive(Debug, Serialize)]
struct Piece<'a> {
    task: TaskId,
    stream: Stream,
    /// What is not UTF-8 is replaced: JSON has no bytes.
    text: std::borrow::Cow<'a, str>,
}

pub fn pass_on(task: TaskId, stream: Stream, bytes: &[u8], json: bool) -> Result<(), Failure> {
    if json {
        let piece = Piece { task, stream, text: String::from_utf8_lossy(bytes) };
        let mut line = serde_json::to_vec(&piece).expect("a piece is plain data");
        line.push(b'\n');
        return super::write_out(&line);
    }
    match stream {
        Stream::Stdout => super::write_out(bytes),
        Stream::Stderr => {
            let mut err = io::stderr().lock();
            err.write_all(bytes).and_then(|()| err.flush()).map_err(Failure::Output)
        }
    }
}

/// Between the outputs of several tasks.
pub fn heading(task: TaskId) -> Result<(), Failure> {
    super::write_out(format!("==> {task} <==\n").as_bytes())
}
