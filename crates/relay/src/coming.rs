//! Fetches: one of each thing from each registry, for all who wait for it from there, and called
//! off when nobody does any more: nobody waits for a registry that another one named.
//! What comes is written to a file, which readers follow as it grows; it is put on the shelf when
//! its digest is the one that was asked for, and thrown away otherwise.

use crate::asked::{Asked, Kind, Refusal};
use crate::shelf::{Origin, Shelf, ShelfError};
use http::StatusCode;
use shipway_api::causes::causes;
use shipway_images::pull::{JobOf, Registry, RegistryError, Settings, Summing, partial_name};
use shipway_images::sources::SourceError;
use shipway_model::{Digest, plain_text};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};

/// Fetched from registries at the same time; others wait for their turn.
const AT_ONCE: usize = 8;
/// Waiting or under way.
const MOST: usize = 256;
/// How long somebody waits for the first byte. Longer than this they are better told, and ask
/// again: a node takes silence for a dead connection.
const BEGIN_WITHIN: Duration = Duration::from_secs(40);
/// Between two looks something may be put on the shelf, or removed from it again.
const TRIES: u32 = 4;
/// Read and written at a time.
const PIECE: usize = 256 << 10;
/// How much room is made at a time.
const ROOM_AHEAD: u64 = 16 << 20;
/// Nothing that is part of an image is larger.
const LARGEST: u64 = 64 << 30;
const MOST_WORDS: usize = 400;

/// How far a fetch is.
#[derive(Debug, Clone)]
pub(crate) enum Far {
    Asked,
    Coming { at: u64, size: u64 },
    There,
    Failed(Refusal),
}

/// What somebody asked for.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) file: File,
    pub(crate) size: u64,
    /// While it still grows.
    pub(crate) coming: Option<watch::Receiver<Far>>,
}

#[derive(Debug)]
pub(crate) struct Coming {
    shelf: Arc<Shelf>,
    turns: Arc<Semaphore>,
    under_way: Mutex<HashMap<String, watch::Sender<Far>>>,
}

impl Coming {
    pub(crate) fn new(shelf: Arc<Shelf>) -> Arc<Self> {
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        Arc::new(Coming { shelf, turns, under_way: Mutex::default() })
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<Far>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From the shelf, or as it comes.
    pub(crate) async fn content(self: &Arc<Self>, asked: &Asked) -> Result<Content, Refusal> {
        for _ in 0..TRIES {
            if let Some((file, size)) = self.on_shelf(asked.digest).await {
                return Ok(Content { file, size, coming: None });
            }
            let mut far = self.join(asked)?;
            let begun = far.wait_for(|far| !matches!(far, Far::Asked));
            let begun = tokio::time::timeout(BEGIN_WITHIN, begun).await.map_err(|_| later())?;
            let now = begun.map_err(|_| later())?.clone();
            match now {
                Far::Failed(refusal) => return Err(refusal),
                Far::Coming { size, .. } => {
                    if let Ok(file) = File::open(self.shelf.coming(&name_of(asked))) {
                        return Ok(Content { file, size, coming: Some(far) });
                    }
                    // On the shelf by now, or about to be.
                    let _ = far.changed().await;
                }
                Far::There | Far::Asked => {}
            }
        }
        Err(later())
    }

    async fn on_shelf(&self, digest: Digest) -> Option<(File, u64)> {
        let shelf = Arc::clone(&self.shelf);
        tokio::task::spawn_blocking(move || shelf.open(&digest)).await.ok()?
    }

    /// A fetch that is under way, or a new one.
    fn join(self: &Arc<Self>, asked: &Asked) -> Result<watch::Receiver<Far>, Refusal> {
        let name = name_of(asked);
        let mut under_way = self.under_way();
        if let Some(far) = under_way.get(&name) {
            return Ok(far.subscribe());
        }
        if under_way.len() >= MOST {
            let words = "it fetches too much at the moment; it is asked again";
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, words));
        }
        let (far, seen) = watch::channel(Far::Asked);
        under_way.insert(name, far.clone());
        drop(under_way);
        tokio::spawn(Arc::clone(self).bring(asked.clone(), far));
        Ok(seen)
    }

    async fn bring(self: Arc<Self>, asked: Asked, far: watch::Sender<Far>) {
        let digest = asked.digest;
        // Out of the list whatever happens, a panic included.
        let _listed = Listed { coming: Arc::clone(&self), name: name_of(&asked) };
        let turn = tokio::select! {
            turn = Arc::clone(&self.turns).acquire_owned() => turn,
            () = far.closed() => return,
        };
        let Ok(_turn) = turn else { return };
        let (shelf, told) = (Arc::clone(&self.shelf), far.clone());
        let fetched = tokio::task::spawn_blocking(move || fetch(&shelf, &asked, &told)).await;
        far.send_replace(match fetched {
            Ok(Ok(())) => Far::There,
            Ok(Err(error)) => {
                let refusal = error.refusal();
                tracing::info!(%digest, "not fetched: {}", refusal.words);
                Far::Failed(refusal)
            }
            Err(_) => {
                let words = "it made a mistake of its own";
                Far::Failed(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, words))
            }
        });
    }
}

