//! Files that travel: uploading contents, and fetching what tasks have sent back. Nothing of them
//! is ever in memory but the piece that is on its way.

use super::Site;
use super::asking::{Asked, Asking};
use super::body::Body as Json;
use super::caller::{Caller, CallerWith, Digits, Path};
use super::error::ApiError;
use super::large::large_json;
use crate::files::{FilesError, Standing, Whose, reading};
use crate::journal::Tenure;
use crate::views;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::{Buf as _, Bytes};
use futures_util::StreamExt as _;
use shipway_api::error::{ErrorBody, codes};
use shipway_api::pack::MAX_UPLOAD_BYTES;
use shipway_api::routes;
use shipway_api::types::{
    ContentWanted, FilesOffered, FilesTaken, FilesWanted, JobOutputs, OffsetQuery, OutputsQuery,
    TaskOutputs,
};
use shipway_model::{Actor, Digest, JobId, TaskIndex, Timestamp, UserName};
use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;

/// A client that sends nothing for this long has gone, or means harm.
const NEXT_PIECE_WITHIN: Duration = Duration::from_secs(20);
/// Pieces of an upload that wait for the disk.
const PIECES_WAITING: usize = 4;
/// What is still read of an upload that was refused, so that its sender hears why.
const MOST_DROPPED: usize = 128 << 20;
/// Of what is downloaded, in one piece.
const PIECE: usize = 256 << 10;
/// How often it is looked what nobody needs any more. The first look is after so long too: a
/// server that has just started has other things to do.
const SWEEP_EVERY: Duration = Duration::from_hours(1);
/// Tasks in one answer.
const TASKS_LISTED: usize = 10_000;

/// Which of these contents have to be uploaded, and from where on. What another user has uploaded
/// is missing all the same.
#[utoipa::path(post, path = routes::FILES_MISSING, operation_id = "missing_files",
    request_body = FilesOffered,
    responses((status = 200, body = FilesWanted), (status = "4XX", body = ErrorBody)))]
pub async fn missing(
    caller: Caller,
    State(site): State<Site>,
    Asked(asking): Asked,
    Json(offered): Json<FilesOffered>,
) -> Result<Response, ApiError> {
    let (whose, files) = (whose(&site, &caller.0.user), Arc::clone(&site.files));
    let wanted = on_disk(move || {
        let asked = offered.contents.iter().map(|it| (it.sha256, it.size)).collect::<Vec<_>>();
        let missing = files.missing(&whose, &asked).into_iter();
        let missing = missing.map(|(sha256, have)| ContentWanted { sha256, have }).collect();
        let (used, quota) = (files.used(&whose), files.limits().quota);
        Ok(FilesWanted { missing, used: shipway_model::Bytes(used), quota })
    });
    large_json(&asking, wanted.await?).await
}

/// Contents, or parts of some, one behind the other: 32 bytes of digest, then its size, where this
/// piece begins and how long it is (8 bytes each, big-endian), then the piece.
#[utoipa::path(post, path = routes::FILES, operation_id = "upload_files",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = FilesTaken), (status = "4XX", body = ErrorBody)))]
pub async fn upload(
    caller: Caller,
    State(site): State<Site>,
    body: Body,
) -> Result<axum::Json<FilesTaken>, ApiError> {
    let (whose, files) = (whose(&site, &caller.0.user), Arc::clone(&site.files));
    let (send, from) = mpsc::channel(PIECES_WAITING);
    let taking = on_disk(move || {
        let _place = files.upload(&whose).ok_or_else(|| {
            ApiError::over_budget("as many uploads as may be are under way".to_owned())
        })?;
        let taken = files.take_pack(&whose, &mut Coming { from, rest: Bytes::new() });
        Ok(taken.map(|taken| FilesTaken { files: taken.files, bytes: taken.bytes })?)
    });
    let sent = send_on(body, send);
    let (taken, sent) = tokio::join!(taking, sent);
    // Why nothing more was taken says more than that it was not.
    match (taken, sent) {
        (Ok(taken), Ok(())) => Ok(axum::Json(taken)),
        (Err(error), Ok(())) | (_, Err(error)) => Err(error),
    }
}

/// Hands on what comes; what nobody takes any more is dropped.
async fn send_on(body: Body, send: mpsc::Sender<io::Result<Bytes>>) -> Result<(), ApiError> {
    let mut pieces = body.into_data_stream();
    let (mut size, mut dropped) = (0_usize, 0);
    loop {
        let next = tokio::time::timeout(NEXT_PIECE_WITHIN, pieces.next()).await;
        let piece = match next {
            Ok(None) if size == 0 => {
                return Err(ApiError::bad_request("an upload has at least one content"));
            }
            Ok(None) => return Ok(()),
            Ok(Some(Ok(piece))) => piece,
            Ok(Some(Err(_))) => {
                let _ = send.send(Err(io::ErrorKind::UnexpectedEof.into())).await;
                return Err(ApiError::bad_request("the request broke off"));
            }
            Err(_) => {
                let _ = send.send(Err(io::ErrorKind::TimedOut.into())).await;
                return Err(ApiError::too_slow());
            }
        };
        size = size.saturating_add(piece.len());
        if size > MAX_UPLOAD_BYTES {
            return Err(ApiError::too_large());
        }
        let length = piece.len();
        if send.send(Ok(piece)).await.is_err() {
            dropped += length;
            if dropped > MOST_DROPPED {
                return Ok(());
            }
        }
    }
}

