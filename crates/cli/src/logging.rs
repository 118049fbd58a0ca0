//! The log of what runs for long, on standard error, as text or as one JSON object a line.

use crate::args::serve::{LogArgs, LogFormat, LogLevel};
use std::io::IsTerminal;
use tracing::level_filters::LevelFilter;

/// The present as the lines of the log write it, for a line that does not come from the logger.
pub fn timestamp() -> String {
    format!("{:.6}", jiff::Timestamp::now())
}

pub fn start(args: &LogArgs) {
    let level = match args.log_level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let builder = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(level)
        // A log that cannot be written (a full disk) is lost. Complaining about it on the same
        // standard error would fail too, by a panic.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal());
    // A second start in one process is a test's; the first logger stays.
    let _ = match args.log_format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
}
