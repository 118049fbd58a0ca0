//! An image put on a relay's shelf by a person, with their own login if it needs one. It is kept
//! until they remove it, and handed out to every pilot of the server that the relay leads to.

use crate::shelf::{Origin, Shelf, ShelfError};
use shipway_images::pull::{Registry, Settings, Summing};
use shipway_images::sources::manifest::this_platform;
use shipway_images::sources::{SourceError, settled};
use shipway_model::{Bytes, Digest, ImageRef};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

const PIECE: usize = 256 << 10;

#[derive(Debug, thiserror::Error)]
pub enum AddError {
    #[error("`{0}` is not in a registry; a relay hands out images of registries (docker://…)")]
    NotOfARegistry(Box<ImageRef>),
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    #[error("what came for {wanted} breaks off")]
    Breaks {
        wanted: Digest,
        #[source]
        source: io::Error,
    },
    #[error("what came for {wanted} is {found}")]
    Wrong { wanted: Digest, found: Digest },
    #[error("cannot write what came for {wanted}")]
    Write {
        wanted: Digest,
        #[source]
        source: io::Error,
    },
}

/// What was put there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// With the digest under which jobs find it.
    pub image: ImageRef,
    /// What was fetched for it.
    pub bytes: Bytes,
}

pub fn add(root: &Path, image: &ImageRef, settings: &Settings) -> Result<Added, AddError> {
    let ImageRef::Registry(at) = settled(image.clone()) else {
        return Err(AddError::NotOfARegistry(Box::new(image.clone())));
    };
    let shelf = Shelf::of_person(root)?;
    let registry = Registry::new(&at, settings, &this_platform(), Path::new(""));
    let unopened = registry.unopened()?;
    let mut bytes = 0_u64;
    for digest in unopened.blobs.iter().filter(|digest| !shelf.keeps(digest)) {
        // What a pilot had fetched may be removed by itself; this may not.
        if let Some((mut fetched, _)) = shelf.open(digest) {
            put(&shelf, digest, &mut fetched)?;
            continue;
        }
        let (size, mut blob) = registry.blob_of(digest)?;
        bytes = bytes.saturating_add(size);
        shelf.make_room(size)?;
        // One byte more would be wrong, and is enough to see it.
        put(&shelf, digest, &mut (&mut *blob).take(size.saturating_add(1)))?;
    }
    // Last: a manifest that is there has all that it names.
    for (digest, document) in unopened.documents.iter().rev() {
        bytes = bytes.saturating_add(document.len() as u64);
        put(&shelf, digest, &mut &**document)?;
    }
    let image = ImageRef::Registry(at).pinned(unopened.digest);
    Ok(Added { image, bytes: Bytes(bytes) })
}

fn put(shelf: &Shelf, wanted: &Digest, bytes: &mut dyn io::Read) -> Result<(), AddError> {
    let wanted = *wanted;
    let name = format!("{}-{}", std::process::id(), wanted.hex());
    let mut new = shelf.begin(Origin::Kept, &name)?;
    let (mut sum, mut piece) = (Summing::default(), vec![0; PIECE]);
    loop {
        let count = bytes.read(&mut piece);
        let count = count.map_err(|source| AddError::Breaks { wanted, source })?;
        let Some(read) = piece.get(..count).filter(|read| !read.is_empty()) else { break };
        sum.add(read);
        new.file.write_all(read).map_err(|source| AddError::Write { wanted, source })?;
    }
    let found = sum.digest();
    if found != wanted {
        return Err(AddError::Wrong { wanted, found });
    }
    Ok(shelf.finish(Origin::Kept, new, &wanted)?)
}
