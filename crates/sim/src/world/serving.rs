//! The server's side: when it works, when it crashes, what a restart finds.

use super::{Happening, World};
use crate::server::{Batch, Outgoing, Server, Then};
use shipway_core::event::Event;
use shipway_core::{Command, State, invariants};
use shipway_model::{Lost, Millis, Outcome};

/// Where a crash hits one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crash {
    BeforeCommit,
    AfterCommit,
    /// After this many of the things that were to go out.
    Amid(usize),
}

impl World {
    pub fn ask(&mut self, command: Command) {
        if let Some(server) = &mut self.server {
            server.ask(command, Then::Nothing);
        }
        self.wake_server();
    }

    /// The writer works when something waits and the last commit is done.
    pub(super) fn wake_server(&mut self) {
        let Some(server) = &self.server else { return };
        if server.is_idle() || self.works_at.is_some() {
            return;
        }
        let at = self.busy_until.max(self.now + 1);
        self.works_at = Some(at);
        self.at(at, Happening::ServerWorks { run: self.run });
    }

    pub(super) fn server_works(&mut self, run: u64) {
        let Some(mut server) = self.server.take().filter(|_| run == self.run) else { return };
        self.works_at = None;
        let before = server.steps;
        let mut batch = server.decide(self.now, &self.disk);
        self.totals.steps += server.steps - before;
        if let Some(what) = batch.violation.take() {
            self.fail(what);
        }
        let crash = self.dice.chance(self.settings.crash).then(|| match self.dice.below(3) {
            0 => Crash::BeforeCommit,
            1 => Crash::AfterCommit,
            _ => Crash::Amid(usize::try_from(self.dice.below(10)).unwrap_or(0)),
        });
        if crash == Some(Crash::BeforeCommit) {
            return self.server_is_down("before a commit");
        }
        self.commit(&batch, &server);
        self.busy_until = self.now + self.dice.between(self.settings.commit);
        if crash == Some(Crash::AfterCommit) {
            return self.server_is_down("just after a commit");
        }
        let outgoing = server.release(batch, &self.disk);
        self.server = Some(server);
        for (at, out) in outgoing.into_iter().enumerate() {
            if crash == Some(Crash::Amid(at)) {
                return self.crash_server();
            }
            self.let_out(out);
        }
        self.set_server_timer();
        self.wake_server();
    }

    fn commit(&mut self, batch: &Batch, server: &Server) {
        if batch.events.is_empty() {
            return;
        }
        self.disk.commit(&batch.events, &server.state);
        self.totals.events += batch.events.len() as u64;
        for recorded in &batch.events {
            if let Event::AttemptEnded(ended) = &recorded.event {
                let lost = matches!(ended.outcome, Outcome::Lost { .. });
                self.totals.lost_attempts += u64::from(lost);
                if let Err(what) = self.truth.told(ended) {
                    self.fail(what);
                }
                let run_out = ended.outcome == Outcome::Lost { why: Lost::LeaseRanOut };
                self.totals.leases_run_out += u64::from(run_out);
            }
            self.note(|| format!("journal: {:?}", recorded.event).chars().take(160).collect());
        }
        if self.disk.batches().is_multiple_of(self.settings.snapshot_every) {
            self.disk.take_snapshot(&server.state);
        }
    }

    fn let_out(&mut self, out: Outgoing) {
        match out {
            Outgoing::ToPilot { link, message } => self.send_to_pilot(link, message),
            Outgoing::Reply { wish, answer } => {
                if self.dice.chance(self.settings.lose_reply) {
                    return;
                }
                let delay = self.dice.between(self.settings.delay);
                self.after(delay, Happening::Replied { wish, answer });
            }
        }
    }

    fn set_server_timer(&mut self) {
        let Some(wait) = self.server.as_ref().and_then(|server| server.wait(self.now)) else {
            return;
        };
        let at = self.now + wait.max(1);
        if self.tick_at.is_none_or(|set| at < set || set < self.now) {
            self.tick_at = Some(at);
            self.at(at, Happening::ServerTick { run: self.run });
        }
    }

    pub(super) fn server_tick(&mut self, run: u64) {
        let now = self.now;
        if run == self.run && self.tick_at.is_some_and(|set| set <= now) {
            self.tick_at = None;
            self.ask(Command::Tick);
        }
    }

    pub fn crash_server(&mut self) {
        if self.server.take().is_some() {
            self.server_is_down("between two happenings");
        }
    }

    /// The process is gone: everything in its memory, and its end of every connection.
    fn server_is_down(&mut self, when: &str) {
        self.server = None;
        self.totals.crashes += 1;
        self.run += 1;
        self.note(|| format!("the server crashes {when}"));
        let open: Vec<u64> =
            self.nodes.iter().filter_map(|node| node.pilot.as_ref()?.connection).collect();
        for link in open {
            self.break_link(link);
        }
        let down = self.dice.between(self.settings.server_down);
        self.after(down, Happening::ServerRestarts);
    }

    pub fn restart_server(&mut self) {
        if self.server.is_some() {
            return;
        }
        match (self.disk.recover(), self.disk.replay()) {
            (Ok(state), Ok(replayed)) => {
                if state != replayed {
                    let what = difference(&state, &replayed);
                    self.fail(format!("snapshot and tail differ from a whole replay: {what}"));
                }
                if let Some(first) = invariants::check(&state).first() {
                    self.fail(format!("after a restart: {first:?}"));
                }
                let server = Server::start(state, self.wall(), Millis(self.now));
                self.server = Some(server);
            }
            (Err(what), _) | (_, Err(what)) => self.fail(format!("the disk is unreadable: {what}")),
        }
        self.run += 1;
        (self.works_at, self.tick_at) = (None, None);
        self.note(|| "the server starts".to_string());
        self.check_promises_kept();
        self.wake_server();
    }
}

/// Where two states that should be equal part ways.
fn difference(left: &State, right: &State) -> String {
    let (left, right) = (format!("{left:?}"), format!("{right:?}"));
    let same = left.bytes().zip(right.bytes()).take_while(|(a, b)| a == b).count();
    let around =
        |text: &str| -> String { text.chars().skip(same.saturating_sub(80)).take(160).collect() };
    format!("…{}… and …{}…", around(&left), around(&right))
}
