//! The program that containers, and tasks of other accounts, are started by.
//!
//! It is started for every task, so it should be small: a large program costs more to load than a
//! container to make. A release carries such a program inside; a build without one is its own
//! helper. What it does is in `shipway_runtime::native`.

use rustix::io::Errno;
use shipway_runtime::native::{self, Helper};
use std::ffi::OsString;
use std::io;

#[cfg(carries_helper)]
const CARRIED: Option<&[u8]> = Some(include_bytes!(env!("SHIPWAY_HELPER")));
#[cfg(not(carries_helper))]
const CARRIED: Option<&[u8]> = None;

/// The helper of tasks. Made once: it is copied into memory where tasks could change it.
pub fn of_tasks() -> io::Result<Helper> {
    let Some(program) = CARRIED else { return Helper::this_program(words()) };
    match Helper::carried(program, words()) {
        // A node may forbid to run what is in memory only; it does not always forbid files.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::ACCESS) => {
            Helper::this_program(words())
        }
        made => made,
    }
}

/// This program with another word, by which it does something as somebody else. No task is near
/// it, so it is this program as it stands.
pub(crate) fn of_this_program(word: &str) -> Helper {
    Helper::as_it_stands("/proc/self/exe".into(), vec!["shipway".into(), word.into()])
}

fn words() -> Vec<OsString> {
    vec!["shipway".into(), native::COMMAND.into()]
}
