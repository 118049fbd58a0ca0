//! Where an image comes from. Each source says what the image is made of and hands out the packed
//! bytes of its layers; none of them unpacks anything.

pub mod docker_archive;
pub mod manifest;
pub mod oci_dir;
mod opening;
pub mod sif;
mod unsquash;

pub use opening::{Judge, Refusal};

use crate::store::Origins;
use manifest::{ImagePlan, ManifestError, PlannedLayer};
use shipway_model::image_ref::DEFAULT_TAG;
use shipway_model::{Digest, ImageRef};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Packed bytes of a layer, as they come.
pub type Blob<'a> = Box<dyn Read + Send + 'a>;

pub trait Source: Sync {
    /// What the image is made of.
    fn plan(&self) -> Result<ImagePlan, SourceError>;
    /// One of its layers, from the beginning.
    fn blob(&self, layer: &PlannedLayer) -> Result<Blob<'_>, SourceError>;
    /// Told that a layer's bytes were wrong, so that they are not kept for another try. True when
    /// another try makes sense: part of them had been kept from an earlier one.
    fn discard(&self, _layer: &PlannedLayer) -> bool {
        false
    }
    /// Told that a layer is unpacked and about to be published: nothing of it need be kept.
    fn done(&self, _layer: &PlannedLayer) {}
    /// Whether not everybody could have had it: it was opened with somebody's password, or lay in
    /// a file. Asked when all has been fetched.
    fn is_private(&self) -> bool {
        true
    }
    /// The registry that it comes from.
    fn registry(&self) -> Option<&str> {
        None
    }
    /// Whether whoever asks could fetch a layer that is here already and came from there, as far as
    /// that can be told without fetching it.
    fn could_fetch(&self, _layer: &PlannedLayer, _origins: &Origins) -> bool {
        false
    }
    /// Whether the plan alone shows that whoever asks may have all of an image of this origin.
    fn plan_is_proof(&self, _origin: &ImageRef) -> bool {
        false
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("cannot {act} {}", .path.display())]
    File {
        act: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not a plain file", .path.display())]
    NotAFile { path: PathBuf },
    #[error(
        "{} is a link, or no folder; links inside of an image are not followed: copy it with what \
         they lead to (cp -rL)", .path.display()
    )]
    Link { path: PathBuf },
    #[error(transparent)]
    Refused(Refusal),
    #[error("{what} is larger than {limit} bytes")]
    TooLarge { what: String, limit: u64 },
    #[error("the digest of {what} is {found}, and should be {wanted}")]
    Digest { what: &'static str, wanted: Digest, found: Digest },
    #[error("{what} is {found} bytes, and should be {wanted}")]
    Size { what: &'static str, wanted: u64, found: u64 },
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("{} holds several images{}", .path.display(), choice(.tags))]
    Several { path: PathBuf, tags: Vec<String> },
    #[error("{} holds no image{}", .path.display(), tagged(.tag.as_deref()))]
    None { path: PathBuf, tag: Option<String> },
    #[error("{} is not what `docker save` writes: {why}", .path.display())]
    Archive { path: PathBuf, why: &'static str },
    #[error(transparent)]
    Registry(#[from] crate::pull::RegistryError),
    #[error(transparent)]
    Sif(#[from] crate::sif::SifError),
}

fn tagged(tag: Option<&str>) -> String {
    tag.map(|tag| format!(" `{tag}`")).unwrap_or_default()
}

fn choice(tags: &[String]) -> String {
    match tags {
        [] => String::new(),
        tags => format!("; choose one by its tag: {}", tags.join(", ")),
    }
}

pub(crate) fn failed(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SourceError {
    let path = path.to_path_buf();
    move |source| SourceError::File { act, path, source }
}

/// The reference under which an image is remembered: with the tag it means.
pub fn settled(reference: ImageRef) -> ImageRef {
    match reference {
        ImageRef::Registry(mut at) if at.tag.is_none() && at.digest.is_none() => {
            at.tag = Some(DEFAULT_TAG.to_owned());
            ImageRef::Registry(at)
        }
        other => other,
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> Digest {
    use sha2::Digest as _;
    Digest(sha2::Sha256::digest(bytes).into())
}
