//! What of an event goes into the history tables, in the same commit as the event.

use serde::de::IgnoredAny;
use shipway_core::State;
use shipway_core::event::{AttemptEnded, Event, Recorded, Submitted, Verdict};
use shipway_model::{JobId, JobState, Timestamp, Usage};
use std::ops::Range;

/// One line of the history tables. JSON fields are text that the caller encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryRow {
    JobSubmitted {
        job: u64,
        owner: String,
        name: String,
        /// A JSON object of strings.
        labels: String,
        spec: Text,
        tasks: u64,
        priority: i64,
        submitted_ms: u64,
    },
    JobGiven {
        job: u64,
        owner: String,
        /// A number of a job, for `Owned` of the model.
        since: u64,
    },
    AttemptEnded {
        job: u64,
        index: u64,
        attempt: u64,
        state: String,
        outcome: String,
        node: Option<String>,
        pilot: Option<String>,
        placed_ms: Option<u64>,
        started_ms: Option<u64>,
        ended_ms: u64,
        /// By the pilot's steady clock.
        ran_ms: u64,
        usage: Option<Box<Usage>>,
        /// A JSON object.
        advice: Option<String>,
    },
    JobEnded {
        job: u64,
        /// Counts the ends of a job: a retried job ends again.
        revision: u64,
        state: String,
        ended_ms: u64,
        ok: u64,
        failed: u64,
        cancelled: u64,
        record: String,
    },
}

/// A text that may be megabytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    Own(String),
    /// It stands in the events of the same batch, and is not there twice.
    InEvents(Range<usize>),
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text::Own(text.to_owned())
    }
}

impl Text {
    /// All of it, given the events of the batch as they are stored.
    pub fn in_full<'a>(&'a self, events: &'a [u8]) -> &'a [u8] {
        match self {
            Text::Own(text) => text.as_bytes(),
            Text::InEvents(place) => events.get(place.clone()).unwrap_or_default(),
        }
    }
}

/// An event as it is written: the last of a batch, and where it begins.
pub(crate) struct EncodedEvent<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) start: usize,
}

/// The state is the one after the event.
pub(crate) fn add(
    rows: &mut Vec<HistoryRow>,
    recorded: &Recorded,
    written: &EncodedEvent<'_>,
    state: &State,
) {
    #[allow(clippy::wildcard_enum_match_arm, reason = "most events leave no row of their own")]
    match &recorded.event {
        Event::JobSubmitted(submitted) => rows.push(job_row(submitted, recorded.at, written)),
        Event::AttemptEnded(ended) => rows.push(attempt_row(ended)),
        Event::JobEnded { job, state: how } => {
            rows.extend(end_row(*job, *how, recorded.at, state));
        }
        Event::JobsGiven { jobs, to, since } => {
            let (owner, since) = (to.to_string(), since.0);
            let row =
                |job: &JobId| HistoryRow::JobGiven { job: job.0, owner: owner.clone(), since };
            rows.extend(jobs.iter().map(row));
        }
        _ => {}
    }
}

#[expect(clippy::expect_used, reason = "plain data; whoever calls is guarded")]
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("plain data")
}

fn job_row(submitted: &Submitted, at: Timestamp, written: &EncodedEvent<'_>) -> HistoryRow {
    let spec = &submitted.spec;
    HistoryRow::JobSubmitted {
        job: submitted.job.0,
        owner: submitted.owner.to_string(),
        name: spec.name.clone(),
        labels: json(&spec.labels),
        spec: written.spec().unwrap_or_else(|| Text::Own(json(spec))),
        tasks: spec.indices().map_or(0, |indices| u64::from(indices.len())),
        priority: i64::from(spec.priority),
        submitted_ms: at.0,
    }
}

impl EncodedEvent<'_> {
    /// Where the specification stands in the event of a submission: history keeps the same text,
    /// and making it once more would take as much time and memory again. What stands before it are
    /// numbers and the owner's name, so the first such key is the right one.
    fn spec(&self) -> Option<Text> {
        const KEY: &[u8] = b"\"spec\":";
        let event = self.text.get(self.start..)?;
        let key = event.windows(KEY.len()).position(|window| window == KEY)?;
        let value = event.get(key + KEY.len()..)?;
        let mut values = serde_json::Deserializer::from_slice(value).into_iter::<IgnoredAny>();
        values.next()?.ok()?;
        let start = self.start + key + KEY.len();
        Some(Text::InEvents(start..start + values.byte_offset()))
    }
}

