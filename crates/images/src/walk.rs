//! A tree on disk as an archive: every file, links as links, never out of the tree.

use crate::limits::DEPTH_LIMIT;
use crate::tar::{Kind, Member, Time, write};
use rustix::fs::{Mode, OFlags};
use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Writes the archive of a tree: the root first, then everything in order of name.
pub fn archive(root: &Path, to: impl Write) -> io::Result<()> {
    let mut walk = Walk { to: BufWriter::with_capacity(256 << 10, to), seen: HashMap::new() };
    walk.dir(root, b"./", 0)?;
    write::end(&mut walk.to)?;
    walk.to.flush()
}

struct Walk<W: Write> {
    to: BufWriter<W>,
    /// First names of files that have several.
    seen: HashMap<(u64, u64), Vec<u8>>,
}

impl<W: Write> Walk<W> {
    fn dir(&mut self, path: &Path, name: &[u8], depth: usize) -> io::Result<()> {
        // Whoever reads the archive would refuse it; and each folder costs some stack.
        if depth > DEPTH_LIMIT {
            return Err(io::Error::other(format!(
                "more than {DEPTH_LIMIT} folders in one another"
            )));
        }
        let found = fs::symlink_metadata(path)?;
        write::header(&mut self.to, &member(name, Kind::Dir, &found))?;
        let mut entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = [name, entry.file_name().as_bytes()].concat();
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.dir(&entry.path(), &[&name, &b"/"[..]].concat(), depth + 1)?;
            } else {
                self.other(&entry.path(), &name, &entry.metadata()?)?;
            }
        }
        Ok(())
    }

    fn other(&mut self, path: &Path, name: &[u8], found: &Metadata) -> io::Result<()> {
        let kind = found.file_type();
        if kind.is_file() && found.nlink() > 1 {
            let id = (found.dev(), found.ino());
            if let Some(first) = self.seen.get(&id) {
                let mut link = member(name, Kind::HardLink, found);
                link.link.clone_from(first);
                return write::header(&mut self.to, &link);
            }
            self.seen.insert(id, name.to_vec());
        }
        if kind.is_symlink() {
            let mut link = member(name, Kind::Symlink, found);
            link.link = fs::read_link(path)?.as_os_str().as_bytes().to_vec();
            return write::header(&mut self.to, &link);
        }
        if kind.is_file() {
            return self.file(path, name, found);
        }
        let kind = if kind.is_fifo() { Kind::Fifo } else { Kind::Device };
        write::header(&mut self.to, &member(name, kind, found))
    }

    fn file(&mut self, path: &Path, name: &[u8], found: &Metadata) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let mut file_member = member(name, Kind::File, found);
        file_member.size = found.len();
        write::header(&mut self.to, &file_member)?;
        let copied = io::copy(&mut file.take(found.len()), &mut self.to)?;
        if copied != found.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        write::pad(&mut self.to, copied)
    }
}

fn member(path: &[u8], kind: Kind, found: &Metadata) -> Member {
    Member {
        path: path.to_vec(),
        kind,
        mode: found.mode() & 0o7777,
        uid: found.uid(),
        gid: found.gid(),
        mtime: Time {
            seconds: found.mtime(),
            nanos: u32::try_from(found.mtime_nsec()).unwrap_or_default(),
        },
        link: Vec::new(),
        size: 0,
        sparse: None,
        xattrs: Vec::new(),
    }
}
