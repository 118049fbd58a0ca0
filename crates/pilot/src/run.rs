//! The pilot at work: what happens (processes, messages, signals, time) is told to the pure
//! machine, and what it answers is done. It makes no choices of its own.
//!
//! The machine and all that belongs to it are behind one lock. Whoever learns of something tells
//! it there and then: the pool's threads of processes, the loop here of everything else. So the
//! end of one task starts the next one without waking a third thread in between.
//!
//! - `telling.rs` what happens, told to the machine; `acting.rs` what it answers, done
//! - `start.rs`  everything before the first connection
//! - `link.rs`   the connection to the server, again and again; `dial.rs` how one is opened
//! - `task.rs`   from an assignment to a process
//! - `launch.rs` from a start to a running process: image, files, limits, and off it goes
//! - `images.rs` the image of a task, before it starts
//! - `containers.rs` from an assignment and its image to a container; `cuda.rs` whether the
//!   driver can run it
//! - `looking.rs` what of a container a person has named, looked at beside the lock
//! - `stage_in.rs`, `stage_out.rs` the files of a task, before it starts and when it has ended;
//!   `staging.rs` who copies them, `theirs.rs` with whose rights, `travel.rs` those that the server
//!   keeps
//! - `serve_logs.rs` pieces of output for whoever asks; `log_turns.rs` whose is next
//! - `groups.rs` limits held by the kernel; `crowding.rs` how many processes tasks may have
//! - `limits.rs` memory, by looking now and then where they are not; `shares.rs` the same for that
//!   of GPUs, `mps.rs` for a site that wants more
//! - `usage.rs`   what tasks use, looked at now and then
//! - `warned.rs`  signals, and tasks that heard one before the pilot did
//! - `proving.rs` whether the node and its GPUs work, while the first tasks run already

mod acting;
mod containers;
mod copying;
mod crowding;
mod cuda;
mod dial;
mod groups;
mod images;
mod launch;
mod limits;
mod link;
mod log_turns;
mod looking;
mod mps;
mod own_folder;
mod proving;
mod removing;
mod serve_logs;
mod shares;
mod stage_in;
mod stage_out;
mod staging;
mod start;
mod task;
mod telling;
mod theirs;
mod told;
mod travel;
mod usage;
mod warned;

use crate::accounts::{Accounts, Ids};
use crate::closed::Reaches;
use crate::ends::{Ends, Left};
use crate::logs::Logs;
use crate::machine::{Input, Machine};
use crate::notice::{Heard, Meaning};
use crate::spawn::{self, Pool, ProcessEvent, Ticket};
use crate::usual::Usual;
use containers::Containers;
use groups::Groups;
use images::{Images, News};
use limits::Limits;
use link::{FromLink, ToLink};
use looking::{Looked, Looking};
use mps::Mps;
use serve_logs::ServeLogs;
use shares::Shares;
use shipway_model::{AttemptId, Millis, NodeAd};
use shipway_runtime::native::Helper;
use staging::{Staged, Staging};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use task::Tasks;
use theirs::Hands;
use tokio::sync::{Notify, mpsc};
use told::Told;
use travel::Travel;
use usage::Usages;
use warned::{Doubtful, Signals};

pub(crate) use crowding::room_for_processes;
pub use dial::Server;
pub use images::ImageKeep;
pub use start::{LentSettings, Settings, StartError, node_name};

/// What stands below the output of a task whose end its pilot did not live to see.
const MAY_BE_MISSING: &str = "[shipway: the pilot was killed when this task ended; the last of its \
    output may be missing]";

