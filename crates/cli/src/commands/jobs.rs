//! `jobs`: a page of the list of jobs.

use super::Context;
use crate::args::Pair;
use crate::args::jobs::JobsArgs;
use crate::failure::{Exit, Failure};
use crate::query::Query;
use crate::view;
use crate::view::job_table::JobTable;
use crate::view::time::Reader;
use shipway_api::routes;

pub async fn run(context: &Context, args: &JobsArgs) -> Result<Exit, Failure> {
    let path = query(args).on(routes::JOBS);
    let page = context.client.get(&path).await?;
    let table = JobTable { page, with_owner: args.all, reader: Reader::here() };
    view::show(&table, context.output)?;
    Ok(Exit::DONE)
}

fn query(args: &JobsArgs) -> Query {
    let labels: Vec<String> =
        args.labels.iter().map(|Pair { key, value }| format!("{key}={value}")).collect();
    Query::new()
        .maybe("state", args.state)
        .maybe("label", (!labels.is_empty()).then(|| labels.join(",")))
        .maybe("name", args.name.as_ref())
        .maybe("owner", args.all.then_some("*"))
        .maybe("limit", args.limit)
        .maybe("before", args.before)
}
