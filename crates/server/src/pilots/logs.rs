//! The output of tasks, on its way from a pilot to whoever reads it: what was asked for on the
//! control call, and the call that it comes over.

use super::service::PilotService;
use super::{Connected, Order, Pilots, over};
use crate::locks::Locked;
use shipway_api::link::{CONNECTION_NUMBER, FromServer, LogChunk, LogRequest};
use shipway_api::wire::Shown;
use shipway_api::wire::logs_server::Logs;
use shipway_core::site::KeptIn;
use shipway_model::{ConnectionNumber, PilotId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, oneshot};
use tonic::{Request, Response, Status, Streaming};

/// Pieces of logs that somebody waits for.
#[derive(Debug, Default)]
pub(super) struct Awaiting {
    pieces: Mutex<HashMap<u64, Awaited>>,
    next: AtomicU64,
}

/// A piece of a log, and the connection that was asked for it.
#[derive(Debug)]
struct Awaited {
    pilot: PilotId,
    connection: ConnectionNumber,
    answer: oneshot::Sender<LogChunk>,
}

#[tonic::async_trait]
impl Logs for PilotService {
    /// Takes pieces until the pilot ends the call or its connection is over. Nothing here waits for
    /// a reader: a piece goes to whoever asked for it, or to nobody.
    async fn show(&self, request: Request<Streaming<LogChunk>>) -> Result<Response<Shown>, Status> {
        let pilot = self.authenticate(&request)?.pilot;
        let number =
            request.metadata().get(CONNECTION_NUMBER).and_then(|value| value.to_str().ok());
        let number = number.and_then(|number| number.parse().ok());
        let unnamed = || Status::invalid_argument("no connection is named");
        let connection = ConnectionNumber(number.ok_or_else(unnamed)?);
        let not_open = || Status::failed_precondition("the pilot has no such connection");
        let connection_over = over(self.pilots.watch(&pilot, connection).ok_or_else(not_open)?);
        tokio::pin!(connection_over);
        let mut pieces = request.into_inner();
        loop {
            let piece = tokio::select! {
                piece = pieces.message() => piece?,
                () = &mut connection_over => return Err(not_open()),
            };
            let Some(piece) = piece else { return Ok(Response::new(Shown {})) };
            if !self.pilots.deliver_log(&pilot, connection, piece) {
                tracing::warn!(%pilot, %connection, "output comes from a pilot that nobody asked");
                return Err(Status::permission_denied("this was asked of somebody else"));
            }
        }
    }
}

impl Pilots {
    /// The next piece of a log from the pilot itself or, if that is gone, whoever has its folder
    /// now. `None`: nobody is there who could read it.
    pub(crate) fn read_log(
        self: &Arc<Self>,
        pilot: &PilotId,
        kept_in: Option<&KeptIn>,
        request: LogRequest,
    ) -> Option<LogPiece> {
        let connected = self.connected.locked();
        let has_it = |known: &Connected| kept_in.is_some() && known.keeps.as_ref() == kept_in;
        let successor = || connected.iter().find(|(_, known)| has_it(known));
        let (asked, reader) = connected.get_key_value(pilot).or_else(successor)?;
        let id = self.logs.next.fetch_add(1, Ordering::Relaxed);
        let (send, answer) = oneshot::channel();
        let awaited = Awaited { pilot: asked.clone(), connection: reader.number, answer: send };
        self.logs.pieces.locked().insert(id, awaited);
        let request = LogRequest { id, ..request };
        let orders = reader.orders.clone();
        // A connection that has just ended is still listed: nobody is there any more.
        if orders.send(Order::Say(FromServer::Log(request))).is_err() {
            self.logs.pieces.locked().remove(&id);
            return None;
        }
        Some(LogPiece { pilots: Arc::clone(self), id, answer, orders })
    }

    /// Taken only from the connection that was asked. False: it was another.
    fn deliver_log(&self, pilot: &PilotId, connection: ConnectionNumber, piece: LogChunk) -> bool {
        let mut awaiting = self.logs.pieces.locked();
        // Nobody waits any more: then it makes no difference whose it is.
        let Some(awaited) = awaiting.get(&piece.id) else { return true };
        if awaited.pilot != *pilot || awaited.connection != connection {
            return false;
        }
        if let Some(awaited) = awaiting.remove(&piece.id) {
            let _ = awaited.answer.send(piece);
        }
        true
    }
}