/// Runs the pilot until it is told to end. Its guard ends whatever still runs then.
pub async fn pilot(settings: Settings) -> Result<(), StartError> {
    let started = start::start(&settings)?;
    // Processes that are left to us are children of the main thread, which is why no other
    // thread of this runtime may be it.
    let told: Arc<OnceLock<Weak<Pilot>>> = Arc::default();
    let sink: spawn::EventSink = telling(&told, Pilot::process);
    let tell_of_image = telling(&told, |pilot, news| pilot.image(&news));
    let tell_of_files = telling(&told, Pilot::staged);
    let tell_of_looks = telling(&told, Pilot::looked);
    let logs = open_logs(&settings, &started.left);
    images::keep_room(&settings.images, settings.keep_images);
    let (spawners, slots) = (spawn::default_spawners(), Some(started.slots));
    let pool = Pool::remembered(spawners, &started.node_key, Arc::clone(&logs), sink, slots);
    let pool = pool.map_err(StartError::Threads)?;
    let kill = telling(&told, |pilot, ticket| {
        pilot.work().pool.signal(ticket, rustix::process::Signal::KILL);
    });
    let (unproven, first_ad) = (started.unproven, started.identity.ad.clone());
    let mps =
        settings.gpu_mps.then(|| Mps::start(&settings.dir, &started.node_key, &unproven.probe));
    let mps = mps.transpose()?.unwrap_or_default();
    let runtime = started.runtime;
    let containers = Arc::new(Containers::new(Arc::clone(&runtime), &unproven.probe));
    let ((to_link, from_link), travel) = connect(&settings, &started.token);
    let ids = started.keeper.as_ref().map(|keeper| Ids::new(keeper.given().clone()));
    let is_owners = settings.server.is_of_this_user() || settings.lent.of_owner;
    let accounts = Accounts::new(settings.accounts.clone(), is_owners);
    let hands = Arc::new(Hands::new(started.node_key.clone(), started.keeper));
    let work = Work {
        machine: Machine::new(started.identity)
            .of_process(started.process)
            .with_left(started.left.ends)
            .lent(started.lent),
        tasks: Tasks::new(&settings.dir, started.has_nvidia, started.has_amd, &hands).with(mps),
        accounts: accounts.with_ids(ids).refusing(first_ad.people.as_ref()),
        reaches: Reaches::new(settings.kept(), settings.binds.clone()),
        staging: Staging::new(hands, travel, tell_of_files),
        helper: started.helper,
        limits: Limits::new(started.groups.caps(), &settings.dir),
        groups: started.groups,
        images: Images::new(&settings, &started.token, tell_of_image),
        usual: started.usual,
        looking: Looking::new(Arc::clone(&containers), tell_of_looks),
        containers,
        pool,
        ends: started.ends,
        told: Told::new(&settings.dir),
        logs: ServeLogs::new(logs, to_link.clone()),
        shares: Shares::new(&unproven.probe, kill),
        usages: Usages::new(telling(&told, Pilot::used)),
        to_link,
        tickets: HashMap::new(),
        running: HashMap::new(),
        unsent: HashMap::new(),
        next_ticket: 0,
        doubtful: Doubtful::new(settings.lent.grace.is_some()),
        steady: started.steady,
        asleep_until: Instant::now(),
        finished: false,
        refused: false,
    };
    let pilot = Arc::new(Pilot { work: Mutex::new(work), look_again: Notify::new() });
    told.set(Arc::downgrade(&pilot)).expect("set once");
    let listener = Arc::downgrade(&pilot);
    let tell = move |ad| listener.upgrade().map(|pilot| pilot.proven(ad)).is_some();
    unproven.prove(runtime, first_ad, tell).map_err(StartError::Threads)?;
    let ended = pilot.run(from_link, settings.lent.grace).await;
    drop(started.lock);
    ended.result()
}

/// The connection, for what the machine says and hears; and for files, which go by themselves.
fn connect(
    settings: &Settings,
    token: &str,
) -> ((mpsc::UnboundedSender<ToLink>, mpsc::Receiver<FromLink>), Travel) {
    let (open, line) = travel::line(token.to_owned());
    let link = link::run(settings.server.clone(), token.to_owned(), open);
    (link, Travel::new(&settings.dir, settings.files_size, line))
}

/// The output of tasks, of earlier pilots' too.
fn open_logs(settings: &Settings, left: &Left) -> Arc<Logs> {
    let logs = Logs::new(settings.dir.join("logs"));
    if let Some(keep) = settings.keep_output {
        tokio::spawn(Arc::clone(&logs).keep(Duration::from_millis(keep.0)));
    }
    tokio::spawn(Arc::clone(&logs).keep_count());
    left.unseen.iter().for_each(|log| logs.add_line(*log, MAY_BE_MISSING));
    logs
}

/// How a thread beside the pilot tells it something. After its loop has ended nobody needs to know.
fn telling<T: 'static>(
    told: &Arc<OnceLock<Weak<Pilot>>>,
    tell: fn(&Pilot, T),
) -> Arc<dyn Fn(T) + Send + Sync> {
    let told = Arc::clone(told);
    Arc::new(move |news| {
        if let Some(pilot) = told.get().and_then(Weak::upgrade) {
            tell(&pilot, news);
        }
    })
}