fn later() -> Refusal {
    let words = "it has not begun to come yet; it is asked again";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, words)
}

/// One thing from one registry. What came from another is the same in the end, and not before.
fn name_of(asked: &Asked) -> String {
    let kind = match asked.kind {
        Kind::Document => "document",
        Kind::Blob => "blob",
    };
    format!("{}-{kind}", partial_name(&asked.at, &asked.digest))
}

struct Listed {
    coming: Arc<Coming>,
    name: String,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.coming.under_way().remove(&self.name);
    }
}

#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    #[error("its file of registry logins cannot be used")]
    Logins(#[source] shipway_images::pull::CredentialsError),
    #[error("what {host} sent breaks off")]
    Breaks {
        host: String,
        #[source]
        source: io::Error,
    },
    #[error("what {host} sent for {wanted} is {found}")]
    Wrong { host: String, wanted: Digest, found: Digest },
    #[error("cannot keep what came")]
    Write(#[source] io::Error),
    #[error("{wanted} is larger than any part of an image ({LARGEST} bytes)")]
    Large { wanted: Digest },
    #[error("nobody waits for it any more")]
    Unwanted,
}

impl FetchError {
    /// In words for whoever asked.
    fn refusal(&self) -> Refusal {
        let code = match self {
            FetchError::Source(SourceError::Registry(RegistryError::NotFound { .. })) => {
                StatusCode::NOT_FOUND
            }
            FetchError::Source(SourceError::Registry(
                RegistryError::Denied { .. }
                | RegistryError::OutOfReach { .. }
                | RegistryError::Redirect { .. },
            ))
            | FetchError::Large { .. }
            | FetchError::Shelf(ShelfError::TooLarge { .. }) => StatusCode::FORBIDDEN,
            FetchError::Shelf(ShelfError::NoRoom { .. }) => StatusCode::INSUFFICIENT_STORAGE,
            FetchError::Unwanted => StatusCode::SERVICE_UNAVAILABLE,
            FetchError::Source(_)
            | FetchError::Shelf(_)
            | FetchError::Logins(_)
            | FetchError::Breaks { .. }
            | FetchError::Wrong { .. }
            | FetchError::Write(_) => StatusCode::BAD_GATEWAY,
        };
        let words: String = causes(self).chars().take(MOST_WORDS).collect();
        Refusal::new(code, plain_text::clean(&words))
    }
}

fn fetch(shelf: &Shelf, asked: &Asked, far: &watch::Sender<Far>) -> Result<(), FetchError> {
    // Of logins those that are for everybody, and of addresses those that are public or listed.
    let settings = Settings::for_job(JobOf::Others, std::env::var_os);
    let settings = settings.map_err(FetchError::Logins)?;
    let registry = Registry::new(&asked.at, &settings, "", Path::new(""));
    let host = || asked.at.host.clone();
    let digest = asked.digest;
    let document;
    let (size, mut bytes): (u64, Box<dyn Read>) = match asked.kind {
        Kind::Document => {
            document = registry.document_of(&digest)?;
            (document.len() as u64, Box::new(&*document))
        }
        Kind::Blob => {
            let (size, blob) = registry.blob_of(&digest)?;
            (size, blob)
        }
    };
    if size > LARGEST {
        return Err(FetchError::Large { wanted: digest });
    }
    shelf.could_have(size)?;
    let mut new = shelf.begin(Origin::Fetched, &name_of(asked))?;
    far.send_replace(Far::Coming { at: 0, size });
    let (mut sum, mut at, mut piece) = (Summing::default(), 0_u64, vec![0; PIECE]);
    // Others are removed for what has come, not for what somebody says will come.
    let mut room = 0_u64;
    loop {
        let count = bytes.read(&mut piece);
        let count = count.map_err(|source| FetchError::Breaks { host: host(), source })?;
        let Some(read) = piece.get(..count).filter(|read| !read.is_empty()) else { break };
        if far.is_closed() {
            return Err(FetchError::Unwanted);
        }
        at = at.saturating_add(count as u64);
        if at > size {
            break;
        }
        if at > room {
            room = at.saturating_add(ROOM_AHEAD).min(size);
            shelf.make_room(room.saturating_sub(at).saturating_add(read.len() as u64))?;
        }
        sum.add(read);
        new.file.write_all(read).map_err(FetchError::Write)?;
        // The last byte is held back: nobody has all of it before it is known to be right.
        far.send_replace(Far::Coming { at: at.min(size.saturating_sub(1)), size });
    }
    let found = sum.digest();
    if found != digest {
        return Err(FetchError::Wrong { host: host(), wanted: digest, found });
    }
    Ok(shelf.finish(Origin::Fetched, new, &digest)?)
}
