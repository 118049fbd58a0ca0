//! Pieces of output for whoever asks: one answer for each request, when there is something to say.
//!
//! A piece is read when it is its reader's turn, and the next one when the connection has taken it:
//! whoever reads a thousand outputs at once fills no memory here, and nobody waits for them.

use super::link::ToLink;
use super::log_turns::{LogTurns, Turn};
use crate::logs::{Chunk, LogReader, Logs, Stream};
use shipway_api::link::{LogChunk, LogRequest, MAX_LOG_CHUNK};
use shipway_model::AttemptId;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

#[derive(Debug)]
pub(super) struct ServeLogs {
    logs: Arc<Logs>,
    to_link: mpsc::UnboundedSender<ToLink>,
    /// Requests that wait for output; each ends by itself with its answer.
    waiting: Arc<Mutex<HashMap<Asked, AbortHandle>>>,
    /// Named, because a thread of the pool may be the one that calls.
    runtime: Handle,
    turns: LogTurns,
    connection: u64,
}

/// Servers number their requests, each from the same start: a number is only good for the
/// connection it came over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Asked {
    connection: u64,
    number: u64,
}

/// Where a piece is, and for whom it is read.
#[derive(Debug)]
struct Wanted {
    name: AttemptId,
    stream: Stream,
    offset: u64,
    follow: bool,
    reader: String,
}

type Piece = io::Result<Chunk>;

impl ServeLogs {
    pub(super) fn new(logs: Arc<Logs>, to_link: mpsc::UnboundedSender<ToLink>) -> Self {
        let (waiting, runtime) = (Arc::default(), Handle::current());
        ServeLogs { logs, to_link, waiting, runtime, turns: LogTurns::default(), connection: 0 }
    }

    pub(super) fn read(&self, request: &LogRequest) {
        let wanted = Wanted {
            name: request.attempt,
            stream: if request.stderr { Stream::Err } else { Stream::Out },
            offset: request.offset,
            follow: request.follow,
            reader: request.reader.clone(),
        };
        let (logs, to_link) = (Arc::clone(&self.logs), self.to_link.clone());
        let asked = self.asked(request.id);
        let (waiting, turns) = (Arc::clone(&self.waiting), self.turns.clone());
        // Held until it is listed: an answer that is quicker than that finds itself to remove.
        let mut listed = self.waiting.lock().expect("no holder panics");
        let answering = self.runtime.spawn(async move {
            let Some((chunk, turn)) = answer(&logs, &wanted, &turns).await else { return };
            // Said only while it is wanted, or it would answer another's question.
            let mut waiting = waiting.lock().expect("no holder panics");
            if waiting.remove(&asked).is_some() {
                let _ = to_link.send(ToLink::Show(message(asked.number, chunk), turn));
            }
        });
        listed.insert(asked, answering.abort_handle());
    }

    pub(super) fn close(&self, id: u64) {
        let asked = self.asked(id);
        if let Some(waiting) = self.waiting.lock().expect("no holder panics").remove(&asked) {
            waiting.abort();
        }
    }

    /// A new connection: nobody waits any more for what was asked over the last one.
    pub(super) fn close_all(&mut self) {
        self.connection += 1;
        for (_, waiting) in self.waiting.lock().expect("no holder panics").drain() {
            waiting.abort();
        }
    }

    fn asked(&self, number: u64) -> Asked {
        Asked { connection: self.connection, number }
    }
}

/// What was asked for, and the turn in which it was read. `None`: the pilot ends.
async fn answer(logs: &Logs, wanted: &Wanted, turns: &LogTurns) -> Option<(Piece, Turn)> {
    let mut turn = turns.of(&wanted.reader).await?;
    let mut reader = match logs.reader(wanted.name, wanted.stream) {
        Ok(reader) => reader,
        Err(error) => return Some((Err(error), turn)),
    };
    loop {
        let (back, chunk) = match read(reader, wanted.offset).await {
            Ok(read) => read,
            Err(error) => return Some((Err(error), turn)),
        };
        reader = back;
        let follow = wanted.follow;
        if !follow || chunk.end || !chunk.bytes.is_empty() || chunk.dropped > 0 {
            // Without following, what there is now is all that was asked for.
            let end = chunk.end || !follow && chunk.bytes.is_empty();
            return Some((Ok(Chunk { end, ..chunk }), turn));
        }
        // Others read while there is nothing here.
        drop(turn);
        reader.changed().await;
        turn = turns.of(&wanted.reader).await?;
    }
}

/// Reading a file may wait for a disk, so it is done where waiting hurts nobody.
async fn read(mut reader: LogReader, offset: u64) -> io::Result<(LogReader, Chunk)> {
    let read = tokio::task::spawn_blocking(move || {
        let chunk = reader.read(offset, MAX_LOG_CHUNK)?;
        Ok((reader, chunk))
    });
    read.await.map_err(io::Error::other)?
}

fn message(id: u64, chunk: io::Result<Chunk>) -> LogChunk {
    match chunk {
        Ok(chunk) => {
            let (dropped, unkept, end) = (chunk.dropped, chunk.is_unkept(), chunk.end);
            LogChunk { id, dropped, unkept, data: chunk.bytes, end, error: String::new() }
        }
        Err(error) => LogChunk {
            id,
            end: true,
            error: format!("the output cannot be read: {error}"),
            ..LogChunk::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::Keep;
    use shipway_model::{Attempt, JobId, TaskIndex};

    /// Eve's requests are a hundred times what waits for the connection at once.
    const MANY: u64 = 200;

    #[tokio::test]
    async fn whoever_reads_a_thousand_outputs_keeps_nobody_waiting() {
        let dir = tempfile::tempdir().expect("a directory");
        let logs = Logs::new(dir.path().to_owned());
        let name = JobId(1).task(TaskIndex(0)).attempt(Attempt(1));
        let (mut out, _err) = logs.writers(name, Keep { limit: 1 << 20, user: "eve" });
        out.append(b"much");
        let (to_link, mut shown) = mpsc::unbounded_channel();
        let serve = ServeLogs::new(logs, to_link);
        let ask = |id, reader: &str| {
            let (stderr, follow, reader) = (false, false, reader.to_string());
            serve.read(&LogRequest { id, attempt: name, stderr, offset: 0, follow, reader });
        };
        (0..MANY).for_each(|id| ask(id, "eve"));
        // The connection takes nothing; all that there is room for has come.
        let mut held = Vec::new();
        held.push(shown.recv().await.expect("a piece"));
        held.push(shown.recv().await.expect("a piece"));
        ask(MANY, "ada");
        let hers = shown.recv().await.expect("a piece");
        let ToLink::Show(chunk, turn) = hers else { panic!("not output: {hers:?}") };
        assert_eq!((chunk.id, chunk.data.as_slice()), (MANY, b"much".as_slice()));
        assert!(shown.try_recv().is_err(), "the rest of eve's is not even read");
        drop((held, turn));
        for _ in 2..MANY {
            assert!(shown.recv().await.is_some(), "it is, when its turn comes");
        }
    }
}
