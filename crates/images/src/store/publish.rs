//! From staged to published: one `syncfs`, then renames, in an order in which a kill at any
//! moment leaves only complete things.

use super::holder::random_name;
use super::images::name_file;
use super::{Holder, ImageRecord, Named, StoreError, act};
use crate::layer::index::LayerIndex;
use crate::layer::stage::{Staging, object_path};
use serde::Serialize;
use shipway_model::{Digest, ImageRef};
use shipway_trees::Draft;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

/// A layer unpacked by this process and not yet published.
#[derive(Debug)]
pub(crate) struct NewLayer<'a> {
    pub(crate) diff_id: Digest,
    pub(crate) index: &'a LayerIndex,
}

impl Holder {
    /// Publishes layers, and an image whose tree lies in `dir/tree`, if there is one.
    pub(crate) fn publish(
        &self,
        staging: &Staging,
        layers: &[NewLayer<'_>],
        image: Option<(&Path, &ImageRecord)>,
    ) -> Result<(), StoreError> {
        let indexes = self.scratch("indexes")?;
        for layer in layers {
            let path = indexes.join(layer.diff_id.hex());
            let index = layer.index.encode();
            let taken = staging.room().take_file(index.len() as u64);
            taken.and_then(|()| fs::write(&path, index)).map_err(act("write", &path))?;
        }
        if let Some((dir, record)) = image {
            let path = dir.join("image.json");
            let text = serde_json::to_vec_pretty(record).map_err(io::Error::from);
            let text = text.map_err(act("write", &path))?;
            fs::write(&path, text).map_err(act("write", &path))?;
            let path = dir.join("used");
            fs::write(&path, b"").map_err(act("write", &path))?;
        }
        // All content is on disk before any name leads to it: one call, whatever the number.
        let root = &self.store.root;
        let disk = File::open(root).map_err(act("open", root))?;
        rustix::fs::syncfs(&disk).map_err(|errno| act("sync", root)(errno.into()))?;
        self.move_objects(staging)?;
        for layer in layers {
            let from = indexes.join(layer.diff_id.hex());
            let to = self.store.layer_path(&layer.diff_id);
            fs::rename(&from, &to).map_err(act("publish", &to))?;
        }
        if let Some((dir, record)) = image {
            let to = self.store.image_dir(&record.image);
            match fs::rename(dir, &to) {
                // Somebody else published the same; theirs is as good.
                Err(_) if to.join("image.json").is_file() => {}
                other => other.map_err(act("publish", &to))?,
            }
            let images = root.join("images");
            let disk = File::open(&images).map_err(act("open", &images))?;
            disk.sync_all().map_err(act("sync", &images))?;
        }
        Ok(())
    }

    fn move_objects(&self, staging: &Staging) -> Result<(), StoreError> {
        for (object, number) in staging.staged() {
            let from = format!("{number}/{}", object.hex());
            let to = object_path(&object);
            let moved = rustix::fs::renameat(staging.root(), &from, staging.objects(), &to);
            moved.map_err(|errno| {
                act("publish", &self.store.root.join("objects").join(&to))(errno.into())
            })?;
        }
        Ok(())
    }

    /// Lets a reference lead to an image.
    pub(crate) fn name(&self, reference: &ImageRef, image: Digest) -> Result<(), StoreError> {
        let named = Named { reference: reference.clone(), image };
        let new = self.scratch("names")?.join(random_name()?);
        let path = self.store.root.join("names").join(name_file(reference));
        put(&new, &path, &as_json(&named, &path)?)
    }
}

/// What is written to a file.
pub(super) fn as_json(value: &impl Serialize, path: &Path) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(io::Error::from).map_err(act("write", path))
}

/// Whole or not at all. What a power cut makes of it is as good as nothing there: it is looked up
/// or fetched once more.
pub(super) fn put(new: &Path, path: &Path, text: &[u8]) -> Result<(), StoreError> {
    let mut draft = Draft::elsewhere(new, path).map_err(act("make", new))?;
    draft.file.write_all(text).map_err(act("write", new))?;
    draft.publish_unsynced().map(drop).map_err(act("name", path))
}
