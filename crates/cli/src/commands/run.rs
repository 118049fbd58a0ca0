//! `run`: submit one job and stay with it: its output and its exit code, or its progress.

use super::follow::{End, Follower};
use super::{Context, ending, interrupt, submission, submit, waiting};
use crate::args::run::RunArgs;
use crate::build_spec::{self, Caller};
use crate::failure::{Exit, Failure};
use crate::travel::{self, Picked, Wanted};
use crate::view::output::Stream;
use crate::view::progress::{Progress, counts_text};
use crate::view::simple::{Ends, SubmittedIds};
use crate::view::{self, talk};
use shipway_api::client::{Client, ClientError};
use shipway_api::error::codes;
use shipway_api::routes;
use shipway_api::types::{JobView, Member, Submission, Submitted, TaskOutputs};
use shipway_model::{JobId, Outcome, TaskIndex};
use std::cell::Cell;
use std::future::pending;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::watch;

/// Whoever waits longer than this would like to know for what.
const SAY_WHY_AFTER: Duration = Duration::from_secs(1);
/// The rest of the output may come after the end, with no pause longer than this; a node that is
/// away may never send it.
const OUTPUT_AFTER_END: Duration = Duration::from_secs(5);
/// How often the progress of many tasks is looked at, with and without a terminal.
const BAR_EVERY: Duration = Duration::from_millis(500);
const LINE_EVERY: Duration = Duration::from_secs(5);

pub async fn run(context: &Context, args: RunArgs) -> Result<Exit, Failure> {
    let (detach, dry_run, key) = (args.detach, args.dry_run, args.key.clone());
    let travels = Wanted::of(&args.files);
    let mut spec = build_spec::build(args, Caller::of_this_process())?;
    let picked = match &travels {
        Some(wanted) => Some(wanted.pick(&mut spec).await?),
        None => None,
    };
    if dry_run {
        return submit::dry_run(context, vec![Member { spec, after: Vec::new() }]).await;
    }
    submission::pin_image(&mut spec).await?;
    if let Some(picked) = &picked {
        Box::pin(travel::upload(context, picked)).await?;
    }
    let submission = Submission { spec };
    let shows_output = !detach && !context.output.json && !submission.spec.is_array();
    let submitted = Box::pin(submit_it(context, &submission, key, shows_output)).await?;
    let job = submitted.id;
    if detach {
        view::show(&SubmittedIds::One(submitted), context.output)?;
        return Ok(Exit::DONE);
    }
    let spec = submission.spec;
    let asker = context.server.connect()?;
    let tasks = spec.indices().map_or(1, |indices| indices.len());
    // On the heap: three connections' worth of state is much for a stack of futures.
    let stay = Box::pin(async {
        if context.output.json {
            ending::wait(&context.client, job, None).await
        } else if spec.is_array() {
            progress(context, &asker, job, tasks).await
        } else {
            Box::pin(output(context, &asker, job)).await
        }
    });
    let Some(ended) = interrupt::unless_interrupted(context, job, stay).await? else {
        return Ok(Exit::INTERRUPTED);
    };
    let exit = ending::exit_of(&ended);
    if let Some((wanted, picked)) = travels.zip(picked).filter(|_| !context.output.json) {
        Box::pin(results(context, &ended, &wanted, &picked)).await?;
    }
    if context.output.json {
        view::show(&Ends { jobs: vec![ended] }, context.output)?;
    } else {
        closing_line(&ended);
    }
    Ok(exit)
}

/// A job takes a moment to be on disk: if its output is asked for next, that is made ready.
async fn submit_it(
    context: &Context,
    submission: &Submission,
    key: Option<String>,
    shows_output: bool,
) -> Result<Submitted, Failure> {
    let mut submitting = pin!(submission::submit(&context.client, submission, key));
    tokio::select! {
        submitted = &mut submitting => submitted,
        () = context.client.open_two_ahead(), if shows_output => submitting.await,
    }
}

