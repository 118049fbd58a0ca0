//! All that a task prints, beside its log, for a job that wants it in a file: without the log's
//! limit, and only until that file is written.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

#[derive(Debug)]
pub struct Spool {
    file: File,
    /// Why it is not complete.
    failed: Mutex<Option<String>>,
}

impl Spool {
    pub fn new(file: File) -> Self {
        Spool { file, failed: Mutex::default() }
    }

    /// Never fails and never waits for anybody: what could not be kept is told in the end.
    pub(super) fn append(&self, bytes: &[u8]) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.is_none() {
            *failed = (&self.file).write_all(bytes).err().map(|error: io::Error| error.to_string());
        }
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    pub fn problem(&self) -> Option<String> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
