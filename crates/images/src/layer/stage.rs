//! Files being unpacked: written once under the name of their digest, in a directory that nobody
//! else looks into, and moved to the store's objects when all of an image is safely on disk.

use super::index::{Meta, ObjectId};
use super::sift::Owners;
use crate::room::DiskRoom;
use rustix::fs::{self, AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// With fewer names than this an object was copied a moment ago, by another thread.
const LINKS_WORTH_A_COPY: u32 = 100;

/// Where an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectLocation {
    /// In the store, complete and on disk.
    Stored,
    /// In the directory of the layer of this number.
    Staged(usize),
}

/// The staging area of one image: a directory for each layer, and what is in them.
#[derive(Debug)]
pub struct Staging {
    root: OwnedFd,
    objects: OwnedFd,
    owners: Owners,
    umask: u32,
    room: Arc<DiskRoom>,
    places: Mutex<HashMap<ObjectId, ObjectLocation>>,
}

/// One layer's directory in it.
#[derive(Debug)]
pub struct LayerStage {
    staging: Arc<Staging>,
    dir: OwnedFd,
    number: usize,
}

/// The path of an object below `objects`.
pub fn object_path(id: &ObjectId) -> String {
    let hex = id.hex();
    let (folder, name) = hex.split_at(2);
    format!("{folder}/{name}")
}

impl Staging {
    /// `root` is empty and ours; `objects` is the store's.
    pub fn new(
        root: OwnedFd,
        objects: OwnedFd,
        owners: Owners,
        room: &Arc<DiskRoom>,
    ) -> Arc<Staging> {
        let (places, room) = (Mutex::new(HashMap::new()), Arc::clone(room));
        Arc::new(Staging { root, objects, owners, umask: umask(), room, places })
    }

    pub fn layer(self: &Arc<Self>, number: usize) -> io::Result<LayerStage> {
        let name = number.to_string();
        fs::mkdirat(&self.root, &name, Mode::RWXU)?;
        let dir = open_dir(self.root.as_fd(), &name)?;
        Ok(LayerStage { staging: Arc::clone(self), dir, number })
    }

    /// Objects not spoken of here were named by the index of a published layer.
    pub fn place(&self, id: &ObjectId) -> ObjectLocation {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.get(id).copied().unwrap_or(ObjectLocation::Stored)
    }

    /// All that is staged, to be moved into the store.
    pub fn staged(&self) -> Vec<(ObjectId, usize)> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let staged = places.iter().filter_map(|(id, place)| match place {
            ObjectLocation::Staged(number) => Some((*id, *number)),
            ObjectLocation::Stored => None,
        });
        staged.collect()
    }

    /// After all that was staged has been moved.
    pub fn all_stored(&self) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.values_mut().for_each(|place| *place = ObjectLocation::Stored);
    }

    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    pub fn objects(&self) -> BorrowedFd<'_> {
        self.objects.as_fd()
    }

    pub fn owners(&self) -> Owners {
        self.owners
    }

    pub fn room(&self) -> &DiskRoom {
        &self.room
    }

    /// Whether the caller is the one to write it. The lock is held while the store is asked, so
    /// that two layers with the same file do not both write it.
    fn is_new(&self, id: ObjectId, number: usize) -> bool {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let mut new = false;
        places.entry(id).or_insert_with(|| {
            let stored = fs::statat(&self.objects, object_path(&id), AtFlags::SYMLINK_NOFOLLOW);
            new = stored.is_err();
            if new { ObjectLocation::Staged(number) } else { ObjectLocation::Stored }
        });
        new
    }
}

impl LayerStage {
    pub fn owners(&self) -> Owners {
        self.staging.owners
    }

    /// A file whose content is at hand: nothing is written when the store has it.
    pub fn whole(&self, content: &[u8], meta: &Meta) -> io::Result<ObjectId> {
        let id = object_id(blake3::hash(content).as_bytes(), meta);
        if self.staging.is_new(id, self.number) {
            self.staging.room.take_file(content.len() as u64 + attributes(meta))?;
            let file = self.create(&id.hex(), meta.mode)?;
            write_all(file.as_fd(), content)?;
            self.finish(file.as_fd(), meta)?;
        }
        Ok(id)
    }

    /// A file whose content comes in pieces.
    pub fn begin(&self, serial: u64) -> io::Result<Growing<'_>> {
        let name = format!("growing-{serial}");
        self.staging.room.take_file(0)?;
        let file = self.create(&name, 0o600)?;
        Ok(Growing { stage: self, name, file, hash: blake3::Hasher::new(), length: 0 })
    }

    fn create(&self, name: &str, mode: u32) -> io::Result<OwnedFd> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(mode & 0o777);
        Ok(fs::openat(&self.dir, name, flags | OFlags::CLOEXEC, mode)?)
    }

    fn finish(&self, file: BorrowedFd<'_>, meta: &Meta) -> io::Result<()> {
        inode(file, meta, self.staging.owners, self.staging.umask)
    }
}

