//! The live view: server-sent events with a number to resume by.
//!
//! A watcher first gets what it missed, from the journal, then what happens, as it happens. One
//! that falls behind reads the journal again; one that asks for what is no longer kept is told to
//! start anew. Everybody sees only what concerns jobs they may see.

use super::Site;
use super::caller::CallerWith;
use super::error::ApiError;
use crate::journal::{EventSeq, EventsPage, HistoryReader, JournalError};
use crate::on_behalf::{AskedBy, on_behalf_of};
use crate::views::may_touch;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse;
use futures_util::Stream;
use serde::Deserialize;
use shipway_api::error::ErrorBody;
use shipway_api::routes;
use shipway_api::types::LiveEvent;
use shipway_core::Event;
use shipway_core::event::{Part, Recorded, Verdict};
use shipway_model::{Actor, JobId, May, TaskIndex, TaskState};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
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

#[utoipa::path(get, path = routes::EVENTS, params(WatchQuery),
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
        eyes: Eyes { by: by.clone(), job: query.job.map(JobId), visible: HashMap::new() },
        send,
    };
    let asked_by = AskedBy::default();
    let _ = asked_by.0.set(by);
    tokio::spawn(on_behalf_of(asked_by, watcher.run(after)));
    let stream = tokio_stream::wrappers::ReceiverStream::new(receive);
    Ok(sse::Sse::new(stream).keep_alive(sse::KeepAlive::default()))
}

struct Watcher {
    site: Site,
    eyes: Eyes,
    live: broadcast::Receiver<Arc<crate::live::Told>>,
    send: mpsc::Sender<Result<sse::Event, Infallible>>,
}

/// The watcher has gone, or its journal cannot be read.
struct Gone;

/// A part of the journal, as a watcher sees it.
enum Page {
    Seen(Vec<(EventSeq, Vec<LiveEvent>)>),
    /// What was asked for is no longer kept.
    Pruned,
}

