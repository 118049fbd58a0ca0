//! Starts the writer: its threads, and the timer that wakes it.

use super::at_once::Shared;
use super::on_disk::OnDisk;
use super::outside::Listeners;
use super::pulse::Pulse;
use super::queue::queue;
use super::run::{Hands, Loop};
use super::timed::Timed;
use super::way::{Request, Way};
use super::{Edges, Vital, Writer};
use crate::auth::Table;
use crate::clock::Clock;
use crate::journal::{HistoryReader, Journal};
use crate::panics::vital;
use crate::published::Published;
use shipway_core::State;
use shipway_model::Timestamp;
use shipway_shell::{Desk, Limits};
use std::convert::Infallible;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// A batch takes no more requests after this long: where each takes long, those who were first must
/// not wait for all that came since. Ordinary ones take microseconds: hundreds share a commit.
const LONGEST_BATCH: Duration = Duration::from_millis(20);

/// A writer at work.
#[derive(Debug)]
pub struct Running {
    pub writer: Writer,
    pub thread: JoinHandle<()>,
    /// Comes when the thread has ended, told to or not.
    pub ended: oneshot::Receiver<Infallible>,
}

/// Needs a tokio runtime for the timer.
pub fn start<J: Journal<History = Box<dyn HistoryReader>> + Send + 'static>(
    restored: (State, u64),
    journal: J,
    history: Box<dyn HistoryReader>,
    edges: Edges,
) -> std::io::Result<Running> {
    start_with(restored, journal, history, edges, LONGEST_BATCH)
}

pub(super) fn start_with<J: Journal<History = Box<dyn HistoryReader>> + Send + 'static>(
    restored: (State, u64),
    journal: J,
    history: Box<dyn HistoryReader>,
    edges: Edges,
    longest_batch: Duration,
) -> std::io::Result<Running> {
    let (send, queue) = queue();
    let (wake_at, wake_at_seen) = watch::channel(None);
    let (health, health_seen) = watch::channel(None);
    // Before anybody is served: a first request need not wait for the threads below.
    edges.auth.install(Table::of(&restored.0));
    let (clock, core) = (edges.clock.clone(), edges.core);
    let pulse = Arc::new(Pulse::default());
    let (metrics, last_took) = (Arc::clone(&edges.metrics), Duration::ZERO);
    let journal = Timed { journal, metrics, pulse: Arc::clone(&pulse), last_took };
    let shown = history.try_clone().map_err(std::io::Error::other)?;
    let on_disk = OnDisk::new(Arc::clone(&pulse), clock.clone(), shown);
    let published = Arc::new(Published::of(&restored.0));
    let seen = Arc::clone(&published);
    let outside = Arc::new(Listeners { published: seen, edges, wake_at, health });
    let desk = Desk::new(restored, journal, history, outside, core, Limits::default());
    let shared = Arc::new(Shared::new(desk, clock.clone()));
    let desk = Arc::clone(&shared);
    let way = Way { queue: Arc::new(send), desk };
    tokio::spawn(vital("the writer's timer", timer(clock, wake_at_seen, way.clone())));
    let hands = Hands::start(way.clone())?;
    let mut work = Loop { shared, queue, longest_batch, hands, stopped: false };
    let (alive, ended) = oneshot::channel();
    let thread = std::thread::Builder::new().name("writer".into()).spawn(move || {
        let (_vital, _alive) = (Vital("the writer"), alive);
        work.run();
    })?;
    let writer = Writer { way, health: health_seen, pulse, on_disk, published };
    Ok(Running { writer, thread, ended })
}

/// Sends one wake-up at the time the writer asks for; a later wish replaces an earlier one.
async fn timer(clock: Clock, mut wake_at: watch::Receiver<Option<Timestamp>>, way: Way) {
    loop {
        let at = *wake_at.borrow_and_update();
        let changed = match at {
            None => wake_at.changed().await,
            Some(at) => {
                let slept = tokio::time::timeout(clock.until(at), wake_at.changed()).await;
                if slept.is_err() && way.send(Request::Wake).await.is_err() {
                    return;
                }
                match slept {
                    Ok(changed) => changed,
                    Err(_) => wake_at.changed().await,
                }
            }
        };
        if changed.is_err() {
            return;
        }
    }
}
