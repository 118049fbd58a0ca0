//! What is decided but not yet on disk: events, rows, effects, and the answers that wait for them.

use crate::rows::{self, EncodedEvent};
use crate::{Done, HistoryRow, Lines, MAX_COMMIT_BYTES, Outside, Question, WriteError};
use shipway_core::event::{Event, Recorded};
use shipway_core::{Effect, State};
use shipway_model::Timestamp;
use shipway_model::limits::MAX_SPEC_BYTES;

/// A batch is closed at a third of what one commit may hold; the rest is room for the last wish and
/// what follows from it. The largest job, written in full, takes less than twice what it came in:
/// a batch that a commit cannot hold would be refused, and everybody in it.
const FULL_BYTES: usize = MAX_COMMIT_BYTES / 3;
const _: () = assert!(FULL_BYTES + 2 * MAX_SPEC_BYTES < MAX_COMMIT_BYTES);

pub struct Batch<O: Outside> {
    pub(crate) events: Vec<Recorded>,
    /// How many there are, each placement counted as one: a plan is one event of thousands.
    weight: usize,
    /// The same events, as they are written.
    pub(crate) encoded: Lines,
    pub(crate) rows: Vec<HistoryRow>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) replies: Vec<(O::Reply, Result<Done, WriteError>)>,
    /// What was asked, looked up in the state with these events in it.
    pub(crate) questions: Vec<O::Question>,
    /// What is to be seen when it is on disk.
    pub(crate) publication: Option<O::Publication>,
    /// The state's time after the last event.
    pub(crate) at: Timestamp,
}

impl<O: Outside> Default for Batch<O> {
    fn default() -> Self {
        Batch {
            events: Vec::new(),
            weight: 0,
            encoded: Lines::default(),
            rows: Vec::new(),
            effects: Vec::new(),
            replies: Vec::new(),
            questions: Vec::new(),
            publication: None,
            at: Timestamp(0),
        }
    }
}

impl<O: Outside> std::fmt::Debug for Batch<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Batch of {} events", self.events.len())
    }
}

/// How far a batch had come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    events: usize,
    weight: usize,
    rows: usize,
    effects: usize,
}

impl<O: Outside> Batch<O> {
    #[expect(clippy::expect_used, reason = "an event is plain data; whoever calls is guarded")]
    pub(crate) fn add(&mut self, recorded: Recorded, state: &State) {
        let start = self.encoded.push_written(|text| {
            serde_json::to_writer(text, &recorded).expect("an event is plain data");
        });
        let written = EncodedEvent { text: self.encoded.text(), start };
        rows::add(&mut self.rows, &recorded, &written, state);
        self.weight += weight(&recorded.event);
        self.events.push(recorded);
    }

    pub(crate) fn mark(&self) -> Mark {
        let (events, rows) = (self.events.len(), self.rows.len());
        Mark { events, weight: self.weight, rows, effects: self.effects.len() }
    }

    /// Takes back what was added since. Of each event there is the encoded one too.
    pub(crate) fn back_to(&mut self, mark: Mark) {
        self.events.truncate(mark.events);
        self.weight = mark.weight;
        self.encoded.truncate(mark.events);
        self.rows.truncate(mark.rows);
        self.effects.truncate(mark.effects);
    }

    /// Whether nobody waits for anything in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.replies.is_empty() && self.questions.is_empty()
    }

    pub(crate) fn is_full(&self, most_events: usize) -> bool {
        self.encoded.text().len() >= FULL_BYTES || self.weight >= most_events
    }

    pub(crate) fn answer(&mut self, reply: Option<O::Reply>, answer: Result<Done, WriteError>) {
        self.replies.extend(reply.map(|reply| (reply, answer)));
    }

    /// Nothing of it will be on disk: says so to everybody who waits.
    pub(crate) fn refuse(self, outside: &O, problem: &str) {
        let error = || WriteError::NotDurable(problem.to_string());
        for (reply, _) in self.replies {
            outside.reply(reply, Err(error()));
        }
        for question in self.questions {
            question.answer(Err(error()));
        }
    }
}

fn weight(event: &Event) -> usize {
    match event {
        Event::TasksPlaced { parts, .. } => {
            parts.iter().map(|part| part.tasks.len()).sum::<usize>().max(1)
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_core::event::{Part, Placement};
    use shipway_model::{Attempt, JobId, PilotId, TaskIndex};

    #[test]
    fn a_plan_weighs_as_much_as_it_places() {
        let part = |tasks: u64| Part {
            pilot: PilotId::new("p").expect("a name"),
            tasks: (0..tasks)
                .map(|index| Placement {
                    task: JobId(1).task(TaskIndex(index)),
                    attempt: Attempt::FIRST,
                    devices: Vec::new(),
                })
                .collect(),
        };
        assert_eq!(weight(&Event::TasksPlaced { parts: vec![part(3), part(4)] }), 7);
        assert_eq!(weight(&Event::TasksPlaced { parts: Vec::new() }), 1);
        assert_eq!(weight(&Event::AttemptsStarted { tasks: Vec::new() }), 1);
    }
}
