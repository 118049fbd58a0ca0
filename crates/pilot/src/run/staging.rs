//! The files of each task, and the threads beside them: each has one process copy (`copying.rs`),
//! under the account of the task, and waits for it. What is to be copied is decided in
//! `stage_in.rs` and `stage_out.rs`.

use super::copying::{Copied, Stop};
use super::images::ReadyImage;
use super::theirs::{As, Hands};
use super::travel::{Journey, Travel};
use crate::logs::Spool;
use crate::machine::{Start, Taken, Weighed};
use crate::spawn::Streams;
use crate::stage::talk::Talk;
use crate::stage::{Plan, Remembered, Report, StageOut};
use crate::turns::{AtOnce, Workers};
use shipway_model::{AttemptId, Digest};
use shipway_runtime::reach::Reach;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Tasks whose files are copied at the same time. More would not make a disk faster.
const AT_ONCE: AtOnce = AtOnce { all: 8, each: 4 };

/// What was copied for whom.
pub(super) struct Staged {
    pub(super) id: AttemptId,
    pub(super) news: News,
}

pub(super) enum News {
    /// How far it is, for whoever follows the task.
    Coming(String),
    Done(Result<Report, String>),
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
    /// What it has made goes to the server.
    pub(super) collects: bool,
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
    user: String,
    id: AttemptId,
    plan: Plan,
    /// What came with the task, which is fetched first.
    came_with: Option<Digest>,
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
    pub(super) fn new(hands: Arc<Hands>, travel: Travel, tell: Tell) -> Self {
        let desk = Desk { hands, travel, tell };
        let workers = Workers::new("files", AT_ONCE, move |order| desk.carry_out(order));
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
    pub(super) fn order(&mut self, id: AttemptId, plan: Plan, came_with: Option<Digest>) {
        let Some(files) = self.files.get_mut(&id) else { return };
        files.stop = Arc::default();
        let (by, stop) = (files.by.clone(), Arc::clone(&files.stop));
        let user = files.user.clone();
        self.workers.add(&files.user, CopyJob { user, id, plan, came_with, by, stop });
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

/// What the threads have.
struct Desk {
    hands: Arc<Hands>,
    travel: Travel,
    tell: Tell,
}

impl Desk {
    /// On a thread of its owner's share, which is taken until the process is gone: what hangs in
    /// the kernel hangs at its owner's cost.
    fn carry_out(&self, order: CopyJob) {
        let id = order.id;
        let copied =
            self.copy(order).unwrap_or_else(|problem| Copied { result: Err(problem), left: None });
        let Copied { result, left } = copied;
        (self.tell)(Staged { id, news: News::Done(result) });
        if let Some(mut process) = left {
            tracing::warn!(attempt = %id, pid = process.id(), "cannot be ended, and copies files");
            let _reaped = process.wait();
        }
    }

    fn copy(&self, order: CopyJob) -> Result<Copied, String> {
        let CopyJob { user, id, mut plan, came_with, by, stop } = order;
        let (moved, tell) = (AtomicU64::new(0), &self.tell);
        let say = |line| tell(Staged { id, news: News::Coming(line) });
        let of = Journey { attempt: id, person: &user, stop: &stop, say: &say, moved: &moved };
        match &mut plan {
            Plan::In(into) if came_with.is_some() => {
                let came = came_with.map(|list| self.travel.bring(&of, list)).transpose()?;
                let Some(came) = came else { return Err("nothing came with it".into()) };
                into.given = Some(came.manifest.clone());
                let hand = |talk: &Talk| {
                    // Whoever reads them says what was wrong.
                    let _ended = Travel::hand(&came, talk);
                    Ok(())
                };
                Ok(self.hands.carry_out_talking(&plan, &by, (&stop, &moved), hand))
            }
            Plan::Out(StageOut { collect: Some(_), .. }) => {
                let take = |talk: &Talk| self.travel.take(&of, talk);
                Ok(self.hands.carry_out_talking(&plan, &by, (&stop, &moved), take))
            }
            _ => Ok(self.hands.carry_out(&plan, &by, &stop)),
        }
    }
}
