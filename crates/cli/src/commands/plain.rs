//! What needs no server: completions, the OpenAPI document, the version.

use crate::args::Cli;
use crate::args::serve::CompletionsArgs;
use crate::failure::{Exit, Failure};
use crate::settings::Output;
use crate::view;
use crate::view::simple::Version;
use clap::CommandFactory;

pub fn completions(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "shipway", &mut script);
    view::write_out(&script)?;
    Ok(Exit::DONE)
}

pub fn openapi() -> Result<Exit, Failure> {
    view::write_out(shipway_server::openapi::document().as_bytes())?;
    Ok(Exit::DONE)
}

pub fn version(output: Output) -> Result<Exit, Failure> {
    view::show(&Version { version: env!("CARGO_PKG_VERSION") }, output)?;
    Ok(Exit::DONE)
}
