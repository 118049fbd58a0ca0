//! The options of what runs for long (`up`, `pilot`) and of what is kept (users, tokens).

use super::lent::LentArgs;
use clap::{Args, Subcommand, ValueEnum};
use shipway_model::{Bytes, Millis, RelayAddress, Role, UserName};
use shipway_pilot::accounts::Mapping;
use shipway_pilot::runtimes::RuntimeChoice;
use shipway_pilot::usual::DefaultImage;
use shipway_runtime::binds::AllowList;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where `up` listens unless told otherwise: on this machine only.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:7447";

#[derive(Debug, Args)]
pub struct UpArgs {
    /// The address to serve; port 0 takes any free one.
    #[arg(long, value_name = "ADDRESS", default_value = DEFAULT_LISTEN)]
    pub listen: SocketAddr,
    /// Serve TLS with a certificate made on the first start.
    #[arg(long, conflicts_with_all = ["cert", "key"])]
    pub tls: bool,
    /// Serve TLS with this certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// The certificate's key (PEM).
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Serve other machines without TLS: tokens can be read on the way.
    #[arg(long, conflicts_with_all = ["tls", "cert"])]
    pub allow_plain_text: bool,
    /// Run no tasks on this machine.
    #[arg(long, conflicts_with = "NodeArgs")]
    pub no_pilot: bool,
    /// GPUs and amounts to declare beside what is found (for tests and dry planning).
    #[arg(long, value_name = "FILE", conflicts_with = "no_pilot")]
    pub declared: Option<PathBuf>,
    /// How long until past usage counts half when users compete; 7 days until it is set once.
    #[arg(long, value_name = "TIME", value_parser = half_life)]
    pub half_life: Option<Millis>,
    /// What each user's files may take here, those that travel with jobs and those that come back:
    /// 100GB unless given.
    #[arg(long, value_name = "SIZE", value_parser = some_room)]
    pub files_quota: Option<Bytes>,
    /// How long files are kept that no job needs, and those of a job that is over: 14 days unless
    /// given.
    #[arg(long, value_name = "TIME", value_parser = at_least_an_hour)]
    pub files_keep: Option<Millis>,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub log: LogArgs,
}

/// What a node's owner decides: options of a pilot that `up` hands on to its own.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "This node")]
pub struct NodeArgs {
    /// Remove the output of tasks when nothing was written to it for so long (30d); unless given,
    /// it is kept for ever.
    #[arg(long, value_name = "TIME", value_parser = at_least_an_hour)]
    pub keep_output: Option<Millis>,
    /// Remove images that no task has used for so long (30d); unless given, they are kept.
    #[arg(long, value_name = "TIME", value_parser = at_least_an_hour)]
    pub keep_images: Option<Millis>,
    /// Remove images, the longest unused first, when they take more than this (200GB).
    #[arg(long, value_name = "SIZE", value_parser = some_room)]
    pub images_size: Option<Bytes>,
    /// Keep this much of the files that travel with jobs, for the next tasks that want them (50GB):
    /// 20GB unless given.
    #[arg(long, value_name = "SIZE", value_parser = some_room)]
    pub files_size: Option<Bytes>,
    /// What tasks run on that name no image: host unless given (this machine's own files, in a
    /// container), another image, or none (plain processes: the fastest start, and nothing kept
    /// apart). Files are named as seen from everywhere.
    #[arg(long, value_name = "IMAGE")]
    pub default_image: Option<DefaultImage>,
    /// What containers are made with: native (our own way) unless given, crun or apptainer, as in
    /// crun=/opt/bin/crun where it is not in PATH.
    #[arg(long, value_name = "NAME[=PROGRAM]")]
    pub runtime: Option<RuntimeChoice>,
    /// Whom tasks run as: by-name, or USER=ACCOUNT,… with * for all others. Yours run as you unless
    /// you are named. Unless given, others have the account of the same name where this is root,
    /// and run as you, in containers only, where it is not.
    #[arg(long, value_name = "LIST")]
    pub accounts: Option<Mapping>,
    /// What containers may bind of this node, work directories included: /DIR,/DIR:rw,… with
    /// everything below. Unless given, whatever the account can read; nothing, for people who run
    /// as you for want of an account or id of their own.
    #[arg(long, value_name = "LIST", value_parser = binds)]
    pub binds: Option<String>,
    /// How tasks with shares of one NVIDIA GPU compute: in turns unless given, or at the same time
    /// by its Multi-Process Service.
    #[arg(long, value_enum, value_name = "HOW")]
    pub gpu_sharing: Option<GpuSharing>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GpuSharing {
    Turns,
    Mps,
}

impl GpuSharing {
    fn as_str(self) -> &'static str {
        match self {
            GpuSharing::Turns => "turns",
            GpuSharing::Mps => "mps",
        }
    }
}

