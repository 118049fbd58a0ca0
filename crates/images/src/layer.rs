//! One layer: from its packed bytes to files in the staging area and an index of its members.
//!
//! ```text
//! blob ─▶ decode (digest, size, unpack, diff id) ─▶ tar ─▶ sift (what is kept) ─▶ stage (files)
//!                                                               └─▶ index (what the layer says)
//! ```
//!
//! Paths of a layer never reach the file system here: files are named by their digest, and the
//! tree is made later, from indexes, by `tree`.

pub mod decode;
pub mod index;
pub mod sift;
pub mod stage;
mod unpack;

pub use unpack::{LayerJob, check, unpack};

use crate::limits::OverLimit;
use crate::path::BadPath;
use crate::tar::TarError;
use shipway_model::Digest;
use std::io;

/// Why a layer is refused or could not be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    #[error("its archive is malformed")]
    Tar(#[from] TarError),
    #[error("its member `{path}` is refused")]
    Path {
        path: String,
        #[source]
        source: BadPath,
    },
    #[error(transparent)]
    Limit(#[from] OverLimit),
    #[error("it is {found} bytes, and the manifest says {wanted}")]
    Size { wanted: u64, found: u64 },
    #[error("its digest is {found}, and the manifest says {wanted}")]
    Digest { wanted: Digest, found: Digest },
    #[error("unpacked, its digest is {found}, and the configuration says {wanted}")]
    DiffId { wanted: Digest, found: Digest },
    #[error("cannot read it")]
    Read(#[source] io::Error),
    #[error("cannot write its file {path}")]
    Write {
        path: String,
        #[source]
        source: io::Error,
    },
    #[error("cannot start a thread that unpacks it")]
    Thread(#[source] io::Error),
    #[error("a stage of its unpacking stopped")]
    Stopped,
}
