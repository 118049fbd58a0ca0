//! Making room: images removed, by name or because nobody has wanted them for long; then layers
//! and objects that no image needs.

use super::holder::random_name;
use super::images::name_file;
use super::{Holder, StoreError, act, names_in, remove_tree};
use crate::layer::index::ObjectId;
use serde::Serialize;
use shipway_model::{Bytes, Digest, Millis, Timestamp};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// What to keep; nothing given keeps everything that is whole.
#[derive(Debug, Clone, Copy, Default)]
pub struct Keep {
    /// Images wanted within this time.
    pub used_within: Option<Millis>,
    /// At most this much, the longest unused going first.
    pub at_most: Option<Bytes>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cleared {
    pub images: Vec<Digest>,
    /// Of objects nobody needs any more.
    pub files: u64,
    pub bytes: Bytes,
    /// Others were at work, so unneeded objects were left for another time.
    pub others_at_work: bool,
}

impl Holder {
    /// Removes an image and what only it needed. Refused while somebody runs it.
    pub fn remove(&self, image: &Digest) -> Result<Cleared, StoreError> {
        self.take_away(image)?;
        let mut cleared = self.sweep()?;
        cleared.images.push(*image);
        Ok(cleared)
    }

    /// Removes images by last use and by size, then everything no image needs.
    pub fn collect(&self, keep: Keep, now: Timestamp) -> Result<Cleared, StoreError> {
        let mut images: Vec<(Timestamp, Digest)> = Vec::new();
        for record in self.store.images()? {
            let used = self.store.last_use(&record.image).unwrap_or(record.unpacked_at);
            images.push((used, record.image));
        }
        images.sort();
        let mut cleared = Cleared::default();
        for (used, image) in images {
            let old = keep.used_within.is_some_and(|span| now.since(used) > span);
            let full = match keep.at_most {
                Some(limit) if !old => self.size()? > limit,
                _ => false,
            };
            if !old && !full {
                continue;
            }
            match self.take_away(&image) {
                Ok(()) => cleared.images.push(image),
                Err(StoreError::InUse { .. }) => continue,
                Err(error) => return Err(error),
            }
            if full {
                cleared.add(&self.sweep()?);
            }
        }
        cleared.add(&self.sweep()?);
        Ok(cleared)
    }

    /// Bytes of all objects.
    pub fn size(&self) -> Result<Bytes, StoreError> {
        let mut total = 0;
        self.each_object(|_, found| {
            total += found.len();
            Ok(())
        })?;
        Ok(Bytes(total))
    }

    /// Moves an image out of sight, then deletes it at leisure.
    fn take_away(&self, image: &Digest) -> Result<(), StoreError> {
        let in_use = || StoreError::InUse { image: *image };
        let _claim = self.claim(&claim_name(image, None))?.ok_or_else(in_use)?;
        if self.is_being_fetched(image)? {
            return Err(in_use());
        }
        let dir = self.store.image_dir(image);
        if !dir.is_dir() {
            return Err(StoreError::NoImage { name: image.to_string() });
        }
        if self.is_leased(image)? {
            return Err(in_use());
        }
        let aside = self.scratch("removed")?.join(random_name()?);
        fs::rename(&dir, &aside).map_err(act("remove", &dir))?;
        // Whoever leased it in between has seen it there: it goes back.
        if self.is_leased(image)? {
            fs::rename(&aside, &dir).map_err(act("put back", &dir))?;
            return Err(in_use());
        }
        for named in self.store.names()?.iter().filter(|named| named.image == *image) {
            let _ =
                fs::remove_file(self.store.root.join("names").join(name_file(&named.reference)));
        }
        remove_tree(&aside)
    }

    /// Removes layers that no image has, and objects that no layer or tree has. While others are
    /// at work this waits for another time: they may be about to link what they found.
    fn sweep(&self) -> Result<Cleared, StoreError> {
        let mut cleared = Cleared::default();
        let claim = self.claim(GC_CLAIM)?;
        if claim.is_none() || self.others_are_at_work()? {
            cleared.others_at_work = true;
            return Ok(cleared);
        }
        let images = self.store.images()?;
        let wanted: BTreeSet<String> = images
            .iter()
            .flat_map(|image| image.layers.iter().map(|layer| layer.diff_id.hex()))
            .collect();
        let layers = self.store.root.join("layers");
        for name in names_in(&layers)?.into_iter().filter(|name| !wanted.contains(name)) {
            let _ = fs::remove_file(layers.join(&name));
            let _ = fs::remove_file(self.store.root.join("origins").join(name));
        }
        // Nobody is fetching, so nobody goes on from these.
        let partial = self.store.root.join("partial");
        for name in names_in(&partial)? {
            let _ = fs::remove_file(partial.join(name));
        }
        let wanted = self.store.objects_of_layers()?;
        self.each_object(|object, found| {
            if found.nlink() == 1 && !wanted.contains(&object) {
                let path = self.store.root.join("objects");
                let path = path.join(crate::layer::stage::object_path(&object));
                fs::remove_file(&path).map_err(act("remove", &path))?;
                cleared.files += 1;
                cleared.bytes.0 += found.len();
            }
            Ok(())
        })?;
        Ok(cleared)
    }

    pub(super) fn each_object(
        &self,
        mut each: impl FnMut(ObjectId, &fs::Metadata) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let root = self.store.root.join("objects");
        for prefix in names_in(&root)? {
            let dir = root.join(&prefix);
            for name in names_in(&dir)? {
                let Ok(hash) = blake3::Hash::from_hex(format!("{prefix}{name}")) else { continue };
                let path = dir.join(name);
                let found = fs::symlink_metadata(&path).map_err(act("look at", &path))?;
                each(ObjectId(*hash.as_bytes()), &found)?;
            }
        }
        Ok(())
    }
}

impl Cleared {
    pub fn add(&mut self, other: &Cleared) {
        self.images.extend(&other.images);
        self.files += other.files;
        self.bytes.0 += other.bytes.0;
        self.others_at_work |= other.others_at_work;
    }
}

/// Held while objects are removed; whoever fetches waits for it.
pub(crate) const GC_CLAIM: &str = "gc";

/// What whoever fetches an image claims. Of each registry there is one: whoever waits for another's
/// fetch waits for a registry that they would have asked themselves, and not for a slow one of
/// somebody else's choice.
pub(crate) fn claim_name(image: &Digest, registry: Option<&str>) -> String {
    of_registry(format!("image-{}", image.hex()), registry)
}

/// The same of a layer.
pub(crate) fn layer_claim(layer: &Digest, registry: Option<&str>) -> String {
    of_registry(format!("layer-{}", layer.hex()), registry)
}

fn of_registry(name: String, registry: Option<&str>) -> String {
    // Hashed: what is in a host's name is not for names of files.
    let hash =
        |host: &str| blake3::hash(host.as_bytes()).to_hex().chars().take(16).collect::<String>();
    match registry {
        Some(host) => format!("{name}-{}", hash(host)),
        None => name,
    }
}
