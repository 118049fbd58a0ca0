//! The image step: sees to it that a task's image is on this node before the task is started.
//!
//! All of it takes its time, if only that of a slow file system, so threads do it (`shelf.rs`);
//! tasks that want the same image wait together, with their output open to whoever follows it.

mod shelf;
mod telling;

use super::Settings;
use crate::machine::Start;
use crate::spawn::Streams;
pub use shelf::ImageKeep;
use shelf::Shelf;
pub(super) use shelf::keep_room;
use shipway_api::ticket;
use shipway_images::pull::{JobOf, Relay};
use shipway_images::sources::Judge;
use shipway_images::store::{Lease, RunConfig};
use shipway_model::{AttemptId, Digest, ImageRef, Login, RelayAddress};
use shipway_runtime::plan::Root;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// All images through it, where nothing else can be reached.
fn by_relay(at: &RelayAddress, token: &str) -> Relay {
    let token = token.to_owned();
    let ticket = Arc::new(move |digest: &Digest| ticket::ticket(&token, digest));
    Relay { at: at.clone(), heading: ticket::HEADING, ticket }
}

/// A tree to run on, for as long as this is held.
#[derive(Debug)]
pub(super) struct ReadyImage {
    pub(super) root: Root,
    /// How the image wants to be run.
    pub(super) config: RunConfig,
    /// Of an image in the store.
    lease: Option<Lease>,
}

impl ReadyImage {
    /// Whether it is kept by the pilot, for all tasks.
    pub(super) const fn is_ours(&self) -> bool {
        self.lease.is_some()
    }
}

/// What the threads say.
pub(super) enum News {
    /// How far the fetch of an image is, for those who wait for it.
    Coming {
        order: ImageOrder,
        line: String,
    },
    Fetched(Fetched),
}

/// What tasks can wait for together: an image, for one who may have it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asked {
    pub(super) image: ImageRef,
    /// Whose task it is: one's registry may not let in the other.
    user: String,
    /// Whether the logins of whoever started the pilot are theirs too.
    of: JobOf,
}

/// An image that somebody waits for. A later order of the same image is another one.
#[derive(Debug, Clone)]
pub(super) struct ImageOrder {
    number: u64,
    pub(super) asked: Asked,
    /// The one that the user has given to the server for this registry.
    login: Option<Login>,
    /// Which files may be read for it.
    judge: Judge,
    /// Until nobody waits for it any more.
    wanted: Arc<AtomicBool>,
}

/// What a thread says when it is done with an image.
pub(super) struct Fetched {
    pub(super) order: ImageOrder,
    pub(super) result: Result<Arc<ReadyImage>, String>,
}

type Tell = Arc<dyn Fn(News) + Send + Sync>;

pub(super) struct Images {
    shelf: Shelf,
    waiting: BTreeMap<Asked, Waiting>,
    orders: u64,
    /// Held by running tasks. Only of references with a digest: what another one means is asked
    /// anew for every start.
    ready: BTreeMap<Asked, Weak<ReadyImage>>,
}

struct Waiting {
    order: ImageOrder,
    tasks: Vec<(Start, Streams)>,
}

/// What becomes of a task that wants an image.
pub(super) enum Wanted {
    Ready(Arc<ReadyImage>),
    /// It comes back with `take_waiting`.
    Waits,
}

impl Images {
    pub(super) fn new(settings: &Settings, token: &str, tell: Tell) -> Self {
        let relay = settings.server.relay().map(|at| by_relay(at, token));
        Images {
            shelf: Shelf::new(settings.images.clone(), relay, tell),
            waiting: BTreeMap::new(),
            orders: 0,
            ready: BTreeMap::new(),
        }
    }

    pub(super) fn want(
        &mut self,
        (image, of): (&ImageRef, JobOf),
        start: &Start,
        judge: impl FnOnce() -> Judge,
        open_log: impl FnOnce() -> Streams,
    ) -> Wanted {
        match image {
            ImageRef::Host => return Wanted::Ready(Arc::new(bare(Root::Host))),
            ImageRef::Dir { path } => {
                return Wanted::Ready(Arc::new(bare(Root::Tree(path.into()))));
            }
            _ => {}
        }
        let asked = Asked { image: image.clone(), user: start.template.user.clone(), of };
        if let Some(ready) = self.ready.get(&asked).and_then(Weak::upgrade) {
            return Wanted::Ready(ready);
        }
        let waiting = self.waiting.entry(asked.clone()).or_insert_with(|| {
            self.orders += 1;
            let wanted = Arc::new(AtomicBool::new(true));
            let login = start.template.registry_login.clone();
            let judge = if asked.image.place().is_some() { judge() } else { Judge::default() };
            let order = ImageOrder { number: self.orders, asked, login, judge, wanted };
            self.shelf.order(order.clone());
            Waiting { order, tasks: Vec::new() }
        });
        waiting.tasks.push((start.clone(), open_log()));
        Wanted::Waits
    }

    /// Says something to whoever follows a task that waits for this image.
    pub(super) fn say(&mut self, order: &ImageOrder, line: &str) {
        let waiting = self.waiting.get_mut(&order.asked);
        let waiting = waiting.filter(|waiting| waiting.order.number == order.number);
        for (_, (_, errors)) in waiting.into_iter().flat_map(|waiting| &mut waiting.tasks) {
            errors.append(format!("shipway: {line}\n").as_bytes());
        }
    }

    /// Those that are not wanted any more. A fetch that nobody waits for is called off.
    pub(super) fn take_if(&mut self, gone: impl Fn(AttemptId) -> bool) -> Vec<AttemptId> {
        let mut taken = Vec::new();
        for waiting in self.waiting.values_mut() {
            taken.extend(waiting.tasks.iter().map(|(start, _)| start.id).filter(|id| gone(*id)));
            waiting.tasks.retain(|(start, _)| !taken.contains(&start.id));
            waiting.order.wanted.store(!waiting.tasks.is_empty(), Ordering::Relaxed);
        }
        self.waiting.retain(|_, waiting| !waiting.tasks.is_empty());
        taken
    }

    /// Those that waited for an image that is there now, or will not come.
    pub(super) fn take_waiting(&mut self, fetched: &Fetched) -> Vec<(Start, Streams)> {
        let order = &fetched.order;
        self.ready.retain(|_, ready| ready.strong_count() > 0);
        if let (Ok(ready), Some(_)) = (&fetched.result, order.asked.image.digest()) {
            self.ready.insert(order.asked.clone(), Arc::downgrade(ready));
        }
        match self.waiting.get(&order.asked) {
            Some(waiting) if waiting.order.number == order.number => {
                self.waiting.remove(&order.asked).map(|waiting| waiting.tasks).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }
}

fn bare(root: Root) -> ReadyImage {
    ReadyImage { root, config: RunConfig::default(), lease: None }
}
