//! The image step: sees to it that a task's image is on this node before the task is started.
//!
//! Fetching takes its time, so threads of their own do it, one image at a time each; tasks that
//! want the same image wait together, with their output open to whoever follows it. An image that
//! is in the store is used as it is, without asking where it came from.

use crate::machine::{AttemptKey, Start};
use crate::spawn::Streams;
use shipway_api::causes::causes;
use shipway_images::progress::Silent;
use shipway_images::pull::{Credentials, CredentialsError, Pull, Settings};
use shipway_images::sources::settled;
use shipway_images::store::{Lease, RunConfig, StoreError};
use shipway_images::{Session, Store};
use shipway_model::{Digest, ImageRef, Timestamp};
use shipway_runtime::plan::Root;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};

/// Images fetched at the same time. Each fetches several layers at once by itself.
const AT_ONCE: usize = 2;

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
    let path = match image {
        ImageRef::DockerArchive { file } | ImageRef::Sif { file } => file,
        ImageRef::OciDir { dir, .. } => dir,
        // Opened by the task itself, or by nobody on this node.
        _ => return true,
    };
    // What is not there is said by whoever tries to read it.
    let Ok(path) = std::path::Path::new(path).canonicalize() else { return true };
    let has = |path: &std::path::Path, bit: u32| {
        path.metadata().is_ok_and(|found| found.permissions().mode() & bit != 0)
    };
    has(&path, OTHERS_READ) && path.ancestors().skip(1).all(|above| has(above, OTHERS_ENTER))
}

/// What a thread says when it is done with an image.
pub(super) struct Fetched {
    pub(super) image: ImageRef,
    pub(super) result: Result<Arc<ReadyImage>, String>,
}

type Tell = Arc<dyn Fn(Fetched) + Send + Sync>;

pub(super) struct Images {
    store: PathBuf,
    tell: Tell,
    orders: Option<mpsc::Sender<ImageRef>>,
    waiting: BTreeMap<ImageRef, Vec<(Start, Streams)>>,
    session: Option<Session>,
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
        let (waiting, ready) = (BTreeMap::new(), BTreeMap::new());
        Images { store, tell, orders: None, waiting, session: None, ready }
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
        if let Some(ready) = self.in_store(&image) {
            let ready = Arc::new(ready);
            self.ready.insert(image, Arc::downgrade(&ready));
            return Wanted::Ready(ready);
        }
        let waiting = self.waiting.entry(image.clone()).or_default();
        waiting.push((start.clone(), open_log()));
        if waiting.len() == 1 {
            let _ = self.orders().send(image);
        }
        Wanted::Waits
    }

    /// Never asks anybody but the disk: a registry that does not answer holds up nobody else.
    fn in_store(&mut self, image: &ImageRef) -> Option<ReadyImage> {
        if self.session.is_none() {
            // Only where there is a store already; whoever fetches makes one.
            self.session = Some(Session::begin(&Store::open(&self.store).ok()?).ok()?);
        }
        let session = self.session.as_ref()?;
        let digest = session.store().named(&settled(image.clone()))?;
        ready(session, &digest).ok()
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
        if let Ok(ready) = &fetched.result {
            self.ready.insert(fetched.image.clone(), Arc::downgrade(ready));
        }
        self.waiting.remove(&fetched.image).unwrap_or_default()
    }

    /// The threads are started by the first who wants an image: most pilots may never need them.
    fn orders(&mut self) -> &mpsc::Sender<ImageRef> {
        let (store, tell) = (&self.store, &self.tell);
        self.orders.get_or_insert_with(|| {
            let (send, orders) = mpsc::channel();
            let orders = Arc::new(Mutex::new(orders));
            for number in 0..AT_ONCE {
                let worker =
                    Worker { store: store.clone(), orders: Arc::clone(&orders), session: None };
                let tell = Arc::clone(tell);
                let thread = std::thread::Builder::new().name(format!("images-{number}"));
                // Without one thread the other does it all; without both the order is dropped,
                // and the task with it when the pilot ends.
                let _ = thread.spawn(move || worker.run(&tell));
            }
            send
        })
    }
}

fn bare(root: Root) -> ReadyImage {
    ReadyImage { root, config: RunConfig::default(), lease: None }
}

/// Logins of whoever runs this pilot, where Docker keeps them.
fn credentials() -> Result<Credentials, CredentialsError> {
    let mut found = Credentials::default();
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".docker"));
    let dir = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from).or_else(home);
    if let Some(dir) = dir {
        found.add(&dir.join("config.json"))?;
    }
    Ok(found)
}

struct Worker {
    store: PathBuf,
    orders: Arc<Mutex<mpsc::Receiver<ImageRef>>>,
    session: Option<Session>,
}

impl Worker {
    fn run(mut self, tell: &Tell) {
        while let Some(image) = self.next() {
            let result = self.fetch(&image).map(Arc::new);
            let result = result.map_err(|error| format!("image {image}: {}", causes(&*error)));
            tell(Fetched { image, result });
        }
    }

    fn next(&self) -> Option<ImageRef> {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.recv().ok()
    }

    fn fetch(&mut self, image: &ImageRef) -> Result<ReadyImage, Box<dyn std::error::Error>> {
        let session = match &self.session {
            Some(session) => session,
            None => self.session.insert(Session::begin(&Store::create(&self.store)?)?),
        };
        let settings = Settings { credentials: credentials()?, ..Settings::default() };
        let now = Timestamp(super::wall_millis(std::time::SystemTime::now()));
        let pull = Pull { session, settings: &settings, progress: &Silent, now };
        Ok(ready(session, &pull.run(image)?.image)?)
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
