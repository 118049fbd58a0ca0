//! The options of `run` that name files: brought to a task, taken from it, and its streams.

use clap::{ArgGroup, Args};
use shipway_model::files::TakenOn;
use shipway_model::{Bytes, FileMap};

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Files, on the node's file system ({job}, {index} and fields work)")]
#[command(group = ArgGroup::new("taken").args(["outputs", "sandbox"]).multiple(true))]
pub struct FilesArgs {
    /// Send the current directory along, without what .gitignore and .shipwayignore leave out: the
    /// task runs in a copy of it, wherever that is. What is new there afterwards comes back.
    #[arg(long, conflicts_with = "workdir")]
    pub sandbox: bool,
    /// Let this much travel without asking: 1GB unless given.
    #[arg(long, value_name = "SIZE", requires = "sandbox")]
    pub sandbox_size: Option<Bytes>,
    /// What the task reads; nothing if not given.
    #[arg(long, value_name = "FILE")]
    pub stdin: Option<String>,
    /// Write what the task prints to FILE too, when it has ended.
    #[arg(long, value_name = "FILE")]
    pub stdout: Option<String>,
    /// The same for its error output; it may be the same file.
    #[arg(long, value_name = "FILE")]
    pub stderr: Option<String>,
    /// Copy a file or folder into the task's own work directory before it starts; SOURCE/ is what
    /// is in that folder (repeat for more). With --sandbox it is one of this machine, and travels.
    #[arg(long = "input", value_name = "SOURCE[:TARGET]")]
    pub inputs: Vec<FileMap>,
    /// Take a file or folder of that directory when the task has ended; `new`: all files at its
    /// top that are new or changed (repeat for more). With --sandbox also a pattern, such as
    /// out/*.txt, and `new` is what is new anywhere in it.
    #[arg(long = "output", value_name = "NAME[:TARGET]")]
    pub outputs: Vec<FileMap>,
    /// Where outputs are put: the current directory if not given.
    #[arg(long, value_name = "DIR", requires = "taken")]
    pub output_dir: Option<String>,
    /// After which ends outputs are taken: exit (any) or success.
    #[arg(long, value_name = "END", requires = "taken")]
    pub output_on: Option<TakenOn>,
    /// Write HTCondor's job event log of this job to FILE.
    #[arg(long, value_name = "FILE")]
    pub event_log: Option<String>,
}
