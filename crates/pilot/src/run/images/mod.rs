//! The image step: sees to it that a task's image is on this node before the task is started.
//!
//! All of it takes its time, if only that of a slow file system, so threads do it (`shelf.rs`);
//! tasks that want the same image wait together, with their output open to whoever follows it.

mod shelf;
mod telling;

use crate::machine::{AttemptKey, Start};
use crate::spawn::Streams;
pub use shelf::ImageKeep;
use shelf::Shelf;
pub(super) use shelf::keep_room;
use shipway_images::store::{Lease, RunConfig};
use shipway_model::ImageRef;
use shipway_runtime::plan::Root;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

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

/// Whether an image that is read from files of the node may be read by anybody.
pub(super) fn is_open_to_all(image: &ImageRef) -> bool {
    const OTHERS_READ: u32 = 0o004;
    const OTHERS_ENTER: u32 = 0o001;
    // Opened by the task itself, or by nobody on this node.
    let Some(path) = image.place().filter(|_| image.is_stored()) else { return true };
    // What is not there is said by whoever tries to read it.
    let Ok(path) = Path::new(path).canonicalize() else { return true };
    let has = |path: &Path, bit: u32| {
        path.metadata().is_ok_and(|found| found.permissions().mode() & bit != 0)
    };
    has(&path, OTHERS_READ) && path.ancestors().skip(1).all(|above| has(above, OTHERS_ENTER))
}

/// What the threads say.
pub(super) enum News {
    /// How far the fetch of an image is, for those who wait for it.
    Coming {
        image: ImageRef,
        line: String,
    },
    Fetched(Fetched),
}

/// What a thread says when it is done with an image.
pub(super) struct Fetched {
    pub(super) image: ImageRef,
    pub(super) result: Result<Arc<ReadyImage>, String>,
}

type Tell = Arc<dyn Fn(News) + Send + Sync>;

pub(super) struct Images {
    shelf: Shelf,
    waiting: BTreeMap<ImageRef, Vec<(Start, Streams)>>,
    /// Held by running tasks. Only of references with a digest: what another one means is asked
    /// anew for every start.
    ready: BTreeMap<ImageRef, Weak<ReadyImage>>,
}

/// What becomes of a task that wants an image.
pub(super) enum Wanted {
    Ready(Arc<ReadyImage>),
    /// It comes back with `take_waiting`.
    Waits,
}

impl Images {
    pub(super) fn new(store: PathBuf, tell: Tell) -> Self {
        Images { shelf: Shelf::new(store, tell), waiting: BTreeMap::new(), ready: BTreeMap::new() }
    }

    pub(super) fn want(
        &mut self,
        image: ImageRef,
        start: &Start,
        open_log: impl FnOnce() -> Streams,
    ) -> Wanted {
        match &image {
            ImageRef::Host => return Wanted::Ready(Arc::new(bare(Root::Host))),
            ImageRef::Dir { path } => {
                return Wanted::Ready(Arc::new(bare(Root::Tree(path.into()))));
            }
            _ => {}
        }
        if let Some(ready) = self.ready.get(&image).and_then(Weak::upgrade) {
            return Wanted::Ready(ready);
        }
        let waiting = self.waiting.entry(image.clone()).or_default();
        waiting.push((start.clone(), open_log()));
        if waiting.len() == 1 {
            self.shelf.order(image);
        }
        Wanted::Waits
    }

    /// Says something to whoever follows a task that waits for this image.
    pub(super) fn say(&mut self, image: &ImageRef, line: &str) {
        for (_, (_, errors)) in self.waiting.get_mut(image).into_iter().flatten() {
            errors.append(format!("shipway: {line}\n").as_bytes());
        }
    }

    /// Those that are not wanted any more.
    pub(super) fn take_if(&mut self, gone: impl Fn(AttemptKey) -> bool) -> Vec<AttemptKey> {
        let mut taken = Vec::new();
        for waiting in self.waiting.values_mut() {
            taken.extend(waiting.iter().map(|(start, _)| start.id).filter(|id| gone(*id)));
            waiting.retain(|(start, _)| !taken.contains(&start.id));
        }
        taken
    }

    /// Those that waited for an image that is there now, or will not come.
    pub(super) fn take_waiting(&mut self, fetched: &Fetched) -> Vec<(Start, Streams)> {
        self.ready.retain(|_, ready| ready.strong_count() > 0);
        if let (Ok(ready), Some(_)) = (&fetched.result, fetched.image.digest()) {
            self.ready.insert(fetched.image.clone(), Arc::downgrade(ready));
        }
        self.waiting.remove(&fetched.image).unwrap_or_default()
    }
}

fn bare(root: Root) -> ReadyImage {
    ReadyImage { root, config: RunConfig::default(), lease: None }
}
