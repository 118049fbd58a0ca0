//! The log of what runs for long, on standard error, as text or as one JSON object a line.

use crate::args::serve::{LogArgs, LogFormat, LogLevel};
use std::io::{self, IsTerminal, Write};
use tracing::level_filters::LevelFilter;

/// Writes one line at a time. Names of files and people stand in it, and none of them begins a line
/// of its own or steers a terminal.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let (text, end) = match line.strip_suffix(b"\n") {
            Some(text) => (text, "\n"),
            None => (line, ""),
        };
        let text = String::from_utf8_lossy(text);
        let mut shown = String::with_capacity(text.len() + end.len());
        for letter in text.chars() {
            // The logger's own colours.
            if letter.is_control() && letter != '\x1b' {
                shown.extend(letter.escape_default());
            } else {
                shown.push(letter);
            }
        }
        self.0.write_all((shown + end).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

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
        .with_writer(|| OneLine(io::stderr()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_in_a_line_begins_none_of_its_own() {
        let mut out = Vec::new();
        let line = "WARN /tmp/a\n2026 INFO all is well\rb\u{85}é\n".as_bytes();
        assert_eq!(OneLine(&mut out).write(line).expect("written"), line.len());
        let shown = String::from_utf8(out).expect("text");
        assert_eq!(shown, "WARN /tmp/a\\n2026 INFO all is well\\rb\\u{85}é\n");
    }
}
