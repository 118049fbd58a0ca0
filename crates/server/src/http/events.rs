//! The live view: server-sent events with a number to resume by.
//!
//! A watcher first gets what it missed, from the journal, then what happens, as it happens. One
//! that falls behind reads the journal again; one that asks for what is no longer kept is told to
//! start anew. Everybody sees only what concerns jobs they may see.

use super::Site;
use super::caller::CallerWith;
use super::error::ApiError;
use crate::journal::{EventSeq, EventsPage, HistoryReader};
use crate::views::may_touch;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse;
use futures_util::Stream;
use serde::Deserialize;
use shipway_api::error::ErrorBody;
use shipway_api::types::LiveEvent;
use shipway_core::Event;
use shipway_core::event::{Recorded, Verdict};
use shipway_model::{Actor, JobId, Role, TaskIndex, TaskState};
use std::collections::HashMap;
use std::convert::Infallible;
use tokio::sync::{broadcast, mpsc};

/// Events on their way to one watcher.
const QUEUE: usize = 256;
/// Events read from the journal at once.
const PAGE: usize = 1_000;
/// Jobs whose visibility a watcher remembers.
const REMEMBERED: usize = 10_000;

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields, default)]
pub struct WatchQuery {
    /// Only what concerns this job.
    pub job: Option<u64>,
    /// Everything after this number; the header `Last-Event-ID` says the same.
    pub after: Option<u64>,
}

#[utoipa::path(get, path = "/api/v1/events", params(WatchQuery),
    responses((status = 200, content_type = "text/event-stream", body = LiveEvent),
        (status = "4XX", body = ErrorBody)))]
pub async fn watch(
    CallerWith(by, query): CallerWith<WatchQuery>,
    State(site): State<Site>,
    headers: HeaderMap,
) -> Result<sse::Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, ApiError> {
    let header = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let header = header.map(str::parse::<u64>).transpose();
    let header = header.map_err(|_| ApiError::bad_request("`Last-Event-ID` is not a number"))?;
    let after = header.or(query.after).map(EventSeq);
    let (send, receive) = mpsc::channel(QUEUE);
    let watcher = Watcher {
        live: site.live.watch(),
        site,
        by,
        job: query.job.map(JobId),
        visible: HashMap::new(),
        send,
    };
    tokio::spawn(watcher.run(after));
    let stream = tokio_stream::wrappers::ReceiverStream::new(receive);
    Ok(sse::Sse::new(stream).keep_alive(sse::KeepAlive::default()))
}

struct Watcher {
    site: Site,
    by: Actor,
    job: Option<JobId>,
    live: broadcast::Receiver<std::sync::Arc<crate::live::Told>>,
    visible: HashMap<JobId, bool>,
    send: mpsc::Sender<Result<sse::Event, Infallible>>,
}

/// The watcher has gone, or its journal cannot be read.
struct Gone;

impl Watcher {
    async fn run(mut self, after: Option<EventSeq>) {
        let mut seen = match after {
            Some(after) => after,
            None => match self.site.readers.read(HistoryReader::tip).await {
                Ok(tip) => tip,
                Err(_) => return,
            },
        };
        loop {
            if self.catch_up(&mut seen).await.is_err() {
                return;
            }
            loop {
                let told = match self.live.recv().await {
                    Ok(told) => told,
                    Err(broadcast::error::RecvError::Lagged(_)) => break,
                    Err(broadcast::error::RecvError::Closed) => return,
                };
                if told.first.0 > seen.0 + 1 {
                    break; // A gap: the journal has what is missing.
                }
                for (number, recorded) in (told.first.0..).zip(&told.events) {
                    if number > seen.0 {
                        seen = EventSeq(number);
                        if self.tell(seen, recorded).await.is_err() {
                            return;
                        }
                    }
                }
            }
        }
    }

    async fn catch_up(&mut self, seen: &mut EventSeq) -> Result<(), Gone> {
        loop {
            let after = *seen;
            let page = self.site.readers.read(move |history| history.events_after(after, PAGE));
            match page.await.map_err(|_| Gone)? {
                EventsPage::Events(events) if events.is_empty() => return Ok(()),
                EventsPage::Events(events) => {
                    for (number, body) in events {
                        *seen = number;
                        let recorded: Recorded = serde_json::from_slice(&body).map_err(|_| Gone)?;
                        self.tell(number, &recorded).await?;
                    }
                }
                EventsPage::Pruned { .. } => {
                    *seen = self.site.readers.read(HistoryReader::tip).await.map_err(|_| Gone)?;
                    self.say(Some(*seen), &LiveEvent::Reset).await?;
                }
            }
        }
    }

