//! The output of a task, from the node that keeps it, live if asked for.
//!
//! Pieces are asked for one at a time, as fast as the client takes them: a slow reader asks less
//! often and holds up nobody.

use super::Site;
use super::asking::Asked;
use super::caller::{CallerWith, Digits, Path};
use super::error::ApiError;
use crate::pilots::LogPiece;
use crate::views;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use shipway_api::error::{ErrorBody, codes};
use shipway_api::link::{LogChunk, LogRequest};
use shipway_api::routes;
use shipway_api::types::LogQuery;
use shipway_core::site::KeptIn;
use shipway_core::{Event, Rejection};
use shipway_model::{Attempt, JobId, NodeName, PilotId, TaskId, TaskIndex};
use std::time::Duration;

/// How long a follower waits for a node that is out of touch before it gives up.
const NODE_BACK_WITHIN: Duration = Duration::from_mins(1);
/// Between a piece that did not come and the next try.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Where an attempt's output is.
#[derive(Debug, Clone)]
struct OutputLocation {
    attempt: Attempt,
    pilot: PilotId,
    node: NodeName,
    /// Who else may have it, when that pilot is gone.
    kept_in: Option<KeptIn>,
}

/// Plain bytes. What was dropped at the log's limit is said in place.
#[utoipa::path(get, path = routes::TASK_LOG, operation_id = "read_log",
    params(("job" = u64, Path), ("index" = u64, Path), LogQuery),
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>),
        (status = "4XX", body = ErrorBody)))]
