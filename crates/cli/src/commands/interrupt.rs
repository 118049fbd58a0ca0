//! Ctrl-C while staying with a job: the job is the server's, so leaving it is not ending it. The
//! person is asked once; whoever cannot be asked leaves it running.

use super::Context;
use crate::failure::Failure;
use crate::view::talk;
use shipway_api::routes;
use shipway_api::types::{Acted, JobView, Selection};
use shipway_model::JobId;
use std::future::Future;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Cancel,
    Detach,
}

/// The job's end, or `None` when the person left.
pub async fn unless_interrupted(
    context: &Context,
    job: JobId,
    mut stay: impl Future<Output = Result<JobView, Failure>> + Unpin,
) -> Result<Option<JobView>, Failure> {
    let mut interrupts = signal(SignalKind::interrupt()).map_err(Failure::Runtime)?;
    tokio::select! {
        ended = &mut stay => return ended.map(Some),
        _ = interrupts.recv() => {}
    }
    let choice = if talk::somebody_is_there() {
        talk::ask("\nshipway: cancel the job, or detach and let it run? [c/d]");
        tokio::select! {
            ended = &mut stay => return ended.map(Some),
            choice = answer() => choice,
            _ = interrupts.recv() => Choice::Detach,
        }
    } else {
        Choice::Detach
    };
    if choice == Choice::Detach {
        leave(job);
        return Ok(None);
    }
    let selection = Selection { jobs: vec![job], ..Selection::default() };
    // The usual client is waiting for the job's end.
    let _: Acted = context.server.connect()?.post(routes::CANCEL, &selection, &[]).await?;
    tokio::select! {
        ended = &mut stay => ended.map(Some),
        _ = interrupts.recv() => Ok(None),
    }
}

fn leave(job: JobId) {
    talk::say(format_args!(
        "shipway: job {job} goes on; `shipway logs -f {job}` shows its output, \
         `shipway cancel {job}` ends it"
    ));
}

/// Asks until it understands the answer; somebody who is gone answers nothing and detaches.
async fn answer() -> Choice {
    loop {
        match understood(&line().await) {
            Some(choice) => return choice,
            None => talk::ask("shipway: `c` cancels the job, `d` lets it run. [c/d]"),
        }
    }
}

fn understood(line: &str) -> Option<Choice> {
    match line.trim().to_ascii_lowercase().as_str() {
        "c" | "cancel" => Some(Choice::Cancel),
        "d" | "detach" => Some(Choice::Detach),
        // The end of the input: not even a line break.
        _ if line.is_empty() => Some(Choice::Detach),
        _ => None,
    }
}

/// Reads one line in a thread of its own, which cannot be called back: it ends with the process.
async fn line() -> String {
    let line = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|_| line)
    });
    line.await.ok().and_then(Result::ok).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_is_an_answer() {
        for (line, choice) in [
            ("c\n", Some(Choice::Cancel)),
            (" Detach \n", Some(Choice::Detach)),
            ("", Some(Choice::Detach)),
            ("\n", None),
            ("yes\n", None),
        ] {
            assert_eq!(understood(line), choice, "{line:?}");
        }
    }
}
