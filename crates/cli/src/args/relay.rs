//! The options of `relay`: what an edge node does for nodes that can reach nothing else.

use clap::{Args, Subcommand};
use shipway_model::{Bytes, ImageRef};
use shipway_relay::{CONNECTIONS, CONNECTIONS_EACH};
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct RelayArgs {
    #[command(subcommand)]
    pub command: Option<RelayCommand>,
    /// The address that nodes reach it at; port 0 takes any free one.
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub listen: Option<SocketAddr>,
    /// The server: https, and the only place that connections are passed on to.
    #[arg(long, value_name = "URL", required = true)]
    pub server: Option<String>,
    /// A certificate to trust, when the server made its own.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    #[command(flatten)]
    pub folder: Folder,
    /// Remove what nodes had fetched, the longest unused first, when it takes more than this
    /// (500GB); unless given, as much is kept as the disk has room for.
    #[arg(long, value_name = "SIZE")]
    pub images_size: Option<Bytes>,
    /// Connections altogether.
    #[arg(long, value_name = "NUMBER", default_value_t = CONNECTIONS, value_parser = some)]
    pub connections: usize,
    /// Connections of one node.
    #[arg(long, value_name = "NUMBER", default_value_t = CONNECTIONS_EACH, value_parser = some)]
    pub connections_each: usize,
    #[command(flatten)]
    pub log: super::serve::LogArgs,
}

fn some(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "a number from 1 on".into())
}

#[derive(Debug, Args)]
pub struct Folder {
    /// Where images are kept, as they come from registries: `relay` in the home unless given.
    #[arg(long, value_name = "DIR")]
    pub images: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum RelayCommand {
    /// Put images there and keep them: with your own logins, for every pilot that asks.
    #[command(after_long_help = super::examples::RELAY)]
    Add {
        /// docker://NAME:TAG
        #[arg(required = true)]
        references: Vec<ImageRef>,
        #[command(flatten)]
        folder: Folder,
    },
}
