//! The pilots' side of the server: who is connected, what is said to them, what they say.
//!
//! - `service.rs`  the control call: greeting and reports
//! - `saying.rs`   what goes out on it, in which order
//! - `orders.rs`   from the core's effects to messages
//! - `logs.rs`     the logs call, and who waits for what comes over it
//! - `files.rs`    the calls for files, whose order does not matter
//! - `calls.rs`    which calls there is one of at a time
//! - `later.rs`    orders that take long to be said
//! - `pace.rs`     how often a pilot may describe its node
//! - `specs.rs`    the specifications that messages are made from
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod calls;
mod files;
mod later;
mod logs;
mod orders;
mod pace;
mod saying;
mod sending;
mod service;
mod specs;

use crate::locks::Locked;
use shipway_api::link::FromServer;
use shipway_core::event::Placement;
use shipway_core::site::KeptIn;
use shipway_model::{AttemptId, ConnectionNumber, Millis, NodeName, PilotId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

pub(crate) use logs::LogPiece;
pub use orders::Describe;
pub use service::PilotService;
pub use specs::Specs;

/// What is to be said to one pilot.
#[derive(Debug)]
pub(crate) enum PilotOrder {
    Assign(Vec<Placement>),
    Stop {
        attempts: Vec<AttemptId>,
        grace: Millis,
    },
    Say(FromServer),
    /// To read output, where somebody still waits for it.
    Read(logs::Asked),
    /// To something that the pilot said, with its place among those that wait to be taken.
    Answer(FromServer, OwnedSemaphorePermit),
    End(End),
}

/// How the control call comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The pilot's token is over, by its goodbye or by somebody's wish, and that is on disk.
    Parted,
    /// Nothing is said of the pilot: it greets again.
    GivenUp,
}

/// The connected pilots. Orders are bounded by what the scheduler places, and those to read output
/// by places of their own, so the channels to the connections are not bounded themselves.
#[derive(Debug, Default)]
pub struct Pilots {
    connected: Mutex<HashMap<PilotId, Connected>>,
    paces: pace::Paces,
    /// Pilots whose greeting is being heard.
    greeting: calls::OneEach<PilotId>,
    /// Connections whose output comes.
    showing: calls::OneEach<(PilotId, ConnectionNumber)>,
    logs: logs::Awaiting,
    /// Calls for files that are under way.
    filing: calls::FewEach<PilotId>,
    fetches: files::Fetches,
}

#[derive(Debug)]
struct Connected {
    number: ConnectionNumber,
    /// What its node goes by, once its greeting is on disk.
    node: Option<NodeName>,
    /// Whose output it can read beside its own.
    keeps: Option<KeptIn>,
    orders: mpsc::UnboundedSender<PilotOrder>,
    /// Places for orders to read output that are not said yet.
    reads: Arc<Semaphore>,
    /// Gone with this: nothing more is to be heard on any call of the connection, however slowly it
    /// takes what was said to it.
    here: watch::Sender<()>,
}

impl Connected {
    fn close(self, end: End) {
        let _ = self.orders.send(PilotOrder::End(end));
    }
}

/// Comes when the connection is over.
async fn over(mut here: watch::Receiver<()>) {
    while here.changed().await.is_ok() {}
}

impl Pilots {
    /// Replaces an earlier connection of the same pilot: the core has found that it is newer.
    fn connect(&self, pilot: &PilotId, comes: Connected) {
        let mut connected = self.connected.locked();
        if let Some(before) = connected.insert(pilot.clone(), comes) {
            before.close(End::GivenUp);
        }
    }

    /// However often a pilot describes its node, it is heard at once.
    pub(crate) fn hear_at_any_pace(&self) {
        self.paces.turn_off();
    }

    /// The nodes that the connected ones are on.
    pub fn nodes(&self) -> Vec<(PilotId, String)> {
        let connected = self.connected.locked();
        let named =
            connected.iter().filter_map(|(pilot, known)| Some((pilot, known.node.as_ref()?)));
        named.map(|(pilot, node)| (pilot.clone(), node.to_string())).collect()
    }

    fn name(&self, pilot: &PilotId, number: ConnectionNumber, node: &NodeName) {
        let mut connected = self.connected.locked();
        if let Some(known) = connected.get_mut(pilot).filter(|known| known.number == number) {
            known.node = Some(node.clone());
        }
    }

    /// By which to know when this connection is over. `None`: it is, or never was.
    fn watch(&self, pilot: &PilotId, number: ConnectionNumber) -> Option<watch::Receiver<()>> {
        let connected = self.connected.locked();
        let known = connected.get(pilot).filter(|known| known.number == number);
        known.map(|known| known.here.subscribe())
    }

    fn disconnect(&self, pilot: &PilotId, number: ConnectionNumber) {
        let mut connected = self.connected.locked();
        if connected.get(pilot).is_some_and(|known| known.number == number) {
            connected.remove(pilot);
        }
    }

    fn order(&self, pilot: &PilotId, order: PilotOrder) {
        let connected = self.connected.locked();
        // A pilot that is away is told when it comes back: the core compares then.
        if let Some(known) = connected.get(pilot) {
            let _ = known.orders.send(order);
        }
    }
}

/// What the core asks of pilots.
impl Pilots {
    pub(crate) fn assign(&self, pilot: &PilotId, tasks: Vec<Placement>) {
        self.order(pilot, PilotOrder::Assign(tasks));
    }

    pub(crate) fn stop(&self, pilot: &PilotId, attempts: Vec<AttemptId>, grace: Millis) {
        self.order(pilot, PilotOrder::Stop { attempts, grace });
    }

    pub(crate) fn close(&self, pilot: &PilotId) {
        let known = self.connected.locked().remove(pilot);
        if let Some(known) = known {
            known.close(End::Parted);
        }
    }

    pub(crate) fn close_all(&self) {
        let mut connected = self.connected.locked();
        connected.drain().for_each(|(_, known)| known.close(End::GivenUp));
    }
}