impl Watcher {
    async fn run(mut self, after: Option<EventSeq>) {
        let mut seen = match after {
            Some(after) => after,
            None => match self.site.readers.read(|history| history.tip()).await {
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
                        if self.send_event(seen, recorded).await.is_err() {
                            return;
                        }
                    }
                }
            }
        }
    }

    async fn catch_up(&mut self, seen: &mut EventSeq) -> Result<(), Gone> {
        loop {
            match self.page_after(*seen).await? {
                Page::Seen(events) if events.is_empty() => return Ok(()),
                Page::Seen(events) => {
                    for (number, lines) in events {
                        *seen = number;
                        self.say_all(number, &lines).await?;
                    }
                }
                Page::Pruned => {
                    *seen =
                        self.site.readers.read(|history| history.tip()).await.map_err(|_| Gone)?;
                    self.say(Some(*seen), &LiveEvent::Reset).await?;
                }
            }
        }
    }

    /// A page of the journal, read and judged away from the threads that answer others.
    async fn page_after(&mut self, after: EventSeq) -> Result<Page, Gone> {
        let mut eyes = self.eyes.lend();
        let read = self.site.readers.read(move |history| {
            let events = match history.events_after(after, PAGE)? {
                EventsPage::Pruned { .. } => return Ok((Some(Page::Pruned), eyes)),
                EventsPage::Events(events) => events,
            };
            let mut page = Vec::new();
            for (number, body) in events {
                let Ok(recorded) = Recorded::read(&body) else {
                    return Ok((None, eyes));
                };
                let unknown = eyes.unknown(&recorded);
                eyes.learn(unknown, history)?;
                page.push((number, eyes.see(&recorded)));
            }
            Ok((Some(Page::Seen(page)), eyes))
        });
        let (page, eyes) = read.await.map_err(|_| Gone)?;
        self.eyes = eyes;
        page.ok_or(Gone)
    }

    /// What has just happened. History is asked only about jobs that are new to the watcher.
    async fn send_event(&mut self, number: EventSeq, recorded: &Recorded) -> Result<(), Gone> {
        let unknown = self.eyes.unknown(recorded);
        if !unknown.is_empty() {
            let mut eyes = self.eyes.lend();
            let read = self.site.readers.read(move |history| {
                eyes.learn(unknown, history)?;
                Ok(eyes)
            });
            self.eyes = read.await.map_err(|_| Gone)?;
        }
        let lines = self.eyes.see(recorded);
        self.say_all(number, &lines).await
    }

    /// The number stands on the last line only: a watcher that was cut off in between asks for the
    /// whole event again rather than missing the rest of it.
    async fn say_all(&self, number: EventSeq, lines: &[LiveEvent]) -> Result<(), Gone> {
        let Some((last, before)) = lines.split_last() else { return Ok(()) };
        for line in before {
            self.say(None, line).await?;
        }
        self.say(Some(number), last).await
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

/// What one watcher sees of what happens.
struct Eyes {
    by: Actor,
    /// Only what concerns this one.
    job: Option<JobId>,
    visible: HashMap<JobId, bool>,
}

impl Eyes {
    /// For a thread that asks history; what it learns comes back with it.
    fn lend(&mut self) -> Eyes {
        let visible = std::mem::take(&mut self.visible);
        Eyes { by: self.by.clone(), job: self.job, visible }
    }

    fn wants(&self, job: Option<JobId>) -> bool {
        self.job.is_none_or(|only| job == Some(only))
    }

    /// The jobs of an event of which it is not known whose they are.
    fn unknown(&mut self, recorded: &Recorded) -> Vec<JobId> {
        if matches!(recorded.event, Event::JobsGiven { .. }) {
            self.visible.clear();
        }
        if self.by.may(May::TouchAllJobs) {
            return Vec::new();
        }
        let events = live_events(&recorded.event).into_iter();
        let jobs = events.filter(|(job, _)| self.wants(*job)).filter_map(|(job, _)| job);
        let jobs: Vec<JobId> = jobs.collect();
        // Before, and never between the jobs of one event.
        if self.visible.len() + jobs.len() > REMEMBERED {
            self.visible.clear();
        }
        jobs.into_iter().filter(|job| !self.visible.contains_key(job)).collect()
    }

    fn learn(&mut self, jobs: Vec<JobId>, history: &dyn HistoryReader) -> Result<(), JournalError> {
        for job in jobs {
            let row = history.job(job.0)?;
            self.visible.insert(job, row.is_some_and(|row| may_touch(&self.by, &row)));
        }
        Ok(())
    }

    fn see(&self, recorded: &Recorded) -> Vec<LiveEvent> {
        let all = self.by.may(May::TouchAllJobs);
        let mine = |job: &JobId| all || self.visible.get(job).is_some_and(|mine| *mine);
        let events = live_events(&recorded.event).into_iter();
        let seen = events.filter(|(job, _)| self.wants(*job) && job.as_ref().is_none_or(mine));
        seen.map(|(_, event)| event).collect()
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
        Event::TasksPlaced { parts } => by_job(placed(parts))
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
            let advice = ended.advice.clone().map(|advice| Box::new((*advice).into()));
            let said = LiveEvent::TaskEnded { job, task, attempt, outcome, state, advice };
            vec![(Some(job), said)]
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
        Event::PilotChanged { pilot, .. } => node(pilot, "connected"),
        Event::PilotAway { pilot } => node(pilot, "away"),
        Event::PilotLeaving { pilot } => node(pilot, "leaving"),
        Event::PilotLost { pilot } => node(pilot, "lost"),
        Event::PilotEnded { pilot } => node(pilot, "ended"),
        _ => Vec::new(),
    }
}

fn placed(parts: &[Part]) -> impl Iterator<Item = shipway_model::TaskId> {
    parts.iter().flat_map(|part| &part.tasks).map(|placed| placed.task)
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
