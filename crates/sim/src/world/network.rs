//! The network between pilots and the server: delay and cuts.
//!
//! A connection keeps what was sent on it in order, and loses nothing in between, as a call does.
//! Behind a cut things wait; they are lost only when an end gives the connection up.

use super::{Happening, World};
use crate::server::Outgoing;
use shipway_api::link::{FromPilot, FromServer};
use shipway_api::wire;
use shipway_model::ConnectionNumber;
use shipway_model::limits::PILOT_LOST_AFTER;
use shipway_pilot::machine::Input;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) node: usize,
    pub(super) life: usize,
    pub(super) number: ConnectionNumber,
    /// Nothing arrives before these times: what was sent earlier arrives earlier.
    to_server_after: u64,
    to_pilot_after: u64,
}

impl World {
    pub(super) fn dial(&mut self, node: usize, life: usize) {
        let here = &self.nodes[node];
        if here.life() != life || here.pilot.as_ref().is_none_or(|p| p.connection.is_some()) {
            return;
        }
        if here.cut_until > self.now || self.server.is_none() {
            return self.redial(node, life);
        }
        self.last_connection += 1;
        let link = self.last_connection;
        let pilot = self.nodes[node].pilot.as_mut().expect("just seen");
        pilot.connection = Some(link);
        let number = pilot.machine.connection_number().next();
        let (to_server_after, to_pilot_after) = (0, 0);
        let connection = Connection { node, life, number, to_server_after, to_pilot_after };
        self.connections.insert(link, connection);
        if let Some(server) = &mut self.server {
            server.opened(link, self.now);
        }
        self.after(PILOT_LOST_AFTER.0, Happening::Silence { link });
        self.tell_pilot(node, Input::LinkUp);
    }

    pub(super) fn redial(&mut self, node: usize, life: usize) {
        let wait = self.dice.between(self.settings.redial);
        self.after(wait, Happening::Dial { node, life });
    }

    /// When something sent now arrives, given what was sent before.
    fn arrival(&mut self, node: usize, after: u64) -> u64 {
        let sent = self.now.max(self.nodes[node].cut_until);
        (sent + self.dice.between(self.settings.delay)).max(after)
    }

    pub(super) fn send_to_server(&mut self, link: u64, said: FromPilot) {
        let Some(connection) = self.connections.get(&link) else { return };
        let at = self.arrival(connection.node, connection.to_server_after);
        if let Some(connection) = self.connections.get_mut(&link) {
            connection.to_server_after = at;
        }
        self.at(at, Happening::ToServer { link, message: Box::new(said.into()) });
    }

    pub(super) fn send_to_pilot(&mut self, link: u64, message: wire::ToPilot) {
        if let Some(at) = self.arrival_at_pilot(link) {
            self.at(at, Happening::ToPilot { link, message });
        }
    }

    /// Behind all that was said.
    pub(super) fn hang_up(&mut self, link: u64) {
        if let Some(at) = self.arrival_at_pilot(link) {
            self.at(at, Happening::PilotSawLinkDown { link, parted: true });
            self.at(at, Happening::ServerSawLinkDown { link });
        }
    }

    fn arrival_at_pilot(&mut self, link: u64) -> Option<u64> {
        let connection = self.connections.get(&link)?;
        let at = self.arrival(connection.node, connection.to_pilot_after);
        self.connections.get_mut(&link)?.to_pilot_after = at;
        Some(at)
    }

    pub(super) fn deliver_to_server(&mut self, link: u64, message: wire::ToServer) {
        let now = self.now;
        let answer = self.server.as_mut().and_then(|server| server.hear(now, link, message));
        for said in answer.into_iter().flatten() {
            if let Outgoing::ToPilot { link, message } = said {
                self.send_to_pilot(link, message);
            }
        }
        self.wake_server();
    }

    pub(super) fn deliver_to_pilot(&mut self, link: u64, message: wire::ToPilot) {
        let Some(connection) = self.connections.get(&link) else { return };
        let (node, number) = (connection.node, connection.number);
        if self.uses(node, link) {
            let message = FromServer::read(message).expect("a good server says what can be read");
            let Some(message) = message else { return };
            self.tell_pilot(node, Input::Message { connection: number, message });
        }
    }

    /// Whether the node's pilot still holds this end of the connection.
    fn uses(&self, node: usize, link: u64) -> bool {
        self.nodes[node].pilot.as_ref().is_some_and(|pilot| pilot.connection == Some(link))
    }

    pub(super) fn server_saw_link_down(&mut self, link: u64) {
        if let Some(server) = &mut self.server {
            server.closed(link);
        }
        self.wake_server();
    }

    pub(super) fn pilot_saw_link_down(&mut self, link: u64, parted: bool) {
        let Some(connection) = self.connections.get(&link) else { return };
        let (node, life, number) = (connection.node, connection.life, connection.number);
        if !self.uses(node, link) {
            return;
        }
        if let Some(pilot) = &mut self.nodes[node].pilot {
            pilot.connection = None;
        }
        self.tell_pilot(node, Input::LinkDown { connection: number, parted });
        self.redial(node, life);
    }

    /// The server gives up a connection on which nothing has come for long.
    pub(super) fn check_silence(&mut self, link: u64) {
        let Some(heard) = self.server.as_ref().and_then(|server| server.heard(link)) else {
            return;
        };
        let end = heard + PILOT_LOST_AFTER.0;
        if end > self.now {
            return self.at(end, Happening::Silence { link });
        }
        self.give_up(link);
    }

    /// The server gives up a connection; the pilot learns of it in its own time.
    pub(super) fn give_up(&mut self, link: u64) {
        self.server_saw_link_down(link);
        let node = self.connections.get(&link).map_or(0, |connection| connection.node);
        let at = self.arrival(node, 0);
        self.at(at, Happening::PilotSawLinkDown { link, parted: false });
    }

    /// Both ends learn that the connection is gone, each in its own time.
    pub(super) fn break_link(&mut self, link: u64) {
        let server = self.dice.between(self.settings.delay);
        self.after(server, Happening::ServerSawLinkDown { link });
        let pilot = self.dice.between(self.settings.delay);
        self.after(pilot, Happening::PilotSawLinkDown { link, parted: false });
    }

    /// Nothing gets through to or from a node for a while. `noticed`: the connection breaks at
    /// once; otherwise both ends have to find out by the silence.
    pub fn cut(&mut self, node: usize, for_how_long: u64, noticed: bool) {
        self.totals.cuts += 1;
        self.nodes[node].cut_until = self.now + for_how_long;
        let link = self.nodes[node].pilot.as_ref().and_then(|pilot| pilot.connection);
        if let Some(link) = link.filter(|_| noticed) {
            self.break_link(link);
        }
        let name = self.nodes[node].ad.node.clone();
        self.note(|| format!("{name} is cut off for {for_how_long} ms (noticed: {noticed})"));
    }
}