/// A piece of a log on its way. Dropped early, the pilot is told that nobody waits any more.
#[derive(Debug)]
pub(crate) struct LogPiece {
    pilots: Arc<Pilots>,
    id: u64,
    answer: oneshot::Receiver<LogChunk>,
    orders: mpsc::UnboundedSender<Order>,
}

impl LogPiece {
    /// `None`: the connection to the pilot broke.
    pub(crate) async fn get(mut self) -> Option<LogChunk> {
        tokio::select! {
            biased;
            piece = &mut self.answer => piece.ok(),
            () = self.orders.closed() => None,
        }
    }
}

impl Drop for LogPiece {
    fn drop(&mut self) {
        let waiting = self.pilots.logs.pieces.locked().remove(&self.id);
        if waiting.is_some() {
            let _ = self.orders.send(Order::Say(FromServer::LogClose { id: self.id }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_model::{Attempt, JobId, TaskIndex};
    use tokio::sync::watch;

    const FIRST: ConnectionNumber = ConnectionNumber(1);
    const SECOND: ConnectionNumber = ConnectionNumber(2);

    fn connected(number: ConnectionNumber) -> (Connected, mpsc::UnboundedReceiver<Order>) {
        let (orders, ordered) = mpsc::unbounded_channel();
        let here = watch::Sender::new(());
        (Connected { number, node: None, keeps: None, orders, here }, ordered)
    }

    fn request() -> LogRequest {
        let attempt = JobId(1).task(TaskIndex(0)).attempt(Attempt(1));
        let (stderr, follow, reader) = (false, false, String::new());
        LogRequest { id: 0, attempt, stderr, offset: 0, follow, reader }
    }

    fn pilot() -> PilotId {
        PilotId::new("p").expect("good")
    }

    /// It is listed until its end has been noticed; who reads a log would ask it for ever.
    #[test]
    fn a_connection_that_has_ended_reads_no_log() {
        let (pilots, pilot) = (Arc::new(Pilots::default()), pilot());
        let (comes, ordered) = connected(FIRST);
        pilots.connect(&pilot, comes);
        assert!(pilots.read_log(&pilot, None, request()).is_some());
        drop(ordered);
        assert!(pilots.read_log(&pilot, None, request()).is_none());
        let nobody = pilots.logs.pieces.locked().is_empty();
        assert!(nobody, "nobody waits for what nobody sends");
    }

    #[tokio::test]
    async fn a_piece_is_taken_only_from_the_connection_that_was_asked() {
        let (pilots, pilot) = (Arc::new(Pilots::default()), pilot());
        let (comes, _ordered) = connected(SECOND);
        pilots.connect(&pilot, comes);
        let coming = pilots.read_log(&pilot, None, request()).expect("it is there");
        let piece = |text: &str| LogChunk { data: text.into(), ..LogChunk::default() };
        let other = PilotId::new("q").expect("good");
        assert!(!pilots.deliver_log(&pilot, FIRST, piece("of the connection before")));
        assert!(!pilots.deliver_log(&other, SECOND, piece("of another pilot")));
        assert!(pilots.deliver_log(&pilot, SECOND, piece("its own")));
        assert_eq!(coming.get().await.expect("a piece").data, b"its own");
    }

    /// A call beside the control call is good for one connection of one pilot, and no longer.
    #[tokio::test]
    async fn the_end_of_a_connection_is_not_the_end_of_the_next() {
        let (pilots, pilot) = (Pilots::default(), pilot());
        let (first, _first) = connected(FIRST);
        pilots.connect(&pilot, first);
        let old = pilots.watch(&pilot, FIRST).expect("it is there");
        assert!(pilots.watch(&PilotId::new("q").expect("good"), FIRST).is_none());
        let (second, _second) = connected(SECOND);
        pilots.connect(&pilot, second);
        over(old).await;
        assert!(pilots.watch(&pilot, FIRST).is_none());
        let new = pilots.watch(&pilot, SECOND).expect("it is there");
        pilots.disconnect(&pilot, FIRST);
        assert!(new.has_changed().is_ok(), "an old one's end");
        pilots.disconnect(&pilot, SECOND);
        over(new).await;
    }
}
