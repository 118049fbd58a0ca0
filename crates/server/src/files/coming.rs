//! One content on its way into the store: written under another name, hashed while it comes, and
//! given its own name when all of it is here, is what its digest says, and is on disk. One that is
//! cut off is gone on with later.

use super::{FileStore, FilesError, LEAST, Whose};
use crate::locks::Locked;
use sha2::{Digest as _, Sha256};
use shipway_model::Digest;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

/// Contents of which a part is here that are remembered with their hash so far; of others it is
/// read again. Each is a hundred bytes.
const MOST_REMEMBERED: usize = 4_096;
/// What is counted at a time: others may write meanwhile.
const STEP: u64 = 16 << 20;

/// What has come of a content.
#[derive(Debug)]
pub(super) enum Partial {
    /// Somebody writes it now.
    Busy,
    Here {
        length: u64,
        hash: Box<Sha256>,
    },
}

/// A content that is being written by this request alone.
#[derive(Debug)]
pub(super) struct Coming<'a> {
    store: &'a FileStore,
    whose: Whose,
    digest: Digest,
    file: File,
    part: PathBuf,
    hash: Box<Sha256>,
    size: u64,
    at: u64,
    /// Counted for its user, and not written yet.
    counted: u64,
    is_over: bool,
}

/// All of it is written, and is what it should be.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) file: File,
    pub(super) part: PathBuf,
    pub(super) path: PathBuf,
    pub(super) digest: Digest,
    pub(super) size: u64,
}

impl FileStore {
    /// Goes on with a content at `offset`, which is how much of it is here.
    pub(super) fn begin(
        &self,
        whose: &Whose,
        (digest, size): (Digest, u64),
        offset: u64,
    ) -> Result<Coming<'_>, FilesError> {
        let key = (whose.clone(), digest);
        let before = {
            let mut books = self.books.locked();
            if books.coming.len() >= MOST_REMEMBERED {
                books.coming.retain(|_, partial| matches!(partial, Partial::Busy));
            }
            match books.coming.insert(key.clone(), Partial::Busy) {
                Some(Partial::Busy) => return Err(FilesError::Busy(digest)),
                before => before,
            }
        };
        let opened = self.go_on(whose, (digest, size), offset, before);
        if opened.is_err() {
            self.books.locked().coming.remove(&key);
        }
        opened
    }

    fn go_on(
        &self,
        whose: &Whose,
        (digest, size): (Digest, u64),
        offset: u64,
        before: Option<Partial>,
    ) -> Result<Coming<'_>, FilesError> {
        let part = self.part(whose, &digest);
        FileStore::make(part.parent().unwrap_or(&self.root))?;
        let failed = FilesError::io("write");
        let found = std::fs::symlink_metadata(&part).ok().map(|found| found.len());
        let have = found.unwrap_or(0);
        if offset > 0 && offset != have {
            return Err(FilesError::Offset { digest, have, offset });
        }
        if offset == 0 && found.is_some() {
            // From the beginning: whoever sends it knows of nothing that is here. It is another
            // file: what was verified under this name may be on its way to its own.
            std::fs::remove_file(&part).map_err(&failed)?;
            self.give_back(whose, LEAST.saturating_add(have));
        }
        // Refused before anything comes; counted as it does.
        let (rest, new) = (size.saturating_sub(offset), if offset == 0 { LEAST } else { 0 });
        self.take(whose, rest.saturating_add(new))?;
        self.give_back(whose, rest);
        let mut options = OpenOptions::new();
        options.read(true).append(true).create_new(offset == 0).mode(0o600);
        let opened = options.custom_flags(no_follow()).open(&part).map_err(&failed);
        let mut file = opened.inspect_err(|_| self.give_back(whose, new))?;
        let hash = match before {
            Some(Partial::Here { length, hash }) if length == offset && offset > 0 => hash,
            _ => Box::new(hash_of(&mut file, offset).map_err(&failed)?),
        };
        let whose = whose.clone();
        let (at, counted, is_over) = (offset, 0, false);
        Ok(Coming { store: self, whose, digest, file, part, hash, size, at, counted, is_over })
    }
}

fn no_follow() -> i32 {
    i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default()
}

