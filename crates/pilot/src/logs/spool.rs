//! All that a task prints, beside its log, for a job that wants it in a file: without the log's
//! limit, and only until that file is written. It takes of the room that its user may take.

use super::room::{Allowance, Granted, Kind};
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Dropping it gives its room back: the file is removed with the folder it is in.
#[derive(Debug)]
pub struct Spool {
    file: File,
    allowance: Allowance,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    length: u64,
    granted: Granted,
    /// Why it is not complete.
    failed: Option<String>,
}

impl Spool {
    pub(super) fn new(file: File, allowance: Allowance) -> Self {
        Spool { file, allowance, state: Mutex::default() }
    }

    /// Never fails and never waits for anybody: what could not be kept is told in the end.
    pub(super) fn append(&self, bytes: &[u8]) {
        let mut state = self.state();
        if state.failed.is_some() {
            return;
        }
        if let Err(error) = self.store(&mut state, bytes) {
            state.failed = Some(error.to_string());
            // Nobody gets a part of it, so others may have the room at once.
            if self.file.set_len(0).is_ok() {
                self.allowance.give_back(Kind::Spool, &mut state.granted);
            }
        }
    }

    fn store(&self, state: &mut State, bytes: &[u8]) -> io::Result<()> {
        let length = state.length + bytes.len() as u64;
        let allowed = self.allowance.grow(Kind::Spool, &mut state.granted, length);
        allowed.map_err(io::Error::other)?;
        (&self.file).write_all(bytes)?;
        state.length = length;
        Ok(())
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    pub fn problem(&self) -> Option<String> {
        self.state().failed.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.allowance.give_back(Kind::Spool, &mut state.granted);
    }
}
