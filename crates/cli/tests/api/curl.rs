//! Requests by `curl`, the client that people reach for, so that the answers are seen by somebody
//! else's eyes.

#![allow(dead_code, reason = "every test binary uses its own part of this")]

use super::common::World;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        let read = serde_json::from_str(&self.body);
        read.unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

fn curl_as(world: &World, token: &str, path: &str) -> Command {
    let mut command = Command::new("curl");
    // Without `Expect:` there is one answer and not two.
    command.args(["--silent", "--show-error", "--max-time", "100", "--header", "Expect:"]);
    command.args(["--header", &format!("Authorization: Bearer {token}")]);
    command.arg(format!("{}{path}", world.url())).stdout(Stdio::piped());
    command
}

/// A request with more words for `curl`, and a body if it has one.
pub(crate) fn ask(world: &World, path: &str, words: &[&str], body: Option<&[u8]>) -> Answer {
    let mut command = curl_as(world, &world.token(), path);
    command.arg("--include").args(words).stdin(Stdio::piped());
    if body.is_some() {
        command.args(["--data-binary", "@-"]);
    }
    let mut child = command.spawn().expect("curl is here");
    // A server that has read enough closes early.
    let _ = child.stdin.take().expect("piped").write_all(body.unwrap_or_default());
    let output = child.wait_with_output().expect("a child");
    understood(&output.stdout)
}

/// Without the owner's token, which `ask` would send along.
pub(crate) fn anonymous(world: &World, path: &str, words: &[&str]) -> Answer {
    let mut command = Command::new("curl");
    command.args(["--silent", "--include"]).args(words).arg(format!("{}{path}", world.url()));
    understood(&command.output().expect("curl is here").stdout)
}

fn understood(output: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(output).into_owned();
    let (headers, body) = text.split_once("\r\n\r\n").expect("an answer");
    let status = headers.split(' ').nth(1).expect("a status").parse().expect("a number");
    Answer { status, headers: headers.to_string(), body: body.to_string() }
}

pub(crate) fn get(world: &World, path: &str) -> Answer {
    ask(world, path, &[], None)
}

pub(crate) fn post(world: &World, path: &str, body: &[u8]) -> Answer {
    ask(world, path, &["--header", "Content-Type: application/json"], Some(body))
}

/// A stream of server-sent events; ended when it is dropped.
#[derive(Debug)]
pub(crate) struct Events {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Events {
    pub(crate) fn after(world: &World, id: u64) -> Self {
        Self::of(world, &world.token(), "/api/v1/events", id)
    }

    /// What the holder of a token sees at a path, after the event of this number.
    pub(crate) fn of(world: &World, token: &str, path: &str, id: u64) -> Self {
        let mut command = curl_as(world, token, path);
        command.args(["--no-buffer", "--header", &format!("Last-Event-ID: {id}")]);
        let mut child = command.stderr(Stdio::null()).spawn().expect("curl is here");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        Events { child, lines }
    }

    /// The next event, as its number and its data; `None` when the stream has broken off.
    pub(crate) fn next(&mut self) -> Option<(u64, Value)> {
        let (mut id, mut data) = (None, None);
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).expect("text") == 0 {
                return None;
            }
            match line.trim_end().split_once(':').map(|(name, value)| (name, value.trim())) {
                Some(("id", value)) => id = value.parse().ok(),
                Some(("data", value)) => data = serde_json::from_str(value).ok(),
                _ => {}
            }
            if line == "\n"
                && let (Some(id), Some(data)) = (id, data.take())
            {
                return Some((id, data));
            }
        }
    }

    /// All events up to the end of a job.
    pub(crate) fn until_end_of(&mut self, job: u64) -> Vec<(u64, Value)> {
        let mut seen = Vec::new();
        loop {
            let (id, data) = self.next().expect("the stream goes on");
            let end = data["what"] == "job_ended" && data["job"] == job;
            seen.push((id, data));
            if end {
                return seen;
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