/// The output of the one task, until the job has ended.
async fn output(context: &Context, asker: &Client, job: JobId) -> Result<JobView, Failure> {
    let (over, ended) = watch::channel(End::NotYet);
    let end = async {
        let view = ending::wait(&context.client, job, None).await;
        let last = view.as_ref().ok().and_then(|view| view.last_attempt);
        over.send_replace(last.map_or(End::Somehow, End::With));
        view
    };
    let follower = Follower {
        streams: &context.client,
        asker,
        task: job.task(TaskIndex(0)),
        position: 0,
        wanted: &[Stream::Stdout, Stream::Stderr],
        json: false,
        passed: Cell::new(0),
    };
    let (mut end, mut follow) = (pin!(end), pin!(follower.attempts_from(1, ended)));
    let view = tokio::select! {
        view = &mut end => view?,
        followed = &mut follow => {
            unless_too_many(job, followed)?;
            return end.await;
        }
        // Dropped with this choice: a question it has under way would keep the asker from others.
        () = say_why(asker, job) => unreachable!("it never ends"),
    };
    let mut passed = follower.passed.get();
    loop {
        match tokio::time::timeout(OUTPUT_AFTER_END, &mut follow).await {
            Ok(followed) => {
                unless_too_many(job, followed)?;
                break;
            }
            // It comes as fast as its reader takes it.
            Err(_) if follower.passed.get() > passed => passed = follower.passed.get(),
            Err(_) => {
                talk::say(format_args!(
                    "shipway: the rest of the output has not come; `shipway logs {job}` may have \
                     it later"
                ));
                break;
            }
        }
    }
    Ok(view)
}

/// Whoever reads too many outputs already goes without this one: the job's end is still wanted.
fn unless_too_many(job: JobId, followed: Result<(), Failure>) -> Result<(), Failure> {
    match followed {
        Err(Failure::Client(ClientError::Refused { body, .. })) if body.code == codes::TOO_MANY => {
            talk::say(format_args!(
                "shipway: the output is not shown: {}; `shipway logs {job}` has it when some of \
                 them have ended",
                body.message
            ));
            Ok(())
        }
        followed => followed,
    }
}

/// Says once why the job has not started, when it has not.
async fn say_why(asker: &Client, job: JobId) {
    tokio::time::sleep(SAY_WHY_AFTER).await;
    // An error here is no news: the waits beside this one meet it too.
    if let Ok(view) = asker.get::<JobView>(&routes::job(job)).await
        && waiting::is_waiting(&view)
    {
        waiting::say_reasons(&view);
    }
    pending::<()>().await;
}

async fn progress(
    context: &Context,
    asker: &Client,
    job: JobId,
    tasks: u32,
) -> Result<JobView, Failure> {
    let plural = if tasks == 1 { "" } else { "s" };
    talk::say(format_args!("shipway: job {job}, {tasks} task{plural}"));
    let mut shown = Progress::new(tasks);
    let every = if io::stderr().is_terminal() { BAR_EVERY } else { LINE_EVERY };
    let watch = async {
        loop {
            tokio::time::sleep(every).await;
            if let Ok(view) = asker.get::<JobView>(&routes::job(job)).await {
                shown.update(&view);
            }
        }
    };
    let ended = tokio::select! {
        ended = ending::wait(&context.client, job, None) => ended,
        () = say_why(asker, job) => unreachable!("it never ends"),
        () = watch => unreachable!("it never ends"),
    };
    shown.finish();
    ended
}

/// What the task has made comes to where its files came from. Of many tasks it stays with the
/// server: they would be in each other's way.
async fn results(
    context: &Context,
    ended: &JobView,
    wanted: &Wanted,
    picked: &Picked,
) -> Result<(), Failure> {
    let job = ended.id;
    if ended.is_array {
        talk::say(format_args!("shipway: `shipway outputs {job} -o DIR` fetches what came back"));
        return Ok(());
    }
    let found = context.client.get(&routes::task_outputs(job, TaskIndex(0))).await;
    let outputs: TaskOutputs = match found {
        Ok(outputs) => outputs,
        Err(ClientError::Refused { body, .. }) if body.code == codes::NOT_FOUND => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let here = wanted.results_to.is_none();
    let to = wanted.results_to.as_deref().unwrap_or(Path::new("."));
    let sent = here.then_some(&picked.manifest);
    let written = travel::fetch(context, &outputs, (to, sent), |_| true).await?;
    for file in &written {
        match &file.as_name {
            None => talk::say(format_args!("shipway: wrote {}", to.join(&file.path).display())),
            Some(name) => talk::say(format_args!(
                "shipway: wrote {} ({} is another one here, and was left as it is)",
                to.join(name).display(),
                file.path
            )),
        }
    }
    Ok(())
}

/// A task's own exit code needs no words; every other end does.
fn closing_line(job: &JobView) {
    if job.is_array {
        return talk::say(format_args!("shipway: job {}: {}", job.id, counts_text(job.counts)));
    }
    match &job.outcome {
        Some(Outcome::Exit { .. }) => {}
        Some(outcome) => talk::say(format_args!("shipway: job {}: {outcome}", job.id)),
        None => talk::say(format_args!("shipway: job {} is {}", job.id, job.state)),
    }
}
