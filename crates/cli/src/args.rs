//! The command line as typed: what may be written and what each word means.
//!
//! Nothing here reads a file, the environment or the clock; `settings` and the commands do.

pub mod classad;
pub mod doctor;
mod elsewhere;
pub mod examples;
pub mod files;
pub mod image;
pub mod jobs;
pub mod lent;
pub mod registry;
pub mod relay;
pub mod run;
pub mod serve;
pub mod site;

use clap::error::{ContextKind, ContextValue};
use clap::{Parser, Subcommand};
use shipway_model::{JobId, TaskId, TaskIndex};
use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

/// Submit commands as jobs, and see what becomes of them.
#[derive(Debug, Parser)]
#[command(name = "shipway", version, propagate_version = false, after_long_help = examples::TOP)]
pub struct Cli {
    /// Print JSON instead of text (errors too, on standard error).
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start everything on this machine, in the foreground.
    #[command(after_long_help = examples::UP)]
    Up(Box<serve::UpArgs>),
    /// Submit a command, follow its output and exit with its code.
    #[command(after_long_help = examples::RUN)]
    Run(Box<run::RunArgs>),
    /// Submit the jobs of a YAML or JSON file, or of an HTCondor submit file.
    #[command(after_long_help = examples::SUBMIT)]
    Submit(jobs::SubmitArgs),
    /// List jobs, newest first.
    #[command(after_long_help = examples::JOBS)]
    Jobs(jobs::JobsArgs),
    /// Show one job or one task in full.
    #[command(after_long_help = examples::SHOW)]
    Show(jobs::ShowArgs),
    /// Print what a job or a task has written.
    #[command(after_long_help = examples::LOGS)]
    Logs(jobs::LogsArgs),
    /// List or fetch the files that tasks have sent back.
    #[command(after_long_help = examples::OUTPUTS)]
    Outputs(jobs::OutputsArgs),
    /// Wait until jobs have ended, and exit as `run` does.
    #[command(after_long_help = examples::WAIT)]
    Wait(jobs::WaitArgs),
    /// Stop jobs or tasks, running or not.
    #[command(after_long_help = examples::CANCEL)]
    Cancel(jobs::SelectArgs),
    /// Run ended tasks of jobs again.
    #[command(after_long_help = examples::RETRY)]
    Retry(jobs::SelectArgs),
    /// Say why a job waits, and what would change it.
    #[command(after_long_help = examples::WHY)]
    Why(jobs::WhyArgs),
    /// List the GPUs, and which of them a request would match.
    #[command(after_long_help = examples::GPUS)]
    Gpus(jobs::GpusArgs),
    /// Watch jobs, nodes and GPUs live, and act on them.
    #[command(after_long_help = examples::LIVE)]
    Top(jobs::TopArgs),
    /// List the nodes.
    #[command(after_long_help = examples::NODES)]
    Nodes,
    /// Say whether this machine is fit to run tasks: every check, with its fix.
    #[command(after_long_help = examples::DOCTOR)]
    Doctor(doctor::DoctorArgs),
    /// Fetch, list and remove container images on this machine.
    #[command(subcommand, after_long_help = examples::IMAGE)]
    Image(image::ImageCommand),
    /// Try ClassAd expressions: evaluate one, or match two ads.
    #[command(subcommand, after_long_help = examples::CLASSAD)]
    Classad(classad::ClassadCommand),
    /// Keep the list of users.
    #[command(subcommand, after_long_help = examples::USER)]
    User(serve::UserCommand),
    /// Batch systems that supply nodes: Slurm, HTCondor.
    #[command(subcommand, after_long_help = examples::SITE)]
    Site(site::SiteCommand),
    /// Make, list and revoke tokens.
    #[command(subcommand, after_long_help = examples::TOKEN)]
    Token(serve::TokenCommand),
    /// Logins for registries of images, kept by the server for your jobs.
    #[command(subcommand, after_long_help = examples::REGISTRY)]
    Registry(registry::RegistryCommand),
    /// Print the completions of a shell.
    #[command(after_long_help = examples::COMPLETIONS)]
    Completions(serve::CompletionsArgs),
    /// Run tasks on this node (what a site's batch system starts).
    #[command(after_long_help = examples::PILOT)]
    Pilot(Box<serve::PilotArgs>),
    /// Let nodes without a way out reach the server and images, through this machine.
    #[command(after_long_help = examples::RELAY)]
    Relay(relay::RelayArgs),
    /// Print the API's OpenAPI document.
    #[command(after_long_help = examples::OPENAPI)]
    Openapi,
    /// Print the version.
    #[command(after_long_help = examples::VERSION)]
    Version,
}

/// What was typed, the program's own name first.
pub fn parse<W: Into<OsString> + Clone>(
    words: impl IntoIterator<Item = W>,
) -> Result<Cli, clap::Error> {
    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    let is_run = words.iter().skip(1).find(|word| !word.as_encoded_bytes().starts_with(b"-"));
    let is_run = is_run.is_some_and(|word| word == "run");
    Cli::try_parse_from(words)
        .map_err(without_false_advice)
        .map_err(|error| if is_run { elsewhere::with_advice(error) } else { error })
}

/// The parser advises to write `-- -n` for an option that it does not know. That would be a value
/// like any other to it; here it is the program of a job, or a file or an image of that name.
fn without_false_advice(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().contains("as a value"));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    error
}

/// A job (`12`) or one of its tasks (`12/3`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    pub job: JobId,
    pub index: Option<TaskIndex>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a job (write 12) or a task (write 12/3)")]
pub struct BadTarget(String);

impl FromStr for Target {
    type Err = BadTarget;
    fn from_str(text: &str) -> Result<Self, BadTarget> {
        let bad = || BadTarget(text.chars().take(80).collect());
        if text.contains('/') {
            let task: TaskId = text.parse().map_err(|_| bad())?;
            return Ok(Target { job: task.job, index: Some(task.index) });
        }
        Ok(Target { job: text.parse().map_err(|_| bad())?, index: None })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(index) => write!(f, "{}", self.job.task(index)),
            None => write!(f, "{}", self.job),
        }
    }
}

/// `KEY=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    pub key: String,
    pub value: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not KEY=VALUE")]
pub struct BadPair(String);

impl FromStr for Pair {
    type Err = BadPair;
    fn from_str(text: &str) -> Result<Self, BadPair> {
        let bad = || BadPair(text.chars().take(80).collect());
        let (key, value) = text.split_once('=').ok_or_else(bad)?;
        if key.is_empty() {
            return Err(bad());
        }
        Ok(Pair { key: key.into(), value: value.into() })
    }
}

#[cfg(test)]
mod tests;