/// All that the inode carries, in the order in which nothing undoes what was set before: a
/// change of owner clears capabilities, and every write moves the time.
fn inode(file: BorrowedFd<'_>, meta: &Meta, owners: Owners, umask: u32) -> io::Result<()> {
    if owners == Owners::Kept && (meta.uid, meta.gid) != (0, 0) {
        let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
        fs::fchown(file, Some(uid), Some(gid))?;
    }
    if meta.mode & (umask | 0o7000) != 0 {
        fs::fchmod(file, Mode::from_raw_mode(meta.mode))?;
    }
    for (name, value) in &meta.xattrs {
        match fs::fsetxattr(file, name.as_slice(), value, fs::XattrFlags::empty()) {
            // Some file systems hold none; a file without its mark is better than no image.
            Err(Errno::NOTSUP) => {}
            other => other?,
        }
    }
    Ok(fs::futimens(file, &times(meta))?)
}

/// What attributes take of the disk: at most a mebibyte of one file.
pub fn attributes(meta: &Meta) -> u64 {
    meta.xattrs.iter().map(|(name, value)| (name.len() + value.len()) as u64).sum()
}

/// A file being written.
#[derive(Debug)]
pub struct Growing<'a> {
    stage: &'a LayerStage,
    name: String,
    file: OwnedFd,
    hash: blake3::Hasher,
    length: u64,
}

impl Growing<'_> {
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.length += bytes.len() as u64;
        self.stage.staging.room.take(bytes.len() as u64)?;
        write_all(self.file.as_fd(), bytes)
    }

    /// A hole up to `offset`: zeros for the digest, nothing on disk.
    pub fn hole(&mut self, offset: u64) -> io::Result<()> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        let backwards = || io::Error::other("a hole that ends before it begins");
        let mut left = offset.checked_sub(self.length).ok_or_else(backwards)?;
        while left > 0 {
            let rest = usize::try_from(left).ok().and_then(|left| ZEROS.get(..left));
            let zeros = rest.unwrap_or(&ZEROS);
            self.hash.update(zeros);
            left -= zeros.len() as u64;
        }
        self.length = offset;
        fs::ftruncate(&self.file, offset)?;
        fs::seek(&self.file, fs::SeekFrom::Start(offset))?;
        Ok(())
    }

    pub fn end(self, meta: &Meta) -> io::Result<ObjectId> {
        let id = object_id(self.hash.finalize().as_bytes(), meta);
        let dir = &self.stage.dir;
        if !self.stage.staging.is_new(id, self.stage.number) {
            fs::unlinkat(dir, &self.name, AtFlags::empty())?;
            return Ok(id);
        }
        fs::fchmod(&self.file, Mode::from_raw_mode(meta.mode))?;
        self.stage.staging.room.take(attributes(meta))?;
        self.stage.finish(self.file.as_fd(), meta)?;
        fs::renameat(dir, &self.name, dir, id.hex())?;
        Ok(id)
    }
}

/// Files that share an inode share all of it, so all of it is in the name.
pub fn object_id(content: &[u8; 32], meta: &Meta) -> ObjectId {
    let mut hash = blake3::Hasher::new();
    hash.update(content);
    for number in [meta.mode, meta.uid, meta.gid, meta.mtime.nanos] {
        hash.update(&number.to_le_bytes());
    }
    hash.update(&meta.mtime.seconds.to_le_bytes());
    for (name, value) in &meta.xattrs {
        hash.update(&(name.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update(&(value.len() as u64).to_le_bytes());
        hash.update(value);
    }
    ObjectId(*hash.finalize().as_bytes())
}

pub fn times(meta: &Meta) -> Timestamps {
    let time = Timespec { tv_sec: meta.mtime.seconds, tv_nsec: meta.mtime.nanos.into() };
    Timestamps { last_access: time, last_modification: time }
}

/// A directory below another, never through a link.
pub fn open_dir(at: BorrowedFd<'_>, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(fs::openat(at, name, flags, Mode::empty())?)
}

fn write_all(file: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// What the process takes away from the mode of new files. Asking by setting it would race with
/// other threads; where it cannot be read, every mode is set anew.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|text| u32::from_str_radix(text.trim(), 8).ok()).unwrap_or(0o777)
}

impl Staging {
    /// Puts a copy in the place of an object that can take no more names. Older names keep the
    /// old inode.
    pub fn renew(
        &self,
        id: &ObjectId,
        at: BorrowedFd<'_>,
        path: &str,
        meta: &Meta,
    ) -> io::Result<()> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let from = fs::openat(at, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        // Another thread may have been here while we waited for the lock.
        let found = fs::fstat(&from)?;
        if found.st_nlink < u64::from(LINKS_WORTH_A_COPY) {
            return Ok(());
        }
        self.room.take_file(u64::try_from(found.st_size).unwrap_or(0) + attributes(meta))?;
        let name = format!("copy-{}", id.hex());
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = fs::openat(&self.root, &name, flags, Mode::RUSR | Mode::WUSR)?;
        let mut to = std::fs::File::from(file);
        io::copy(&mut std::fs::File::from(from), &mut to)?;
        fs::fchmod(&to, Mode::from_raw_mode(meta.mode))?;
        inode(to.as_fd(), meta, self.owners, self.umask)?;
        // Objects in the store are on disk, all of them.
        to.sync_all()?;
        places.entry(*id).or_insert(ObjectLocation::Stored);
        Ok(fs::renameat(&self.root, &name, at, path)?)
    }
}
