//! Copies the files of one task: this program again, with a word that people never type.
//!
//! It runs as whoever the task runs as, so it reads and writes what that account may and nothing
//! else. It becomes them itself and starts no other program: one that has just been started could
//! be looked into, and robbed, by every process of the same account. It is told what to copy by
//! its standard input, and tells by its standard output how far it is and how that went. What a
//! task wants copied is decided in `run/stage_in.rs` and `run/stage_out.rs`.
//!
//! - `inputs.rs`  into the work directory
//! - `outputs.rs` out of it: what lies there was made by the task and is not to be trusted
//! - `targets.rs` the places that it goes to
//! - `parts.rs`   the names of what is not complete yet
//! - `folder.rs`  a folder that nothing leads out of
//! - `leases.rs`  files that somebody else has a lease on
//! - `handing.rs` what it is given by descriptor
//! - `modes.rs`   who may read and write what was copied
//! - `removing.rs` what is left when a task has ended
//! - `progress.rs` how far it has come
//! - `talk.rs`    what it says to the pilot and hears from it, where files travel
//! - `given.rs`   those that came with the task
//! - `made.rs`    those that the task has made

mod folder;
mod given;
mod handing;
mod inputs;
mod leases;
mod made;
mod modes;
mod outputs;
mod parts;
mod progress;
mod removing;
pub(crate) mod talk;
mod targets;

pub(crate) use leases::break_time as lease_break_time;
pub(crate) use progress::{Progress, Watched};
pub(crate) use removing::{Tree, remove};

use serde::{Deserialize, Serialize};
use shipway_api::causes::causes;
use shipway_model::Manifest;
use shipway_model::limits::{MAX_MANIFEST_BYTES, MAX_TRAVELLING};
use shipway_runtime::native;
use shipway_runtime::reach::{OutOfReach, Reach};
use std::collections::BTreeMap;
use std::error::Error as _;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use talk::{Talk, Word};

/// The word by which this program knows that it is to copy files.
pub const COMMAND: &str = "stage-files";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plan {
    In(StageIn),
    Out(StageOut),
    /// Folders to remove, with all that is in them.
    Remove(Vec<Tree>),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageIn {
    /// From where something may be brought.
    pub reach: Reach,
    /// With whose rights, in words.
    pub rights: String,
    /// The task's work directory, if anything is put there.
    pub work: Option<PathBuf>,
    /// Files that travelled with the task; they come first, and from the pilot's hands.
    pub given: Option<Manifest>,
    pub inputs: Vec<Input>,
    /// What the task reads, and the copy of it that is made.
    pub stdin: Option<(PathBuf, PathBuf)>,
    /// Whether it matters later what was there at the start.
    pub remember: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    pub source: PathBuf,
    /// What is in the folder, and not the folder itself.
    pub contents: bool,
    /// In the work directory; empty for its top.
    pub target: PathBuf,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageOut {
    /// Where something may be taken to.
    pub reach: Reach,
    /// With whose rights, in words.
    pub rights: String,
    pub work: Option<PathBuf>,
    pub outputs: Vec<Output>,
    /// What goes into the pilot's hands, to travel.
    pub collect: Option<Collect>,
    /// Everything at the top of the work directory that is new or changed goes to this folder.
    pub new_to: Option<PathBuf>,
    /// What was there at the start.
    pub before: Remembered,
    /// What the task printed, and where it goes.
    pub streams: Vec<(PathBuf, PathBuf)>,
    /// Part of the names of files that are not complete yet: another try of the same task has the
    /// same and clears away what was left.
    pub mark: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// In the work directory.
    pub name: PathBuf,
    pub contents: bool,
    pub target: PathBuf,
}

/// What is to travel of what a task has made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collect {
    /// Files, folders and patterns.
    pub names: Vec<String>,
    /// And all that is new or was changed.
    pub all_new: bool,
}

/// Names at the top of the work directory, and by what a change of each is recognised.
pub type Remembered = BTreeMap<String, Stamp>;

/// Of a file that is written to, size or times change; of one that is put in its place, the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    pub inode: u64,
    pub size: i64,
    pub changed: (i64, i64),
}

