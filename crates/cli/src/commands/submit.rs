//! `submit`: the jobs of a file, all of them or none.

use super::{Context, submission};
use crate::args::jobs::SubmitArgs;
use crate::build_spec::BadArguments;
use crate::failure::{Exit, Failure};
use crate::view::dry_run::{DryRuns, MemberRun};
use crate::view::simple::SubmittedIds;
use crate::view::time::Reader;
use crate::{build_spec, input, job_file, submit_file, view};
use shipway_api::routes;
use shipway_api::together::MAX_TOGETHER;
use shipway_api::types::{DryRun, Member, Submission, Submitted, SubmittedTogether, Together};
use std::path::Path;

pub async fn run(context: &Context, args: SubmitArgs) -> Result<Exit, Failure> {
    let mut jobs = read(&args)?;
    if args.dry_run {
        return dry_run(context, jobs).await;
    }
    for job in &mut jobs {
        submission::pin_image(&mut job.spec).await?;
    }
    let ids = if let [one] = jobs.as_slice() {
        let submission = Submission { spec: one.spec.clone() };
        SubmittedIds::One(submission::submit(&context.client, &submission, args.key).await?)
    } else {
        SubmittedIds::Many(submit_together(context, jobs, args.key).await?)
    };
    view::show(&ids, context.output)?;
    Ok(Exit::DONE)
}

/// All of them or none, but for a submit file that makes more jobs than one request takes.
async fn submit_together(
    context: &Context,
    mut jobs: Vec<Member>,
    key: Option<String>,
) -> Result<Vec<Submitted>, Failure> {
    let fit = jobs.len() <= MAX_TOGETHER;
    let mut submitted = Vec::with_capacity(jobs.len());
    while !jobs.is_empty() {
        let rest = jobs.split_off(jobs.len().min(MAX_TOGETHER));
        let part = submitted.len() / MAX_TOGETHER;
        // Each request needs a key of its own.
        let key = key.as_ref().map(|key| if fit { key.clone() } else { format!("{key}.{part}") });
        let together = Together { jobs: std::mem::replace(&mut jobs, rest) };
        let done = submission::submit_together(&context.client, &together, key).await?;
        let SubmittedTogether { ids, repeated } = done;
        submitted.extend(ids.into_iter().map(|id| Submitted { id, repeated }));
    }
    Ok(submitted)
}

/// Reads and checks the whole file before anything of it is submitted.
fn read(args: &SubmitArgs) -> Result<Vec<Member>, Failure> {
    let file = &args.file;
    let text = input::read_text(file)?;
    if submit_file::is_submit_file(file, &text, args.format) {
        let alone = |spec| Member { spec, after: Vec::new() };
        return Ok(submit_file::jobs(args, &text)?.into_iter().map(alone).collect());
    }
    if !args.set.is_empty() {
        return Err(BadArguments::SetInJobFile.into());
    }
    let name: &Path =
        if input::is_standard_input(file) { Path::new("standard input") } else { file };
    let mut jobs = job_file::parse(name, &text)?;
    for Member { spec, .. } in &mut jobs {
        // Without one a job of a file gets a fresh directory: files are moved and mailed.
        if let Some(named) = &spec.workdir {
            spec.workdir = build_spec::workdir(Some(named), std::env::current_dir())?;
        }
        if spec.names_files() || spec.basedir.is_some() {
            let named = spec.basedir.as_deref();
            let dir = build_spec::own_files_begin(named, &std::env::current_dir())?;
            spec.basedir = Some(dir);
        }
        if let Some(image) = spec.image.take() {
            spec.image = Some(build_spec::absolute(image, &std::env::current_dir())?);
        }
    }
    Ok(jobs)
}

/// What would become of them; `run` asks the same of its one.
pub async fn dry_run(context: &Context, jobs: Vec<Member>) -> Result<Exit, Failure> {
    let mut runs = Vec::with_capacity(jobs.len());
    for Member { spec, after } in jobs {
        let run: DryRun = context.client.post(routes::DRY_RUN, &Submission { spec }, &[]).await?;
        runs.push(MemberRun { run, after });
    }
    view::show(&DryRuns { runs, reader: Reader::here() }, context.output)?;
    Ok(Exit::DONE)
}
