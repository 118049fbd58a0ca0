//! The folder of a relay's content: files by digest.
//!
//! ```text
//! lock       one relay at a time has the folder
//! kept/      what a person put there (`shipway relay add`); never removed by itself
//! fetched/   what pilots asked for; the longest unused goes first
//! coming/    what is not there as a whole yet
//! adding/    the same, of people; several may add at once
//! ```
//!
//! A file gets its name when all of it is there, verified and on disk. Names are digests and
//! nothing else, and the folder is its owner's alone.

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use shipway_model::{Bytes, Digest};
use shipway_trees::disk::{Disk, Writer};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Left by somebody who was ended while they added something.
const STALE: std::time::Duration = std::time::Duration::from_hours(24);

#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    #[error("cannot {act} {}", .path.display())]
    Act {
        act: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("another relay has {}: give each a folder of its own (--images)", .path.display())]
    Taken { path: PathBuf },
    #[error("{} is no folder of its own: others may write there", .path.display())]
    Open { path: PathBuf },
    #[error(
        "{wanted} have no room on the disk of {} ({free} can be used, of which images leave 2 GiB)",
        .folder.display()
    )]
    NoRoom { folder: PathBuf, wanted: Bytes, free: Bytes },
    #[error("{wanted} are more than all that is kept ({most}; --images-size)")]
    TooLarge { wanted: Bytes, most: Bytes },
}

fn failed(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ShelfError {
    let path = path.to_owned();
    move |source| ShelfError::Act { act, path, source }
}

#[derive(Debug)]
pub(crate) struct Shelf {
    root: PathBuf,
    most: Option<Bytes>,
    /// Of the relay that has the folder; whoever adds has none.
    _lock: Option<File>,
}

/// Where something is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Kept,
    Fetched,
}

impl Origin {
    const fn name(self) -> &'static str {
        match self {
            Origin::Kept => "kept",
            Origin::Fetched => "fetched",
        }
    }

    const fn unfinished(self) -> &'static str {
        match self {
            Origin::Kept => "adding",
            Origin::Fetched => "coming",
        }
    }
}

