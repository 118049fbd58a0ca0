//! `wait`: until jobs have ended; exits as `run` would have.

use super::{Context, ending};
use crate::args::jobs::WaitArgs;
use crate::failure::{Exit, Failure};
use crate::view;
use crate::view::simple::Ends;
use std::time::Duration;
use tokio::time::Instant;

pub async fn run(context: &Context, args: &WaitArgs) -> Result<Exit, Failure> {
    let deadline = args.timeout.and_then(|span| {
        // A deadline beyond the clock's end is none.
        Instant::now().checked_add(Duration::from_millis(span.0))
    });
    let mut jobs = Vec::with_capacity(args.jobs.len());
    for job in &args.jobs {
        jobs.push(ending::wait(&context.client, *job, deadline).await?);
    }
    let exit = match jobs.as_slice() {
        jobs if jobs.iter().any(|job| !job.state.is_over()) => Exit::TIME_OVER,
        [job] => ending::exit_of(job),
        jobs if jobs.iter().all(|job| ending::exit_of(job) == Exit::DONE) => Exit::DONE,
        _ => Exit::TASK_FAILED,
    };
    view::show(&Ends { jobs }, context.output)?;
    Ok(exit)
}
