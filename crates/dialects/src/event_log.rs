//! HTCondor's job event log: what happens to a job, in the text that `condor_wait`, DAGMan and the
//! Python bindings read. Pure: an event in, its block of lines out. What has happened, and who
//! writes it where, is the server's.
//!
//! A block is a line with the event's number, the job as `(cluster.proc.subproc)`, the local time
//! and a sentence; then what belongs to it, indented; then a line of three dots.

mod resources;
mod time;

pub use resources::{Resources, Used};

use std::fmt::Write as _;
use time::{local, span, utc};

/// One thing that happened to one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The job's id.
    pub cluster: u64,
    /// The task's index.
    pub proc: u64,
    /// Milliseconds since 1970, and what the clock of the node is ahead of UTC then, in seconds.
    pub at_ms: u64,
    pub ahead_s: i32,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Submitted {
        host: String,
    },
    Executing {
        node: String,
        resources: Resources,
    },
    Terminated {
        how: How,
        ran_ms: u64,
        resources: Resources,
    },
    Aborted {
        reason: String,
    },
    Evicted {
        why: Evicted,
        resources: Resources,
    },
    /// Out of touch with the node that runs it.
    Disconnected {
        reason: String,
        node: String,
    },
    /// And not found there again.
    ReconnectFailed {
        reason: String,
        node: String,
    },
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Exit(i32),
    Signal(i32),
}

/// Why a task left its node without being done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evicted {
    /// It ended, and is tried again.
    Requeued(How),
    /// It was stopped, or its node was lost.
    Stopped { reason: Option<String> },
}

impl What {
    /// The number by which HTCondor knows the event.
    pub const fn number(&self) -> u32 {
        match self {
            What::Submitted { .. } => 0,
            What::Executing { .. } => 1,
            What::Evicted { .. } => 4,
            What::Terminated { .. } => 5,
            What::Aborted { .. } => 9,
            What::Disconnected { .. } => 22,
            What::ReconnectFailed { .. } => 24,
        }
    }
}

/// The block of lines, the three dots included.
pub fn render(event: &Event) -> String {
    let Event { cluster, proc, at_ms, ahead_s, what } = event;
    let (number, when) = (what.number(), local(*at_ms, *ahead_s));
    let mut out = format!("{number:03} ({cluster:03}.{proc:03}.000) {when} ");
    match what {
        What::Submitted { host } => line(&mut out, &format!("Job submitted from host: <{host}>")),
        What::Executing { node, resources } => {
            line(&mut out, &format!("Job executing on host: {}", address(node)));
            line(&mut out, &format!("\tSlotName: slot1@{}", one_line(node)));
            resources.write_provided(&mut out);
        }
        What::Terminated { how, ran_ms, resources } => {
            line(&mut out, "Job terminated.");
            write_how(&mut out, *how);
            let whose = ["Run Remote", "Run Local", "Total Remote", "Total Local"];
            write_usage(&mut out, &whose, resources.used.cpu_ms);
            write_bytes(&mut out, &["Run", "Total"]);
            resources.write_table(&mut out, Some(*ran_ms));
            line(&mut out, "");
            let end = match how {
                How::Exit(code) => format!("exit-code {code}"),
                How::Signal(signal) => format!("signal {signal}"),
            };
            let when = utc(*at_ms);
            line(&mut out, &format!("\tJob terminated of its own accord at {when} with {end}."));
        }
        What::Aborted { reason } => {
            line(&mut out, "Job was aborted.");
            line(&mut out, &format!("\t{}", one_line(reason)));
        }
        What::Evicted { why, resources } => write_evicted(&mut out, why, resources),
        What::Disconnected { reason, node } => {
            line(&mut out, "Job disconnected, attempting to reconnect");
            line(&mut out, &format!("    {}", one_line(reason)));
            let node = one_line(node);
            line(&mut out, &format!("    Trying to reconnect to slot1@{node} {}", address(&node)));
        }
        What::ReconnectFailed { reason, node } => {
            line(&mut out, "Job reconnection failed");
            line(&mut out, &format!("    {}", one_line(reason)));
            let node = one_line(node);
            line(&mut out, &format!("    Can not reconnect to slot1@{node}, rescheduling job"));
        }
    }
    out.push_str("...\n");
    out
}

fn write_evicted(out: &mut String, why: &Evicted, resources: &Resources) {
    line(out, "Job was evicted.");
    line(
        out,
        match why {
            Evicted::Requeued(_) => "\t(0) Job terminated and was requeued",
            Evicted::Stopped { .. } => "\t(0) CPU times",
        },
    );
    write_usage(out, &["Run Remote", "Run Local"], resources.used.cpu_ms);
    write_bytes(out, &["Run"]);
    match why {
        Evicted::Requeued(how) => write_how(out, *how),
        Evicted::Stopped { reason } => {
            if let Some(reason) = reason {
                line(out, &format!("\t{}", one_line(reason)));
            }
            resources.write_table(out, None);
        }
    }
}

fn write_how(out: &mut String, how: How) {
    match how {
        How::Exit(code) => line(out, &format!("\t(1) Normal termination (return value {code})")),
        How::Signal(signal) => {
            line(out, &format!("\t(0) Abnormal termination (signal {signal})"));
            line(out, "\t(0) No core file");
        }
    }
}

/// Time on processors, where it was measured: in programs and in the kernel is not told apart. The
/// lines must be there all the same.
fn write_usage(out: &mut String, whose: &[&str], cpu_ms: Option<u64>) {
    let none = span(0);
    for whose in whose {
        let remote = cpu_ms.filter(|_| whose.ends_with("Remote"));
        let spent = span(remote.unwrap_or(0) / 1_000);
        line(out, &format!("\t\tUsr {spent}, Sys {none}  -  {whose} Usage"));
    }
}

/// Files are copied on the node and not sent.
fn write_bytes(out: &mut String, whose: &[&str]) {
    for whose in whose {
        line(out, &format!("\t0  -  {whose} Bytes Sent By Job"));
        line(out, &format!("\t0  -  {whose} Bytes Received By Job"));
    }
}

/// HTCondor names machines by an address with the name behind it; nodes here have a name alone.
fn address(node: &str) -> String {
    format!("<{0}:0?alias={0}>", one_line(node))
}

/// A reason is somebody's text: it may not begin a line of its own, nor end the block.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_control()).collect::<Vec<_>>().join(" ")
}

fn line(out: &mut String, text: &str) {
    // Memory takes all.
    let _ = writeln!(out, "{text}");
}

#[cfg(test)]
mod tests;
