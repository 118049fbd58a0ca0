//! Commands on a login node, over the site's own OpenSSH client and one kept connection.
//!
//! Keys, jump hosts and names are the business of the account's ssh configuration: nothing here
//! asks for a password, and an unknown host is refused by ssh itself. What is run there reaches a
//! POSIX shell, whatever the login shell is.

use super::{Local, Output, Way, WayError};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

/// What ssh says when it failed itself.
const FAILED: i32 = 255;
/// How long a connection is kept without a command: longer than the pause between two looks.
const KEEP: Duration = Duration::from_mins(10);
/// A login node that does not answer the first packet within this will not do so later.
const CONNECT: Duration = Duration::from_secs(20);
/// The longest path of a socket, without the letters ssh appends while it makes one.
const MAX_SOCKET: usize = 107 - 17;
/// Runs its arguments, ended when the first, in seconds, is over. A command that exits with 255
/// would look as if ssh had failed: sbatch does so for some wrong options.
const GUARDED: &str = concat!(
    "if command -v timeout >/dev/null 2>&1; then timeout \"$@\"; else shift; \"$@\"; fi; code=$?; ",
    "if [ \"$code\" = 255 ]; then code=254; fi; exit \"$code\""
);
const MAX_WORDS: usize = 400;
/// All a folder's mode may give to others than its owner.
const OTHERS: u32 = 0o077;

#[derive(Debug, Clone)]
pub struct Ssh {
    host: String,
    options: Vec<String>,
    socket: String,
    local: Local,
}

/// Why commands cannot be run on a host.
#[derive(Debug, thiserror::Error)]
pub enum BadHost {
    #[error("`{host}` is not the name of a host")]
    Name { host: String },
    #[error("{} is open to others, or no folder: a connection kept there would be theirs too",
        .folder.display())]
    OpenToOthers { folder: PathBuf },
    #[error("the path {} is too long for a connection kept there", .folder.display())]
    LongPath { folder: PathBuf },
}

impl Ssh {
    /// `host` is what ssh is told: an alias of its configuration, or `user@host`. `options` go
    /// before it: `-p 2222`, a word each. The connection is kept in `folder`, which is nobody
    /// else's. `local` has what ssh itself needs, such as `SSH_AUTH_SOCK` or `KRB5CCNAME`.
    pub fn new(
        host: &str,
        options: Vec<String>,
        folder: PathBuf,
        local: Local,
    ) -> Result<Ssh, BadHost> {
        let odd = |c: char| c.is_whitespace() || c.is_control();
        if host.is_empty() || host.starts_with('-') || host.contains(odd) {
            return Err(BadHost::Name { host: host.to_string() });
        }
        let found = std::fs::symlink_metadata(&folder);
        let open = |it: &std::fs::Metadata| it.permissions().mode() & OTHERS;
        let closed = |it: &std::fs::Metadata| it.is_dir() && open(it) == 0;
        if !found.as_ref().is_ok_and(closed) {
            return Err(BadHost::OpenToOthers { folder });
        }
        // ssh's own %C takes forty letters, and a home may lie deep.
        let mut hasher = DefaultHasher::new();
        (host, &options).hash(&mut hasher);
        let socket = folder.join(format!("{:016x}", hasher.finish()));
        // It fills in names that begin with `%`.
        match socket.to_str().map(|text| text.replace('%', "%%")) {
            Some(socket) if socket.len() <= MAX_SOCKET => {
                Ok(Ssh { host: host.to_string(), options, socket, local })
            }
            _ => Err(BadHost::LongPath { folder }),
        }
    }

    /// What is started here. Pure, so that it can be looked at.
    fn command_line(&self, words: &[&str], within: Duration) -> Vec<String> {
        let ours = [
            "BatchMode=yes".to_string(),
            format!("ConnectTimeout={}", CONNECT.as_secs()),
            "ServerAliveInterval=15".to_string(),
            "ServerAliveCountMax=3".to_string(),
            "ControlMaster=auto".to_string(),
            format!("ControlPersist={}", KEEP.as_secs()),
            format!("ControlPath=\"{}\"", self.socket),
            // A node that was broken into must not use what the account has elsewhere.
            "ForwardAgent=no".to_string(),
            "ForwardX11=no".to_string(),
            "PermitLocalCommand=no".to_string(),
            // Banners and news are not the engine's words.
            "LogLevel=ERROR".to_string(),
        ];
        let mut line = vec!["ssh".to_string(), "-T".to_string()];
        // The first value of an option is the one that holds.
        line.extend(ours.into_iter().flat_map(|option| ["-o".to_string(), option]));
        line.extend(self.options.iter().cloned());
        line.extend(["--".to_string(), self.host.clone()]);
        // Later than here, so that it is here that it counts as too slow.
        let limit = (within.as_secs() + 2).to_string();
        let guarded = ["sh", "-c", GUARDED, "sh", &limit];
        let quoted: Vec<String> = guarded.iter().chain(words).map(|word| quoted(word)).collect();
        line.push(quoted.join(" "));
        line
    }
}

