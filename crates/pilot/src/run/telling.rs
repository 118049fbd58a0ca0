//! What happens, told to the machine: processes that start and end, messages, time.

use super::link::FromLink;
use super::usage::News;
use super::{Work, millis, wall_millis};
use crate::machine::{HowEnded, Input, Now};
use crate::seldom::{Seldom, in_short};
use crate::spawn::{self, ProcessEvent, Ticket};
use shipway_api::causes::causes;
use shipway_api::link::{FromPilot, SeriesOf};
use shipway_model::{AttemptId, Timestamp};
use std::time::{Duration, Instant, SystemTime};

impl Work {
    /// How long the loop may sleep, unless woken. `None`: the pilot has finished.
    pub(super) fn lie_down(&mut self) -> Option<Instant> {
        self.asleep_until = self.wait_until();
        (!self.finished).then_some(self.asleep_until)
    }

    pub(super) fn flush(&mut self) {
        self.let_go();
        let outputs = self.machine.flush(self.now());
        self.act(outputs);
    }

    pub(super) fn now(&self) -> Now {
        Now {
            steady: millis(self.steady.elapsed()),
            wall: Timestamp(wall_millis(SystemTime::now())),
        }
    }

    pub(super) fn wait_until(&self) -> Instant {
        /// Nothing is due: any long time will do.
        const LONG: Duration = Duration::from_hours(1);
        let due = self.machine.next_deadline().map(|at| self.steady + Duration::from_millis(at.0));
        let looked = self.limits.next_look();
        [due, looked, self.groups.next_look(), self.doubtful.next()]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or_else(|| Instant::now() + LONG)
    }

    pub(super) fn tick(&mut self) {
        self.pool.reap_orphans();
        let now = Instant::now();
        let over = self.limits.look(now).into_iter().chain(self.groups.look(now));
        for (ticket, words) in over {
            match words {
                Some(words) => self.pool.end(ticket, words),
                None => drop(self.pool.signal(ticket, rustix::process::Signal::KILL)),
            }
        }
        for ended in self.doubtful.take_due(now) {
            self.process_ended(ended);
        }
        self.input(Input::Tick);
        self.flush();
    }

    pub(super) fn input(&mut self, input: Input) {
        let outputs = self.machine.handle(self.now(), input);
        self.act(outputs);
    }

    pub(super) fn process(&mut self, event: ProcessEvent) {
        match event {
            ProcessEvent::Started { ticket, pid, .. } => {
                let Some(id) = self.tickets.get(&ticket).copied() else { return };
                self.limits.started(ticket, pid);
                self.shares.started(ticket, pid);
                self.usages.started(ticket, pid);
                if let Some(signal) = self.unsent.remove(&ticket) {
                    self.pool.signal(ticket, signal);
                }
                self.input(Input::ProcessStarted { id });
            }
            ProcessEvent::NotStarted { ticket, error } => {
                let Some(id) = self.forget(ticket) else { return };
                self.over(id, not_started(id, &error));
            }
            ProcessEvent::Ended(ended) => {
                if let Some(ended) = self.unless_doubtful(ended) {
                    self.process_ended(ended);
                }
            }
        }
    }

    pub(super) fn process_ended(&mut self, ended: spawn::Ended) {
        let (usage, series) = self.usages.ended(&ended);
        let over_share = self.shares.ended(ended.ticket);
        let looked = self.limits.ended(&ended);
        // A group knows its own; what was seen of the node may have been anybody's.
        let out_of_memory = over_share.or(self.groups.ended(ended.ticket)).or(looked);
        let Some(id) = self.forget(ended.ticket) else { return };
        let how = match ended.how {
            spawn::HowEnded::Exit(code) => HowEnded::Exit(code),
            spawn::HowEnded::Signal(signal) => HowEnded::Signal(signal),
            // Somebody else reaped it: it is dead, and not in a way we can call success.
            spawn::HowEnded::Unknown => HowEnded::Signal(crate::machine::SIGKILL),
        };
        // Before its end: from then on the server takes nothing of it any more.
        if let Some(series) = series {
            self.send(FromPilot::Series(vec![SeriesOf { id, series }]));
        }
        let usage = Some(Box::new(usage));
        self.over(id, Input::ProcessEnded { id, how, out_of_memory, usage });
    }

    /// What tasks that run have used so far.
    pub(super) fn used(&mut self, news: News) {
        let series = news.series.into_iter().map(|(id, series)| SeriesOf { id, series });
        let series: Vec<SeriesOf> = series.collect();
        if !series.is_empty() && self.machine.is_welcome() {
            self.send(FromPilot::Series(series));
        }
        let used = news.used.into_iter().map(|(id, usage)| (id, Box::new(usage)));
        self.input(Input::Used { used: used.collect() });
    }

    /// The last that is told of an attempt, unless its files are to be taken.
    pub(super) fn over(&mut self, id: AttemptId, input: Input) {
        self.input(input);
        self.let_go_of_files(id);
    }

    pub(super) fn forget(&mut self, ticket: Ticket) -> Option<AttemptId> {
        let id = self.tickets.remove(&ticket)?;
        self.running.remove(&id);
        self.unsent.remove(&ticket);
        self.limits.forget(ticket);
        self.groups.forget(ticket);
        self.shares.ended(ticket);
        self.usages.forget(ticket);
        if self.staging.is_empty() || self.staging.get(id).is_none() {
            self.tasks.clean(id);
        }
        Some(id)
    }

    pub(super) fn link(&mut self, event: FromLink) {
        match event {
            FromLink::Up { connection } => {
                self.input(Input::LinkUp);
                let _ = connection.send(self.machine.connection_number());
            }
            FromLink::Message { connection, message } => {
                self.input(Input::Message { connection, message });
            }
            FromLink::Down { connection, parted } => {
                self.input(Input::LinkDown { connection, parted });
            }
            // A token ends with the goodbye: this is how it is known to have been heard.
            FromLink::Refused if self.machine.has_said_goodbye() => self.finished = true,
            FromLink::Refused => self.refused = true,
        }
    }
}

/// What its node has no room for has not failed.
fn not_started(id: AttemptId, error: &spawn::StartError) -> Input {
    let message = causes(error);
    match error {
        spawn::StartError::NoContainer { .. } | spawn::StartError::NoRoom { .. } => {
            static LINES: Seldom = Seldom::new();
            if LINES.may() {
                let message = in_short(&message);
                tracing::warn!(message, "a task is given back: it may begin elsewhere");
            }
            Input::NoRoom { id }
        }
        _ => Input::ProcessNotStarted { id, message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;
    use shipway_model::ids::{Attempt, JobId, TaskIndex};
    use spawn::StartError;

    #[test]
    fn a_task_for_which_its_node_has_no_room_has_not_failed() {
        let id = AttemptId { task: JobId(1).task(TaskIndex(0)), attempt: Attempt(1) };
        let (program, cwd) = ("true".to_owned(), "/".to_owned());
        let no_container = StartError::NoContainer { message: "no room".into() };
        let no_process =
            StartError::NoRoom { program: program.clone(), cwd: cwd.clone(), source: Errno::AGAIN };
        for error in [no_container, no_process] {
            assert!(matches!(not_started(id, &error), Input::NoRoom { .. }), "{error:?}");
        }
        let no_program = StartError::NoProgram { program, cwd };
        assert!(matches!(not_started(id, &no_program), Input::ProcessNotStarted { .. }));
    }
}