impl Shelf {
    /// For the relay itself, which clears away what an earlier one left unfinished.
    pub(crate) fn of_relay(root: &Path, most: Option<Bytes>) -> Result<Self, ShelfError> {
        Shelf::of_person(root)?;
        let path = root.join("lock");
        let mut options = File::options();
        let lock = options.write(true).create(true).truncate(false).mode(0o600).open(&path);
        let lock = lock.map_err(failed("open", &path))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(ShelfError::Taken { path: root.to_owned() });
        }
        let coming = root.join(Origin::Fetched.unfinished());
        for left in files_of(&coming)? {
            fs::remove_file(&left.path).map_err(failed("remove", &left.path))?;
        }
        Ok(Shelf { root: root.to_owned(), most, _lock: Some(lock) })
    }

    /// For somebody who adds something, beside a relay that may be running.
    pub(crate) fn of_person(root: &Path) -> Result<Self, ShelfError> {
        let origins = [Origin::Kept, Origin::Fetched];
        let folders = origins.into_iter().flat_map(|origin| [origin.name(), origin.unfinished()]);
        for folder in std::iter::once(PathBuf::new()).chain(folders.map(PathBuf::from)) {
            let path = root.join(folder);
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.map_err(failed("make", &path))?;
        }
        check_owner(root)?;
        for left in files_of(&root.join(Origin::Kept.unfinished()))? {
            let is_stale = left.used.elapsed().is_ok_and(|age| age > STALE);
            if is_stale {
                let _ = fs::remove_file(&left.path);
            }
        }
        Ok(Shelf { root: root.to_owned(), most: None, _lock: None })
    }

    fn path(&self, origin: Origin, digest: &Digest) -> PathBuf {
        self.root.join(origin.name()).join(digest.hex())
    }

    /// Whether a person put it there.
    pub(crate) fn keeps(&self, digest: &Digest) -> bool {
        self.path(Origin::Kept, digest).is_file()
    }

    /// What is there, and its size; it counts as used now.
    pub(crate) fn open(&self, digest: &Digest) -> Option<(File, u64)> {
        for origin in [Origin::Kept, Origin::Fetched] {
            let Ok(file) = File::open(self.path(origin, digest)) else { continue };
            let Ok(found) = file.metadata() else { continue };
            if found.is_file() {
                // Only the order in which things go depends on it.
                let _ = file.set_modified(SystemTime::now());
                return Some((file, found.len()));
            }
        }
        None
    }

    /// Whether there would be room for so much if all that can go went.
    pub(crate) fn could_have(&self, wanted: u64) -> Result<(), ShelfError> {
        self.allows(wanted)?;
        let there = files_of(&self.root.join(Origin::Fetched.name()))?;
        let free = there.iter().fold(self.free(), |sum, one| sum.saturating_add(one.size));
        if free < wanted { Err(self.no_room(wanted)) } else { Ok(()) }
    }

    fn allows(&self, wanted: u64) -> Result<(), ShelfError> {
        let most = self.most.map_or(u64::MAX, |most| most.0);
        if wanted <= most {
            return Ok(());
        }
        let (wanted, most) = (Bytes(wanted), Bytes(most));
        Err(ShelfError::TooLarge { wanted, most })
    }

    fn no_room(&self, wanted: u64) -> ShelfError {
        let (wanted, free) = (Bytes(wanted), Bytes(self.free()));
        ShelfError::NoRoom { folder: self.root.clone(), wanted, free }
    }

    /// Makes room for so much more that is fetched, beside what is there and what is coming, or
    /// says why there is none.
    pub(crate) fn make_room(&self, wanted: u64) -> Result<(), ShelfError> {
        self.could_have(wanted)?;
        let most = self.most.map_or(u64::MAX, |most| most.0);
        let coming = files_of(&self.root.join(Origin::Fetched.unfinished()))?;
        let mut there = files_of(&self.root.join(Origin::Fetched.name()))?;
        there.sort_by_key(|one| std::cmp::Reverse(one.used));
        let coming = coming.iter().fold(wanted, |sum, one| sum.saturating_add(one.size));
        if coming > most {
            return Err(self.no_room(wanted));
        }
        let mut all = there.iter().fold(coming, |sum, one| sum.saturating_add(one.size));
        while all > most || self.free() < wanted {
            // The longest unused; whoever reads it at this moment has it open.
            let Some(oldest) = there.pop() else {
                return Err(self.no_room(wanted));
            };
            fs::remove_file(&oldest.path).map_err(failed("remove", &oldest.path))?;
            all = all.saturating_sub(oldest.size);
        }
        Ok(())
    }

    fn free(&self) -> u64 {
        Disk::of(&self.root).map_or(u64::MAX, |disk| disk.room_for(Writer::Images))
    }

    /// Where something is while it is fetched.
    pub(crate) fn coming(&self, name: &str) -> PathBuf {
        self.root.join(Origin::Fetched.unfinished()).join(name)
    }

    /// A new file for what comes. `name` tells it from what comes at the same time.
    pub(crate) fn begin(&self, origin: Origin, name: &str) -> Result<Unfinished, ShelfError> {
        let path = self.root.join(origin.unfinished()).join(name);
        let mut options = File::options();
        let opened = options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = opened.open(&path).map_err(failed("make", &path))?;
        Ok(Unfinished { file, path, is_done: false })
    }

    /// What has come is there from now on. It was verified before.
    pub(crate) fn finish(
        &self,
        origin: Origin,
        mut unfinished: Unfinished,
        digest: &Digest,
    ) -> Result<(), ShelfError> {
        unfinished.file.sync_all().map_err(failed("write", &unfinished.path))?;
        let to = self.path(origin, digest);
        fs::rename(&unfinished.path, &to).map_err(failed("put", &to))?;
        unfinished.is_done = true;
        Ok(())
    }
}

