//! Submitting a job, and asking what would happen if one did.

use super::Site;
use super::asking::{Asked, Asking};
use super::body::Body;
use super::caller::Caller;
use super::error::ApiError;
use super::files::{came_with, record};
use super::large::large_json;
use super::pinning::pin_image;
use crate::event_logs::EventLogs;
use crate::secrets;
use crate::views;
use crate::writer::{self, Done, Member, Wish};
use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use shipway_api::error::{ErrorBody, codes};
use shipway_api::routes;
use shipway_api::routes::IDEMPOTENCY_KEY;
use shipway_api::together::{Named, Turn, in_turn};
use shipway_api::types::{DryRun, Submission, Submitted, SubmittedTogether, Together};
use shipway_core::explain::{explain_need, prospect_of_new};
use shipway_core::job::Terms;
use shipway_core::requirements::{RankSteps, pointless_rank, validate};
use shipway_core::shape::Gang;
use shipway_core::shape::Shape;
use shipway_core::{Rejection, State};
use shipway_model::expand::Placeholders;
use shipway_model::limits::{MAX_DEPENDENCIES, MAX_SPEC_BYTES};
use shipway_model::validate::Problem;
use shipway_model::{After, JobId, JobSpec, Ordinal, Reason, TaskIndex};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A job as it is stored, which one commit has room for.
const MOST_STORED: usize = 2 * MAX_SPEC_BYTES;
/// Jobs to wait for that are looked up in no time.
const FEW: usize = 16;

/// Accepts a job. Answers when it is on disk.
#[utoipa::path(post, path = routes::JOBS, request_body = Submission,
    params(("idempotency-key" = Option<String>, Header,
        description = "A repeat with the same key and job answers with the same id.")),
    responses((status = 201, body = Submitted),
        (status = 200, body = Submitted, description = "A repeat."),
        (status = "4XX", body = ErrorBody), (status = 503, body = ErrorBody)))]
pub async fn submit(
    caller: Caller,
    axum::extract::State(site): axum::extract::State<Site>,
    Asked(asking): Asked,
    headers: HeaderMap,
    Body(submission): Body<Submission>,
) -> Result<(StatusCode, Json<Submitted>), ApiError> {
    let checked = checked(&asking, submission.spec).await?;
    let (digest, size) = (checked.digest, checked.size);
    let jobs = vec![Member { spec: checked.spec, after: Vec::new() }];
    let asked = (digest, size, key(&headers)?);
    let (status, id) = accept(&site, caller, &asking, asked, jobs).await?;
    Ok((status, Json(Submitted { id, repeated: status == StatusCode::OK })))
}

/// Accepts jobs that may wait for each other: all of them, or none.
#[utoipa::path(post, path = routes::SUBMISSIONS, request_body = Together,
    params(("idempotency-key" = Option<String>, Header,
        description = "A repeat with the same key and jobs answers with the same ids.")),
    responses((status = 201, body = SubmittedTogether),
        (status = 200, body = SubmittedTogether, description = "A repeat."),
        (status = "4XX", body = ErrorBody), (status = 503, body = ErrorBody)))]
pub async fn submit_together(
    caller: Caller,
    axum::extract::State(site): axum::extract::State<Site>,
    Asked(asking): Asked,
    headers: HeaderMap,
    Body(together): Body<Together>,
) -> Result<(StatusCode, Json<SubmittedTogether>), ApiError> {
    let checked = asking.work(move || all_checked(together)).await??;
    let Turns { jobs, places, digest, size } = checked;
    let asked = (digest, size, key(&headers)?);
    let (status, first) = accept(&site, caller, &asking, asked, jobs).await?;
    let ids = places.into_iter().map(|at| JobId(first.0.saturating_add(at))).collect();
    Ok((status, Json(SubmittedTogether { ids, repeated: status == StatusCode::OK })))
}

/// A client's name for this submission, by which a repeat is recognised.
fn key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let key = headers.get(IDEMPOTENCY_KEY);
    let key = key.map(|key| key.to_str().map(ToString::to_string)).transpose();
    key.map_err(|_| ApiError::bad_request("the idempotency key is not plain text"))
}