pub async fn read(
    CallerWith(by, query): CallerWith<LogQuery>,
    State(site): State<Site>,
    Asked(asking): Asked,
    Path((Digits(job), Digits(index))): Path<(Digits<JobId>, Digits<TaskIndex>)>,
) -> Result<Response, ApiError> {
    asking.reads_output()?;
    let task = job.task(index);
    views::job(&site, &by, task.job).await?;
    let stderr = match query.stream.as_deref() {
        None | Some("stdout") => false,
        Some("stderr") => true,
        Some(_) => return Err(ApiError::bad_request("the stream is `stdout` or `stderr`")),
    };
    let follow = query.follow.unwrap_or(false);
    let attempt = query.attempt.map(Attempt);
    let Some(place) = find(&site, task, attempt, follow).await? else {
        return nothing(&site, task, attempt.filter(|_| !follow)).await;
    };
    let request = LogRequest {
        id: 0,
        attempt: task.attempt(place.attempt),
        stderr,
        offset: query.offset.unwrap_or(0),
        follow,
        reader: by.user.to_string(),
    };
    let first = site.pilots.read_log(&place.pilot, place.kept_in.as_ref(), request.clone());
    if first.is_none() && !follow {
        let message = format!("node {}, which keeps this output, is out of touch", place.node);
        let status = StatusCode::SERVICE_UNAVAILABLE;
        return Err(ApiError::new(status, codes::NODE_AWAY, message)
            .hint("`shipway nodes` shows when it is back"));
    }
    let reading = Reading { site, place, request, coming: first, ended: false };
    let body = Body::from_stream(stream::unfold(reading, Reading::next));
    Ok(([(CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

/// The answer where there is no output: empty for a task that has not run, an error for what does
/// not exist. A follower may ask for an attempt that never comes.
async fn nothing(site: &Site, task: TaskId, named: Option<Attempt>) -> Result<Response, ApiError> {
    let indices = views::spec(site, task.job).await?.indices();
    if indices.is_none_or(|indices| indices.ordinal(task.index).is_none()) {
        return Err(Rejection::NoSuchTask(task).into());
    }
    if let Some(attempt) = named {
        let message = format!("task {task} has no attempt {attempt}");
        return Err(ApiError::new(StatusCode::NOT_FOUND, codes::NOT_FOUND, message)
            .hint("`shipway show JOB/INDEX` lists a task's attempts"));
    }
    Ok((StatusCode::OK, [(CONTENT_TYPE, "application/octet-stream")]).into_response())
}

/// The attempt to read: the one named, or the newest. With `follow`, waits until there is one.
async fn find(
    site: &Site,
    task: TaskId,
    attempt: Option<Attempt>,
    follow: bool,
) -> Result<Option<OutputLocation>, ApiError> {
    let mut watch = site.live.watch();
    loop {
        if let Some(place) = look(site, task, attempt).await? {
            return Ok(Some(place));
        }
        let over = site.writer.glance(move |state| {
            state.task_state(task).is_none_or(shipway_model::TaskState::is_over)
        });
        if !follow || over.await? {
            return Ok(None);
        }
        loop {
            let Ok(told) = watch.recv().await else { break };
            if told.events.iter().any(|recorded| concerns(&recorded.event, task)) {
                break;
            }
        }
    }
}

fn concerns(event: &Event, task: TaskId) -> bool {
    match event {
        Event::TasksPlaced { parts } => {
            parts.iter().flat_map(|part| &part.tasks).any(|placed| placed.task == task)
        }
        Event::TasksCancelled { job, .. } | Event::JobEnded { job, .. } => *job == task.job,
        _ => false,
    }
}

async fn look(
    site: &Site,
    task: TaskId,
    attempt: Option<Attempt>,
) -> Result<Option<OutputLocation>, ApiError> {
    let live = site.writer.glance(move |state| {
        let active = state.active().get(&task)?;
        let node = state.pilots().get(&active.pilot)?.name().clone();
        let (pilot, kept_in) = (active.pilot.clone(), state.kept_in(&active.pilot));
        Some(OutputLocation { attempt: active.attempt, pilot, node, kept_in })
    });
    let live = live.await?;
    if let Some(place) = live.filter(|place| attempt.is_none_or(|wanted| wanted == place.attempt)) {
        return Ok(Some(place));
    }
    let rows = site
        .readers
        .read(move |history| history.attempts_between(task.job.0, task.index.0, task.index.0));
    let mut rows = rows.await?;
    rows.retain(|row| attempt.is_none_or(|wanted| u64::from(wanted.0) == row.attempt));
    let place = rows.pop().and_then(|row| {
        Some(OutputLocation {
            attempt: Attempt(u32::try_from(row.attempt).ok()?),
            pilot: PilotId::new(&row.pilot?).ok()?,
            node: NodeName::new(&row.node?).ok()?,
            kept_in: None,
        })
    });
    let Some(place) = place else { return Ok(None) };
    let pilot = place.pilot.clone();
    let kept_in = site.writer.glance(move |state| state.kept_in(&pilot)).await?;
    Ok(Some(OutputLocation { kept_in, ..place }))
}

struct Reading {
    site: Site,
    place: OutputLocation,
    request: LogRequest,
    /// The next piece, asked for before the last one was handed out.
    coming: Option<LogPiece>,
    ended: bool,
}

impl Reading {
    async fn next(mut self) -> Option<(Result<Bytes, std::io::Error>, Self)> {
        while !self.ended {
            let chunk = match self.coming.take() {
                Some(coming) => coming.get().await,
                None => None,
            };
            let Some(chunk) = chunk else {
                if !self.request.follow || !self.node_came_back().await {
                    self.ended = true;
                    let node = &self.place.node;
                    let text =
                        format!("\n[shipway: node {node} is out of touch; output cut off]\n");
                    return Some((Ok(text.into()), self));
                }
                continue;
            };
            let bytes = self.take(chunk);
            if !bytes.is_empty() {
                return Some((Ok(bytes), self));
            }
        }
        None
    }

    /// Notes how far we are, asks for the next piece, and says what is missing.
    fn take(&mut self, chunk: LogChunk) -> Bytes {
        self.request.offset += chunk.dropped + chunk.data.len() as u64;
        self.ended = chunk.end || !chunk.error.is_empty();
        if !self.ended {
            self.ask();
        }
        let note = match (chunk.dropped, chunk.error.as_str()) {
            (0, "") => return chunk.data.into(),
            (0, error) => format!("\n[shipway: {error}]\n"),
            (dropped, _) if chunk.unkept => {
                format!(
                    "\n[shipway: {dropped} bytes lost here: the node has no room for more output \
                     of this user]\n"
                )
            }
            (dropped, _) => {
                format!("\n[shipway: {dropped} bytes dropped here, over the log limit]\n")
            }
        };
        let mut bytes = note.into_bytes();
        bytes.extend_from_slice(&chunk.data);
        bytes.into()
    }

    fn ask(&mut self) {
        let (pilot, kept_in) = (&self.place.pilot, self.place.kept_in.as_ref());
        self.coming = self.site.pilots.read_log(pilot, kept_in, self.request.clone());
    }

    async fn node_came_back(&mut self) -> bool {
        let mut watch = self.site.live.watch();
        // Whatever it was that ended the last piece, others have their turn before the next.
        tokio::time::sleep(ASK_AGAIN_AFTER).await;
        self.ask();
        let back = async {
            while self.coming.is_none() {
                match watch.recv().await {
                    Ok(_) | Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => self.ask(),
                    Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
                }
            }
        };
        let _ = tokio::time::timeout(NODE_BACK_WITHIN, back).await;
        self.coming.is_some()
    }
}