/// What comes, to be read by a thread that waits for it.
struct Coming {
    from: mpsc::Receiver<io::Result<Bytes>>,
    rest: Bytes,
}

impl Read for Coming {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.from.blocking_recv() {
                None => return Ok(0),
                Some(piece) => self.rest = piece?,
            }
        }
        let count = to.len().min(self.rest.len());
        self.rest.copy_to_slice(to.get_mut(..count).unwrap_or_default());
        Ok(count)
    }
}

/// Tasks of a job that have sent files back.
#[utoipa::path(get, path = routes::JOB_OUTPUTS, params(("job" = u64, Path), OutputsQuery),
    responses((status = 200, body = JobOutputs), (status = "4XX", body = ErrorBody)))]
pub async fn job_outputs(
    CallerWith(by, query): CallerWith<OutputsQuery>,
    State(site): State<Site>,
    Path(Digits(job)): Path<Digits<JobId>>,
) -> Result<axum::Json<JobOutputs>, ApiError> {
    let (whose, files) = (whose_job(&site, &by, job).await?, Arc::clone(&site.files));
    let from = TaskIndex(query.from.unwrap_or(0));
    let found = on_disk(move || {
        let mut tasks = files.tasks_with_outputs(&whose, job, from, TASKS_LISTED + 1);
        let next = tasks.get(TASKS_LISTED).copied();
        tasks.truncate(TASKS_LISTED);
        Ok(JobOutputs { tasks, next })
    });
    found.await.map(axum::Json)
}

/// What one task has sent back.
#[utoipa::path(get, path = routes::TASK_OUTPUTS, params(("job" = u64, Path), ("index" = u64, Path)),
    responses((status = 200, body = TaskOutputs), (status = "4XX", body = ErrorBody)))]
pub async fn task_outputs(
    caller: Caller,
    State(site): State<Site>,
    Asked(asking): Asked,
    Path((Digits(job), Digits(index))): Path<(Digits<JobId>, Digits<TaskIndex>)>,
) -> Result<Response, ApiError> {
    let (whose, files) = (whose_job(&site, &caller.0, job).await?, Arc::clone(&site.files));
    let task = job.task(index);
    let found = asking.work(move || -> Result<_, ApiError> {
        let found = files.outputs(&whose, task)?;
        let (kept, manifest) = found.ok_or_else(|| no_outputs(job, index))?;
        Ok(TaskOutputs { task, attempt: kept.attempt, files: manifest.files })
    });
    let found = found.await??;
    let about = |file: &shipway_model::TravellingFile| 120 + file.path.len();
    asking.hold(found.files.iter().map(about).sum())?;
    large_json(&asking, found).await
}

/// One of these contents, from an offset on.
#[utoipa::path(get, path = routes::TASK_OUTPUT,
    params(("job" = u64, Path), ("index" = u64, Path), ("digest" = String, Path), OffsetQuery),
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>),
        (status = "4XX", body = ErrorBody)))]
pub async fn task_output(
    CallerWith(by, query): CallerWith<OffsetQuery>,
    State(site): State<Site>,
    Asked(asking): Asked,
    Path((Digits(job), Digits(index), Digits(digest))): Path<(
        Digits<JobId>,
        Digits<TaskIndex>,
        Digits<Digest>,
    )>,
) -> Result<Response, ApiError> {
    // It may be read slowly, and has two pieces in hand meanwhile.
    asking.reads_output()?;
    let (whose, files) = (whose_job(&site, &by, job).await?, Arc::clone(&site.files));
    let opened = asking.work(move || -> Result<_, ApiError> {
        let found = files.outputs(&whose, job.task(index))?;
        // Of all that its owner has, what this task has made.
        let is_its = |(_, manifest): &(_, shipway_model::Manifest)| {
            manifest.files.iter().any(|file| file.sha256 == digest)
        };
        found.filter(is_its).ok_or_else(|| no_outputs(job, index))?;
        Ok(files.open(&whose, &digest)?)
    });
    let (file, size) = opened.await??;
    let offset = query.offset.unwrap_or(0).min(size);
    let body = Body::from_stream(reading::pieces(file, (offset, size), PIECE));
    let headings = [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (CONTENT_LENGTH, (size - offset).to_string()),
    ];
    Ok((headings, body).into_response())
}

