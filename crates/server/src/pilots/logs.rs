//! The output of tasks, on its way from a pilot to whoever reads it: what was asked for on the
//! control call, and the call that it comes over.

use super::service::PilotService;
use super::{Connected, PilotOrder, Pilots, over};
use crate::locks::Locked;
use shipway_api::link::{CONNECTION_NUMBER, FromServer, LogChunk, LogRequest};
use shipway_api::wire::Shown;
use shipway_api::wire::logs_server::Logs;
use shipway_core::site::KeptIn;
use shipway_model::{ConnectionNumber, PilotId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tonic::{Request, Response, Status, Streaming};

/// Orders to read output that one pilot has not taken. One that works takes them as they come:
/// more than these are for one that does not read what it is told.
const READS_UNSAID: usize = 1_024;

/// For a connection that comes.
pub(super) fn places() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(READS_UNSAID))
}

/// An order to read, until it is said. Whoever waited may have gone by then: then nothing is said,
/// neither this nor that they have gone. So the orders to stop reading are no more than there were
/// readers who waited for what was said.
#[derive(Debug)]
pub(crate) struct Asked {
    request: LogRequest,
    settled: Arc<AtomicBool>,
    _place: OwnedSemaphorePermit,
}

impl Asked {
    pub(super) fn say(self) -> Option<FromServer> {
        let is_given_up = self.settled.swap(true, Ordering::Relaxed);
        (!is_given_up).then_some(FromServer::Log(self.request))
    }
}

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
        // Before anything of the call is read.
        let has_one =
            || Status::resource_exhausted("this connection has a call for output already");
        let _showing =
            self.pilots.showing.begin((pilot.clone(), connection)).ok_or_else(has_one)?;
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
    /// now. `None`: nobody is there who could read it, or they do not take what they are told.
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
        let Ok(place) = Arc::clone(&reader.reads).try_acquire_owned() else {
            tracing::warn!(pilot = %asked, "a pilot does not take its orders to read output");
            return None;
        };
        let id = self.logs.next.fetch_add(1, Ordering::Relaxed);
        let (send, answer) = oneshot::channel();
        let awaited = Awaited { pilot: asked.clone(), connection: reader.number, answer: send };
        self.logs.pieces.locked().insert(id, awaited);
        let (orders, here) = (reader.orders.clone(), reader.here.subscribe());
        let settled = Arc::new(AtomicBool::new(false));
        let request = LogRequest { id, ..request };
        let asking = Asked { request, settled: Arc::clone(&settled), _place: place };
        // A connection that has just ended is still listed: nobody is there any more.
        if orders.send(PilotOrder::Read(asking)).is_err() {
            self.logs.pieces.locked().remove(&id);
            return None;
        }
        Some(LogPiece { pilots: Arc::clone(self), id, answer, orders, here, settled })
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
    orders: mpsc::UnboundedSender<PilotOrder>,
    /// The connection that was asked.
    here: watch::Receiver<()>,
    /// Whether the order to read it was said, or need not be any more.
    settled: Arc<AtomicBool>,
}

impl LogPiece {
    /// `None`: the connection to the pilot broke.
    pub(crate) async fn get(mut self) -> Option<LogChunk> {
        tokio::select! {
            biased;
            piece = &mut self.answer => piece.ok(),
            () = self.orders.closed() => None,
            // Also where the pilot takes nothing, and so not that its connection is over.
            () = over(self.here.clone()) => None,
        }
    }
}

impl Drop for LogPiece {
    fn drop(&mut self) {
        let waiting = self.pilots.logs.pieces.locked().remove(&self.id);
        let is_said = self.settled.swap(true, Ordering::Relaxed);
        if waiting.is_some() && is_said {
            let _ = self.orders.send(PilotOrder::Say(FromServer::LogClose { id: self.id }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_model::{Attempt, JobId, TaskIndex};

    const FIRST: ConnectionNumber = ConnectionNumber(1);
    const SECOND: ConnectionNumber = ConnectionNumber(2);

    fn connected(number: ConnectionNumber) -> (Connected, mpsc::UnboundedReceiver<PilotOrder>) {
        let (orders, ordered) = mpsc::unbounded_channel();
        let here = watch::Sender::new(());
        let (node, keeps, reads) = (None, None, places());
        (Connected { number, node, keeps, orders, reads, here }, ordered)
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

    /// As it is said, once its turn comes.
    fn said(order: PilotOrder) -> Option<FromServer> {
        match order {
            PilotOrder::Read(asked) => asked.say(),
            PilotOrder::Say(said) => Some(said),
            other => panic!("nobody ordered that: {other:?}"),
        }
    }

    /// Whoever breaks off over and over would fill the memory by a pilot that takes no orders.
    #[tokio::test]
    async fn a_pilot_that_takes_no_orders_is_asked_for_no_more_output() {
        let (pilots, pilot) = (Arc::new(Pilots::default()), pilot());
        let (comes, mut ordered) = connected(FIRST);
        pilots.connect(&pilot, comes);
        let waits = pilots.read_log(&pilot, None, request()).expect("it is there");
        for _ in 0..10 * READS_UNSAID {
            drop(pilots.read_log(&pilot, None, request()));
        }
        assert!(pilots.read_log(&pilot, None, request()).is_none(), "its readers are told");
        assert_eq!(ordered.len(), READS_UNSAID);
        // Of all that, somebody waits for the first.
        let mut heard = Vec::new();
        while let Ok(order) = ordered.try_recv() {
            heard.extend(said(order));
        }
        assert!(matches!(heard.as_slice(), [FromServer::Log(_)]), "{heard:?}");
        // Now that they are taken it is asked again, and told when nobody waits.
        drop(pilots.read_log(&pilot, None, request()).expect("it takes orders"));
        drop(waits);
        let next: Vec<_> =
            std::iter::from_fn(|| ordered.try_recv().ok()).filter_map(said).collect();
        assert!(matches!(next.as_slice(), [FromServer::LogClose { .. }]), "{next:?}");
    }

    /// Its orders are still there while it does not take them.
    #[tokio::test]
    async fn nobody_waits_for_a_connection_that_is_over() {
        let (pilots, pilot) = (Arc::new(Pilots::default()), pilot());
        let (comes, _ordered) = connected(FIRST);
        pilots.connect(&pilot, comes);
        let coming = pilots.read_log(&pilot, None, request()).expect("it is there");
        pilots.disconnect(&pilot, FIRST);
        let patience = std::time::Duration::from_mins(1);
        let piece = tokio::time::timeout(patience, coming.get()).await;
        assert!(piece.expect("an end").is_none());
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
