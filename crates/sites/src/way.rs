//! How the commands of a batch system are run: here, or on a login node over the site's own
//! OpenSSH client. Bounded in time and in what is read; it knows nothing of what the commands mean.

pub mod local;
pub mod ssh;

pub use local::Local;
pub use ssh::Ssh;

use std::io;
use std::time::Duration;

/// More than the queue of a site with ten thousand of our allocations.
pub const MAX_OUTPUT: usize = 64 * 1024 * 1024;

/// Runs one command after the other; several threads may use it at once.
pub trait Way: std::fmt::Debug + Send + Sync {
    /// `words` are a program and its arguments, each reaching the program as it stands: whoever
    /// goes through a shell quotes them. Killed with all it started when `within` is over.
    fn run(&self, words: &[&str], input: &[u8], within: Duration) -> Result<Output, WayError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// `None`: it was ended by a signal.
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// The command did not run to its end. Whether it did something is unknown.
#[derive(Debug, thiserror::Error)]
pub enum WayError {
    #[error("`{program}` did not end within {} s", .within.as_secs())]
    TooSlow { program: String, within: Duration },
    #[error("`{program}` said more than {} MiB", MAX_OUTPUT >> 20)]
    TooMuch { program: String },
    /// The login node was not reached; the words are those of ssh.
    #[error("{host} was not reached: {words}")]
    NotReached { host: String, words: String },
    #[error("cannot start `{program}`")]
    NotStarted {
        program: String,
        #[source]
        source: io::Error,
    },
}
