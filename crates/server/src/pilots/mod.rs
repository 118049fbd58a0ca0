//! The pilots' side of the server: who is connected, what is said to them, what they say.
//!
//! - `service.rs`  the gRPC service: greeting, reports, logs
//! - `orders.rs`   from the core's effects to messages
//! - `later.rs`    orders that take long to be said
//! - `specs.rs`    the specifications that messages are made from
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod later;
mod orders;
mod service;
mod specs;

use crate::locks::Locked;
use shipway_api::wire;
use shipway_core::event::Placement;
use shipway_core::site::KeptIn;
use shipway_model::{Attempt, Millis, NodeName, PilotId, TaskId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, mpsc, oneshot};

pub use orders::Describe;
pub use service::PilotService;
pub use specs::Specs;

/// What is to be said to one pilot.
#[derive(Debug)]
pub(crate) enum Order {
    Assign(Vec<Placement>),
    Stop { tasks: Vec<(TaskId, Attempt)>, grace: Millis },
    Say(wire::to_pilot::Body),
    Close,
}

/// The connected pilots. Orders are bounded by what the scheduler places, so the channels to the
/// connections are not bounded themselves.
#[derive(Debug, Default)]
pub struct Pilots {
    connected: Mutex<HashMap<PilotId, Connected>>,
    /// Pieces of logs that somebody waits for.
    logs: Mutex<HashMap<u64, Awaited>>,
    next_log: AtomicU64,
}

#[derive(Debug)]
struct Connected {
    session: u64,
    node: NodeName,
    /// Whose output it can read beside its own.
    keeps: Option<KeptIn>,
    orders: mpsc::UnboundedSender<Order>,
    /// Nothing more is to be heard from it, however slowly it takes what was said to it.
    hung_up: Arc<Notify>,
}

impl Connected {
    fn close(self) {
        let _ = self.orders.send(Order::Close);
        self.hung_up.notify_one();
    }
}

/// A piece of a log, and the connection that was asked for it.
#[derive(Debug)]
struct Awaited {
    pilot: PilotId,
    session: u64,
    answer: oneshot::Sender<wire::LogChunk>,
}

impl Pilots {
    /// Replaces an earlier connection of the same pilot: the core has found that it is newer.
    fn connect(&self, pilot: &PilotId, comes: Connected) {
        let mut connected = self.connected.locked();
        if let Some(before) = connected.insert(pilot.clone(), comes) {
            before.close();
        }
    }

    /// The nodes that the connected ones are on.
    pub fn nodes(&self) -> Vec<(PilotId, String)> {
        let connected = self.connected.locked();
        connected.iter().map(|(pilot, known)| (pilot.clone(), known.node.to_string())).collect()
    }

    fn disconnect(&self, pilot: &PilotId, session: u64) {
        let mut connected = self.connected.locked();
        if connected.get(pilot).is_some_and(|known| known.session == session) {
            connected.remove(pilot);
        }
    }

    fn order(&self, pilot: &PilotId, order: Order) {
        let connected = self.connected.locked();
        // A pilot that is away is told when it comes back: the core compares then.
        if let Some(known) = connected.get(pilot) {
            let _ = known.orders.send(order);
        }
    }

    /// The next piece of a log from the pilot itself or, if that is gone, whoever has its folder
    /// now. `None`: nobody is there who could read it.
    pub(crate) fn read_log(
        self: &Arc<Self>,
        pilot: &PilotId,
        kept_in: Option<&KeptIn>,
        request: wire::LogRequest,
    ) -> Option<LogPiece> {
        let connected = self.connected.locked();
        let has_it = |known: &Connected| kept_in.is_some() && known.keeps.as_ref() == kept_in;
        let successor = || connected.iter().find(|(_, known)| has_it(known));
        let (asked, reader) = connected.get_key_value(pilot).or_else(successor)?;
        let id = self.next_log.fetch_add(1, Ordering::Relaxed);
        let (send, answer) = oneshot::channel();
        let awaited = Awaited { pilot: asked.clone(), session: reader.session, answer: send };
        self.logs.locked().insert(id, awaited);
        let request = wire::LogRequest { id, ..request };
        let orders = reader.orders.clone();
        // A connection that has just ended is still listed: nobody is there any more.
        if orders.send(Order::Say(wire::to_pilot::Body::Log(request))).is_err() {
            self.logs.locked().remove(&id);
            return None;
        }
        Some(LogPiece { pilots: Arc::clone(self), id, answer, orders })
    }

    /// Taken only from the connection that was asked. False: it was another.
    fn deliver_log(&self, pilot: &PilotId, session: u64, chunk: wire::LogChunk) -> bool {
        let mut logs = self.logs.locked();
        // Nobody waits any more: then it makes no difference whose it is.
        let Some(awaited) = logs.get(&chunk.id) else { return true };
        if awaited.pilot != *pilot || awaited.session != session {
            return false;
        }
        if let Some(awaited) = logs.remove(&chunk.id) {
            let _ = awaited.answer.send(chunk);
        }
        true
    }
}

/// A piece of a log on its way. Dropped early, the pilot is told that nobody waits any more.
#[derive(Debug)]
pub(crate) struct LogPiece {
    pilots: Arc<Pilots>,
    id: u64,
    answer: oneshot::Receiver<wire::LogChunk>,
    orders: mpsc::UnboundedSender<Order>,
}

impl LogPiece {
    /// `None`: the connection to the pilot broke.
    pub(crate) async fn get(mut self) -> Option<wire::LogChunk> {
        tokio::select! {
            chunk = &mut self.answer => chunk.ok(),
            () = self.orders.closed() => None,
        }
    }
}

impl Drop for LogPiece {
    fn drop(&mut self) {
        let waiting = self.pilots.logs.locked().remove(&self.id);
        if waiting.is_some() {
            let close = wire::LogClose { id: self.id };
            let _ = self.orders.send(Order::Say(wire::to_pilot::Body::LogClose(close)));
        }
    }
}

/// What the core asks of pilots.
impl Pilots {
    pub(crate) fn assign(&self, pilot: &PilotId, tasks: Vec<Placement>) {
        self.order(pilot, Order::Assign(tasks));
    }

    pub(crate) fn stop(&self, pilot: &PilotId, tasks: Vec<(TaskId, Attempt)>, grace: Millis) {
        self.order(pilot, Order::Stop { tasks, grace });
    }

    pub(crate) fn close(&self, pilot: &PilotId) {
        let known = self.connected.locked().remove(pilot);
        if let Some(known) = known {
            known.close();
        }
    }

    pub(crate) fn close_all(&self) {
        let mut connected = self.connected.locked();
        connected.drain().for_each(|(_, known)| known.close());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is listed until its end has been noticed; who reads a log would ask it for ever.
    #[test]
    fn a_connection_that_has_ended_reads_no_log() {
        let pilots = Arc::new(Pilots::default());
        let pilot = PilotId::new("p").expect("good");
        let (orders, ordered) = mpsc::unbounded_channel();
        let node = NodeName::new("n").expect("good");
        let hung_up = Arc::new(Notify::new());
        pilots.connect(&pilot, Connected { session: 1, node, keeps: None, orders, hung_up });
        assert!(pilots.read_log(&pilot, None, wire::LogRequest::default()).is_some());
        drop(ordered);
        assert!(pilots.read_log(&pilot, None, wire::LogRequest::default()).is_none());
        assert!(pilots.logs.locked().is_empty(), "nobody waits for what nobody sends");
    }
}
