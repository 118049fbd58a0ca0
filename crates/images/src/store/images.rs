//! Looking into a store: which images there are, under which names, how much they share.

use super::{ImageRecord, Named, Store, StoreError, act, names_in};
use crate::layer::index::ObjectId;
use crate::layer::index::What;
use crate::layer::stage::object_path;
use serde::Serialize;
use shipway_model::{Bytes, Digest, ImageRef, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

/// The shortest beginning of a digest that names an image.
const SHORTEST_PREFIX: usize = 4;

/// How much of an image is its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Bytes also used by other images.
    pub shared: Bytes,
    /// Bytes that removing it would give back.
    pub own: Bytes,
}

impl Store {
    /// Every image, by digest.
    pub fn images(&self) -> Result<Vec<ImageRecord>, StoreError> {
        let mut found = Vec::new();
        for name in names_in(&self.root.join("images"))? {
            if let Ok(digest) = format!("sha256:{name}").parse() {
                found.extend(self.image(&digest)?);
            }
        }
        Ok(found)
    }

    pub fn image(&self, image: &Digest) -> Result<Option<ImageRecord>, StoreError> {
        let path = self.image_dir(image).join("image.json");
        match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(act("read", &path)(error)),
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(record) => Ok(Some(record)),
                Err(_) => Err(StoreError::Damaged { path }),
            },
        }
    }

    /// When an image was last wanted.
    pub fn last_use(&self, image: &Digest) -> Option<Timestamp> {
        let used = fs::metadata(self.image_dir(image).join("used")).ok()?.modified().ok()?;
        let since = used.duration_since(UNIX_EPOCH).ok()?;
        Some(Timestamp(u64::try_from(since.as_millis()).ok()?))
    }

    pub fn names(&self) -> Result<Vec<Named>, StoreError> {
        let dir = self.root.join("names");
        let mut found = Vec::new();
        for name in names_in(&dir)? {
            let read = fs::read(dir.join(name)).ok();
            found.extend(read.and_then(|text| serde_json::from_slice(&text).ok()));
        }
        found.sort_by(|a: &Named, b| a.reference.cmp(&b.reference));
        Ok(found)
    }

    /// The image a reference last led to, if it is still here.
    pub fn named(&self, reference: &ImageRef) -> Option<Digest> {
        let path = self.root.join("names").join(name_file(reference));
        let named: Named = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        (named.reference == *reference && self.tree(&named.image).is_dir()).then_some(named.image)
    }

    /// The image that a reference with a digest means, if it is here: content cannot change under
    /// a digest, so nobody need be asked.
    pub fn pinned(&self, reference: &ImageRef) -> Option<Digest> {
        let digest = reference.digest()?;
        let direct = self.image(&digest).ok().flatten().map(|record| record.image);
        direct.or_else(|| self.named(reference))
    }

    /// An image by what a person calls it: a reference, a digest, or a digest's beginning.
    pub fn find(&self, text: &str) -> Result<Digest, StoreError> {
        let none = || StoreError::NoImage { name: text.chars().take(200).collect() };
        if let Ok(reference) = text.parse::<ImageRef>() {
            let reference = crate::sources::settled(reference);
            return self.named(&reference).or_else(|| self.last_pin(&reference)).ok_or_else(none);
        }
        let hex = text.strip_prefix("sha256:").unwrap_or(text);
        if hex.len() < SHORTEST_PREFIX || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(none());
        }
        let all = names_in(&self.root.join("images"))?;
        let mut matching = all.iter().filter(|name| name.starts_with(hex));
        match (matching.next(), matching.next()) {
            (Some(name), None) => format!("sha256:{name}").parse().map_err(|_| none()),
            (Some(_), Some(_)) => Err(StoreError::Ambiguous { name: text.to_owned() }),
            (None, _) => Err(none()),
        }
    }

    /// What a reference without a digest led to when it was last used.
    fn last_pin(&self, reference: &ImageRef) -> Option<Digest> {
        let names = self.names().ok()?.into_iter();
        let pins = names.filter(|named| named.reference.is_pin_of(reference));
        let here = pins.map(|named| named.image).filter(|image| self.tree(image).is_dir());
        here.max_by_key(|image| self.last_use(image))
    }

    /// What an image shares with others: an object with more names than this image gives it.
    pub fn usage(&self, image: &ImageRecord) -> Result<Usage, StoreError> {
        let layers: Vec<_> =
            image.layers.iter().filter_map(|layer| self.layer(&layer.diff_id)).collect();
        let Ok(tree) = crate::tree::merge::merge(&layers) else { return Ok(Usage::default()) };
        let mut names: BTreeMap<ObjectId, u64> = BTreeMap::new();
        count(&tree, crate::tree::merge::ROOT, &mut names);
        let mut usage = Usage::default();
        for (object, own) in names {
            let path = self.root.join("objects").join(object_path(&object));
            let Ok(found) = fs::symlink_metadata(&path) else { continue };
            // One more name is the object's own.
            let part = if found.nlink() > own + 1 { &mut usage.shared } else { &mut usage.own };
            part.0 += found.len();
        }
        Ok(usage)
    }

    /// Objects that layers kept here speak of.
    pub(super) fn objects_of_layers(&self) -> Result<BTreeSet<ObjectId>, StoreError> {
        let mut wanted = BTreeSet::new();
        for name in names_in(&self.root.join("layers"))? {
            let Ok(diff_id) = format!("sha256:{name}").parse() else { continue };
            let entries = self.layer(&diff_id).map(|layer| layer.entries).unwrap_or_default();
            wanted.extend(entries.into_iter().filter_map(|entry| match entry.what {
                What::File { object, .. } => Some(object),
                _ => None,
            }));
        }
        Ok(wanted)
    }
}

fn count(tree: &crate::tree::Tree, at: usize, names: &mut BTreeMap<ObjectId, u64>) {
    use crate::tree::merge::Body;
    for slot in tree.children(at).values() {
        match tree.body(slot.node) {
            Some(Body::Dir(_)) => count(tree, slot.node, names),
            Some(Body::File { object, .. }) => *names.entry(*object).or_default() += 1,
            _ => {}
        }
    }
}

/// References are longer than file names may be.
pub(super) fn name_file(reference: &ImageRef) -> String {
    blake3::hash(reference.to_string().as_bytes()).to_hex().to_string()
}