/// Of so many bytes, or of all there are.
pub(crate) fn hash_of(file: &mut File, length: u64) -> io::Result<Sha256> {
    let mut hash = Sha256::new();
    let mut from = file.take(length);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(hash),
            count => hash.update(buffer.get(..count).unwrap_or_default()),
        }
    }
}

impl Coming<'_> {
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), FilesError> {
        let length = bytes.len() as u64;
        if self.at.saturating_add(length) > self.size {
            return Err(FilesError::Digest(self.digest));
        }
        if self.counted < length {
            let step = STEP.min(self.size.saturating_sub(self.at + self.counted)).max(length);
            self.store.take(&self.whose, step)?;
            self.counted += step;
        }
        self.file.write_all(bytes).map_err(FilesError::io("write"))?;
        self.hash.update(bytes);
        self.at += length;
        self.counted -= length;
        Ok(())
    }

    /// Verifies it if all of it is here.
    pub(super) fn end(mut self) -> Result<Option<Whole>, FilesError> {
        if self.at < self.size {
            return Ok(None);
        }
        let found = Digest(self.hash.clone().finalize().into());
        let file = self.file.try_clone().map_err(FilesError::io("write"))?;
        self.is_over = true;
        if found != self.digest {
            let _gone = std::fs::remove_file(&self.part);
            self.store.give_back(&self.whose, self.at.saturating_add(LEAST));
            return Err(FilesError::Digest(self.digest));
        }
        let path = self.store.content(&self.whose, &self.digest);
        let (part, digest, size) = (self.part.clone(), self.digest, self.size);
        Ok(Some(Whole { file, part, path, digest, size }))
    }
}

impl Drop for Coming<'_> {
    /// What came is gone on with later, where it is known how far it is.
    fn drop(&mut self) {
        self.store.give_back(&self.whose, self.counted);
        let key = (self.whose.clone(), self.digest);
        let mut books = self.store.books.locked();
        if self.is_over {
            // Still nobody else's until it has its name: `FileStore::name` lets go of it.
            if !self.part.exists() {
                books.coming.remove(&key);
            }
            return;
        }
        let written = self.file.metadata().map_or(0, |found| found.len());
        if written == 0 {
            // A name without content takes room that its user could leave behind for nothing.
            let gone = std::fs::remove_file(&self.part).is_ok();
            if gone && let Some(used) = books.used.get_mut(&self.whose) {
                *used = used.saturating_sub(LEAST);
            }
        }
        if written == self.at && written > 0 {
            let hash = self.hash.clone();
            books.coming.insert(key, Partial::Here { length: self.at, hash });
        } else {
            books.coming.remove(&key);
        }
    }
}

impl FileStore {
    /// Gives contents their names, when they are on disk.
    pub(super) fn name(&self, whose: &Whose, all: &mut Vec<Whole>) -> Result<(), FilesError> {
        /// Of more, all that the file system has is written at once, which is faster.
        const FEW: usize = 4;
        let synced = match &all[..] {
            [] => return Ok(()),
            few if few.len() <= FEW => few.iter().try_for_each(|it| it.file.sync_data()),
            [first, ..] => rustix::fs::syncfs(&first.file).map_err(Into::into),
        };
        let failed = FilesError::io("write");
        synced.map_err(&failed)?;
        let mut folders = std::collections::BTreeSet::new();
        while let Some(whole) = all.last() {
            let folder = whole.path.parent().unwrap_or(&self.root).to_owned();
            FileStore::make(&folder)?;
            let there = std::fs::symlink_metadata(&whole.path).ok();
            std::fs::rename(&whole.part, &whole.path).map_err(&failed)?;
            if let Some(there) = there {
                // Uploaded twice at the same time.
                self.give_back(whose, LEAST.saturating_add(there.len()));
            }
            // Only now may somebody else begin it: until it had its name it was a part.
            self.books.locked().coming.remove(&(whose.clone(), whole.digest));
            folders.insert(folder);
            all.pop();
        }
        for folder in folders {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(&failed)?;
        }
        Ok(())
    }

    /// Lets go of contents that will not get their names.
    pub(super) fn drop_unnamed(&self, whose: &Whose, all: &[Whole]) {
        let mut books = self.books.locked();
        for whole in all {
            books.coming.remove(&(whose.clone(), whole.digest));
        }
    }
}
