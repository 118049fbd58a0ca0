//! `outputs`: what tasks have sent back: listed, or fetched to a folder.

use super::Context;
use crate::args::jobs::OutputsArgs;
use crate::failure::{Exit, Failure};
use crate::query::Query;
use crate::travel::{self, Written};
use crate::view;
use crate::view::outputs::{Fetched, Listed};
use shipway_api::routes;
use shipway_api::types::{JobOutputs, TaskOutputs};
use shipway_model::manifest::is_meant;
use shipway_model::{JobId, TaskIndex};
use std::path::Path;

pub async fn run(context: &Context, args: &OutputsArgs) -> Result<Exit, Failure> {
    let job = args.target.job;
    let tasks = match args.target.index {
        Some(index) => vec![index],
        None => all_tasks(context, job).await?,
    };
    let wanted =
        |path: &str| args.names.is_empty() || args.names.iter().any(|name| is_meant(name, path));
    let many = args.target.index.is_none() && (tasks.len() > 1 || is_array(context, job).await?);
    let (mut listed, mut fetched) = (Vec::new(), Vec::new());
    for index in tasks {
        let mut outputs: TaskOutputs =
            context.client.get(&routes::task_outputs(job, index)).await?;
        outputs.files.retain(|file| wanted(&file.path));
        let Some(to) = &args.to else {
            listed.push(outputs);
            continue;
        };
        // Of many tasks each has a folder, named by its index.
        let to = if many { to.join(index.to_string()) } else { to.clone() };
        std::fs::create_dir_all(&to).map_err(Failure::Output)?;
        let written = travel::fetch(context, &outputs, (&to, None), |_| true).await?;
        fetched.extend(written.into_iter().map(|it| in_folder(it, many.then_some(index))));
    }
    match &args.to {
        Some(_) => view::show(&Fetched { files: fetched }, context.output)?,
        None => view::show(&Listed { tasks: listed, many }, context.output)?,
    }
    Ok(Exit::DONE)
}

fn in_folder(written: Written, index: Option<TaskIndex>) -> Written {
    let Some(index) = index else { return written };
    let place = |name: String| Path::new(&index.to_string()).join(name).display().to_string();
    Written { path: place(written.path), as_name: written.as_name.map(place) }
}

async fn is_array(context: &Context, job: JobId) -> Result<bool, Failure> {
    let view: shipway_api::types::JobView = context.client.get(&routes::job(job)).await?;
    Ok(view.is_array)
}

async fn all_tasks(context: &Context, job: JobId) -> Result<Vec<TaskIndex>, Failure> {
    let (mut tasks, mut from) = (Vec::new(), None);
    loop {
        let query = Query::new().maybe("from", from);
        let page: JobOutputs = context.client.get(&query.on(&routes::job_outputs(job))).await?;
        tasks.extend(page.tasks);
        from = page.next;
        if from.is_none() {
            return Ok(tasks);
        }
    }
}
