//! The token of the account, from its file: read at each use, since it ends and is renewed there.
//! It is in nothing that is shown: not in errors, arguments or the journal.

use rustix::fs::OFlags;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Those of Slurm are a few hundred bytes.
const MAX_BYTES: u64 = 16 << 10;
/// What a file's mode may give to others than its owner.
const OTHERS: u32 = 0o077;
/// `scontrol token` prints it as a variable.
const VARIABLE: &str = "SLURM_JWT=";

pub(super) struct Token(String);

impl Token {
    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

/// A secret.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Why there is no token; nothing of what the file has.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoToken {
    #[error("cannot read the token in {}: {source}", .path.display())]
    Unread { path: PathBuf, source: io::Error },
    #[error("the token in {} is no plain file", .path.display())]
    NoFile { path: PathBuf },
    #[error("others may read the token in {}: chmod 600 {}", .path.display(), .path.display())]
    Open { path: PathBuf },
    #[error("what {} has is no token: one line of at most {MAX_BYTES} bytes", .path.display())]
    Malformed { path: PathBuf },
}

pub(super) fn read(path: &Path) -> Result<Token, NoToken> {
    let unread = |source| NoToken::Unread { path: path.to_owned(), source };
    // Whoever put a pipe there keeps nobody waiting.
    let never_wait = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(never_wait).open(path).map_err(unread)?;
    let found = file.metadata().map_err(unread)?;
    if !found.is_file() {
        return Err(NoToken::NoFile { path: path.to_owned() });
    }
    if found.mode() & OTHERS != 0 {
        return Err(NoToken::Open { path: path.to_owned() });
    }
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(unread)?;
    let text = text.trim_ascii();
    let token = text.strip_prefix(VARIABLE.as_bytes()).unwrap_or(text);
    let is_word = !token.is_empty() && token.iter().all(u8::is_ascii_graphic);
    let is_short = u64::try_from(text.len()).is_ok_and(|length| length <= MAX_BYTES);
    match String::from_utf8(token.to_vec()) {
        Ok(token) if is_word && is_short => Ok(Token(token)),
        _ => Err(NoToken::Malformed { path: path.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_token_is_one_word_in_a_file_of_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let written = |text: &str, mode: u32| {
            std::fs::write(&path, text).expect("written");
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, mode).expect("so");
            let read = read(&path).map(|token| token.text().to_owned());
            read.map_err(|error| error.to_string().replace(path.to_str().expect("text"), "FILE"))
        };
        assert_eq!(written("abc.def\n", 0o600), Ok("abc.def".into()));
        assert_eq!(written("SLURM_JWT=abc.def\n", 0o400), Ok("abc.def".into()));
        for mode in [0o640, 0o604, 0o610] {
            let said = written("abc", mode).expect_err("open");
            assert_eq!(said, "others may read the token in FILE: chmod 600 FILE");
        }
        for text in ["", "secret word", "secret\nword", "secr\u{e9}t", &"x".repeat(20_000)] {
            let said = written(text, 0o600).expect_err("no token");
            assert!(
                said.starts_with("what FILE has is no token") && !said.contains("secr"),
                "{said}"
            );
        }
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .expect("made");
        assert!(matches!(read(&pipe), Err(NoToken::NoFile { .. })));
        assert!(matches!(read(&folder.path().join("none")), Err(NoToken::Unread { .. })));
        assert_eq!(format!("{:?}", Token("secret".into())), "Token(..)");
    }
}
