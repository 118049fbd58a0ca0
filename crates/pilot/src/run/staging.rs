//! The files of each task, and the threads beside them: each has one process copy (`copying.rs`),
//! under the account of the task, and waits for it. What is to be copied is decided in
//! `stage_in.rs` and `stage_out.rs`.

use super::copying::{Copied, Stop};
use super::images::ReadyImage;
use super::theirs::{As, Hands};
use crate::logs::Spool;
use crate::machine::{Start, Taken, Weighed};
use crate::spawn::Streams;
use crate::stage::{Plan, Remembered, Report};
use crate::turns::{AtOnce, Workers};
use shipway_model::AttemptId;
use shipway_runtime::reach::Reach;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

/// Tasks whose files are copied at the same time. More would not make a disk faster.
const AT_ONCE: AtOnce = AtOnce { all: 8, each: 4 };

/// What was copied for whom.
pub(super) struct Staged {
    pub(super) id: AttemptId,
    pub(super) result: Result<Report, String>,
}

pub(super) type Tell = Arc<dyn Fn(Staged) + Send + Sync>;

/// The files of one attempt, from before its start until they are taken.
pub(super) struct Files {
    pub(super) id: AttemptId,
    pub(super) user: String,
    /// What of its own work is taken.
    pub(super) wanted: Option<Wanted>,
    /// With whose rights they are copied.
    pub(super) by: As,
    /// The same in words.
    pub(super) rights: String,
    /// Which paths of the node may be named.
    pub(super) reach: Reach,
    pub(super) step: Step,
    /// Its own work directory.
    pub(super) work: Option<PathBuf>,
    /// A copy of what it reads, where the pilot may not read it itself.
    pub(super) stdin: Option<PathBuf>,
    pub(super) remembered: Option<Weighed<Remembered>>,
    /// What it prints, where that is kept, and where it goes.
    pub(super) spools: Vec<(Arc<Spool>, PathBuf, PathBuf)>,
    /// What ends the copying that was ordered last.
    pub(super) stop: Arc<Stop>,
}

/// What says which files are taken at the end.
pub(super) struct Wanted {
    pub(super) taken: Arc<Weighed<Taken>>,
    pub(super) fields: Arc<Weighed<BTreeMap<String, String>>>,
}

impl Wanted {
    pub(super) fn of(start: &Start) -> Option<Self> {
        let taken = start.taken.clone()?;
        Some(Wanted { taken, fields: Arc::clone(&start.fields) })
    }

    /// Counts as what it belongs to.
    pub(super) fn remember(&self, found: Remembered) -> Weighed<Remembered> {
        let weight = self.fields.more(found.keys().map(String::as_bytes));
        Weighed::new(found, weight)
    }
}

pub(super) enum Step {
    /// The launch goes on then.
    BringingIn(Box<Waiting>),
    Running,
    Taking,
}

/// A launch that waits for files.
pub(super) struct Waiting {
    pub(super) start: Start,
    pub(super) image: Option<Arc<ReadyImage>>,
    pub(super) streams: Option<Streams>,
}

pub(super) struct Staging {
    files: HashMap<AttemptId, Files>,
    workers: Workers<CopyJob>,
}

struct CopyJob {
    id: AttemptId,
    plan: Plan,
    by: As,
    stop: Arc<Stop>,
}

/// What a stop came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// It had not begun, and never will: nothing more is told of it.
    Withdrawn,
    /// It ends, and that is told.
    Told,
}

impl Staging {
    pub(super) fn new(hands: Arc<Hands>, tell: Tell) -> Self {
        let workers = Workers::new("files", AT_ONCE, move |order| carry_out(&hands, &tell, order));
        Staging { files: HashMap::new(), workers }
    }

    /// Whether no task here has files.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub(super) fn get(&mut self, id: AttemptId) -> Option<&mut Files> {
        self.files.get_mut(&id)
    }

    pub(super) fn insert(&mut self, files: Files) {
        self.files.insert(files.id, files);
    }

    pub(super) fn remove(&mut self, id: AttemptId) -> Option<Files> {
        self.files.remove(&id)
    }

    /// Those whose launch waits for their files.
    pub(super) fn bringing_in(&self) -> Vec<AttemptId> {
        let waits = |files: &&Files| matches!(files.step, Step::BringingIn(..));
        self.files.values().filter(waits).map(|files| files.id).collect()
    }

    /// Has something copied for one whose files are here; the answer comes by `tell`.
    pub(super) fn order(&mut self, id: AttemptId, plan: Plan) {
        let Some(files) = self.files.get_mut(&id) else { return };
        files.stop = Arc::default();
        let (by, stop) = (files.by.clone(), Arc::clone(&files.stop));
        self.workers.add(&files.user, CopyJob { id, plan, by, stop });
    }

    /// Whatever is copied for it now, if anything is.
    pub(super) fn stop(&self, id: AttemptId) -> Stopped {
        let Some(files) = self.files.get(&id) else { return Stopped::Told };
        if self.workers.withdraw(&files.user, |order| order.id == id).is_some() {
            return Stopped::Withdrawn;
        }
        files.stop.now();
        Stopped::Told
    }
}

/// On a thread of its owner's share, which is taken until the process is gone: what hangs in the
/// kernel hangs at its owner's cost.
fn carry_out(hands: &Hands, tell: &Tell, order: CopyJob) {
    let CopyJob { id, plan, by, stop } = order;
    let Copied { result, left } = hands.carry_out(&plan, &by, &stop);
    tell(Staged { id, result });
    if let Some(mut process) = left {
        tracing::warn!(attempt = %id, pid = process.id(), "cannot be ended, and copies files");
        let _reaped = process.wait();
    }
}
