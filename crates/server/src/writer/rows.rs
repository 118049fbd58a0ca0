//! What of an event goes into the history tables, in the same commit as the event.

use crate::journal::HistoryRow;
use shipway_core::State;
use shipway_core::event::{AttemptEnded, Event, Recorded, Submitted, Verdict};
use shipway_model::{JobId, JobState, Timestamp};

/// The state is the one after the event.
pub(super) fn add(rows: &mut Vec<HistoryRow>, recorded: &Recorded, state: &State) {
    #[allow(clippy::wildcard_enum_match_arm, reason = "most events leave no row of their own")]
    match &recorded.event {
        Event::JobSubmitted(submitted) => rows.push(job_row(submitted, recorded.at)),
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

fn job_row(submitted: &Submitted, at: Timestamp) -> HistoryRow {
    let spec = &submitted.spec;
    HistoryRow::JobSubmitted {
        job: submitted.job.0,
        owner: submitted.owner.to_string(),
        name: spec.name.clone(),
        labels: json(&spec.labels),
        spec: json(spec),
        tasks: spec.indices().map_or(0, |indices| u64::from(indices.len())),
        priority: i64::from(spec.priority),
        submitted_ms: at.0,
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
