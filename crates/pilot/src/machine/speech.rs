//! What is said to the server and heard from it: greetings, reports, acknowledgements, heartbeats.
//!
//! A report costs the server a commit. So starts wait a little for the end, and while more work is
//! in the queue than the server needs to think about, ends wait for company; with an empty queue
//! each end leaves at once.

use super::{Connection, Machine, Now, Output};
use shipway_api::link::{FromPilot, FromServer, Hello, MAX_USAGES, Report};
use shipway_model::attempt;
use shipway_model::{AttemptId, HeldPhase, Millis, Usage};
use std::collections::VecDeque;

/// Starts and ends in one report: well below the size of a message, and one commit's worth.
pub(super) const MAX_REPORT: usize = 4_096;
/// How long a report waits for company: too short to be seen by people, and less than half of
/// the backlog (`BACKLOG_TARGET`) is used up meanwhile.
pub(super) const REPORT_WAIT: Millis = Millis(20);

impl Machine {
    /// Greets with everything held: what was reported but not acknowledged on an earlier
    /// connection is said again, and the server takes each end once.
    pub(super) fn link_up(&mut self, now: Now, out: &mut Vec<Output>) {
        self.connection_number = self.connection_number.next();
        self.new_starts.clear();
        self.new_ends.clear();
        self.new_uses.clear();
        self.report_due = None;
        self.contact.hello(now.steady);
        let ended = self.held.iter().filter(|(_, held)| held.has_ended());
        self.link = Some(Connection {
            welcomed: false,
            has_new_ad: false,
            in_hello: ended.map(|(id, _)| *id).collect(),
            last_report: 0,
            reports: VecDeque::new(),
        });
        self.reads.clear();
        out.push(Output::CloseLogs);
        let own = self.held.iter().map(|(id, held)| held.word(*id));
        let held = with_some_usage(own.chain(self.left.iter().cloned()));
        out.push(Output::Send(FromPilot::Hello(Box::new(Hello {
            pilot: self.identity.pilot.clone(),
            connection: self.connection_number,
            version: self.identity.version.clone(),
            ad: self.identity.ad.clone(),
            lease: self.identity.lease,
            held,
            folder_key: self.identity.folder_key.clone(),
        }))));
    }

    /// A goodbye that the server has heard is the last word; one that it may not have heard is said
    /// again on the next connection.
    pub(super) fn link_down(&mut self, parted: bool, out: &mut Vec<Output>) {
        self.link = None;
        if parted && self.goodbye == Some(self.connection_number) {
            out.push(Output::Finished);
        }
    }

    pub(super) fn hear(&mut self, now: Now, message: FromServer, out: &mut Vec<Output>) {
        if self.link.is_none() {
            return;
        }
        match message {
            FromServer::Welcome { .. } => {
                self.welcome(now);
                self.say_ad(out);
                self.say_leaving(out);
            }
            FromServer::Assign(assign) => self.assign(now, assign, out),
            FromServer::Stop { ids, grace } => self.stop(now, ids, grace, out),
            FromServer::Ack { report } => self.acknowledged(report),
            FromServer::Pong { number } => self.contact.pong(now.steady, number),
            FromServer::Log(request) => self.read_log(request, out),
            FromServer::LogClose { id } => self.close_log(id, out),
        }
    }

    /// All that the Hello told of is on the server's disk.
    fn welcome(&mut self, now: Now) {
        self.contact.welcome(now.steady);
        self.leaving.is_idle_from(now.steady);
        let Some(link) = &mut self.link else { return };
        link.welcomed = true;
        self.left.clear();
        for id in std::mem::take(&mut link.in_hello) {
            self.held.remove(&id);
        }
    }

    fn acknowledged(&mut self, report: u64) {
        let Some(link) = &mut self.link else { return };
        while let Some((_, ids)) = link.reports.pop_front_if(|(number, _)| *number <= report) {
            for id in ids {
                self.held.remove(&id);
            }
        }
    }

    /// Of those that run: an end says it itself.
    pub(super) fn used(&mut self, now: Now, used: Vec<(AttemptId, Box<Usage>)>) {
        for (id, usage) in used {
            let Some(held) = self.held.get_mut(&id).filter(|held| held.started().is_some()) else {
                continue;
            };
            held.usage = Some(usage);
            if !self.new_uses.contains(&id) {
                self.new_uses.push(id);
            }
            self.something_happened(now);
        }
    }

