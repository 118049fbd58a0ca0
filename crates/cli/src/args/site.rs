//! Arguments of `site`.

use clap::Subcommand;
use shipway_model::SiteName;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum SiteCommand {
    /// Add a site, or describe one anew (for admins).
    #[command(after_long_help = super::examples::SITE)]
    Add {
        /// The site's file, in YAML or JSON; `-` for standard input.
        file: PathBuf,
    },
    /// Check a site's file. Touches nothing, here or there.
    #[command(after_long_help = super::examples::SITE)]
    Check { file: PathBuf },
    /// List the sites.
    #[command(after_long_help = super::examples::SITE)]
    List,
    /// Show one site: its pilots, what its batch system says of them, and its nodes.
    #[command(after_long_help = super::examples::SITE)]
    Show { name: SiteName },
    /// Send nothing new there; what runs goes on, what waits is taken back (for admins).
    #[command(after_long_help = super::examples::SITE)]
    Drain { name: SiteName },
    /// Send work there again (for admins).
    #[command(after_long_help = super::examples::SITE)]
    Resume { name: SiteName },
    /// Forget a site of which nothing is left (for admins).
    #[command(after_long_help = super::examples::SITE)]
    Remove { name: SiteName },
}
