//! What the pool is asked to run: a program, as a plain process or in a container.

use super::Ticket;
use crate::logs::Keep;
use crate::machine::Weight;
use shipway_model::AttemptId;
use shipway_runtime::crowd::Slot;
use shipway_runtime::native::Helper;
use shipway_runtime::plan::Process;
use shipway_runtime::reach::Reach;
use shipway_runtime::{Container, Runtime};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug, Clone)]
pub struct Request {
    pub ticket: Ticket,
    /// Program and arguments; a program without a slash is looked up in the `PATH` of `env`.
    pub argv: Vec<OsString>,
    /// The whole environment, but for the two variables by which processes are found again.
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
    pub log: AttemptId,
    /// Bytes kept of each of the two streams.
    pub log_limit: u64,
    /// Whose it is, and its output.
    pub user: String,
    /// Where it runs, if not as a plain process. Its command and environment count then.
    pub container: Option<Contained>,
    /// What has to be done before a plain process is started, and by what.
    pub before: Option<Before>,
    /// What it reads; nothing unless given.
    pub stdin: Option<StdinFile>,
    /// Its error output goes where its output goes, in the order it is written.
    pub one_stream: bool,
    /// What holds the number of its processes, where the kernel does.
    pub slot: Option<Arc<Slot>>,
    /// Nothing is to be done for it after its exit: so whoever has seen that knows its end.
    pub ends_with_exit: bool,
    /// By what its command and variables count for its person until it has started.
    pub weight: Option<Arc<Weight>>,
}

/// A file that a task reads.
#[derive(Debug, Clone)]
pub struct StdinFile {
    pub path: PathBuf,
    /// Whose it must be, where the pilot can read more than the task.
    pub of: Option<u32>,
    /// Where it may lie, if somebody has named it.
    pub reach: Option<Reach>,
}

/// Something that only a process itself can do before it is its own program.
#[derive(Debug, Clone)]
pub struct Before {
    pub helper: Arc<Helper>,
    pub process: Process,
}

impl Request {
    /// How much of its output is kept.
    pub fn keep(&self) -> Keep<'_> {
        Keep { limit: self.log_limit, user: &self.user }
    }

    /// Has it join cgroups before anything else.
    pub fn join(&mut self, doors: Vec<PathBuf>, helper: &Arc<Helper>) {
        match &mut self.container {
            _ if doors.is_empty() => {}
            Some(contained) => contained.container.cgroups = doors,
            None => {
                let process = Process { cwd: self.cwd.clone(), ..Process::default() };
                let before = Before { helper: Arc::clone(helper), process };
                self.before.get_or_insert(before).process.cgroups = doors;
            }
        }
    }
}

/// A container, and by what it is run.
#[derive(Debug, Clone)]
pub struct Contained {
    pub runtime: Arc<dyn Runtime>,
    pub container: Box<Container>,
    /// Held until the task has ended: its image, above all.
    pub holds: Arc<dyn fmt::Debug + Send + Sync>,
}
