//! Claims and leases: who fetches what, and who runs what.
//!
//! A claim says "I am at it": others wait instead of fetching the same. Nothing breaks when two
//! hold one by mistake; the work is done twice. A lease says "I run it": it is not removed.

use super::holder::{Holder, Owner, random_name, touch};
use super::{Store, StoreError, act, names_in};
use shipway_model::Digest;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long to wait between two looks at somebody else's claim.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Held until dropped.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    holder: String,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Taken over by somebody who thought us dead, it is no longer ours to remove.
        if Owner::read(&self.path).is_some_and(|owner| owner.holder == self.holder) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Keeps an image from being removed until dropped.
#[derive(Debug)]
pub struct Lease {
    path: PathBuf,
    /// The image's files.
    pub tree: PathBuf,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Holder {
    /// Claims something, or says that somebody else who is alive has it.
    pub fn claim(&self, what: &str) -> Result<Option<Claim>, StoreError> {
        let path = self.store.root.join("claims").join(what);
        loop {
            match fs::hard_link(self.owner_file(), &path) {
                Ok(()) => {
                    return Ok(Some(Claim { path, holder: self.owner.holder.clone() }));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(act("claim", &path)(error)),
            }
            let holder = |path: &Path| Owner::read(path).map(|owner| owner.holder);
            let other = holder(&path);
            if !path.exists() {
                // Let go just now.
                continue;
            }
            if !self.is_dead(&path, &path) {
                return Ok(None);
            }
            // Whoever moves it away has it: two who found it stale do not both take it.
            let aside = self.scratch("stale")?.join(random_name()?);
            if fs::rename(&path, &aside).is_ok() && holder(&aside) != other {
                // That was a fresh one: somebody was faster. Put it back.
                let _ = fs::hard_link(&aside, &path);
            }
            let _ = fs::remove_file(&aside);
        }
    }

    pub(crate) fn is_claimed_by_others(&self, what: &str) -> bool {
        let path = self.store.root.join("claims").join(what);
        let other = Owner::read(&path).is_some_and(|o| o.holder != self.owner.holder);
        other && !self.is_dead(&path, &path)
    }

    /// Whether anybody but us is at an image, from whichever registry.
    pub(super) fn is_being_fetched(&self, image: &Digest) -> Result<bool, StoreError> {
        let names = names_in(&self.store.root.join("claims"))?;
        let any = super::claim_name(image, None);
        Ok(names.iter().any(|name| name.starts_with(&any) && self.is_claimed_by_others(name)))
    }

    /// Whether anybody but us holds a claim.
    pub(super) fn others_are_at_work(&self) -> Result<bool, StoreError> {
        let dir = self.store.root.join("claims");
        for name in names_in(&dir)? {
            let path = dir.join(name);
            let other = Owner::read(&path).is_some_and(|o| o.holder != self.owner.holder);
            if other && !self.is_dead(&path, &path) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Holds an image: as long as the lease lives (and this holder), it is not removed.
    pub fn lease(&self, image: &Digest) -> Result<Lease, StoreError> {
        let name = format!("{}-{}", image.hex(), random_name()?);
        let path = self.store.root.join("leases").join(name);
        fs::hard_link(self.owner_file(), &path).map_err(act("lease", &path))?;
        let lease = Lease { path, tree: self.store.tree(image) };
        // Looked at after the lease is there: whoever removes looks for leases after moving away.
        if !lease.tree.is_dir() {
            return Err(StoreError::NoImage { name: image.to_string() });
        }
        self.store.mark_used(image);
        Ok(lease)
    }

    /// Whether somebody alive runs it.
    pub(super) fn is_leased(&self, image: &Digest) -> Result<bool, StoreError> {
        let dir = self.store.root.join("leases");
        let hex = image.hex();
        for name in names_in(&dir)?.iter().filter(|name| name.starts_with(&hex)) {
            let path = dir.join(name);
            if !self.is_dead(&path, &path) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Store {
    /// Remembers that an image was wanted just now.
    pub(crate) fn mark_used(&self, image: &Digest) {
        touch(&self.image_dir(image).join("used"));
    }
}