fn some_room(text: &str) -> Result<Bytes, String> {
    let size: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    if size == Bytes(0) { Err("more than nothing, as in 200GB".into()) } else { Ok(size) }
}

/// Links are resolved by the pilot, when it starts.
fn binds(text: &str) -> Result<String, String> {
    let read: Result<AllowList, _> = text.parse();
    read.map(|_| text.to_string()).map_err(|error| error.to_string())
}

impl NodeArgs {
    /// As they are written on a command line.
    pub fn words(&self) -> Vec<(String, String)> {
        let time = |span: &Option<Millis>| span.map(|span| span.to_string());
        let options = [
            ("--keep-output", time(&self.keep_output)),
            ("--keep-images", time(&self.keep_images)),
            ("--images-size", self.images_size.map(|size| format!("{}B", size.0))),
            ("--files-size", self.files_size.map(|size| format!("{}B", size.0))),
            ("--default-image", self.default_image.as_ref().map(ToString::to_string)),
            ("--runtime", self.runtime.as_ref().map(ToString::to_string)),
            ("--accounts", self.accounts.as_ref().map(ToString::to_string)),
            ("--gpu-sharing", self.gpu_sharing.map(|how| how.as_str().to_owned())),
            ("--binds", self.binds.clone()),
        ];
        let given = options.into_iter().filter_map(|(name, value)| Some((name.into(), value?)));
        given.collect()
    }
}

/// Shorter than this, the order would follow noise.
const SHORTEST_HALF_LIFE: Millis = Millis(10 * 60_000);

fn half_life(text: &str) -> Result<Millis, String> {
    let span: Millis = text.parse().map_err(|error| format!("{error}"))?;
    if span < SHORTEST_HALF_LIFE { Err("at least 10m".into()) } else { Ok(span) }
}

/// Shorter than this, output would be gone before anybody has read it, and an image before the
/// next task wants it.
const SHORTEST_KEEP: Millis = Millis(60 * 60_000);

fn at_least_an_hour(text: &str) -> Result<Millis, String> {
    let span: Millis = text.parse().map_err(|error| format!("{error}"))?;
    if span < SHORTEST_KEEP { Err("at least 1h".into()) } else { Ok(span) }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Log, on standard error")]
pub struct LogArgs {
    #[arg(long, value_enum, default_value = "text")]
    pub log_format: LogFormat,
    #[arg(long, value_enum, default_value = "warn")]
    pub log_level: LogLevel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Debug, Args)]
