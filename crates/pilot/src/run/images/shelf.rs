//! The threads beside the store of images: one that looks what is there, some that fetch, and one
//! that makes room.

use super::telling::Telling;
use super::{Fetched, News, Order, ReadyImage, Tell};
use crate::run::wall_millis;
use shipway_api::causes::causes;
use shipway_images::pull::{Pull, Settings, Shown};
use shipway_images::sources::settled;
use shipway_images::store::{Keep, StoreError};
use shipway_images::{Session, Store};
use shipway_model::{Bytes, Digest, ImageRef, Millis, Timestamp};
use shipway_runtime::plan::Root;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, SystemTime};

/// Images fetched at the same time. Each fetches several layers at once by itself; so many that a
/// few slow registries do not hold up everybody.
const AT_ONCE: usize = 8;
/// How often room is made. Images are wanted for days; a look costs a walk through the store.
const MAKE_ROOM_EVERY: Duration = Duration::from_hours(1);

/// Which images are kept while nobody runs them; all of them unless said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImageKeep {
    pub used_within: Option<Millis>,
    pub at_most: Option<Bytes>,
}

pub(super) struct Shelf {
    store: PathBuf,
    tell: Tell,
    orders: Option<mpsc::Sender<Order>>,
}

impl Shelf {
    pub(super) fn new(store: PathBuf, tell: Tell) -> Self {
        Shelf { store, tell, orders: None }
    }

    /// Asks for an image; the answer comes by `tell`.
    pub(super) fn order(&mut self, order: Order) {
        // The threads are started by the first who wants an image: most pilots never need them.
        let orders = self.orders.get_or_insert_with(|| start(&self.store, &self.tell));
        let _ = orders.send(order);
    }
}

/// Without the first thread nothing is looked for, and a task waits until it is cancelled; without
/// one that fetches the others do it all.
fn start(store: &Path, tell: &Tell) -> mpsc::Sender<Order> {
    let (order, orders) = mpsc::channel();
    let (miss, missing) = mpsc::channel();
    let missing = Arc::new(Mutex::new(missing));
    let shown = Shown::default();
    let worker = || Worker {
        store: store.to_owned(),
        session: None,
        shown: shown.clone(),
        tell: Arc::clone(tell),
    };
    let thread = |name: String| std::thread::Builder::new().name(name);
    let looker = worker();
    let _ = thread("images-look".into()).spawn(move || looker.look(&orders, &miss));
    for number in 0..AT_ONCE {
        let (fetcher, missing) = (worker(), Arc::clone(&missing));
        let _ = thread(format!("images-{number}")).spawn(move || fetcher.fetch_all(&missing));
    }
    order
}

struct Worker {
    store: PathBuf,
    session: Option<Session>,
    shown: Shown,
    tell: Tell,
}

impl Worker {
    /// Never asks anybody but the disk: what is here need not wait for what is being fetched.
    fn look(mut self, orders: &mpsc::Receiver<Order>, miss: &mpsc::Sender<Order>) {
        while let Ok(order) = orders.recv() {
            match self.in_store(&order) {
                Some(ready) => {
                    (self.tell)(News::Fetched(Fetched { order, result: Ok(Arc::new(ready)) }));
                }
                None => drop(miss.send(order)),
            }
        }
    }

    fn in_store(&mut self, order: &Order) -> Option<ReadyImage> {
        if self.session.is_none() {
            // Only where there is a store already; whoever fetches makes one.
            self.session = Some(Session::begin(&Store::open(&self.store).ok()?).ok()?);
        }
        let session = self.session.as_ref()?;
        let digest = session.store().pinned(&settled(order.asked.image.clone()))?;
        // Whether one may have it is for its registry to say, or for whoever has the file.
        let user = &order.asked.user;
        let may = self.shown.may_have(session.store(), user, &digest).unwrap_or(false);
        if may { ready(session, &digest).ok() } else { None }
    }

    fn fetch_all(mut self, missing: &Mutex<mpsc::Receiver<Order>>) {
        let next = || missing.lock().unwrap_or_else(PoisonError::into_inner).recv();
        while let Ok(order) = next() {
            let result = self.fetch(&order).map(Arc::new);
            let image = &order.asked.image;
            let result = result.map_err(|error| format!("image {image}: {}", causes(&*error)));
            (self.tell)(News::Fetched(Fetched { order, result }));
        }
    }

    fn fetch(&mut self, order: &Order) -> Result<ReadyImage, Box<dyn std::error::Error>> {
        let session = match &self.session {
            Some(session) => session,
            None => self.session.insert(Session::begin(&Store::create(&self.store)?)?),
        };
        // Read for each: passwords change while a pilot runs for weeks.
        let mut settings = Settings::for_others(std::env::var_os)?;
        let image = &order.asked.image;
        if let (ImageRef::Registry(at), Some(login)) = (image, &order.login) {
            settings.credentials.insert(&at.host, login.clone());
        }
        settings.judge = order.judge.clone();
        let telling = Telling::new(order, &self.tell);
        let pull = Pull { session, settings: &settings, progress: &telling, now: now() };
        let ensured = pull.run_for_one(image, &order.asked.user, &self.shown)?;
        Ok(ready(session, &ensured.image)?)
    }
}

/// Holds an image of the store.
fn ready(session: &Session, digest: &Digest) -> Result<ReadyImage, StoreError> {
    let lease = session.lease(digest)?;
    let record = session.store().image(digest)?;
    let config = record.map(|record| record.config).unwrap_or_default();
    let root = Root::Tree(session.store().tree(digest));
    Ok(ReadyImage { root, config, lease: Some(lease) })
}

fn now() -> Timestamp {
    Timestamp(wall_millis(SystemTime::now()))
}

/// Makes room now and then, as long as the pilot runs.
pub(in crate::run) fn keep_room(store: &Path, keep: ImageKeep) {
    if keep == ImageKeep::default() {
        return;
    }
    let store = store.to_owned();
    let thread = std::thread::Builder::new().name("images-room".into());
    // Without it images are kept; `shipway image gc` makes room too.
    let _ = thread.spawn(move || {
        loop {
            match make_room(&store, keep) {
                Ok(()) | Err(StoreError::NoStore { .. }) => {}
                Err(error) => tracing::warn!("cannot make room for images: {}", causes(&error)),
            }
            std::thread::sleep(MAKE_ROOM_EVERY);
        }
    });
}

fn make_room(store: &Path, keep: ImageKeep) -> Result<(), StoreError> {
    let session = Session::begin(&Store::open(store)?)?;
    let keep = Keep { used_within: keep.used_within, at_most: keep.at_most };
    let cleared = session.collect(keep, now())?;
    if !cleared.images.is_empty() {
        let (images, bytes) = (cleared.images.len(), cleared.bytes);
        tracing::info!(images, %bytes, "removed images that nobody has used for long");
    }
    Ok(())
}
