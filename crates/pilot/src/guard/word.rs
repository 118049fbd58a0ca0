//! What a guard says of the processes that it buries. It ends nobody.

use super::PRIVATE;
use crate::ends::LEFT_BY_GUARD;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the next pilot finds how the processes of this one ended: a line for each that ended with
/// 0, as any other end may be our doing.
pub(super) struct Word {
    path: PathBuf,
    file: Option<File>,
}

impl Word {
    pub(super) fn new(dir: &Path) -> Self {
        Self { path: dir.join(LEFT_BY_GUARD), file: None }
    }

    /// Whether the child was dead and is reaped.
    pub(super) fn bury(&mut self, child: Pid) -> bool {
        let if_dead = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let Ok(Some(status)) = waitid(WaitId::Pid(child), if_dead) else { return false };
        if status.exit_status() == Some(0) {
            // Without it the task runs again; ending the rest matters more.
            let _unwritten = self.write(child);
        }
        true
    }

    fn write(&mut self, child: Pid) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => OpenOptions::new().append(true).create(true).mode(PRIVATE).open(&self.path)?,
        };
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        self.file.insert(file).write_all(format!("{child} {at}\n").as_bytes())
    }
}
