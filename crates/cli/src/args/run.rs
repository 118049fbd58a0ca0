//! The options of `run`: one job, described on the command line.

use super::Pair;
use super::classad::expression;
use super::files::FilesArgs;
use clap::Args;
use shipway_model::limits::MAX_KEY_BYTES;
use shipway_model::retry::RetryOn;
use shipway_model::time_limit::Signal;
use shipway_model::{
    After, BindMount, Bytes, Cores, GpuRequest, ImageRef, IndexSet, Millis, Network,
};
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Debug, Args)]
pub struct RunArgs {
    /// The program and its arguments; with --script, the script's arguments.
    ///
    /// It begins with the first word that is no option, or after `--`; from there on every word is
    /// its own, also one that is spelled like an option of ours.
    // Without `allow_hyphen_values`: a misspelt option must not become the program.
    #[arg(value_name = "CMD", trailing_var_arg = true, required_unless_present = "script")]
    pub command: Vec<String>,
    /// Print the job's id and return at once.
    #[arg(short, long)]
    pub detach: bool,
    /// Submit nothing; show what would run and what it would wait for.
    #[arg(long)]
    pub dry_run: bool,
    /// What the job is called in lists.
    #[arg(long)]
    pub name: Option<String>,
    /// A label, to find and select jobs by (repeat for more).
    #[arg(long = "label", value_name = "KEY=VALUE")]
    pub labels: Vec<Pair>,
    /// Jobs with a higher number start first.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub priority: i32,
    /// A key of your own: the same key never submits twice (one is made up otherwise).
    #[arg(long, value_name = "KEY", conflicts_with = "dry_run", value_parser = key)]
    pub key: Option<String>,
    #[command(flatten)]
    pub program: ProgramArgs,
    #[command(flatten)]
    pub files: FilesArgs,
    #[command(flatten)]
    pub tasks: TasksArgs,
    #[command(flatten)]
    pub ends: EndsArgs,
    #[command(flatten)]
    pub needs: NeedsArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What runs, and where")]
pub struct ProgramArgs {
    /// A variable for the task; a bare NAME copies yours (repeat for more).
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub env: Vec<EnvArg>,
    /// Copy all of your variables, not only those named (SHIPWAY_… stays behind).
    #[arg(long)]
    pub export_all: bool,
    /// Where the task runs: the current directory if not given; `private`: a fresh one, which is
    /// also what --input and --output mean.
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<String>,
    /// The image whose files each task runs on: docker://NAME[:TAG], oci:DIR,
    /// docker-archive:FILE, sif:FILE, dir:PATH, or host (the node's own, read-only), which is
    /// usual.
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<ImageRef>,
    /// Show a folder of the node inside the container, read-only unless it says rw (repeat for
    /// more).
    #[arg(long = "bind", value_name = "SOURCE[:TARGET][:rw]")]
    pub binds: Vec<BindMount>,
    /// What network the container sees: host, none or private.
    #[arg(long, value_name = "KIND")]
    pub network: Option<Network>,
    /// A script to run, sent along with the job (`-`: standard input).
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Bytes kept of each output stream of each task.
    #[arg(long, value_name = "SIZE")]
    pub log_limit: Option<Bytes>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Many tasks, and their order")]
pub struct TasksArgs {
    /// One task per index: 1-1000, 0-99:3 or 1,5,9.
    #[arg(long, value_name = "SPEC", conflicts_with = "each")]
    pub array: Option<IndexSet>,
    /// One task per line of FILE, or per JSON object (`-`: standard input; blank lines are not
    /// tasks). A line is {line} in the command and the variable $line of the task; a field of an
    /// object is {name} and $name.
    #[arg(long, value_name = "FILE")]
    pub each: Option<PathBuf>,
    /// Tasks of this job that may run at the same time.
    #[arg(long, value_name = "N")]
    pub max_running: Option<u32>,
    /// Wait for the end of another job: JOB[:ok|:failed|:any] (repeat, or separate by commas).
    #[arg(long, value_name = "JOB[:END]", value_delimiter = ',')]
    pub after: Vec<After>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Retries and time")]
pub struct EndsArgs {
    /// Try a failed task this many times more.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub retries: u32,
    /// The wait before the first retry; it doubles each time.
    #[arg(long, value_name = "TIME")]
    pub retry_delay: Option<Millis>,
    /// Which ends are tried again: any, codes (75, 10-20), signal, oom, timeout.
    #[arg(long, value_name = "LIST")]
    pub retry_on: Option<RetryOn>,
    /// How long a task may run.
    #[arg(long, value_name = "TIME")]
    pub time_limit: Option<Millis>,
    /// Sent when the time is up.
    #[arg(long, value_name = "SIGNAL", requires = "time_limit")]
    pub warn_signal: Option<Signal>,
    /// From that signal to the kill.
    #[arg(long, value_name = "TIME", requires = "time_limit")]
    pub grace: Option<Millis>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What each task needs")]
pub struct NeedsArgs {
    /// Cores: 4 or 0.5.
    #[arg(long, value_name = "N")]
    pub cpus: Option<Cores>,
    /// Memory: 500MB, 16GB, 16GiB.
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Bytes>,
    /// Disk space on the node.
    #[arg(long, value_name = "SIZE")]
    pub disk: Option<Bytes>,
    /// GPUs: 2, A100, A100:40GB..:2, 1g.10gb or 0.25.
    #[arg(long, value_name = "REQUEST")]
    pub gpus: Option<GpuRequest>,
    /// Something a site counts itself, such as a licence (repeat for more).
    #[arg(long = "resource", value_name = "NAME=N")]
    pub resources: Vec<CountedResource>,
    /// A ClassAd expression that has to hold for the node: "CUDACapability >= 8.0 && HasAVX2".
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true, value_parser = expression)]
    pub requirements: Option<String>,
    /// A ClassAd expression: of the nodes that will do, those where it gives most come first.
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true, value_parser = expression)]
    pub rank: Option<String>,
    /// A word that the site it runs at has to have (repeat for more): infiniband.
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
}

/// A key travels in a header: printable ASCII, and no longer than the server keeps.
pub(super) fn key(text: &str) -> Result<String, String> {
    let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
    if !printable || text.is_empty() || text.len() > MAX_KEY_BYTES {
        return Err(format!("a key has 1 to {MAX_KEY_BYTES} letters, digits and signs"));
    }
    Ok(text.into())
}

/// `NAME=VALUE`, or `NAME` to copy the caller's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvArg {
    pub name: String,
    pub value: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no variable (write NAME=VALUE, or NAME to copy yours)")]
pub struct BadEnv(String);

impl FromStr for EnvArg {
    type Err = BadEnv;
    fn from_str(text: &str) -> Result<Self, BadEnv> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (text, None),
        };
        if name.is_empty() {
            return Err(BadEnv(text.chars().take(80).collect()));
        }
        Ok(EnvArg { name: name.into(), value })
    }
}

/// `NAME=N`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedResource {
    pub name: String,
    pub amount: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not NAME=N with a whole number")]
pub struct BadResource(String);

impl FromStr for CountedResource {
    type Err = BadResource;
    fn from_str(text: &str) -> Result<Self, BadResource> {
        let pair: Option<Pair> = text.parse().ok();
        let read = pair.and_then(|Pair { key, value }| Some((key, value.parse().ok()?)));
        let (name, amount) = read.ok_or_else(|| BadResource(text.chars().take(80).collect()))?;
        Ok(CountedResource { name, amount })
    }
}
