//! A plain program of the node that first has to become somebody, or join its cgroups.
//!
//! No container is made and nothing stays behind: this process does what was asked and turns into
//! the program. Its words are this process's own, behind those that led here; its environment came
//! with the letter, and nothing of it is set before.

use super::apart::spare_others;
use super::confine;
use super::error::{Doing, SetupError};
use super::identity::{self, say};
use super::owner;
use super::person;
use super::program;
use super::sys::own_keyring;
use crate::again::patiently;
use crate::plan::Process;
use crate::report::{Ending, Letter};
use crate::variables::Variables;
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The name of this program, and the word that made it a helper.
const OWN_WORDS: usize = 2;

/// Returns only when there is no such program, with the code to exit with.
pub(super) fn run(
    letter: &Letter,
    process: &Process,
    env: &Variables,
    keeper: Option<OwnedFd>,
) -> i32 {
    let Err(error) = prepare(process, keeper).and_then(|()| turn_into(env));
    told(letter, &error)
}

/// Does what comes first, for a program that is this one. The code to exit with where it fails.
pub(super) fn become_it(
    letter: &Letter,
    process: &Process,
    keeper: Option<OwnedFd>,
) -> Result<(), i32> {
    prepare(process, keeper).map_err(|error| told(letter, &error))
}

fn told(letter: &Letter, error: &SetupError) -> i32 {
    let told = error.told();
    let exit = told.why.exit_code();
    let _nobody_reads = letter.report(&Ending::NotStarted(told));
    exit
}

fn prepare(process: &Process, keeper: Option<OwnedFd>) -> Result<(), SetupError> {
    for path in &process.cgroups {
        say(&path.to_string_lossy(), "0")?;
    }
    if let (Some(shown), Some(user)) = (&process.shown, &process.user) {
        owner::show(&shown.tree, &shown.place, user)?;
    }
    if process.user.is_some() {
        identity::prepare(process.user.as_ref())?.become_it()?;
    }
    if process.within.is_some() {
        person::become_within(&keeper.ok_or(SetupError::NoKeeper)?, process)?;
    }
    spare_others()?;
    if process.guest {
        // A container's own filter lets nobody ask for keys; this one may have none.
        own_keyring().doing("leave", "the keyring")?;
        confine::leave_others_sockets()?;
    }
    // With the rights of whoever it is by now.
    rustix::process::chdir(&process.cwd).doing("enter", &process.cwd)
}

fn turn_into(env: &Variables) -> Result<Infallible, SetupError> {
    let mut words = std::env::args_os().skip(OWN_WORDS);
    let name = words.next().unwrap_or_default();
    let program = program::find(&name, env.value("PATH"))?;
    // What this process was started with is by whoever looks for it, and not the task's to change.
    let is_free = |name: &OsString| std::env::var_os(name).is_none();
    let env = env.0.iter().filter(|(name, _)| is_free(name)).map(|(name, value)| (name, value));
    let mut command = Command::new(&program);
    command.arg0(&name).args(words).envs(env);
    // Refused to an account that has too many processes: it may have fewer by now.
    let Err(error) = patiently(|| Err::<Infallible, _>(command.exec()));
    Err(program::explain(error, &program))
}
