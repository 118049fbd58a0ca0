//! The server's side: when it works, when it crashes, what a restart finds.

use super::{Happening, World};
use crate::disk::Fault;
use crate::server::{Outgoing, Server, Then};
use shipway_core::event::{Event, Recorded};
use shipway_core::{Command, State, invariants};
use shipway_model::{JobId, Lost, Millis, Outcome};
use shipway_shell::Wish;

/// How the end of an attempt is known among the lines of a journal.
const ATTEMPT_ENDED: &str = r#""type":"attempt_ended""#;

/// How long after a failure the disk is tried again.
const RETRY_AFTER: u64 = 1_000;

/// Where a crash hits one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crash {
    /// Nobody knows whether it is on disk.
    AmidCommit,
    AfterCommit,
    /// After this many of the things that were to go out.
    Amid(usize),
}

impl World {
    pub fn ask(&mut self, command: Command) {
        if let Some(server) = &mut self.server {
            let wish = match command {
                Command::Retry { select, .. } => Wish::Retry(select),
                command => Wish::Core(command),
            };
            server.ask(wish, Then::Nothing);
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

    /// Unless it is another one by now.
    fn take_server(&mut self, run: u64) -> Option<Server> {
        if run == self.run { self.server.take() } else { None }
    }

    pub(super) fn server_works(&mut self, run: u64) {
        let Some(mut server) = self.take_server(run) else { return };
        self.works_at = None;
        if server.problem.is_some() {
            server.refuse();
            return self.release(server, None);
        }
        let before = server.steps;
        let wrong = server.decide(self.now);
        self.totals.steps += server.steps - before;
        if let Some(what) = wrong {
            self.fail(what);
        }
        if server.is_writing() {
            self.server = Some(server);
        } else {
            self.write(server);
        }
    }

    /// The second thread is done with a batch; what was decided meanwhile is next.
    pub(super) fn server_written(&mut self, run: u64) {
        let Some(mut server) = self.take_server(run) else { return };
        let crash = self.draw_fault();
        server.written();
        if self.is_over_with(&mut server, crash) {
            return;
        }
        self.release(server, crash);
        if let Some(server) = self.server.take() {
            self.write(server);
        }
    }

    /// What goes wrong with the next commit.
    fn draw_fault(&mut self) -> Option<Crash> {
        let crash = self.dice.chance(self.settings.crash).then(|| match self.dice.below(3) {
            0 => Crash::AmidCommit,
            1 => Crash::AfterCommit,
            _ => Crash::Amid(usize::try_from(self.dice.below(10)).unwrap_or(0)),
        });
        if crash == Some(Crash::AmidCommit) || self.dice.chance(self.settings.disk_fails) {
            self.totals.disk_faults += 1;
            let stays_bad = self.dice.below(4);
            self.disk.fail(Fault { stays_bad });
        }
        crash
    }

    fn write(&mut self, mut server: Server) {
        self.disk.set_slow(self.dice.chance(500));
        let took = self.dice.between(self.settings.commit);
        if server.hand_over(self.now) {
            self.after(took, Happening::ServerWritten { run: self.run });
            return self.release(server, None);
        }
        let crash = self.draw_fault();
        server.write(self.now);
        self.busy_until = self.now + took;
        if server.problem.is_some() {
            self.after(RETRY_AFTER, Happening::ServerRetries { run: self.run });
        }
        if !self.is_over_with(&mut server, crash) {
            self.release(server, crash);
        }
    }

    /// Whether the server is down now. What it had told before its time is out all the same.
    fn is_over_with(&mut self, server: &mut Server, crash: Option<Crash>) -> bool {
        self.account();
        match crash {
            Some(Crash::AmidCommit) => {
                for out in server.release(&self.disk) {
                    self.let_out(out);
                }
                self.server_is_down("amid a commit");
                true
            }
            Some(Crash::AfterCommit) => {
                self.server_is_down("just after a commit");
                true
            }
            Some(Crash::Amid(_)) | None => false,
        }
    }

    fn release(&mut self, mut server: Server, crash: Option<Crash>) {
        let outgoing = server.release(&self.disk);
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

    pub(super) fn server_retries(&mut self, run: u64) {
        let Some(mut server) = self.take_server(run) else { return };
        server.go_on(self.now);
        if server.problem.is_some() {
            self.after(RETRY_AFTER, Happening::ServerRetries { run: self.run });
        }
        self.account();
        self.release(server, None);
    }

    /// What is on disk now and was not before is compared with what really happened.
    fn account(&mut self) {
        let (disk, from) = (self.disk.clone(), self.accounted);
        self.accounted = disk.commits();
        disk.show(from, |line| {
            self.totals.events += 1;
            if line.contains(ATTEMPT_ENDED) {
                self.attempt_ended(line);
            }
            self.note(|| format!("journal: {}", line.chars().take(160).collect::<String>()));
        });
    }

    fn attempt_ended(&mut self, line: &str) {
        let Ok(Recorded { event: Event::AttemptEnded(ended), .. }) =
            Recorded::read(line.as_bytes())
        else {
            return self.fail(format!("the disk has an end that cannot be read: {line}"));
        };
        let lost = matches!(ended.outcome, Outcome::Lost { .. });
        self.totals.lost_attempts += u64::from(lost);
        let run_out = ended.outcome == Outcome::Lost { why: Lost::LeaseRanOut };
        self.totals.leases_run_out += u64::from(run_out);
        if let Err(what) = self.truth.told(&ended) {
            self.fail(what);
        }
    }

    fn let_out(&mut self, out: Outgoing) {
        match out {
            Outgoing::ToPilot { link, message } => self.send_to_pilot(link, message),
            Outgoing::HangUp { link } => self.hang_up(link),
            Outgoing::GiveUp { link } => self.give_up(link),
            Outgoing::ForSites(effect) => self.for_sites(effect),
            Outgoing::Shown { next_job } => {
                let last = self.disk.jobs().last().copied().unwrap_or(JobId(0));
                if next_job.0 > last.0 + 1 {
                    self.fail(format!("job {last} is the last on disk, but {next_job} is next"));
                }
            }
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
        let is_there = self.dice.chance(500);
        self.disk.crashed(is_there);
        self.account();
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
        match (self.disk.recover(), self.disk.replay_all()) {
            (Ok(restored), Ok(replayed)) => {
                let state = &restored.0;
                if *state != replayed {
                    let what = difference(state, &replayed);
                    self.fail(format!("snapshot and tail differ from a whole replay: {what}"));
                }
                if let Some(first) = invariants::check(state).first() {
                    self.fail(format!("after a restart: {first:?}"));
                }
                let now = (self.wall(), Millis(self.now));
                let server = Server::start(restored, &self.disk, now, &self.settings);
                self.server = Some(server);
            }
            (Err(what), _) | (_, Err(what)) => self.fail(format!("the disk is unreadable: {what}")),
        }
        self.run += 1;
        (self.works_at, self.tick_at) = (None, None);
        self.broker_at = None;
        self.broker_soon(1);
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
