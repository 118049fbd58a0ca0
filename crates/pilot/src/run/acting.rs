//! What the machine answers, done: said to the server, started, signalled, written down.

use super::Work;
use super::link::ToLink;
use crate::machine::{HowEnded, Input, Output};
use crate::spawn;
use shipway_api::link::FromPilot;
use shipway_model::AttemptId;

impl Work {
    pub(super) fn act(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Send(message) => self.send(message),
                Output::Start(start) => self.start(&start),
                Output::Keep { ids } => self.keep(&ids),
                Output::Signal { id, signal } => self.signal(id, signal),
                Output::Collect { id, outcome } => self.stage_out(id, &outcome),
                Output::ReadLog(request) => self.logs.read(&request),
                Output::CloseLog { id } => self.logs.close(id),
                Output::CloseLogs => self.logs.close_all(),
                Output::Reconnect => {
                    let _ = self.to_link.send(ToLink::Reconnect);
                }
                Output::Finished => self.finished = true,
            }
        }
    }

    /// Before it is reported, and so before it could be let go of.
    pub(super) fn keep(&mut self, ids: &[AttemptId]) {
        self.ends.keep(ids.iter().filter_map(|id| self.machine.end_of(*id)));
        if self.ends.is_long() {
            self.ends.shorten(self.machine.ends());
        }
        for id in ids {
            self.told.remove(*id);
        }
    }

    pub(super) fn send(&self, message: FromPilot) {
        // Without a connection there is nobody to hear it; the next greeting says it all again.
        let _ = self.to_link.send(ToLink::Say(message));
    }

    /// Who is to end need not wait for an image first.
    pub(super) fn let_go(&mut self) {
        if !self.staging.is_empty() {
            for id in self.staging.bringing_in() {
                if self.machine.is_ending(id) {
                    self.stop_copying(id);
                }
            }
        }
        self.let_go_of_looks();
        for id in self.images.take_if(|id| self.machine.is_ending(id)) {
            self.refuse(id, "it was stopped while its image was fetched".into());
        }
    }

    pub(super) fn refuse(&mut self, id: AttemptId, message: String) {
        self.over(id, Input::ProcessNotStarted { id, message });
    }

    pub(super) fn signal(&mut self, id: AttemptId, number: i32) {
        let Some(ticket) = self.running.get(&id).copied() else { return self.stop_copying(id) };
        let Some(signal) = rustix::process::Signal::from_named_raw(number) else { return };
        self.limits.signalled(ticket);
        if self.pool.signal(ticket, signal) == spawn::Signalled::Sent {
            return;
        }
        if self.pool.withdraw(ticket) {
            // Not picked up by a spawner yet: then it need not start at all.
            self.forget(ticket);
            let how = HowEnded::Signal(number);
            let (out_of_memory, usage) = (None, None);
            self.over(id, Input::ProcessEnded { id, how, out_of_memory, usage });
        } else {
            // Being started this very moment, or just ended: sent as soon as it is there.
            self.unsent.insert(ticket, signal);
        }
    }
}
