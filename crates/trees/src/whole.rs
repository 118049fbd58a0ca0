//! Files of our own that are there whole or not at all: written under another name, and renamed.
//!
//! What is written is never written through a link, nor into a file that was there: the draft is
//! made anew, in a folder that is held by its descriptor. Who else may write into that folder is
//! the caller's matter.

use rustix::fs::{AtFlags, Mode, OFlags, fsync, open, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

/// For nobody else to read.
const PRIVATE: u32 = 0o600;

/// Writes a file that only its owner may read. When this returns it is there even after a power
/// cut; until then what was there before is.
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut draft = Draft::of(path)?;
    draft.file.write_all(content)?;
    draft.publish().map(drop)
}

/// A file in the making. Removed unless it gets its name.
#[derive(Debug)]
pub struct Draft {
    /// Open for adding to its end.
    pub file: File,
    place: DraftPaths,
}

#[derive(Debug)]
struct DraftPaths {
    folder: OwnedFd,
    draft: OsString,
    /// Where it is to be; `None`: in the same folder.
    other: Option<OwnedFd>,
    name: OsString,
    is_named: bool,
}

impl Draft {
    /// Beside the file that it is to be, which only its owner may read.
    pub fn of(path: &Path) -> io::Result<Draft> {
        let (folder, name) = split(path)?;
        let mut draft = name.to_owned();
        draft.push(".new");
        Draft::new(folder, draft, None, name, PRIVATE)
    }

    /// In another folder of the same file system, where drafts that nobody came to name are cleared
    /// away; for others to read as far as the process lets them.
    pub fn elsewhere(draft: &Path, path: &Path) -> io::Result<Draft> {
        let ((folder, draft), (other, name)) = (split(draft)?, split(path)?);
        Draft::new(folder, draft.to_owned(), Some(other), name, 0o666)
    }

    fn new(
        folder: OwnedFd,
        draft: OsString,
        other: Option<OwnedFd>,
        name: &OsStr,
        mode: u32,
    ) -> io::Result<Draft> {
        // Left by somebody who was killed.
        let _not_there = unlinkat(&folder, &draft, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&folder, &draft, flags, Mode::from_raw_mode(mode))?;
        let place = DraftPaths { folder, draft, other, name: name.to_owned(), is_named: false };
        Ok(Draft { file: file.into(), place })
    }

    /// Gives it its name when its content is on disk, and returns when the name is too.
    pub fn publish(self) -> io::Result<File> {
        self.publish_by(|name| name())
    }

    /// The same where giving it its name, which takes no time, is for `naming` to do or to refuse.
    pub fn publish_by(
        self,
        naming: impl FnOnce(&mut dyn FnMut() -> io::Result<()>) -> io::Result<()>,
    ) -> io::Result<File> {
        let Draft { file, mut place } = self;
        file.sync_all()?;
        naming(&mut || place.give_name())?;
        match fsync(place.other.as_ref().unwrap_or(&place.folder)) {
            // A file system that does not do this for folders has nothing to wait for.
            Ok(()) | Err(Errno::INVAL) => Ok(file),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Gives it its name now. After a power cut it may be anything: for what is of no use then, or
    /// can be had again.
    pub fn publish_unsynced(self) -> io::Result<File> {
        let Draft { file, mut place } = self;
        place.give_name()?;
        Ok(file)
    }
}

impl DraftPaths {
    fn give_name(&mut self) -> io::Result<()> {
        let to = self.other.as_ref().unwrap_or(&self.folder);
        renameat(&self.folder, &self.draft, to, &self.name)?;
        self.is_named = true;
        Ok(())
    }
}

impl Drop for DraftPaths {
    fn drop(&mut self) {
        if !self.is_named {
            let _ = unlinkat(&self.folder, &self.draft, AtFlags::empty());
        }
    }
}

/// The folder of a file, held, and the file's name in it.
fn split(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok((open(folder.unwrap_or(Path::new(".")), flags, Mode::empty())?, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn it_is_there_whole_and_for_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.json");
        for content in ["a longer one", "short"] {
            write_whole(&path, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(dir.path()), ["key.json"]);
    }

    #[test]
    fn no_link_is_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("victim"), "mine").unwrap();
        symlink(at("victim"), at("key.new")).unwrap();
        symlink(at("victim"), at("key")).unwrap();
        write_whole(&at("key"), b"secret").unwrap();
        assert_eq!(fs::read_to_string(at("victim")).unwrap(), "mine");
        assert!(fs::symlink_metadata(at("key")).unwrap().is_file());
        assert_eq!(names(dir.path()), ["key", "victim"]);
    }

    #[test]
    fn a_draft_left_open_to_others_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join("key.new");
        fs::write(&left, "half").unwrap();
        fs::set_permissions(&left, fs::Permissions::from_mode(0o666)).unwrap();
        let mut watcher = File::open(&left).unwrap();
        let path = dir.path().join("key");
        write_whole(&path, b"secret").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(io::read_to_string(&mut watcher).unwrap(), "half", "it is another file");
    }

    #[test]
    fn what_cannot_be_finished_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        write_whole(&path, b"old").unwrap();
        let mut draft = Draft::of(&path).unwrap();
        draft.file.write_all(b"ne").unwrap();
        drop(draft);
        assert_eq!(
            (fs::read_to_string(&path).unwrap().as_str(), names(dir.path()).len()),
            ("old", 1)
        );
        let folder = dir.path().join("folder");
        fs::create_dir_all(folder.join("full")).unwrap();
        write_whole(&folder, b"x").unwrap_err();
        assert_eq!(names(dir.path()), ["folder", "key"], "no draft is left");
        assert!(write_whole(&dir.path().join(".."), b"x").is_err());
    }

    #[test]
    fn a_draft_may_lie_elsewhere_and_be_added_to_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("scratch")).unwrap();
        let path = dir.path().join("name");
        let mut draft = Draft::elsewhere(&dir.path().join("scratch/1"), &path).unwrap();
        draft.file.write_all(b"first").unwrap();
        assert_eq!(names(dir.path()), ["scratch"]);
        let mut file = draft.publish_unsynced().unwrap();
        file.write_all(b", second").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first, second");
        assert_eq!(names(&dir.path().join("scratch")), [""; 0]);
    }
}
