//! Where a layer came from, and so who may have it without fetching it. Layers are kept by their
//! content for all users together; but to know a digest is not to have what it names.
//!
//! A file beside the layer. Where it is missing or cannot be read, the layer is fetched again.

use super::holder::random_name;
use super::publish::{as_json, put};
use super::{Holder, Store, StoreError, make_dir};
use serde::{Deserialize, Serialize};
use shipway_model::Digest;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origins {
    /// A registry gave it to somebody who showed no login: anybody may have it.
    #[serde(default)]
    pub public: bool,
    /// Registries that gave it to who showed one, and under which digests of its packed bytes.
    #[serde(default)]
    registries: BTreeMap<String, BTreeSet<Digest>>,
}

impl Origins {
    /// Whether a registry gave it out under this digest, and it was checked that it is the same.
    pub fn came_from(&self, host: &str, digest: &Digest) -> bool {
        self.registries.get(host).is_some_and(|digests| digests.contains(digest))
    }

    pub(crate) fn add(&mut self, host: &str, digest: Option<Digest>, private: bool) {
        self.public |= !private;
        if let Some(digest) = digest.filter(|_| private) {
            self.registries.entry(host.to_owned()).or_default().insert(digest);
        }
    }
}

impl Store {
    pub fn origins(&self, diff_id: &Digest) -> Origins {
        let text = fs::read(self.origins_path(diff_id)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn origins_path(&self, diff_id: &Digest) -> PathBuf {
        self.root.join("origins").join(diff_id.hex())
    }
}

impl Holder {
    /// What others note at the same time may be lost, which only makes somebody fetch once more.
    pub(crate) fn note_origins(
        &self,
        diff_id: &Digest,
        origins: &Origins,
    ) -> Result<(), StoreError> {
        // Stores from before have no such directory.
        make_dir(&self.store.root.join("origins"))?;
        let new = self.scratch("origins")?.join(random_name()?);
        let path = self.store.origins_path(diff_id);
        put(&new, &path, &as_json(origins, &path)?)
    }
}