fn no_outputs(job: JobId, index: TaskIndex) -> ApiError {
    ApiError::not_found(format!("nothing is kept here of what task {job}/{index} has made"))
        .hint("tasks of `run --sandbox` send files back; they are kept for a time (docs/files.md)")
}

pub(super) fn whose(site: &Site, user: &UserName) -> Whose {
    Whose::new(user, site.auth.number(user.as_str()))
}

/// Whose files those of a job are, if this person may see it.
async fn whose_job(site: &Site, by: &Actor, job: JobId) -> Result<Whose, ApiError> {
    let row = views::row(site, by, job).await?;
    let owner = UserName::new(&row.owner).map_err(|_| ApiError::no_such_job(job))?;
    Ok(whose(site, &owner))
}

/// Before it is accepted: whether all that a job comes with is here.
pub(super) async fn came_with(
    site: &Site,
    user: &UserName,
    asking: &Arc<Asking>,
    list: Digest,
) -> Result<(), ApiError> {
    let (whose, files) = (whose(site, user), Arc::clone(&site.files));
    // A list of 100,000 files is fifty megabytes while it is looked at: one of each user's at once.
    Ok(asking.work(move || files.check(&whose, &list)).await??)
}

/// When it is: its files are kept for it.
pub(super) async fn record(site: &Site, user: &UserName, came: Vec<(JobId, Digest)>) {
    if came.is_empty() {
        return;
    }
    let (whose, files) = (whose(site, user), Arc::clone(&site.files));
    let recorded = on_disk(move || {
        Ok(came.iter().try_for_each(|(job, digest)| files.record(&whose, *job, digest))?)
    });
    // Whoever fetches them for the job records it too; until then they are kept as just used.
    if let Err(error) = recorded.await {
        tracing::warn!(?error, "it is not recorded what a job came with");
    }
}

/// Removes what nobody needs, now and then, for as long as the server runs and the home is its.
pub(crate) async fn sweep(site: Site, tenure: Arc<Tenure>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        if let Err(error) = sweep_once(&site, &tenure).await {
            tracing::warn!(?error, "files that nobody needs are not removed");
        }
    }
}

async fn sweep_once(site: &Site, tenure: &Arc<Tenure>) -> Result<(), ApiError> {
    let files = Arc::clone(&site.files);
    let jobs = on_disk(move || Ok(files.jobs())).await?;
    let mut standing = HashMap::new();
    for job in jobs {
        let known = site.writer.glance(move |state| state.job(job).map(|job| job.ended)).await?;
        let known = match known {
            Some(None) => Standing::Open,
            Some(Some(ended)) => Standing::OverSince(ended),
            None => {
                let end = site.readers.read(move |history| history.last_end(job.0)).await?;
                end.map_or(Standing::Unknown, |end| Standing::OverSince(Timestamp(end.ended_ms)))
            }
        };
        standing.insert(job, known);
    }
    let (files, tenure) = (Arc::clone(&site.files), Arc::clone(tenure));
    let removed = on_disk(move || {
        // The home may be another server's by now, with what jobs of that one need.
        if tenure.check().is_err() {
            return Ok(0);
        }
        Ok(files.sweep(SystemTime::now(), &standing)?)
    });
    let removed = removed.await?;
    if removed > 0 {
        tracing::info!(removed, "files that no job needs are removed");
    }
    Ok(())
}

/// On a thread that may wait for the disk.
async fn on_disk<A: Send + 'static>(
    act: impl FnOnce() -> Result<A, ApiError> + Send + 'static,
) -> Result<A, ApiError> {
    let done = tokio::task::spawn_blocking(act).await;
    done.map_err(|_| ApiError::internal("work on files was cut off"))?
}

impl From<FilesError> for ApiError {
    fn from(error: FilesError) -> Self {
        let message = shipway_api::causes::causes(&error);
        match error {
            FilesError::Quota { .. } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, codes::TOO_MANY, message).hint(
                    "what no job of yours needs is removed after a time; let less travel (a file \
                     .shipwayignore), or ask whoever runs the server (`up --files-quota`)",
                )
            }
            FilesError::Room(_) => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, codes::NO_ROOM, message)
                    .hint("whoever runs the server can make room; files leave some to its journal")
            }
            FilesError::Digest(_) | FilesError::Pack(_) => Self::bad_request(message),
            FilesError::Offset { .. } | FilesError::Busy(_) => {
                Self::new(StatusCode::CONFLICT, codes::BUSY, message)
                    .hint("ask again what is missing, and go on from there")
            }
            FilesError::Missing(_) => {
                Self::new(StatusCode::CONFLICT, codes::FILES_MISSING, message)
                    .hint("upload it, then repeat the request")
            }
            FilesError::Unreadable(_) | FilesError::Manifest { .. } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, codes::BAD_REQUEST, message)
            }
            FilesError::Io { .. } => Self::internal_because("files cannot be used", &error),
        }
    }
}