    async fn tell(&mut self, number: EventSeq, recorded: &Recorded) -> Result<(), Gone> {
        if matches!(recorded.event, Event::JobsGiven { .. }) {
            self.visible.clear();
        }
        let mut seen = Vec::new();
        for (job, event) in live_events(&recorded.event) {
            let wanted = self.job.is_none_or(|only| job == Some(only));
            if wanted && self.may_see(job).await? {
                seen.push(event);
            }
        }
        // The number stands on the last line only: a watcher that was cut off in between asks for
        // the whole event again rather than missing the rest of it.
        let last = seen.pop();
        for event in &seen {
            self.say(None, event).await?;
        }
        match last {
            Some(event) => self.say(Some(number), &event).await,
            None => Ok(()),
        }
    }

    async fn may_see(&mut self, job: Option<JobId>) -> Result<bool, Gone> {
        let Some(job) = job.filter(|_| self.by.role < Role::Operator) else { return Ok(true) };
        if let Some(known) = self.visible.get(&job) {
            return Ok(*known);
        }
        let row =
            self.site.readers.read(move |history| history.job(job.0)).await.map_err(|_| Gone)?;
        let mine = row.is_some_and(|row| may_touch(&self.by, &row));
        if self.visible.len() >= REMEMBERED {
            self.visible.clear();
        }
        self.visible.insert(job, mine);
        Ok(mine)
    }

    async fn say(&self, number: Option<EventSeq>, event: &LiveEvent) -> Result<(), Gone> {
        let data = serde_json::to_string(event).unwrap_or_default();
        let event = sse::Event::default().data(data);
        let event = match number {
            Some(number) => event.id(number.to_string()),
            None => event,
        };
        self.send.send(Ok(event)).await.map_err(|_| Gone)
    }
}

/// What a recorded event means to those who watch, with the job it concerns.
fn live_events(event: &Event) -> Vec<(Option<JobId>, LiveEvent)> {
    let node = |pilot: &shipway_model::PilotId, link: &str| {
        vec![(None, LiveEvent::NodeChanged { pilot: pilot.clone(), link: link.to_string() })]
    };
    match event {
        Event::JobSubmitted(new) => {
            vec![(Some(new.job), LiveEvent::JobSubmitted { job: new.job })]
        }
        Event::TasksPlaced { tasks, .. } => by_job(tasks.iter().map(|placed| placed.task))
            .map(|(job, tasks)| (Some(job), LiveEvent::TasksPlaced { job, tasks, node: None }))
            .collect(),
        Event::AttemptsStarted { tasks } => by_job(tasks.iter().map(|(task, _, _)| *task))
            .map(|(job, tasks)| (Some(job), LiveEvent::TasksStarted { job, tasks }))
            .collect(),
        Event::AttemptEnded(ended) => {
            let state = match ended.verdict {
                Verdict::Succeeded => TaskState::Succeeded,
                Verdict::Failed => TaskState::Failed,
                Verdict::Cancelled => TaskState::Cancelled,
                Verdict::Retry { .. } => TaskState::Waiting,
            };
            let (job, task) = (ended.task.job, ended.task.index);
            let outcome = ended.outcome.clone();
            let attempt = ended.attempt;
            vec![(Some(job), LiveEvent::TaskEnded { job, task, attempt, outcome, state })]
        }
        Event::TasksCancelled { job, .. } => {
            vec![(Some(*job), LiveEvent::TasksCancelled { job: *job })]
        }
        Event::TasksRequeued { job, .. } => {
            vec![(Some(*job), LiveEvent::TasksRequeued { job: *job })]
        }
        Event::JobEnded { job, state } => {
            vec![(Some(*job), LiveEvent::JobEnded { job: *job, state: *state })]
        }
        Event::PilotJoined(joined) => node(&joined.pilot, "connected"),
        Event::PilotAway { pilot } => node(pilot, "away"),
        Event::PilotLeaving { pilot } => node(pilot, "leaving"),
        Event::PilotLost { pilot } => node(pilot, "lost"),
        Event::PilotEnded { pilot } => node(pilot, "ended"),
        _ => Vec::new(),
    }
}

fn by_job(
    tasks: impl Iterator<Item = shipway_model::TaskId>,
) -> impl Iterator<Item = (JobId, Vec<TaskIndex>)> {
    let mut jobs: std::collections::BTreeMap<JobId, Vec<TaskIndex>> =
        std::collections::BTreeMap::new();
    for task in tasks {
        jobs.entry(task.job).or_default().push(task.index);
    }
    jobs.into_iter()
}