/// Why a pilot has come to its end.
enum EndedBy {
    /// It was told to, or had finished.
    Itself,
    /// Its token is good for nothing: whatever it does, nobody will hear of it.
    Server,
}

impl EndedBy {
    fn result(self) -> Result<(), StartError> {
        match self {
            EndedBy::Itself => Ok(()),
            EndedBy::Server => Err(StartError::TokenEnded),
        }
    }
}

struct Pilot {
    work: Mutex<Work>,
    /// The loop has to look again how long it may sleep.
    look_again: Notify,
}

impl Pilot {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().expect("no holder panics")
    }

    async fn run(&self, mut link: mpsc::Receiver<FromLink>, grace: Option<Millis>) -> EndedBy {
        let signals = Signals::listen(grace.is_some());
        let (mut signals, mut heard) =
            (signals.expect("signals can be listened to"), Heard::new(grace));
        loop {
            let Some(until) = self.work().lie_down() else { return EndedBy::Itself };
            tokio::select! {
                Some(event) = link.recv() => {
                    let mut work = self.work();
                    work.link(event);
                    while let Ok(event) = link.try_recv() {
                        work.link(event);
                    }
                    work.flush();
                    if work.refused {
                        return EndedBy::Server;
                    }
                }
                () = tokio::time::sleep_until(until.into()) => self.work().tick(),
                () = self.look_again.notified() => {}
                signal = signals.next() => match heard.meaning(signal) {
                    Meaning::EndAtOnce => return EndedBy::Itself,
                    Meaning::Drain => self.work().leave(Input::Drain),
                    Meaning::TakenBack { grace } => {
                        self.work().leave(Input::TakenBack { grace });
                    }
                },
            }
        }
    }

    /// Called by the pool's threads.
    fn process(&self, event: ProcessEvent) {
        let mut work = self.work();
        work.process(event);
        work.flush();
        if work.finished || work.wait_until() < work.asleep_until {
            self.look_again.notify_one();
        }
    }
}

impl Pilot {
    /// Called by the thread that proves the node.
    fn proven(&self, ad: NodeAd) {
        let mut work = self.work();
        work.input(Input::Proven { ad: Box::new(ad) });
        work.flush();
        self.look_again.notify_one();
    }

    /// Called by the threads that fetch images.
    fn image(&self, news: &News) {
        let mut work = self.work();
        match news {
            News::Coming { order, line } => return work.images.say(order, line),
            News::Fetched(fetched) => work.image(fetched),
        }
        work.flush();
        self.look_again.notify_one();
    }

    /// Called by the threads that look at what people have named.
    fn looked(&self, looked: Looked) {
        let mut work = self.work();
        work.looked(looked);
        work.flush();
        self.look_again.notify_one();
    }

    /// Called by the thread that looks at what tasks use.
    fn used(&self, news: usage::News) {
        let mut work = self.work();
        work.used(news);
        work.flush();
        self.look_again.notify_one();
    }

    /// Called by the threads that copy files.
    fn staged(&self, staged: Staged) {
        let mut work = self.work();
        work.staged(staged);
        work.flush();
        self.look_again.notify_one();
    }
}

struct Work {
    machine: Machine,
    tasks: Tasks,
    accounts: Accounts,
    reaches: Reaches,
    helper: Arc<Helper>,
    groups: Groups,
    images: Images,
    staging: Staging,
    /// For tasks that name no image.
    usual: Arc<Usual>,
    containers: Arc<Containers>,
    looking: Looking,
    pool: Pool,
    ends: Ends,
    told: Told,
    logs: ServeLogs,
    limits: Limits,
    shares: Shares,
    usages: Usages,
    to_link: mpsc::UnboundedSender<ToLink>,
    tickets: HashMap<Ticket, AttemptId>,
    running: HashMap<AttemptId, Ticket>,
    /// Signals for processes that are just being started.
    unsent: HashMap<Ticket, rustix::process::Signal>,
    next_ticket: u64,
    doubtful: Doubtful,
    steady: Instant,
    /// When the loop looks by itself.
    asleep_until: Instant,
    finished: bool,
    /// The server lets it in no more.
    refused: bool,
}

fn millis(span: Duration) -> Millis {
    Millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

fn wall_millis(at: SystemTime) -> u64 {
    millis(at.duration_since(UNIX_EPOCH).unwrap_or_default()).0
}
