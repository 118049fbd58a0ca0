//! Pieces of output for whoever asks: one answer for each request, when there is something to say.

use super::link::ToLink;
use crate::logs::{Chunk, LogName, LogReader, Logs, Stream};
use shipway_api::link::MAX_LOG_CHUNK;
use shipway_api::wire::{LogChunk, LogRequest, ToServer, to_server};
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
    connection: u64,
}

/// Servers number their requests, each from the same start: a number is only good for the
/// connection it came over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Asked {
    connection: u64,
    number: u64,
}

impl ServeLogs {
    pub(super) fn new(logs: Arc<Logs>, to_link: mpsc::UnboundedSender<ToLink>) -> Self {
        let (waiting, runtime) = (Arc::default(), Handle::current());
        ServeLogs { logs, to_link, waiting, runtime, connection: 0 }
    }

    pub(super) fn read(&self, request: &LogRequest) {
        let Some(id) = request.attempt else { return };
        let name = LogName { task: id.task(), attempt: id.number() };
        let stream = if request.stderr { Stream::Err } else { Stream::Out };
        let (logs, to_link) = (Arc::clone(&self.logs), self.to_link.clone());
        let asked = self.asked(request.id);
        let (offset, follow) = (request.offset, request.follow);
        let waiting = Arc::clone(&self.waiting);
        // Held until it is listed: an answer that is quicker than that finds itself to remove.
        let mut listed = self.waiting.lock().expect("no holder panics");
        let answering = self.runtime.spawn(async move {
            let chunk = answer(&logs, name, stream, offset, follow).await;
            let body = Some(to_server::Body::Log(message(asked.number, chunk)));
            // Said only while it is wanted, or it would answer another's question.
            let mut waiting = waiting.lock().expect("no holder panics");
            if waiting.remove(&asked).is_some() {
                let _ = to_link.send(ToLink::Say(ToServer { body }));
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

async fn answer(
    logs: &Logs,
    name: LogName,
    stream: Stream,
    offset: u64,
    follow: bool,
) -> io::Result<Chunk> {
    let mut reader = logs.reader(name, stream)?;
    loop {
        let (back, chunk) = read(reader, offset).await?;
        reader = back;
        if !follow || chunk.end || !chunk.bytes.is_empty() || chunk.dropped > 0 {
            // Without following, what there is now is all that was asked for.
            let end = chunk.end || !follow && chunk.bytes.is_empty();
            return Ok(Chunk { end, ..chunk });
        }
        reader.changed().await;
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