    pub(super) fn something_happened(&mut self, now: Now) {
        self.report_due.get_or_insert(Millis(now.steady.0 + REPORT_WAIT.0));
    }

    /// Reports what happened since the last report, if that is due; call it after a batch of
    /// inputs.
    pub fn flush(&mut self, now: Now) -> Vec<Output> {
        let mut out = Vec::new();
        if self.waits_for_company(now) {
            return out;
        }
        while let Some(report) = self.next_report() {
            out.push(Output::Send(FromPilot::Report(report)));
        }
        self.say_goodbye(&mut out);
        out
    }

    /// Ends wait only while there is work to go on with: the server hears of the last tasks at
    /// once. Starts always do, because the end of a short task tells of both.
    fn waits_for_company(&self, now: Now) -> bool {
        let Some(link) = &self.link else { return false };
        let only_starts = self.new_ends.is_empty();
        let has_work = self.queue.len() > self.refill_at;
        let is_answering = !link.reports.is_empty() && !self.queue.is_empty();
        let may_wait = only_starts || has_work || is_answering;
        may_wait && self.report_due.is_some_and(|due| now.steady < due)
    }

    /// Nothing is reported before the Welcome: until then the Hello speaks for all there is, and
    /// what happened since follows it.
    fn next_report(&mut self) -> Option<Report> {
        let link = self.link.as_mut().filter(|link| link.welcomed)?;
        if self.new_starts.is_empty() && self.new_ends.is_empty() && self.new_uses.is_empty() {
            return None;
        }
        let starts = self.new_starts.len().min(MAX_REPORT);
        let ends = self.new_ends.len().min(MAX_REPORT - starts);
        let word = |id: AttemptId| Some(self.held.get(&id)?.word(id));
        // One that has ended since says by that when it started.
        let runs = |held: &attempt::Held| matches!(held.phase, HeldPhase::Running { .. });
        let started = self.new_starts.drain(..starts).filter_map(word).filter(runs);
        let ids: Vec<AttemptId> = self.new_ends.drain(..ends).collect();
        let ended = ids.iter().copied().filter_map(word).filter(|held| held.end().is_some());
        let uses = self.new_uses.len().min(MAX_REPORT - starts - ids.len());
        let used = self.new_uses.drain(..uses).filter_map(word).filter(runs);
        let held = started.chain(ended).chain(used).collect();
        if self.new_starts.is_empty() && self.new_ends.is_empty() && self.new_uses.is_empty() {
            self.report_due = None;
        }
        link.last_report += 1;
        link.reports.push_back((link.last_report, ids));
        Some(Report { number: link.last_report, held })
    }

    pub(super) fn heartbeat(&mut self, now: Now, out: &mut Vec<Output>) {
        let Some(link) = &self.link else { return };
        if self.contact.is_dead(now.steady) {
            return self.drop_link(out);
        }
        if link.welcomed
            && let Some(number) = self.contact.ping(now.steady)
        {
            out.push(Output::Send(FromPilot::Ping { number }));
        }
    }

    /// So that the server gives nothing more. A new connection begins without it.
    pub(super) fn say_leaving(&self, out: &mut Vec<Output>) {
        if self.draining && self.is_welcome() {
            out.push(Output::Send(FromPilot::Leaving));
        }
    }

    /// Not before the Welcome: until then the server knows no node to change.
    pub(super) fn say_ad(&mut self, out: &mut Vec<Output>) {
        let Some(link) = self.link.as_mut().filter(|link| link.welcomed) else { return };
        if std::mem::take(&mut link.has_new_ad) {
            out.push(Output::Send(FromPilot::Ad(Box::new(self.identity.ad.clone()))));
        }
    }

    fn say_goodbye(&mut self, out: &mut Vec<Output>) {
        let done = self.draining && self.held.is_empty() && self.is_welcome();
        if done && self.goodbye != Some(self.connection_number) {
            self.goodbye = Some(self.connection_number);
            out.push(Output::Send(FromPilot::Goodbye));
        }
    }
}

/// A message has room for what so many have used; of the others that much is lost.
fn with_some_usage(held: impl Iterator<Item = attempt::Held>) -> Vec<attempt::Held> {
    let mut room = MAX_USAGES;
    let told = held.map(|held| {
        let usage = held.usage.filter(|_| room > 0);
        room -= usize::from(usage.is_some());
        attempt::Held { usage, ..held }
    });
    told.collect()
}
