//! `why`: every reason for which a job waits.

use super::Context;
use crate::args::jobs::WhyArgs;
use crate::failure::{Exit, Failure};
use crate::view;
use crate::view::time::Reader;
use crate::view::why::WhyView;
use shipway_api::routes;

pub async fn run(context: &Context, args: &WhyArgs) -> Result<Exit, Failure> {
    let why = context.client.get(&routes::job_why(args.job)).await?;
    view::show(&WhyView { why, reader: Reader::here() }, context.output)?;
    Ok(Exit::DONE)
}
