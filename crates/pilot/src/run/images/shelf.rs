//! The threads beside the store of images: some that look what is there, some that fetch, and one
//! that makes room. People take turns at the first two (`turns.rs`). A fetch is its user's: two who
//! want the same image each have one, of which the second waits in the store for the first, and
//! goes on by itself where that is called off.

use super::telling::Telling;
use super::{Fetched, ImageOrder, News, ReadyImage, Tell};
use crate::run::wall_millis;
use crate::turns::{AtOnce, Workers};
use shipway_api::causes::causes;
use shipway_images::pull::{Pull, Relay, Settings, Shown, is_away};
use shipway_images::sources::settled;
use shipway_images::store::{Keep, StoreError};
use shipway_images::{Holder, Store};
use shipway_model::{Bytes, Digest, ImageRef, Millis, Timestamp};
use shipway_runtime::again;
use shipway_runtime::plan::Root;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Images fetched at the same time. Each fetches several layers at once by itself; so many of one
/// person's that a slow registry does not hold up the rest of their own images, and no more:
/// each may take hundreds of megabytes for its names while it is put together.
const FETCHED: AtOnce = AtOnce { all: 8, each: 2 };
/// Images looked for at the same time: a disk answers soon.
const LOOKED_FOR: AtOnce = AtOnce { all: 2, each: 1 };
/// How often room is made. Images are wanted for days; a look costs a walk through the store.
const MAKE_ROOM_EVERY: Duration = Duration::from_hours(1);

/// How long tasks wait for a relay that is gone: as long as pilots usually do for a server.
const RELAY_BACK_WITHIN: Duration = Duration::from_mins(10);
const RELAY_ASKED_EVERY: Duration = Duration::from_secs(2);

/// Which images are kept while nobody runs them; all of them unless said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImageKeep {
    pub used_within: Option<Millis>,
    pub at_most: Option<Bytes>,
}

pub(super) struct Shelf {
    /// Those that look never ask anybody but the disk: what is here need not wait for what is
    /// being fetched.
    looking: Workers<ImageOrder>,
}

impl Shelf {
    pub(super) fn new(store: PathBuf, relay: Option<Relay>, tell: Tell) -> Self {
        let (shown, holders) = (Shown::default(), Mutex::default());
        let desk = Arc::new(Desk { store, relay, holders, shown, tell });
        let fetcher = Arc::clone(&desk);
        let fetching = Workers::new("images", FETCHED, move |order| fetcher.bring(order));
        let look = move |order: ImageOrder| match desk.in_store(&order) {
            Some(ready) => {
                (desk.tell)(News::Fetched(Fetched { order, result: Ok(Arc::new(ready)) }));
            }
            None => fetching.add(&order.asked.user.clone(), order),
        };
        Shelf { looking: Workers::new("images-look", LOOKED_FOR, look) }
    }

    /// Asks for an image; the answer comes by `tell`.
    pub(super) fn order(&self, order: ImageOrder) {
        self.looking.add(&order.asked.user.clone(), order);
    }
}

/// What the threads share.
struct Desk {
    store: PathBuf,
    relay: Option<Relay>,
    /// Work in the store that is begun and that no thread is at.
    holders: Mutex<Vec<Holder>>,
    shown: Shown,
    tell: Tell,
}

impl Desk {
    fn holders(&self) -> MutexGuard<'_, Vec<Holder>> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_store(&self, order: &ImageOrder) -> Option<ReadyImage> {
        let begun = self.holders().pop();
        let holder = match begun {
            Some(holder) => holder,
            // Only where there is a store already; whoever fetches makes one.
            None => Holder::begin(&Store::open(&self.store).ok()?).ok()?,
        };
        let ready = self.found(&holder, order);
        self.holders().push(holder);
        ready
    }

    fn found(&self, holder: &Holder, order: &ImageOrder) -> Option<ReadyImage> {
        let digest = holder.store().pinned(&settled(order.asked.image.clone()))?;
        // Whether one may have it is for its registry to say, or for whoever has the file.
        let user = &order.asked.user;
        let may = self.shown.may_have(holder.store(), user, &digest).unwrap_or(false);
        if may { ready(holder, &digest).ok() } else { None }
    }

    fn bring(&self, order: ImageOrder) {
        // Called off while it waited for its turn: nobody waits for an answer.
        if !order.wanted.load(Ordering::Relaxed) {
            return;
        }
        let result = self.fetch(&order).map(Arc::new);
        let image = &order.asked.image;
        let by = self.relay.as_ref().map(|relay| format!(", by the relay at {}", relay.at));
        let by = by.unwrap_or_default();
        let result = result.map_err(|error| format!("image {image}{by}: {}", causes(&*error)));
        (self.tell)(News::Fetched(Fetched { order, result }));
    }

    fn fetch(&self, order: &ImageOrder) -> Result<ReadyImage, Box<dyn std::error::Error>> {
        let begun = self.holders().pop();
        let holder = match begun {
            Some(holder) => holder,
            None => Holder::begin(&Store::create(&self.store)?)?,
        };
        let (begun, telling) = (Instant::now(), Telling::new(order, &self.tell));
        let fetched = loop {
            let fetched = self.fetch_in(&holder, order, &telling);
            let Err(error) = &fetched else { break fetched };
            let comes_back = self.relay.is_some() && is_away(&**error);
            if !comes_back || begun.elapsed() > RELAY_BACK_WITHIN || !is_wanted_later(order) {
                break fetched;
            }
            telling.once(&format!("{}; it is asked again", causes(&**error)));
        };
        self.holders().push(holder);
        fetched
    }

    fn fetch_in(
        &self,
        holder: &Holder,
        order: &ImageOrder,
        telling: &Telling<'_>,
    ) -> Result<ReadyImage, Box<dyn std::error::Error>> {
        // Read for each: passwords change while a pilot runs for weeks.
        let mut settings = Settings::for_job(order.asked.of, std::env::var_os)?;
        let image = &order.asked.image;
        if let (ImageRef::Registry(at), Some(login)) = (image, &order.login) {
            settings.credentials.insert(&at.host, login.clone());
        }
        settings.judge = order.judge.clone();
        settings.relay.clone_from(&self.relay);
        let pull = Pull { holder, settings: &settings, progress: telling, now: now() };
        let ensured = pull.run_for_one(image, &order.asked.user, &self.shown)?;
        Ok(ready(holder, &ensured.image)?)
    }
}

/// After a pause in which whoever waits may have gone.
fn is_wanted_later(order: &ImageOrder) -> bool {
    std::thread::sleep(RELAY_ASKED_EVERY);
    order.wanted.load(Ordering::Relaxed)
}

/// Holds an image of the store.
fn ready(holder: &Holder, digest: &Digest) -> Result<ReadyImage, StoreError> {
    let lease = holder.lease(digest)?;
    let record = holder.store().image(digest)?;
    let config = record.map(|record| record.config).unwrap_or_default();
    let root = Root::Tree(holder.store().tree(digest));
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
    // Without it images are kept; `shipway image gc` makes room too.
    let _ = again::thread("images-room", move || {
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
    let holder = Holder::begin(&Store::open(store)?)?;
    let keep = Keep { used_within: keep.used_within, at_most: keep.at_most };
    let cleared = holder.collect(keep, now())?;
    if !cleared.images.is_empty() {
        let (images, bytes) = (cleared.images.len(), cleared.bytes);
        tracing::info!(images, %bytes, "removed images that nobody has used for long");
    }
    Ok(())
}
