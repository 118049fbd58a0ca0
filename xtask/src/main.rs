//! `cargo xtask`: what developers and CI run. One file or folder per subcommand.
//!
//! Not part of the product: nothing here is shipped, and no shipped crate depends on it.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developers' tool talks to the terminal; there is no view layer to keep apart"
)]

mod bench;
mod cargo_tools;
mod children;
mod demo;
mod instance;
mod mutants;
mod openapi;
mod repo;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Exit status after Ctrl-C, as shells report it.
const INTERRUPTED: u8 = 130;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developers' commands for this repository")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check the house rules that no compiler checks
    Tidy,
    /// Run everything CI runs, in order
    Test(test::Args),
    /// Write openapi/shipway.json from the code
    Openapi(openapi::Args),
    /// Compare Shipway with this machine's limits and with HyperQueue, in one run
    Bench(bench::Args),
    /// Change the pure crates, one thing at a time, and see whether their tests notice
    Mutants(mutants::Args),
    /// Start Shipway in a temporary home and show what it does
    Demo(demo::Args),
}

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = children::end_them_on_signals().and_then(|()| match args.command {
        Command::Tidy => tidy::run(),
        Command::Test(args) => test::run(&args),
        Command::Openapi(args) => openapi::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Mutants(args) => mutants::run(&args),
        Command::Demo(args) => demo::run(&args),
    });
    if children::interrupted() {
        eprintln!("interrupted");
        return ExitCode::from(INTERRUPTED);
    }
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
