//! What is said to the server and heard from it: greetings, reports, acknowledgements, heartbeats.
//!
//! A report costs the server a commit. So starts wait a little for the end, and while more work is
//! in the queue than the server needs to think about, ends wait for company; with an empty queue
//! each end leaves at once.

use super::held::Phase;
use super::{AttemptKey, Connection, Held, Machine, Now, Output};
use shipway_api::{link, wire};
use shipway_model::Millis;
use std::collections::VecDeque;

/// Starts and ends in one report: well below the size of a message, and one commit's worth.
pub(super) const MAX_REPORT: usize = 4_096;
/// How long a report waits for company: too short to be seen by people, and less than half of
/// the backlog (`BACKLOG_TARGET`) is used up meanwhile.
pub(super) const REPORT_WAIT: Millis = Millis(20);

fn say(body: wire::to_server::Body) -> Output {
    Output::Send(wire::ToServer { body: Some(body) })
}

impl Machine {
    /// Greets with everything held: what was reported but not acknowledged on an earlier
    /// connection is said again, and the server takes each end once.
    pub(super) fn link_up(&mut self, now: Now, out: &mut Vec<Output>) {
        self.session += 1;
        self.new_starts.clear();
        self.new_ends.clear();
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
        let left = self.left.iter().map(|ended| wire::Held {
            id: ended.id,
            phase: Some(wire::held::Phase::Ended(ended.clone())),
        });
        out.push(say(wire::to_server::Body::Hello(wire::Hello {
            protocol: link::PROTOCOL,
            pilot: self.identity.pilot.to_string(),
            session: self.session,
            version: self.identity.version.clone(),
            ad_json: link::encode_ad(&self.identity.ad),
            lease_ms: self.identity.lease.map_or(0, |lease| lease.0),
            held: self.held.iter().map(|(id, held)| held.wire(*id)).chain(left).collect(),
            folder_key: self.identity.folder_key.clone(),
        })));
    }

    /// A goodbye that the server has heard is the last word; one that it may not have heard is said
    /// again on the next connection.
    pub(super) fn link_down(&mut self, parted: bool, out: &mut Vec<Output>) {
        self.link = None;
        if parted && self.goodbye == Some(self.session) {
            out.push(Output::Finished);
        }
    }

    pub(super) fn hear(&mut self, now: Now, message: wire::ToPilot, out: &mut Vec<Output>) {
        use wire::to_pilot::Body;
        if self.link.is_none() {
            return;
        }
        match message.body {
            Some(Body::Welcome(_)) => {
                self.welcome(now);
                self.say_ad(out);
                self.say_leaving(out);
            }
            Some(Body::Assign(assign)) => self.assign(now, assign, out),
            Some(Body::Stop(stop)) => self.stop(now, &stop, out),
            Some(Body::Ack(ack)) => self.acknowledged(ack.report),
            Some(Body::Pong(pong)) => self.contact.pong(now.steady, pong.number),
            Some(Body::Log(request)) => self.read_log(request, out),
            Some(Body::LogClose(close)) => self.close_log(close.id, out),
            // A newer server says something that this pilot does not know and need not do.
            None => {}
        }
    }

    /// All that the Hello told of is on the server's disk.
    fn welcome(&mut self, now: Now) {
        self.contact.welcome(now.steady);
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
            out.push(say(wire::to_server::Body::Report(report)));
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
    fn next_report(&mut self) -> Option<wire::Report> {
        let link = self.link.as_mut().filter(|link| link.welcomed)?;
        if self.new_starts.is_empty() && self.new_ends.is_empty() {
            return None;
        }
        let starts = self.new_starts.len().min(MAX_REPORT);
        let ends = self.new_ends.len().min(MAX_REPORT - starts);
        let started = self.new_starts.drain(..starts);
        let started = started.filter_map(|id| started_at(id, self.held.get(&id)?)).collect();
        let ids: Vec<AttemptKey> = self.new_ends.drain(..ends).collect();
        let ended = ids.iter().filter_map(|id| match &self.held.get(id)?.phase {
            Phase::Ended(ended) => Some((**ended).clone()),
            Phase::Queued | Phase::Starting | Phase::Running { .. } => None,
        });
        let ended = ended.collect();
        if self.new_starts.is_empty() && self.new_ends.is_empty() {
            self.report_due = None;
        }
        link.last_report += 1;
        link.reports.push_back((link.last_report, ids));
        Some(wire::Report { number: link.last_report, started, ended })
    }

    pub(super) fn heartbeat(&mut self, now: Now, out: &mut Vec<Output>) {
        let Some(link) = &self.link else { return };
        if self.contact.is_dead(now.steady) {
            return self.drop_link(out);
        }
        if link.welcomed
            && let Some(number) = self.contact.ping(now.steady)
        {
            out.push(say(wire::to_server::Body::Ping(wire::Ping { number })));
        }
    }

    /// So that the server gives nothing more. A new connection begins without it.
    pub(super) fn say_leaving(&self, out: &mut Vec<Output>) {
        if self.draining && self.is_welcome() {
            out.push(say(wire::to_server::Body::Leaving(wire::Leaving {})));
        }
    }

    /// Not before the Welcome: until then the server knows no node to change.
    pub(super) fn say_ad(&mut self, out: &mut Vec<Output>) {
        let Some(link) = self.link.as_mut().filter(|link| link.welcomed) else { return };
        if std::mem::take(&mut link.has_new_ad) {
            let ad_json = link::encode_ad(&self.identity.ad);
            out.push(say(wire::to_server::Body::Ad(wire::Ad { ad_json })));
        }
    }

    fn say_goodbye(&mut self, out: &mut Vec<Output>) {
        let done = self.draining && self.held.is_empty() && self.is_welcome();
        if done && self.goodbye != Some(self.session) {
            self.goodbye = Some(self.session);
            out.push(say(wire::to_server::Body::Goodbye(wire::Goodbye {})));
        }
    }
}

/// `None` for one that has ended since: its end says when it started.
fn started_at(id: AttemptKey, held: &Held) -> Option<wire::Started> {
    match &held.phase {
        Phase::Running { started, .. } => {
            Some(wire::Started { id: Some(id.wire()), started_ms: started.0 })
        }
        Phase::Queued | Phase::Starting | Phase::Ended(_) => None,
    }
}
