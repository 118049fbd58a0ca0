//! The options of the commands that look at jobs and act on them.

use super::{Pair, Target};
use clap::{ArgGroup, Args};
use shipway_model::{Attempt, GpuRequest, JobId, JobState, Millis, TaskState};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// A job file in YAML or JSON, or an HTCondor submit file (`-`: standard input). YAML documents
    /// are jobs of their own.
    pub file: PathBuf,
    /// What the file is, where its name does not say: submit files end in .sub, .submit, .jdl or
    /// .condor, or have a `queue` statement.
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<FileFormat>,
    /// A macro or command of a submit file, over what the file says; repeat for more.
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<Pair>,
    /// Submit nothing; show what would run and what it would wait for.
    #[arg(long)]
    pub dry_run: bool,
    /// A key of your own: the same key never submits twice (one is made up otherwise).
    #[arg(long, value_name = "KEY", conflicts_with = "dry_run", value_parser = super::run::key)]
    pub key: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum FileFormat {
    /// A job file in YAML or JSON.
    Job,
    /// An HTCondor submit file.
    Htcondor,
}

#[derive(Debug, Args)]
pub struct JobsArgs {
    /// Only jobs in this state.
    #[arg(long)]
    pub state: Option<JobState>,
    /// Only jobs with this label (repeat: with all of them).
    #[arg(long = "label", value_name = "KEY=VALUE")]
    pub labels: Vec<Pair>,
    /// Only jobs of this name.
    #[arg(long)]
    pub name: Option<String>,
    /// Everybody's jobs (for operators).
    #[arg(long)]
    pub all: bool,
    /// At most this many.
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Only jobs older than this one.
    #[arg(long, value_name = "ID")]
    pub before: Option<JobId>,
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// A job (12) or a task (12/3).
    #[arg(value_name = "ID[/INDEX]")]
    pub target: Target,
    /// Only tasks in this state.
    #[arg(long)]
    pub state: Option<TaskState>,
    /// The position of the first task to show, from 0.
    #[arg(long, value_name = "N")]
    pub from: Option<u32>,
    /// At most this many tasks.
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
}

#[derive(Debug, Args)]
pub struct LogsArgs {
    /// A job (12: all its tasks, in order) or a task (12/3).
    #[arg(value_name = "ID[/INDEX]")]
    pub target: Target,
    /// Go on until the task has ended.
    #[arg(short, long)]
    pub follow: bool,
    /// Standard output alone.
    #[arg(long, conflicts_with = "stderr")]
    pub stdout: bool,
    /// Standard error alone.
    #[arg(long)]
    pub stderr: bool,
    /// The output of this attempt; the newest one otherwise.
    #[arg(long, value_name = "N", value_parser = attempt)]
    pub attempt: Option<Attempt>,
}

#[derive(Debug, Args)]
pub struct OutputsArgs {
    /// A job (12: all its tasks) or a task (12/3).
    #[arg(value_name = "ID[/INDEX]")]
    pub target: Target,
    /// Only these files and folders, or patterns such as out/*.txt.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Fetch them to this folder; of a job with many tasks each has a folder in it.
    #[arg(short = 'o', long = "to", value_name = "DIR")]
    pub to: Option<PathBuf>,
}

fn attempt(text: &str) -> Result<Attempt, String> {
    let number: Option<u32> = text.parse().ok().filter(|number| *number > 0);
    number.map(Attempt).ok_or_else(|| "attempts are counted from 1".into())
}

#[derive(Debug, Args)]
pub struct WaitArgs {
    #[arg(value_name = "ID", required = true)]
    pub jobs: Vec<JobId>,
    /// Give up after this time and exit with 124.
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<Millis>,
}

/// A state alone selects nothing: it would reach every job there is.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["targets", "labels"]))]
pub struct SelectArgs {
    /// Jobs (12) and tasks (12/3).
    #[arg(value_name = "ID[/INDEX]")]
    pub targets: Vec<Target>,
    /// Jobs with this label (repeat: with all of them).
    #[arg(long = "label", value_name = "KEY=VALUE")]
    pub labels: Vec<Pair>,
    /// Only tasks in this state.
    #[arg(long)]
    pub state: Option<TaskState>,
}

#[derive(Debug, Args)]
pub struct WhyArgs {
    #[arg(value_name = "ID", value_parser = whole_job)]
    pub job: JobId,
}

/// Reasons are a job's; whoever names a task is told where to look.
fn whole_job(text: &str) -> Result<JobId, String> {
    let target: Target = text.parse().map_err(|error: super::BadTarget| error.to_string())?;
    match target {
        Target { job, index: None } => Ok(job),
        Target { job, index: Some(_) } => Err(format!(
            "a job waits as a whole: `shipway why {job}` says why, `shipway show {target}` has \
             the task"
        )),
    }
}

#[derive(Debug, Args)]
pub struct TopArgs {
    /// Print one frame as plain text and return (--json: its data).
    #[arg(long)]
    pub once: bool,
    /// Begin with everybody's jobs (for operators).
    #[arg(long)]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct GpusArgs {
    /// What you would ask for: 2, A100, A100:40GB..:2, 1g.10gb or 0.25.
    #[arg(value_parser = gpu_request)]
    pub request: Option<GpuRequest>,
}

/// A request that no GPU could ever match is no question worth asking.
fn gpu_request(text: &str) -> Result<GpuRequest, String> {
    let request: GpuRequest = text.parse().map_err(|error| format!("{error}"))?;
    request.contradiction().map_or(Ok(request), Err)
}
