//! `submit`: the jobs of a file, in order.

use super::{Context, submission};
use crate::args::jobs::SubmitArgs;
use crate::build_spec::BadArguments;
use crate::failure::{Exit, Failure};
use crate::view::dry_run::DryRuns;
use crate::view::simple::SubmittedIds;
use crate::view::time::Reader;
use crate::{build_spec, input, job_file, submit_file, view};
use shipway_api::routes;
use shipway_api::types::{DryRun, Submission};
use shipway_model::JobSpec;
use std::path::Path;

pub async fn run(context: &Context, args: SubmitArgs) -> Result<Exit, Failure> {
    let mut specs = read(&args)?;
    if args.dry_run {
        return dry_run(context, specs).await;
    }
    for spec in &mut specs {
        // Of all of them first: a file is submitted as a whole or not at all.
        submission::pin_image(spec).await?;
    }
    let alone = specs.len() == 1;
    let mut submitted = Vec::with_capacity(specs.len());
    for (at, spec) in specs.into_iter().enumerate() {
        // One key for the file; each of its jobs needs one of its own.
        let key =
            args.key.as_ref().map(|key| if alone { key.clone() } else { format!("{key}.{at}") });
        let submission = Submission { spec };
        submitted.push(submission::submit(&context.client, &submission, key).await?);
    }
    let ids = match submitted.len() {
        1 => SubmittedIds::One(submitted.remove(0)),
        _ => SubmittedIds::Many(submitted),
    };
    view::show(&ids, context.output)?;
    Ok(Exit::DONE)
}

/// Reads and checks the whole file before anything of it is submitted.
fn read(args: &SubmitArgs) -> Result<Vec<JobSpec>, Failure> {
    let file = &args.file;
    let text = input::read_text(file)?;
    if submit_file::is_submit_file(file, &text, args.format) {
        return submit_file::jobs(args, &text);
    }
    if !args.set.is_empty() {
        return Err(BadArguments::SetInJobFile.into());
    }
    let name: &Path =
        if input::is_standard_input(file) { Path::new("standard input") } else { file };
    let mut specs = job_file::parse(name, &text)?;
    for spec in &mut specs {
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
    Ok(specs)
}

/// What would become of them; `run` asks the same of its one.
pub async fn dry_run(context: &Context, specs: Vec<JobSpec>) -> Result<Exit, Failure> {
    let mut runs: Vec<DryRun> = Vec::with_capacity(specs.len());
    for spec in specs {
        runs.push(context.client.post(routes::DRY_RUN, &Submission { spec }, &[]).await?);
    }
    view::show(&DryRuns { runs, reader: Reader::here() }, context.output)?;
    Ok(Exit::DONE)
}
