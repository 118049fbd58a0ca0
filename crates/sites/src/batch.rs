//! What every batch system is to us: something that takes allocations, says what became of them,
//! and gives them up.
//!
//! Each kind renders what it is asked and parses what is answered purely (`slurm/`, `htcondor/`),
//! and runs commands through a [`Way`](crate::way::Way). Nothing here waits for anything but its
//! own command, decides whether something is asked for, or remembers what was.

use crate::way::Way;
use shipway_model::{AllocationId, Bytes, Cores, Digest, GpuOption, Millis, SiteName, Timestamp};
use std::fmt::Debug;

pub use shipway_model::{AllocationEnd, EngineTrouble};

/// Beyond this a batch system's own words are cut: they are shown to people and journaled.
pub const MAX_WORDS: usize = 400;

/// A batch system, as one site has it. Calls take as long as its commands take, within the limit
/// of its way: for threads that may wait.
pub trait BatchSystem: Debug + Send + Sync {
    /// Hands one allocation in. Whoever calls has looked first: what is there already is never
    /// handed in again.
    fn submit(&self, order: &Order) -> Result<EngineId, EngineError>;

    /// All that carries the server's name, queued, running, or ended as long as the engine
    /// remembers it. What it says nothing of is not there.
    fn look(&self) -> Result<Vec<Seen>, EngineError>;

    /// What nodes it has, alike ones together.
    fn nodes(&self) -> Result<Vec<EngineNodes>, EngineError>;

    /// Has these end. Those that have ended already are no error.
    fn cancel(&self, which: &[EngineId]) -> Result<(), EngineError>;

    /// Runs commands there as the account that hands in. `None`: nobody may, at this engine.
    fn way(&self) -> Option<&dyn Way> {
        None
    }

    /// Why this one still waits, in one sentence that is true now. Costly at some engines: asked
    /// of one that waits long, not of all. `None`: the engine says no more than [`Seen`] does.
    fn why_queued(&self, _which: &EngineId) -> Result<Option<String>, EngineError> {
        Ok(None)
    }
}

/// What the engine calls an allocation: `1234`, `1234.0`, `1234_7`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EngineId(pub String);

/// How allocations are named at the engine, so that they can be found again: whose they are, and
/// which of those.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naming {
    /// A server and one site of it: two servers may use one account, and two sites of a server may
    /// be one engine.
    pub whose: String,
}

impl Naming {
    /// Of no two sites the beginning of the other's: no site's name has a `_`.
    pub fn at_site(server: &str, site: &SiteName) -> Naming {
        Naming { whose: format!("{server}-{site}_") }
    }

    pub fn of(&self, allocation: &AllocationId) -> String {
        format!("{}{allocation}", self.prefix())
    }

    /// What the names of all of them begin with.
    pub fn prefix(&self) -> String {
        format!("shipway-{}-", self.whose)
    }

    /// `None`: a name of somebody else's.
    pub fn allocation(&self, name: &str) -> Option<AllocationId> {
        AllocationId::new(name.strip_prefix(&self.prefix())?).ok()
    }
}

/// One allocation, as it is handed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    pub allocation: AllocationId,
    /// The partition or queue; `None`: the engine's own default.
    pub partition: Option<String>,
    /// One pilot runs on each.
    pub nodes: u32,
    /// Of each node.
    pub cpus: Cores,
    pub memory: Bytes,
    pub gpus: Option<OrderedGpus>,
    pub wall: Millis,
    /// How long before its end the engine warns it, by a signal.
    pub warning: Millis,
    /// Options of the submission as the site's file has them, a line each, as the engine reads
    /// them: `--constraint=a100`, `requirements = TARGET.HasFast`.
    pub submit_lines: Vec<String>,
    /// What the allocation runs, on each of its nodes.
    pub pilot: PilotStart,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderedGpus {
    pub count: u32,
    /// The engine's own word for the kind; `None`: any.
    pub kind: Option<String>,
    /// By which words; `None`: those that its manual names first.
    pub request: Option<GpuOption>,
}

/// How a pilot is started on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PilotStart {
    /// A path on the site.
    pub program: String,
    /// It was sent there (`sending.rs`), and has to be this where it is started.
    pub sha256: Option<Digest>,
    /// Options after `shipway pilot`, without the folder and the token file, which are the
    /// script's own choice.
    pub options: Vec<String>,
    /// Where its folder is made; `None`: `$TMPDIR`, or `/tmp`.
    pub scratch: Option<String>,
    /// The text of the credentials file of each node's pilot. A secret: it goes to the engine in
    /// nothing that other people can list, and into files that only the account reads.
    pub credentials: Vec<String>,
    /// What else goes into its folder, as name and text: a certificate.
    pub files: Vec<(String, String)>,
}

/// An allocation as the engine sees it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub id: EngineId,
    pub allocation: AllocationId,
    pub phase: SeenPhase,
    /// The engine's own words for it, cut to [`MAX_WORDS`]: `PENDING (Resources)`.
    pub words: String,
    /// The nodes it has, by the engine's names.
    pub nodes: Vec<String>,
    /// When the engine thinks it will start, where it says so.
    pub expected: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeenPhase {
    /// It waits for its turn.
    Queued,
    /// It waits for a person, at the engine: nobody's turn will start it.
    Held,
    Running,
    Ended(AllocationEnd),
}

/// Alike nodes of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineNodes {
    pub partition: Option<String>,
    /// Some of their names, to show.
    pub names: Vec<String>,
    pub count: u32,
    /// Those that take jobs or would when they are done; the rest is down, drained or reserved.
    pub up: u32,
    /// Those on which nothing runs.
    pub idle: u32,
    /// Of each node.
    pub cpus: Cores,
    pub memory: Bytes,
    pub gpus: Vec<EngineGpus>,
    /// The engine's features or attributes, as plain words.
    pub features: Vec<String>,
    /// The longest a job may run there, where it says so.
    pub longest: Option<Millis>,
    /// The engine's own words for what is not up, with its reasons: `drain: bad PSU`.
    pub down: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EngineGpus {
    /// The engine's own word: `a100`, or a device name. `None`: it only counts them.
    pub kind: Option<String>,
    pub count: u32,
    pub memory: Option<Bytes>,
    /// Compute capability as the engine writes it: `8.0`.
    pub capability: Option<String>,
}

/// Why an engine did not do what it was asked. `words` are the engine's own.
#[derive(Debug, thiserror::Error)]
#[error("cannot {act}: {words}")]
pub struct EngineError {
    /// `submit to partition gpu`, `list jobs`.
    pub act: String,
    pub words: String,
    pub kind: EngineTrouble,
}
