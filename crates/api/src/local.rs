//! The file by which the command line and the local pilot find the server of this machine.
//!
//! Written by `up` when it is ready, readable by its owner only, removed when it ends in order.

use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalServer {
    pub url: String,
    /// The owner's token: whoever may read this file is the owner.
    pub token: String,
    pub pid: u32,
    /// The certificate to trust, when the server made its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
}

pub fn path(home: &Path) -> PathBuf {
    home.join("server.json")
}

pub fn read(home: &Path) -> io::Result<LocalServer> {
    let text = std::fs::read_to_string(path(home))?;
    serde_json::from_str(&text).map_err(io::Error::other)
}
