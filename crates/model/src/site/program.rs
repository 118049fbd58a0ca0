//! How the `shipway` program comes to a site's nodes.

use super::SiteSpec;

/// What a folder to send it to begins with, in a site's file.
const SEND: &str = "send:";

/// Where pilots have the program from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteProgram<'a> {
    /// It lies there already.
    At(&'a str),
    /// The server sends its own into this folder.
    SentTo(&'a str),
}

impl SiteSpec {
    pub fn program(&self) -> SiteProgram<'_> {
        match self.program.strip_prefix(SEND) {
            Some(folder) => SiteProgram::SentTo(folder),
            None => SiteProgram::At(&self.program),
        }
    }
}
