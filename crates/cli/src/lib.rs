//! The command line: arguments → settings → API client → view → text or JSON.
//!
//! ```text
//! args        what may be typed; no I/O        commands/   one file per verb: ask, build a view
//! settings    environment and local files      view/       values; the only place that prints
//! build_spec, job_file, each_file, input       from what a user wrote to a job
//! top/        the live view: model, update, draw, loop
//! travel      files that travel with a job, and those that come back
//! failure     what went wrong, exit codes, hints
//! ```
//!
//! No decision about jobs is made here, and no data is kept.

pub mod args;
pub mod build_spec;
pub mod commands;
pub mod each_file;
mod expressions;
pub mod failure;
pub mod input;
pub mod job_file;
pub mod logging;
pub mod query;
pub mod settings;
pub mod site_file;
pub mod submit_file;
pub mod top;
pub mod travel;
pub mod view;

use failure::Exit;
use std::process::ExitCode;

/// The whole program, from its arguments to its exit code.
pub fn main() -> ExitCode {
    let cli = match args::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(usage) => {
            let code = u8::try_from(usage.exit_code()).unwrap_or(Exit::WRONG_USAGE.0);
            view::failure::show_usage(&usage);
            return ExitCode::from(code);
        }
    };
    let json = cli.json;
    match commands::dispatch(cli) {
        Ok(exit) => ExitCode::from(exit.0),
        Err(failure) if failure.is_broken_pipe() => ExitCode::from(Exit::DONE.0),
        Err(failure) => {
            view::failure::show(&failure, json);
            ExitCode::from(failure.exit().0)
        }
    }
}
