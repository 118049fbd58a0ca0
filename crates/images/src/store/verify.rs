//! Is the store whole? Every object is what its name says, every layer has its objects, every
//! image has its tree. Reads everything; changes nothing.

use super::{Store, StoreError, act, names_in};
use crate::layer::index::{Meta, ObjectId, What};
use crate::layer::sift::Owners;
use crate::layer::stage::{object_id, object_path};
use crate::tar::Time;
use serde::Serialize;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Something that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    pub path: PathBuf,
    pub what: &'static str,
}

impl Store {
    pub fn verify(&self) -> Result<Vec<Damage>, StoreError> {
        let mut damage = Vec::new();
        let mut note = |path: PathBuf, what| damage.push(Damage { path, what });
        for prefix in names_in(&self.root.join("objects"))? {
            let dir = self.root.join("objects").join(&prefix);
            for name in names_in(&dir)? {
                let path = dir.join(&name);
                match identify(&path, self.owners) {
                    Ok(found) if found.hex() == format!("{prefix}{name}") => {}
                    Ok(_) => note(path, "is not what its name says"),
                    // An image may close a file to its own owner; then it cannot be judged.
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                    Err(error) => return Err(act("read", &path)(error)),
                }
            }
        }
        for name in names_in(&self.root.join("layers"))? {
            let path = self.root.join("layers").join(&name);
            let layer = format!("sha256:{name}").parse().ok().and_then(|id| self.layer(&id));
            let Some(layer) = layer else {
                note(path, "does not read back");
                continue;
            };
            let missing = layer.entries.iter().any(|entry| match &entry.what {
                What::File { object, .. } => {
                    !self.root.join("objects").join(object_path(object)).is_file()
                }
                _ => false,
            });
            if missing {
                note(path, "speaks of objects that are not there");
            }
        }
        for name in names_in(&self.root.join("images"))? {
            let path = self.root.join("images").join(&name);
            let record = format!("sha256:{name}").parse().ok().map(|image| self.image(&image));
            if !matches!(record, Some(Ok(Some(_)))) || !path.join("tree").is_dir() {
                note(path, "is not a whole image");
            }
        }
        Ok(damage)
    }
}

/// What a file's name among the objects should be.
fn identify(path: &Path, owners: Owners) -> io::Result<ObjectId> {
    let mut hash = blake3::Hasher::new();
    io::copy(&mut File::open(path)?, &mut hash)?;
    let found = fs::symlink_metadata(path)?;
    let (uid, gid) = match owners {
        Owners::One => (0, 0),
        Owners::Kept => (found.uid(), found.gid()),
    };
    let meta = Meta {
        mode: found.mode() & 0o7777,
        uid,
        gid,
        mtime: Time {
            seconds: found.mtime(),
            nanos: u32::try_from(found.mtime_nsec()).unwrap_or_default(),
        },
        xattrs: xattrs(path)?,
    };
    Ok(object_id(hash.finalize().as_bytes(), &meta))
}

/// Those we set: what others (a security module) add is not ours to judge.
pub(crate) fn xattrs(path: &Path) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut list = vec![0u8; 64 << 10];
    let length = match rustix::fs::llistxattr(path, &mut list) {
        Err(rustix::io::Errno::NOTSUP) => 0,
        other => other?,
    };
    let mut found = Vec::new();
    list.truncate(length);
    for name in list.split(|b| *b == 0).filter(|name| !name.is_empty()) {
        if name != b"security.capability" && !name.starts_with(b"user.") {
            continue;
        }
        let mut value = vec![0u8; 64 << 10];
        let length = rustix::fs::lgetxattr(path, name, &mut value)?;
        value.truncate(length);
        found.push((name.to_vec(), value));
    }
    found.sort();
    Ok(found)
}