/// Has them written down: 201 and the id of the first, or 200 if that was done before.
async fn accept(
    site: &Site,
    caller: Caller,
    asking: &Arc<Asking>,
    (digest, size, key): (u64, usize, Option<String>),
    mut jobs: Vec<Member>,
) -> Result<(StatusCode, JobId), ApiError> {
    let lists: BTreeSet<_> = jobs.iter().filter_map(|member| member.spec.sandbox).collect();
    for list in lists {
        came_with(site, &caller.0.user, asking, list).await?;
    }
    for Member { spec, .. } in &jobs {
        may_have_log(site, &caller, spec)?;
        log_has_folder(spec.event_log.is_some().then(|| spec.clone())).await?;
    }
    site.budgets.keep_specs(&caller.0.user, jobs.len(), asking.bytes(), site.clock.now())?;
    for Member { spec, .. } in &mut jobs {
        pin_image(site, &caller.0, spec).await?;
    }
    if jobs.iter().any(|job| job.spec.event_log.is_some()) {
        begin_logs(site).await?;
    }
    // Each is looked up while it is decided: of such jobs one of each user's at once.
    let looked_up: usize = jobs.iter().map(|job| job.spec.after.len()).sum();
    let turn = if looked_up > FEW { asking.turn().await? } else { None };
    let with_files: Vec<_> =
        (0_u64..).zip(&jobs).filter_map(|(at, job)| Some((at, job.spec.sandbox?))).collect();
    let user = caller.0.user.clone();
    let wish = writer::Submission { by: caller.0, jobs, digest, key, size };
    let done = site.writer.wish(Wish::Submit(Box::new(wish))).await?;
    drop(turn);
    let Done::Submitted { first, repeated } = done else {
        return Err(ApiError::internal("a submission made no job"));
    };
    let came = with_files.into_iter();
    let came = came.map(|(at, files)| (JobId(first.0.saturating_add(at)), files)).collect();
    record(site, &user, came).await;
    Ok((if repeated { StatusCode::OK } else { StatusCode::CREATED }, first))
}

/// Checks a job and says what it would run and wait for; submits nothing.
#[utoipa::path(post, path = routes::DRY_RUN, request_body = Submission,
    responses((status = 200, body = DryRun), (status = "4XX", body = ErrorBody)))]
pub async fn dry_run(
    caller: Caller,
    axum::extract::State(site): axum::extract::State<Site>,
    Asked(asking): Asked,
    Body(submission): Body<Submission>,
) -> Result<Response, ApiError> {
    let Checked { spec, .. } = checked(&asking, submission.spec).await?;
    may_have_log(&site, &caller, &spec)?;
    log_has_folder(spec.event_log.is_some().then(|| spec.clone())).await?;
    let (now, user) = (site.clock.now(), caller.0.user.clone());
    let (shape, terms) = (Shape::of(&spec, &user, Gang::default()), Terms::of(&spec));
    let sites = Arc::clone(&site.sites);
    let look = move |state: &State| {
        if let Some(problem) = pointless_rank(&shape, state, &mut RankSteps::default()) {
            return Err(Rejection::InvalidSpec(vec![problem]));
        }
        let shape = state.at_sites(shape.clone(), &user, &terms);
        let mut reasons = explain_need(state, &shape, (&user, &terms), now);
        sites.say_starts(state, &mut reasons);
        Ok((reasons, prospect_of_new(state, &shape, &user, now)))
    };
    let (mut reasons, mut prospect) = asking.try_out(&site.writer, look).await??;
    let mut jobs = Vec::new();
    for after in &spec.after {
        jobs.extend(waits_for(&site, &caller, after).await?);
    }
    if !jobs.is_empty() {
        // It is told of those, as it would be when it is submitted.
        reasons = jobs;
        prospect.waits_for_jobs();
    }
    let tasks = spec.indices().map_or(0, |indices| indices.len());
    let found = DryRun { tasks, first_command: first_command(&spec), spec, reasons, prospect };
    large_json(&asking, found).await
}

/// A job that is in order.
struct Checked {
    spec: JobSpec,
    /// Of what was asked for: a repeat is one even when its image's tag has moved on meanwhile.
    digest: u64,
    /// Bytes of it as it is stored.
    size: usize,
}

/// Expressions are tried out for it, which may take a while.
async fn checked(asking: &Arc<Asking>, spec: JobSpec) -> Result<Checked, ApiError> {
    let is_quick = !asking.is_large() && spec.requirements.is_none() && spec.rank.is_none();
    let check = move || {
        validate(&spec).map_err(Rejection::InvalidSpec)?;
        let (digest, size) = stored(&spec)?;
        Ok(Checked { spec, digest, size })
    };
    if is_quick { check() } else { asking.work(check).await? }
}

/// The digest of what was asked for, and its size.
fn stored(asked: &impl serde::Serialize) -> Result<(u64, usize), ApiError> {
    let (digest, size) = secrets::digest_of(asked);
    // The rows of `each` are stored in full, however short they were written.
    if size > MOST_STORED { Err(ApiError::too_large()) } else { Ok((digest, size)) }
}

/// Jobs that are in order, each after those it waits for.
struct Turns {
    jobs: Vec<Member>,
    /// For each as it was asked for, which of `jobs` it is.
    places: Vec<u64>,
    digest: u64,
    size: usize,
}

