//! The options of `registry`: logins that the server keeps for the images of one's jobs.

use clap::Subcommand;
use shipway_model::image_ref::registry_name;

#[derive(Debug, Subcommand)]
pub enum RegistryCommand {
    /// Give the server a login for a registry; the password is asked for, or read from standard
    /// input.
    #[command(after_long_help = super::examples::REGISTRY)]
    Login {
        /// As images name it: registry.example.org, or registry.example.org:5000.
        #[arg(value_parser = registry_name)]
        host: String,
        /// Your name there.
        #[arg(long, short, value_name = "NAME")]
        user: String,
        /// Do not ask the registry first whether it accepts the login.
        #[arg(long)]
        untried: bool,
    },
    /// Have the server forget a login.
    #[command(after_long_help = super::examples::REGISTRY)]
    Logout {
        /// The registry, from `registry list`.
        #[arg(value_parser = registry_name)]
        host: String,
    },
    /// List the registries that the server has a login of yours for.
    #[command(after_long_help = super::examples::REGISTRY)]
    List,
}