/// Removed unless it is finished.
#[derive(Debug)]
pub(crate) struct Unfinished {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    is_done: bool,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = fs::remove_file(&self.path);
        }
    }
}

struct Found {
    path: PathBuf,
    size: u64,
    used: SystemTime,
}

fn files_of(folder: &Path) -> Result<Vec<Found>, ShelfError> {
    let entries = fs::read_dir(folder).map_err(failed("look into", folder))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed("look into", folder))?;
        // Gone meanwhile, or nothing of ours.
        let Ok(about) = entry.metadata() else { continue };
        if about.is_file() {
            let used = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            found.push(Found { path: entry.path(), size: about.len(), used });
        }
    }
    Ok(found)
}

/// What lies there is handed out: nobody else may put anything there.
fn check_owner(root: &Path) -> Result<(), ShelfError> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(root, flags, Mode::empty());
    let opened = opened.map_err(|errno| failed("open", root)(errno.into()))?;
    let found = rustix::fs::fstat(&opened);
    let found = found.map_err(|errno| failed("look at", root)(errno.into()))?;
    let is_own = found.st_uid == rustix::process::geteuid().as_raw() && found.st_mode & 0o022 == 0;
    if is_own { Ok(()) } else { Err(ShelfError::Open { path: root.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    fn put(shelf: &Shelf, origin: Origin, last: u8, size: usize, age: u64) -> Digest {
        let digest = Digest([last; 32]);
        let mut new = shelf.begin(origin, &digest.hex()).expect("begun");
        new.file.write_all(&vec![1; size]).expect("written");
        let used = SystemTime::now() - Duration::from_secs(age);
        new.file.set_modified(used).expect("set");
        shelf.finish(origin, new, &digest).expect("finished");
        digest
    }

    #[test]
    fn the_longest_unused_goes_and_what_is_kept_stays() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().join("relay");
        let shelf = Shelf::of_relay(&root, Some(Bytes(300))).expect("a shelf");
        let kept = put(&shelf, Origin::Kept, 1, 500, 900);
        let old = put(&shelf, Origin::Fetched, 2, 100, 800);
        let new = put(&shelf, Origin::Fetched, 3, 100, 700);
        shelf.make_room(100).expect("there is room");
        assert!(shelf.open(&old).is_some(), "and now it was used");
        shelf.make_room(101).expect("by removing one");
        let there = [kept, old, new].map(|one| shelf.open(&one).is_some());
        assert_eq!(there, [true, true, false]);
        assert!(matches!(shelf.make_room(301), Err(ShelfError::TooLarge { .. })));
        let huge = Shelf { most: None, root: root.clone(), _lock: None };
        assert!(matches!(huge.make_room(u64::MAX / 2), Err(ShelfError::NoRoom { .. })));
        assert!(shelf.open(&kept).is_some(), "for no room in the world");
    }

    #[test]
    fn a_folder_has_one_relay_and_one_owner() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().join("relay");
        let shelf = Shelf::of_relay(&root, None).expect("a shelf");
        assert!(matches!(Shelf::of_relay(&root, None), Err(ShelfError::Taken { .. })));
        Shelf::of_person(&root).expect("whoever adds needs no lock");
        let begun = shelf.begin(Origin::Fetched, "x").expect("begun");
        std::mem::forget(begun);
        drop(shelf);
        let shelf = Shelf::of_relay(&root, None).expect("a shelf");
        assert!(files_of(&root.join("coming")).expect("a folder").is_empty(), "cleared away");
        drop(shelf);
        fs::set_permissions(&root, fs::Permissions::from_mode(0o770)).expect("set");
        assert!(matches!(Shelf::of_relay(&root, None), Err(ShelfError::Open { .. })));
    }
}