fn all_checked(together: Together) -> Result<Turns, ApiError> {
    let refused = |problems| ApiError::from(Rejection::InvalidSpec(problems));
    if together.jobs.is_empty() {
        return Err(ApiError::bad_request("there is no job in it"));
    }
    let (digest, size) = stored(&together)?;
    for (at, job) in together.jobs.iter().enumerate() {
        validate(&job.spec).map_err(|problems| refused(of_job(at, problems)))?;
    }
    // Each is looked for in history while everybody waits: no more than one job may have.
    let waits: usize = together.jobs.iter().map(|job| job.spec.after.len()).sum();
    if waits > MAX_DEPENDENCIES {
        let what = format!(
            "{waits} numbers of jobs to wait for in one request; at most {MAX_DEPENDENCIES} (jobs \
             of the same request are named, and not counted)"
        );
        return Err(refused(vec![Problem { field: "after", what }]));
    }
    let names: Vec<Named<'_>> = together.jobs.iter().map(|job| job.named()).collect();
    let order = in_turn(&names).map_err(|problem| refused(vec![problem]))?;
    let mut places = vec![0; together.jobs.len()];
    let mut given: Vec<Option<JobSpec>> =
        together.jobs.into_iter().map(|job| Some(job.spec)).collect();
    let mut jobs = Vec::with_capacity(given.len());
    for (turn, Turn { job, after }) in order.into_iter().enumerate() {
        places.get_mut(job).into_iter().for_each(|place| *place = turn as u64);
        let spec = given.get_mut(job).and_then(Option::take);
        jobs.extend(spec.map(|spec| Member { spec, after }));
    }
    Ok(Turns { jobs, places, digest, size })
}

/// Which of several it is that has these problems.
fn of_job(at: usize, problems: Vec<Problem>) -> Vec<Problem> {
    let say = |problem: Problem| Problem {
        what: format!("{} (job {} of the request)", problem.what, at + 1),
        ..problem
    };
    problems.into_iter().map(say).collect()
}

/// The server writes event logs itself, and so only those of whoever runs it.
fn may_have_log(site: &Site, by: &Caller, spec: &JobSpec) -> Result<(), ApiError> {
    match site.event_logs.refusal(&by.0, spec) {
        None => Ok(()),
        Some((why, hint)) => {
            Err(ApiError::new(StatusCode::FORBIDDEN, codes::NOT_ALLOWED, why).hint(hint))
        }
    }
}

/// A log in a folder that is not there would be lost.
async fn log_has_folder(spec: Option<JobSpec>) -> Result<(), ApiError> {
    let Some(spec) = spec else { return Ok(()) };
    let found = tokio::task::spawn_blocking(move || EventLogs::missing_folder(&spec)).await;
    let Some(folder) = found.map_err(|_| ApiError::internal("looking for a folder was cut off"))?
    else {
        return Ok(());
    };
    let what = format!("there is no folder {}; make it first", folder.display());
    Err(Rejection::InvalidSpec(vec![Problem { field: "event_log", what }]).into())
}

/// Before the job is accepted, so that nothing of it is missed.
async fn begin_logs(site: &Site) -> Result<(), ApiError> {
    let logs = Arc::clone(&site.event_logs);
    let begun = tokio::task::spawn_blocking(move || logs.begin()).await;
    let begun = begun.map_err(|_| ApiError::internal("the event log was cut off"))?;
    begun.map_err(|error| ApiError::internal_because("the event log cannot be written", &error))
}

/// What a dependency has to do with it: a reason while it has not ended, an error when there is no
/// such job.
async fn waits_for(site: &Site, by: &Caller, after: &After) -> Result<Option<Reason>, ApiError> {
    let (job, condition) = (after.job, after.condition);
    let missing = |_| ApiError::from(Rejection::NoSuchDependency(job));
    let state = views::job(site, &by.0, job).await.map_err(missing)?.state;
    Ok((!state.is_over()).then_some(Reason::AfterJob { job, condition, state }))
}

fn first_command(spec: &JobSpec) -> Vec<String> {
    let fields = spec.each.as_ref().and_then(|each| each.row(0)).unwrap_or_default();
    let script = spec.script.is_some().then(|| "SCRIPT".to_string());
    let index =
        spec.indices().and_then(|indices| indices.index(Ordinal(0))).unwrap_or(TaskIndex(0));
    let placeholders = Placeholders::before_submission(index, &fields);
    let words = spec.command.iter().map(|word| placeholders.fill(word));
    script.into_iter().chain(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::asking::SMALL;
    use futures_util::FutureExt;
    use shipway_model::UserName;

    #[tokio::test]
    async fn what_takes_long_to_judge_is_judged_by_turns() {
        let (user, intake) = (UserName::new("ada").expect("a good name"), Arc::default());
        let asking = |bytes: usize| {
            let asking = Arc::new(Asking::default());
            asking.is_by(&user, &intake).and_then(|()| asking.hold(bytes)).expect("room");
            asking
        };
        let (small, large) = (asking(SMALL), asking(SMALL + 1));
        let turn = small.turn().await.expect("it is free");
        let spec = |json: &str| -> JobSpec { serde_json::from_str(json).expect("a job") };
        let plain = || spec(r#"{"command":["true"]}"#);
        checked(&small, plain()).now_or_never().expect("at once").map(drop).expect("in order");
        let ranked = spec(r#"{"command":["true"],"rank":"Memory"}"#);
        for (asking, spec) in [(&large, plain()), (&small, ranked)] {
            assert!(checked(asking, spec).now_or_never().is_none(), "another has the turn");
        }
        drop(turn);
        checked(&large, plain()).await.map(drop).expect("in order");
    }
}