pub struct PilotArgs {
    /// The pilot's own directory; one pilot at a time holds it.
    #[arg(long)]
    pub dir: PathBuf,
    /// Find the server by the file in this home (a server on this machine).
    #[arg(long, required_unless_present = "server", conflicts_with = "server")]
    pub home: Option<PathBuf>,
    /// The server's address.
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// A certificate to trust, when the server made its own.
    #[arg(long, value_name = "FILE", requires = "server")]
    pub ca: Option<PathBuf>,
    /// Reach the server, and images, through this relay (`shipway relay`): for nodes that can reach
    /// neither. The server's address is still said, with https, and its certificate looked at.
    #[arg(long, value_name = "HOST:PORT", requires = "server")]
    pub relay: Option<RelayAddress>,
    /// The file that holds this pilot's id and token.
    #[arg(long, value_name = "FILE")]
    pub token_file: PathBuf,
    /// How long tasks go on without hearing from the server: 10 minutes unless given. A pilot
    /// found by its home is supervised and needs none.
    #[arg(long, value_name = "TIME")]
    pub lease: Option<Millis>,
    /// GPUs and amounts to declare beside what is found (for tests and dry planning).
    #[arg(long, value_name = "FILE")]
    pub declared: Option<PathBuf>,
    /// Where extracted images are kept: `images` in its directory unless given. Several pilots may
    /// share one, on one file system.
    #[arg(long, value_name = "DIR")]
    pub images: Option<PathBuf>,
    #[command(flatten)]
    pub lent: LentArgs,
    #[command(flatten)]
    pub node: NodeArgs,
    /// Be the pilot itself, under the guard that started it.
    #[arg(long, hide = true)]
    pub inner: bool,
    #[command(flatten)]
    pub log: LogArgs,
}

fn share(text: &str) -> Result<u32, String> {
    let range = shipway_model::limits::SHARE_RANGE;
    let share = text.parse().ok().filter(|share| range.contains(share));
    share.ok_or_else(|| format!("a share is a number from {} to {}", range.start(), range.end()))
}

#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Add a user (a role is changed by removing the user first).
    #[command(after_long_help = super::examples::USER)]
    Add {
        name: UserName,
        /// user, operator, admin, or monitor (reads /metrics and nodes, changes nothing).
        #[arg(long, default_value = "user")]
        role: Role,
        /// The user's part of the machines against the others' parts; 100 unless given.
        #[arg(long, value_name = "NUMBER", value_parser = share)]
        share: Option<u32>,
    },
    /// Give a user another part of the machines: with 200 twice as much as with 100.
    #[command(after_long_help = super::examples::USER)]
    Share {
        /// Whose share.
        name: UserName,
        /// From 1 to 1000000; 100 is the usual one.
        #[arg(value_parser = share)]
        share: u32,
    },
    /// List the users.
    #[command(after_long_help = super::examples::USER)]
    List,
    /// Remove a user: tokens, logins and open answers end, and what has not finished is cancelled.
    #[command(after_long_help = super::examples::USER)]
    Remove {
        name: UserName,
        /// Give the jobs that have not ended to this user instead of cancelling them. Tasks that
        /// have not started run as that user then: look at them first.
        #[arg(long, value_name = "USER")]
        give_jobs_to: Option<UserName>,
    },
}

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token and print it, once.
    #[command(after_long_help = super::examples::TOKEN)]
    New {
        /// Whose token (for admins); your own otherwise.
        #[arg(long)]
        user: Option<UserName>,
        /// What it is for.
        #[arg(long, default_value = "")]
        note: String,
        /// How long it is good for: 30 days unless given, 366 days at most.
        #[arg(long, value_name = "TIME")]
        lasts: Option<Millis>,
    },
    /// Make credentials for one pilot and print them, once; for `shipway pilot --token-file`.
    #[command(after_long_help = super::examples::TOKEN)]
    Pilot {
        /// How long it is good for: 30 days unless given, 366 days at most. It ends earlier with
        /// the pilot's goodbye.
        #[arg(long, value_name = "TIME")]
        lasts: Option<Millis>,
    },
    /// List tokens, pilots' too for admins (never the secrets).
    #[command(after_long_help = super::examples::TOKEN)]
    List,
    /// Make a token worthless; a pilot that has it is disconnected and ends.
    #[command(after_long_help = super::examples::TOKEN)]
    Revoke {
        /// The token's id, or a pilot's, from `token list`.
        #[arg(value_parser = token_id)]
        id: String,
    },
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    pub shell: clap_complete::Shell,
}

/// An id is part of a path; what cannot be one is told here.
fn token_id(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if text.is_empty() || !text.chars().all(plain) {
        return Err("not the id of a token (`shipway token list` shows them)".into());
    }
    Ok(text.into())
}