fn attempt_row(ended: &AttemptEnded) -> HistoryRow {
    let verdict = match ended.verdict {
        Verdict::Succeeded => "succeeded",
        Verdict::Failed => "failed",
        Verdict::Cancelled => "cancelled",
        Verdict::Retry { .. } => "retried",
    };
    HistoryRow::AttemptEnded {
        job: ended.task.job.0,
        index: ended.task.index.0,
        attempt: u64::from(ended.attempt.0),
        state: verdict.to_string(),
        outcome: json(&ended.outcome),
        node: Some(ended.node.to_string()),
        pilot: Some(ended.pilot.to_string()),
        placed_ms: Some(ended.placed.0),
        started_ms: ended.started.map(|at| at.0),
        ended_ms: ended.ended.0,
        ran_ms: ended.ran.0,
        usage: ended.usage.clone(),
        advice: ended.advice.as_ref().map(json),
    }
}

fn end_row(id: JobId, how: JobState, at: Timestamp, state: &State) -> Option<HistoryRow> {
    let record = state.record(id)?;
    let counts = record.job.tasks.counts();
    Some(HistoryRow::JobEnded {
        job: id.0,
        revision: u64::from(record.job.revision),
        state: how.to_string(),
        ended_ms: at.0,
        ok: u64::from(counts.succeeded),
        failed: u64::from(counts.failed),
        cancelled: u64::from(counts.cancelled),
        record: json(&record),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_core::command::{Command, NewJob, Submit};
    use shipway_core::engine::{apply, step};
    use shipway_core::event::{CancelReason, EVENT_VERSION, Which};
    use shipway_core::shape::Gang;
    use shipway_model::{Actor, Role, UserName};

    /// Of a job that has left memory by the end of the very step that it ended in.
    #[test]
    fn a_row_shows_what_was_true_right_after_its_event() {
        let spec = serde_json::from_str(r#"{"command":["true"],"array":"1-3"}"#).expect("good");
        let ada = Actor::new(UserName::new("ada").expect("good"), Role::User);
        let (job, mut state, mut rows) = (JobId(1), State::default(), Vec::new());
        let submit = Submit::one(ada, NewJob::new(job, spec));
        step(&mut state, Timestamp(1), &Command::Submit(Box::new(submit))).expect("taken");
        let (which, why) = (Which::AllWaiting, CancelReason::Asked);
        let events = vec![
            Event::TasksCancelled { job, which, why },
            Event::JobsArchived { jobs: vec![job] },
        ];
        apply(&mut state, Timestamp(2), events, &mut |state, recorded| {
            add(&mut rows, &recorded, &EncodedEvent { text: b"", start: 0 }, state);
        });
        assert!(state.job(job).is_none());
        let [HistoryRow::JobEnded { cancelled: 3, revision: 1, ended_ms: 2, .. }] = rows[..] else {
            panic!("{rows:?}");
        };
    }

    #[test]
    fn history_has_the_specification_as_it_stands_in_the_event() {
        for json in [
            r#"{"command":["a \"spec\": {","}"],"name":"\"spec\":1"}"#,
            r#"{"command":["true"],"each":[{"spec":"x","y":"{"}],"array":null}"#,
        ] {
            let spec: shipway_model::JobSpec = serde_json::from_str(json).expect("good");
            let owner = UserName::new("spec").expect("good");
            let key = Some(r#""spec":{}"#.to_string());
            let (job, met) = (JobId(7), vec![JobId(3)]);
            let submitted =
                Submitted { job, owner, spec, key, digest: 9, gang: Gang::default(), met };
            let text = super::json(&submitted.spec);
            let event = Event::JobSubmitted(Box::new(submitted));
            let recorded = Recorded { v: EVENT_VERSION, at: Timestamp(5), event };
            let mut all = b"{}\n".to_vec();
            let start = all.len();
            serde_json::to_writer(&mut all, &recorded).expect("json");
            let Some(Text::InEvents(place)) = (EncodedEvent { text: &all, start }).spec() else {
                panic!("not found in {}", String::from_utf8_lossy(&all));
            };
            assert_eq!(all[place], *text.as_bytes());
        }
    }
}
