//! The store: objects shared by all images, an index of each layer, a tree for each image.
//!
//! ```text
//! format.json              what this store is
//! objects/ab/cd…           files by the digest of content and metadata; complete and on disk
//! layers/HEX               indexes, by the digest of the unpacked layer
//! images/HEX/              image.json, tree/, used (its time is the last use)
//! origins/HEX              where a layer came from, and so who may have it
//! names/HEX                a reference, and the image it last led to
//! partial/HEX              layers being fetched, to go on from after a break
//! claims/, leases/, work/  who does what just now: see `holder`
//! ```
//!
//! Everything appears by a rename of something complete, after one `syncfs`: whoever is killed
//! leaves nothing but a directory below `work`, and the next one clears it away.

mod claim;
mod clear;
mod holder;
mod images;
mod origins;
mod publish;
mod record;
mod verify;

pub(crate) use claim::LOOK_AGAIN;
pub use claim::{Claim, Lease};
pub use clear::{Cleared, Keep};
pub(crate) use clear::{GC_CLAIM, claim_name, layer_claim};
pub use holder::Holder;
pub use images::Usage;
pub use origins::Origins;
pub(crate) use publish::NewLayer;
pub use record::{ImageRecord, LayerRecord, Named, RunConfig};
pub use verify::Damage;

use crate::layer::index::LayerIndex;
use crate::layer::sift::Owners;
use serde::{Deserialize, Serialize};
use shipway_model::Digest;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Another number means another layout; older programs leave it alone.
const FORMAT: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot {act} {}", .path.display())]
    Act {
        act: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the image store {} belongs to another user (uid {uid})", .path.display())]
    Foreign { path: PathBuf, uid: u32 },
    #[error("{} is not an image store this version can use", .path.display())]
    Format { path: PathBuf },
    #[error("there is no image store in {}", .path.display())]
    NoStore { path: PathBuf },
    #[error("there is no image `{name}` in the store")]
    NoImage { name: String },
    #[error("`{name}` is the beginning of several images' digests")]
    Ambiguous { name: String },
    #[error("the image {image} is in use")]
    InUse { image: Digest },
    #[error("cannot make a random name")]
    Random(#[source] getrandom::Error),
    #[error("the file {} was damaged and is put aside", .path.display())]
    Damaged { path: PathBuf },
}

pub(crate) fn act(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_path_buf();
    move |source| StoreError::Act { act, path, source }
}

/// What stands in `format.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Format {
    format: u32,
    owners: Owners,
}

#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
    owners: Owners,
}

impl Store {
    /// Opens a store to read it.
    pub fn open(root: &Path) -> Result<Store, StoreError> {
        let path = root.join("format.json");
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::NoStore { path: root.to_path_buf() });
            }
            other => other.map_err(act("read", &path))?,
        };
        let format: Option<Format> = serde_json::from_slice(&text).ok();
        match format.filter(|found| found.format == FORMAT) {
            Some(found) => Ok(Store { root: root.to_path_buf(), owners: found.owners }),
            None => Err(StoreError::Format { path: root.to_path_buf() }),
        }
    }

    /// Opens a store to write to it, and makes it if there is none. Its files must be ours: what
    /// another user owns could be changed under us.
    pub fn create(root: &Path) -> Result<Store, StoreError> {
        make_dir(root)?;
        let uid = fs::metadata(root).map_err(act("look at", root))?.uid();
        let me = rustix::process::geteuid();
        if uid != me.as_raw() {
            return Err(StoreError::Foreign { path: root.to_path_buf(), uid });
        }
        match Store::open(root) {
            Err(StoreError::NoStore { .. }) => {}
            other => return other,
        }
        for name in ["objects", "layers", "images", "names", "partial", "claims", "leases", "work"]
        {
            make_dir(&root.join(name))?;
        }
        for prefix in 0..=255u8 {
            make_dir(&root.join(format!("objects/{prefix:02x}")))?;
        }
        let owners = if me.is_root() { Owners::Kept } else { Owners::One };
        // Last, whole, and never over one that is there: several may be doing this at once.
        let path = root.join("format.json");
        let format = publish::as_json(&Format { format: FORMAT, owners }, &path)?;
        let new = root.join(format!("work/format-{}", holder::random_name()?));
        fs::write(&new, format).map_err(act("write", &new))?;
        match fs::hard_link(&new, &path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(act("make", &path)(error));
            }
            _ => fs::remove_file(&new).map_err(act("remove", &new))?,
        }
        Store::open(root)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn owners(&self) -> Owners {
        self.owners
    }

    /// Where an image's files are, whether or not it is there.
    pub fn tree(&self, image: &Digest) -> PathBuf {
        self.image_dir(image).join("tree")
    }

    pub(crate) fn image_dir(&self, image: &Digest) -> PathBuf {
        self.root.join("images").join(image.hex())
    }

    pub(crate) fn layer_path(&self, diff_id: &Digest) -> PathBuf {
        self.root.join("layers").join(diff_id.hex())
    }

    /// Forgets indexes, so that their layers are fetched again.
    pub(crate) fn forget_layers<'a>(&self, layers: impl Iterator<Item = &'a Digest>) {
        for diff_id in layers {
            let _ = fs::remove_file(self.layer_path(diff_id));
        }
    }

    /// What a layer says, if it has been unpacked here. A damaged index is as good as none.
    pub fn layer(&self, diff_id: &Digest) -> Option<LayerIndex> {
        fs::read(self.layer_path(diff_id)).ok().and_then(|bytes| LayerIndex::decode(&bytes))
    }
}

/// Ours alone: an image may hold programs with capabilities, which nobody should find lying about.
fn make_dir(path: &Path) -> Result<(), StoreError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path).map_err(act("make", path))
}

/// Names in a directory; none when it is not there.
fn names_in(dir: &Path) -> Result<Vec<String>, StoreError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(act("list", dir))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(act("list", dir))?.file_name();
        names.extend(name.into_string().ok());
    }
    names.sort();
    Ok(names)
}

/// Removes a tree whose directories may be closed to their owner.
fn remove_tree(path: &Path) -> Result<(), StoreError> {
    let removed = shipway_trees::remove(path).map_err(io::Error::other);
    removed.map_err(act("remove", path))
}