impl Ssh {
    /// Ends the kept connection, where there is one. Without this it ends by itself when nothing
    /// used it for ten minutes.
    pub fn close(&self) {
        let socket = format!("ControlPath=\"{}\"", self.socket);
        let mut line = vec!["ssh", "-O", "exit", "-o", &socket];
        line.extend(self.options.iter().map(String::as_str));
        line.extend(["--", self.host.as_str()]);
        // There may be none, and nothing depends on its end.
        let _ = self.local.run(&line, &[], CONNECT);
    }
}

/// One word of a POSIX shell.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl Way for Ssh {
    fn run(&self, words: &[&str], input: &[u8], within: Duration) -> Result<Output, WayError> {
        let line = self.command_line(words, within);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let output = self.local.run(&line, input, within)?;
        if output.code == Some(FAILED) {
            let words = String::from_utf8_lossy(&output.stderr);
            let words: Vec<&str> = words.split_whitespace().collect();
            let words = words.join(" ").chars().take(MAX_WORDS).collect();
            return Err(WayError::NotReached { host: self.host.clone(), words });
        }
        Ok(output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::DirBuilderExt;

    fn closed() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(folder.path(), mode).expect("closed");
        folder
    }

    fn ssh(host: &str, folder: PathBuf) -> Result<Ssh, BadHost> {
        Ssh::new(host, vec!["-p".into(), "22".into()], folder, Local::new(Vec::new()))
    }

    #[test]
    fn hosts_that_are_options_and_open_folders_are_refused() {
        let folder = closed();
        for bad in ["", "-oProxyCommand=x", "a b", "a\nb"] {
            let refused = ssh(bad, folder.path().into());
            assert!(matches!(refused, Err(BadHost::Name { .. })), "{bad:?}");
        }
        assert!(ssh("ada@login.example", folder.path().into()).is_ok());
        let open = folder.path().join("open");
        std::fs::DirBuilder::new().mode(0o750).create(&open).expect("made");
        assert!(matches!(ssh("a", open), Err(BadHost::OpenToOthers { .. })));
        assert!(matches!(ssh("a", "/no/folder".into()), Err(BadHost::OpenToOthers { .. })));
        let deep = folder.path().join("x".repeat(80));
        std::fs::DirBuilder::new().mode(0o700).create(&deep).expect("made");
        assert!(matches!(ssh("a", deep), Err(BadHost::LongPath { .. })));
    }

    #[test]
    fn the_line_ends_its_options_before_the_host() {
        let folder = closed();
        let way = ssh("login", folder.path().into()).expect("a good host");
        let line = way.command_line(&["squeue", "--me", "a'b", ""], Duration::from_secs(58));
        let at = line.iter().position(|word| word == "--").expect("an end of options");
        assert_eq!(line[at - 2..=at + 1], ["-p", "22", "--", "login"]);
        assert_eq!(line.len(), at + 3, "one word for the shell there");
        assert!(line[at + 2].ends_with(r"' sh 60 squeue --me 'a'\''b' ''"), "{}", line[at + 2]);
        assert!(line.contains(&"BatchMode=yes".to_string()));
    }

    #[test]
    fn two_hosts_never_share_a_connection() {
        let folder = closed();
        let socket = |host| ssh(host, folder.path().into()).expect("a good host").socket;
        assert_ne!(socket("a"), socket("b"));
        assert_eq!(socket("a"), socket("a"));
    }

    #[test]
    fn a_shell_reads_each_word_as_it_stands() {
        let table = ["plain", "", "a b", "it's", "$HOME `id` \\", "a\nb", "*", "~", "#x", "é", "="];
        let words: Vec<String> = table.iter().map(|word| quoted(word)).collect();
        let script = format!("printf '<%s>' {}", words.join(" "));
        let said = Local::new(Vec::new()).run(&["sh", "-c", &script], b"", CONNECT);
        let expected = format!("<{}>", table.join("><"));
        let said = String::from_utf8(said.expect("it runs").stdout).expect("text");
        assert_eq!(said, expected);
    }

    #[test]
    fn a_command_cannot_look_like_a_failure_of_ssh() {
        let exit = |code: &str| {
            let words = ["sh", "-c", GUARDED, "sh", "10", "sh", "-c", code];
            Local::new(Vec::new()).run(&words, b"", CONNECT).expect("it runs").code
        };
        assert_eq!((exit("exit 255"), exit("exit 7"), exit("true")), (Some(254), Some(7), Some(0)));
    }
}
