//! Waiting for a job's end, and what to exit with then.

use super::patience::Patience;
use crate::failure::{Exit, Failure};
use crate::query::Query;
use shipway_api::client::Client;
use shipway_api::routes;
use shipway_api::types::JobView;
use shipway_model::{JobId, JobState};
use std::time::Duration;
use tokio::time::Instant;

/// The longest the server holds one request open; then it is asked again.
const ONE_WAIT: Duration = Duration::from_mins(1);

/// The job when it has ended, or as it is at the deadline. No polling: the server answers at the
/// job's end.
pub async fn wait(
    client: &Client,
    job: JobId,
    deadline: Option<Instant>,
) -> Result<JobView, Failure> {
    let mut patience = Patience::default();
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // Rounded up: a rest of half a second must not become a busy loop of empty waits.
        let seconds = left.map_or(ONE_WAIT, |left| left.min(ONE_WAIT)).as_millis().div_ceil(1_000);
        let path = Query::new().with("seconds", seconds).on(&routes::job_wait(job));
        let asked = client.get::<JobView>(&path);
        let answer = match deadline {
            Some(deadline) if !left.unwrap_or_default().is_zero() => {
                match tokio::time::timeout_at(deadline, asked).await {
                    Ok(answer) => answer,
                    Err(_) => client.get(&routes::job(job)).await,
                }
            }
            _ => asked.await,
        };
        match answer {
            Ok(view) if view.state.is_over() || left.is_some_and(|left| left.is_zero()) => {
                return Ok(view);
            }
            Ok(_) => patience.renew(),
            Err(error) => patience.bear(error).await?,
        }
    }
}

/// One task: its own code. Many: whether all of them succeeded.
pub fn exit_of(job: &JobView) -> Exit {
    match (&job.outcome, job.state) {
        (Some(outcome), _) if !job.is_array => {
            Exit(u8::try_from(outcome.exit_code().rem_euclid(256)).expect("below 256"))
        }
        (_, JobState::Succeeded) => Exit::DONE,
        // Cancelled before it ever ran: there is no outcome to take a code from.
        (_, JobState::Cancelled) if !job.is_array => Exit::INTERRUPTED,
        _ => Exit::TASK_FAILED,
    }
}
