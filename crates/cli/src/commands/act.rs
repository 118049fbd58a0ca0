//! `cancel` and `retry`: the same selection, two things to do with it.

use super::Context;
use crate::args::jobs::SelectArgs;
use crate::failure::{Exit, Failure};
use crate::view;
use crate::view::acted::ActedView;
use shipway_api::routes;
use shipway_api::types::{Acted, Selection};

pub async fn cancel(context: &Context, args: SelectArgs) -> Result<Exit, Failure> {
    act(context, args, routes::CANCEL, "cancelled").await
}

pub async fn retry(context: &Context, args: SelectArgs) -> Result<Exit, Failure> {
    act(context, args, routes::RETRY, "to be run again").await
}

async fn act(
    context: &Context,
    args: SelectArgs,
    route: &str,
    done: &'static str,
) -> Result<Exit, Failure> {
    let acted: Acted = context.client.post(route, &selection(args), &[]).await?;
    view::show(&ActedView { done, acted }, context.output)?;
    Ok(Exit::DONE)
}

fn selection(args: SelectArgs) -> Selection {
    let mut selection = Selection {
        labels: args.labels.into_iter().map(|pair| (pair.key, pair.value)).collect(),
        state: args.state,
        ..Selection::default()
    };
    for target in args.targets {
        match target.index {
            Some(index) => selection.tasks.push(target.job.task(index)),
            None => selection.jobs.push(target.job),
        }
    }
    selection
}
