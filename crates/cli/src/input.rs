//! Reading what a user names on the command line: a file, or `-` for standard input. As text, and
//! never more than a job may have.

use shipway_model::limits::MAX_SPEC_BYTES;
use std::fs::File;
use std::io::{self, Read};
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
    #[error("{} is not text: byte {position} is not UTF-8", .name.display())]
    NotText { name: PathBuf, position: usize },
    #[error("{} is not text: byte {position} is NUL", .name.display())]
    Nul { name: PathBuf, position: usize },
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
        }
    }
}

/// What some editors put at the beginning of a text; it is no part of it.
pub(crate) const BYTE_ORDER_MARK: &str = "\u{feff}";

pub fn is_standard_input(name: &Path) -> bool {
    name == Path::new("-")
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
        return Err(InputError::Nul { name: shown(), position });
    }
    let mut text = String::from_utf8(bytes).map_err(|error| InputError::NotText {
        name: shown(),
        position: error.utf8_error().valid_up_to(),
    })?;
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(text)
}
