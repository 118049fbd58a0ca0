//! The threads beside a task's files: each has one process copy (`stage.rs`), under the account of
//! the task, and waits for it. Also what is known of the files of each task meanwhile. What is to
//! be copied is decided in `stage_in.rs` and `stage_out.rs`.

use super::images::ReadyImage;
use super::theirs::{As, Hands};
use crate::logs::Spool;
use crate::machine::{AttemptKey, Start};
use crate::spawn::Streams;
use crate::stage::{Plan, Remembered, Report};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use shipway_api::causes::causes;
use shipway_runtime::reach::Reach;
use shipway_runtime::report::Ending;
use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

/// Tasks whose files are copied at the same time. More would not make a disk faster; so many that
/// a slow file server does not hold up everybody.
const AT_ONCE: usize = 8;

/// Longest report of a process that copied files: it names every file at the top of a work
/// directory, and a hundred bytes are enough for most.
const REPORT_LIMIT: u64 = 64 << 20;

/// What was copied for whom.
pub(super) struct Staged {
    pub(super) id: AttemptKey,
    pub(super) result: Result<Report, String>,
}

pub(super) type Tell = Arc<dyn Fn(Staged) + Send + Sync>;

/// The files of one attempt, from before its start until they are taken.
pub(super) struct Files {
    pub(super) start: Start,
    /// With whose rights they are copied.
    pub(super) by: As,
    /// Which paths of the node may be named.
    pub(super) reach: Reach,
    pub(super) step: Step,
    /// Its own work directory.
    pub(super) work: Option<PathBuf>,
    /// A copy of what it reads, where the pilot may not read it itself.
    pub(super) stdin: Option<PathBuf>,
    pub(super) remembered: Remembered,
    /// What it prints, where that is kept, and where it goes.
    pub(super) spools: Vec<(Arc<Spool>, PathBuf, PathBuf)>,
}

pub(super) enum Step {
    /// The launch goes on then.
    BringingIn(Box<Waiting>),
    Running,
    Taking,
}

/// A launch that waits for files.
pub(super) struct Waiting {
    pub(super) image: Option<Arc<ReadyImage>>,
    pub(super) streams: Option<Streams>,
}

pub(super) struct Staging {
    files: HashMap<AttemptKey, Files>,
    orders: Option<mpsc::Sender<Order>>,
    shared: Arc<Shared>,
}

struct Order {
    id: AttemptKey,
    plan: Plan,
    by: As,
}

struct Shared {
    hands: Arc<Hands>,
    tell: Tell,
    going: Mutex<Going>,
}

#[derive(Default)]
struct Going {
    processes: HashMap<AttemptKey, OwnedFd>,
    /// Those that are to stop before they have begun.
    stopped: HashSet<AttemptKey>,
}

impl Staging {
    pub(super) fn new(hands: Arc<Hands>, tell: Tell) -> Self {
        let shared = Shared { hands, tell, going: Mutex::default() };
        Staging { files: HashMap::new(), orders: None, shared: Arc::new(shared) }
    }

    /// Whether no task here has files.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub(super) fn get(&mut self, id: AttemptKey) -> Option<&mut Files> {
        self.files.get_mut(&id)
    }

    pub(super) fn insert(&mut self, files: Files) {
        self.files.insert(files.start.id, files);
    }

    pub(super) fn remove(&mut self, id: AttemptKey) -> Option<Files> {
        lock(&self.shared.going).stopped.remove(&id);
        self.files.remove(&id)
    }

    /// Those whose launch waits for their files.
    pub(super) fn bringing_in(&self) -> Vec<AttemptKey> {
        let waits = |files: &&Files| matches!(files.step, Step::BringingIn(..));
        self.files.values().filter(waits).map(|files| files.start.id).collect()
    }

    /// Has something copied; the answer comes by `tell`.
    pub(super) fn order(&mut self, id: AttemptKey, plan: Plan, by: As) {
        let orders = self.orders.get_or_insert_with(|| start_threads(&self.shared));
        let _ = orders.send(Order { id, plan, by });
    }

    pub(super) fn stop(&self, id: AttemptKey) {
        if !self.files.contains_key(&id) {
            return;
        }
        let mut going = lock(&self.shared.going);
        match going.processes.get(&id) {
            Some(process) => drop(pidfd_send_signal(process, Signal::KILL)),
            None => drop(going.stopped.insert(id)),
        }
    }
}

fn lock(going: &Mutex<Going>) -> MutexGuard<'_, Going> {
    going.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Started by the first task that has files: most have none.
fn start_threads(shared: &Arc<Shared>) -> mpsc::Sender<Order> {
    let (send, orders) = mpsc::channel::<Order>();
    let orders = Arc::new(Mutex::new(orders));
    for number in 0..AT_ONCE {
        let (shared, orders) = (Arc::clone(shared), Arc::clone(&orders));
        let thread = std::thread::Builder::new().name(format!("files-{number}"));
        // Without one of them the others do it all.
        let _ = thread.spawn(move || {
            let next = || orders.lock().unwrap_or_else(PoisonError::into_inner).recv();
            while let Ok(order) = next() {
                let result = shared.carry_out(&order);
                (shared.tell)(Staged { id: order.id, result });
            }
        });
    }
    send
}

impl Shared {
    fn carry_out(&self, order: &Order) -> Result<Report, String> {
        let failed = |error: &dyn std::error::Error| {
            format!("cannot start the process that copies files: {}", causes(error))
        };
        let launch = self.hands.launch(order.plan.clone(), &order.by);
        let launch = launch.map_err(|error| failed(&error))?;
        let (mut command, after) = launch.into_command();
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = {
            let mut going = lock(&self.going);
            if going.stopped.remove(&order.id) {
                return Err("it was stopped".into());
            }
            let child = command.spawn().map_err(|error| failed(&error))?;
            // One that cannot be stopped comes to its end by itself.
            let watched = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
            going.processes.extend(watched.ok().map(|process| (order.id, process)));
            child
        };
        let mut said = Vec::new();
        // The account of the task may have a hand in what comes.
        let out = child.stdout.take().map(|out| out.take(REPORT_LIMIT));
        let read = out.map(|mut out| out.read_to_end(&mut said)).transpose();
        let status = child.wait();
        lock(&self.going).processes.remove(&order.id);
        read.map_err(|error| failed(&error))?;
        match after.ending(status.map_err(|error| failed(&error))?) {
            Ending::Exit(0) => serde_json::from_slice(&said).map_err(|error| failed(&error)),
            Ending::NotStarted(told) => Err(told.message),
            Ending::Signal { .. } => Err("it was stopped while its files were copied".into()),
            Ending::Exit(code) => Err(format!("copying files ended with {code}")),
        }
    }
}
