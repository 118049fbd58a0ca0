//! The options of a pilot whose node is only lent: how much of it, for how long, and how it is
//! taken back. A site that starts pilots says them; `up` does not.

use clap::Args;
use shipway_model::units::{Bytes, Cores};
use shipway_model::{Millis, Timestamp};
use shipway_pilot::given::{Asked, Within};
use shipway_pilot::run::LentSettings;

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "In an allocation")]
pub struct LentArgs {
    /// Offer what this batch system has given, and no more: slurm or htcondor, by what it says in
    /// the environment; none unless given, for a pilot that may have the whole node.
    #[arg(long, value_name = "SYSTEM")]
    pub within: Option<Within>,
    /// Offer at most so many cores, where the site knows of a bound that the node does not.
    #[arg(long, value_name = "NUMBER")]
    pub cpus: Option<Cores>,
    /// Offer at most so much memory (64GB).
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Bytes>,
    /// Offer at most so many GPUs, the first ones.
    #[arg(long, value_name = "NUMBER")]
    pub gpus: Option<usize>,
    /// How many GPUs the allocation was asked for with: fewer are a note on the node, none at all
    /// make it unfit.
    #[arg(long, value_name = "NUMBER")]
    pub expect_gpus: Option<usize>,
    /// Leave after so long without any task, counted from the welcome or from the end of the last
    /// one (10m); a pilot stays unless given.
    #[arg(long, value_name = "TIME")]
    pub idle: Option<Millis>,
    /// When the allocation ends, in seconds since 1970: nothing is begun in its last minute.
    #[arg(long, value_name = "SECONDS")]
    pub until: Option<u64>,
    /// How long the allocation lasts, counted from now (12h), where its end is not known.
    #[arg(long, value_name = "TIME")]
    pub wall: Option<Millis>,
    /// How long tasks have to end by themselves after a first SIGTERM or SIGUSR1, before they are
    /// killed; they run again elsewhere. A few seconds less than the site leaves between SIGTERM
    /// and SIGKILL. Unless given, SIGTERM ends everything at once.
    #[arg(long, value_name = "TIME")]
    pub grace: Option<Millis>,
    /// The account that this pilot runs as is that of whoever started the server: their tasks run
    /// as themselves here, and are no guests.
    #[arg(long)]
    pub of_owner: bool,
}

impl LentArgs {
    pub fn settings(&self) -> LentSettings {
        let asked = Asked {
            within: self.within.unwrap_or_default(),
            cpus: self.cpus,
            memory: self.memory,
            gpus: self.gpus,
            expect_gpus: self.expect_gpus,
        };
        let until = self.until.map(|seconds| Timestamp(seconds.saturating_mul(1_000)));
        let LentArgs { idle, wall, grace, of_owner, .. } = *self;
        LentSettings { asked, idle, until, wall, grace, of_owner }
    }
}
