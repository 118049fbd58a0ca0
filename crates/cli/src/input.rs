//! Reading what a user names on the command line: a file, or `-` for standard input. As text, and
//! never more than a job may have. And a password, which is not shown.

use rustix::termios::{LocalModes, OptionalActions, Termios, tcsetattr};
use shipway_model::limits::MAX_SPEC_BYTES;
use std::fs::File;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum InputError {
    #[error("cannot read {}", .name.display())]
    Read {
        name: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is larger than {MAX_SPEC_BYTES} bytes, the most a job may have", .name.display())]
    TooLarge { name: PathBuf },
    #[error("{}, line {line}: this is not text: byte {position} of the file is not UTF-8",
        .name.display())]
    NotText { name: PathBuf, line: usize, position: usize },
    #[error("{}, line {line}: this is not text: byte {position} of the file is NUL",
        .name.display())]
    Nul { name: PathBuf, line: usize, position: usize },
    #[error("no password was given")]
    NoPassword,
}

impl InputError {
    pub fn hint(&self) -> &'static str {
        match self {
            InputError::Read { source, .. } if source.kind() == io::ErrorKind::IsADirectory => {
                "name a file in it, or `-` for standard input"
            }
            InputError::Read { .. } => "name a file that you may read, or `-` for standard input",
            InputError::TooLarge { .. } => "keep large data in files that the tasks read",
            InputError::NotText { .. } | InputError::Nul { .. } => "save the file as UTF-8 text",
            InputError::NoPassword => "type it, or send it to standard input",
        }
    }
}

/// A password, from the terminal without showing it, or from standard input. One line.
pub fn password(prompt: &str) -> Result<String, InputError> {
    let failed = |source| InputError::Read { name: "standard input".into(), source };
    let stdin = io::stdin();
    let quiet = stdin.is_terminal().then(|| Quiet::ask(prompt));
    let mut line = String::new();
    let read = stdin.lock().take(MAX_PASSWORD_BYTES).read_line(&mut line);
    drop(quiet);
    read.map_err(failed)?;
    let password = line.trim_end_matches(['\n', '\r']).to_owned();
    if password.is_empty() { Err(InputError::NoPassword) } else { Ok(password) }
}

/// Tokens of some registries are long; nothing is longer than this.
const MAX_PASSWORD_BYTES: u64 = 64 * 1024;

/// A terminal that does not show what is typed, until this is dropped.
struct Quiet(Option<Termios>);

impl Quiet {
    fn ask(prompt: &str) -> Self {
        let _ = write!(io::stderr(), "{prompt}");
        let before = rustix::termios::tcgetattr(rustix::stdio::stdin()).ok();
        if let Some(mut settings) = before.clone() {
            settings.local_modes.remove(LocalModes::ECHO);
            let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &settings);
        }
        Quiet(before)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, before);
        }
        let _ = writeln!(io::stderr());
    }
}

/// What some editors put at the beginning of a text; it is no part of it.
pub(crate) const BYTE_ORDER_MARK: &str = "\u{feff}";

pub fn is_standard_input(name: &Path) -> bool {
    name == Path::new("-")
}

/// The line that a byte is in, from 1.
pub(crate) fn line_at(bytes: &[u8], position: usize) -> usize {
    bytes[..position].split(|byte| *byte == b'\n').count()
}

/// The whole text of a file or of standard input.
pub fn read_text(name: &Path) -> Result<String, InputError> {
    let shown = || {
        if is_standard_input(name) { PathBuf::from("standard input") } else { name.to_path_buf() }
    };
    let failed = |source| InputError::Read { name: shown(), source };
    let source: Box<dyn Read> = if is_standard_input(name) {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(name).map_err(failed)?)
    };
    let mut bytes = Vec::new();
    source.take(MAX_SPEC_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > MAX_SPEC_BYTES {
        return Err(InputError::TooLarge { name: shown() });
    }
    if let Some(position) = bytes.iter().position(|byte| *byte == 0) {
        let line = line_at(&bytes, position);
        return Err(InputError::Nul { name: shown(), line, position });
    }
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let position = error.utf8_error().valid_up_to();
        let line = line_at(error.as_bytes(), position);
        InputError::NotText { name: shown(), line, position }
    })?;
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(text)
}
