//! `jobs`: a page of the list of jobs.

use super::Context;
use crate::args::Pair;
use crate::args::jobs::JobsArgs;
use crate::failure::{Exit, Failure};
use crate::query::Query;
use crate::view;
use crate::view::job_table::JobTable;
use crate::view::talk;
use crate::view::time::Reader;
use shipway_api::routes;
use shipway_api::types::{JobPage, UserView};
use shipway_model::May;

pub async fn run(context: &Context, args: &JobsArgs) -> Result<Exit, Failure> {
    let path = query(args).on(routes::JOBS);
    let page: JobPage = context.client.get(&path).await?;
    let nothing = page.jobs.is_empty();
    let options = options(args);
    let table = JobTable { page, with_owner: args.all, options, reader: Reader::here() };
    view::show(&table, context.output)?;
    if nothing && !args.all && !context.output.json {
        tell_of_others(context).await;
    }
    Ok(Exit::DONE)
}

/// An operator who sees nothing may have meant everybody's. An error here is no news.
async fn tell_of_others(context: &Context) {
    if let Ok(me) = context.client.get::<UserView>(routes::WHO_AM_I).await
        && me.role.may(May::TouchAllJobs)
    {
        talk::say(format_args!(
            "shipway: none of your own; `shipway jobs --all` lists everybody's"
        ));
    }
}

/// As they were typed, but for `--before`, to be typed again.
fn options(args: &JobsArgs) -> String {
    let mut words = Vec::new();
    words.extend(args.all.then(|| " --all".to_string()));
    words.extend(args.state.map(|state| format!(" --state {state}")));
    let label =
        |Pair { key, value }: &Pair| format!(" --label {}", word(&format!("{key}={value}")));
    words.extend(args.labels.iter().map(label));
    words.extend(args.name.as_ref().map(|name| format!(" --name {}", word(name))));
    words.extend(args.limit.map(|limit| format!(" --limit {limit}")));
    words.concat()
}

/// As a shell takes it for one word.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-=.,:/@+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_string();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
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