/// How it went.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub problem: Option<String>,
    pub remembered: Remembered,
    /// Folders that are not removed yet.
    pub left: Vec<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StageError {
    #[error(transparent)]
    OutOfReach(#[from] OutOfReach),
    #[error("cannot read the input {}", .path.display())]
    Input { path: PathBuf, source: io::Error },
    #[error("the input {} is neither a file nor a folder", .path.display())]
    InputKind { path: PathBuf },
    #[error("the input {} is not a folder", .path.display())]
    InputNoFolder { path: PathBuf },
    #[error("the input {} contains the task's work directory", .path.display())]
    InputAround { path: PathBuf },
    #[error("cannot write {} in the work directory", .path.display())]
    Place { path: PathBuf, source: io::Error },
    #[error("cannot use the work directory {}", .path.display())]
    Work { path: PathBuf, source: io::Error },
    #[error("the task has not made the output {}", .name.display())]
    NoOutput { name: PathBuf },
    #[error("the output {} is a link that leads out of the work directory", .name.display())]
    OutputLink { name: PathBuf },
    #[error("the output {} is neither a file nor a folder", .name.display())]
    OutputKind { name: PathBuf },
    #[error("the output {} is not a folder", .name.display())]
    OutputNoFolder { name: PathBuf },
    #[error("cannot read the output {}", .name.display())]
    Output { name: PathBuf, source: io::Error },
    #[error("the output {} is a link, which is neither followed nor taken", .name.display())]
    OutputIsLink { name: PathBuf },
    #[error("the output {} has a name that cannot travel (UTF-8, 64 folders)", .name.display())]
    OutputName { name: PathBuf },
    #[error(
        "what lies in the folder {} cannot be sent back: it is closed to the task's own account, \
         or more than 64 folders deep",
        .name.display()
    )]
    OutputUnseen { name: PathBuf },
    #[error("the task has made more than {MAX_TRAVELLING} files to send back")]
    TooMany,
    #[error("the task has made more folders than can be looked into for what to send back")]
    TooManyFolders,
    #[error("cannot hand files to the pilot")]
    Handed { source: io::Error },
    #[error("cannot write {}", .target.display())]
    Target { target: PathBuf, source: io::Error },
    #[error("cannot write {}: it is not a plain file", .target.display())]
    TargetKind { target: PathBuf },
    #[error(
        "cannot write into {}: somebody else made that folder, in one that everybody may write \
         to; name a target that is not there yet",
        .target.display()
    )]
    TargetOfOthers { target: PathBuf },
}

/// As JSON: a list of files is the most of it.
const MAX_PLAN: usize = 4 * MAX_MANIFEST_BYTES;

/// The whole of the hidden command. Must be called before any thread is started.
pub fn main() -> ExitCode {
    if let Err(code) = native::become_asked() {
        return code;
    }
    match Progress::by_stdout().and_then(|progress| progress.report(&carry_out(&progress))) {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody who could be told is left.
        Err(_) => ExitCode::FAILURE,
    }
}

/// The plan, and the pilot's end where there is more to say.
fn told() -> io::Result<(Plan, Option<Talk>)> {
    let end = rustix::stdio::stdin().try_clone_to_owned()?;
    let Some(talk) = Talk::of(end) else {
        let mut plan = Vec::new();
        io::stdin().read_to_end(&mut plan)?;
        return Ok((serde_json::from_slice(&plan)?, None));
    };
    let said = talk.hear()?.filter(|said| said.word == Word::Plan);
    let plan = said.ok_or(io::ErrorKind::UnexpectedEof)?.long(MAX_PLAN)?;
    // Nobody else is to hear or say anything in its place.
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    Ok((serde_json::from_slice(&plan)?, Some(talk)))
}

fn carry_out(progress: &Progress) -> Report {
    match told() {
        Ok((Plan::Out(plan @ StageOut { collect: Some(_), .. }), Some(talk))) => {
            let handed = plan
                .collect
                .as_ref()
                .map_or(Ok(()), |collect| made::hand_over(&plan, collect, &talk, progress));
            let problem = handed.err().map(|error| error.told(&plan.rights));
            let problem = problem.or(outputs::take(&plan, progress));
            Report { problem, ..Report::default() }
        }
        Ok((Plan::In(plan), talk)) => match inputs::bring(&plan, talk.as_ref(), progress) {
            Ok(remembered) => Report { remembered, ..Report::default() },
            Err(error) => Report { problem: Some(error.told(&plan.rights)), ..Report::default() },
        },
        Ok((Plan::Out(plan), _)) => {
            Report { problem: outputs::take(&plan, progress), ..Report::default() }
        }
        Ok((Plan::Remove(trees), _)) => remove(&trees, progress),
        Err(error) => Report {
            problem: Some(format!("cannot read what to copy: {error}")),
            ..Report::default()
        },
    }
}

impl StageError {
    /// With its cause; and whose rights were not enough, where it was that.
    fn told(&self, rights: &str) -> String {
        let cause = self.source().and_then(|cause| cause.downcast_ref::<io::Error>());
        if cause.is_none_or(|cause| cause.kind() != io::ErrorKind::PermissionDenied) {
            return causes(self);
        }
        format!("{}; {rights}", causes(self))
    }
}

#[cfg(test)]
mod tests;
