//! Appending to a log that others append to as well: HTCondor's own tools and other servers, which
//! all lock the file as HTCondor does.

use super::place::Places;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, fcntl_lock, fstat};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

/// How often, and after which pause, a file that somebody else has locked is tried again. Then it
/// is written all the same: what is appended in one piece stays in one piece.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// What is read of a log after a restart. More than this between two notes of how far it is
/// written would be a restart that took hours.
const READ_BACK: u64 = 64 << 20;

/// The line that ends an event.
const END: &str = "...\n";

/// Appends, and makes sure that it is on disk. The size of the file then.
pub(super) fn append(path: &Path, text: &str, places: &Places) -> io::Result<u64> {
    #[cfg(test)]
    assert!(!path.ends_with("panics_when_appended"), "struck");
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
    let mut file = open(path, flags, places)?;
    for _ in 0..LOCK_TRIES {
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::AGAIN | Errno::ACCESS) => std::thread::sleep(LOCK_PAUSE),
            // Not every file system has locks.
            Ok(()) | Err(_) => break,
        }
    }
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    Ok(file.metadata()?.len())
    // Closing it lets go of the lock.
}

/// A plain file with one name and nothing else: no link, no device, and no pipe to wait for.
fn open(path: &Path, flags: OFlags, places: &Places) -> io::Result<File> {
    let safe = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let (folder, name) = places.folder_of(path)?;
    let file = rustix::fs::openat(&folder, name, flags | safe, Mode::from_raw_mode(0o644));
    let file = match file {
        Err(Errno::LOOP) => return Err(io::Error::other("it is a link")),
        Err(Errno::NXIO) => return Err(io::Error::other("it is not a plain file")),
        other => other?,
    };
    let found = fstat(&file)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it is not a plain file"));
    }
    if found.st_nlink > 1 {
        return Err(io::Error::other("it has other names"));
    }
    Ok(file.into())
}

/// What an event is recognised by: its number, the job and the time. The rest of the first line may
/// differ after a restart: the server may be at another address then.
pub(super) fn mark(event: &str) -> String {
    event.splitn(5, ' ').take(4).collect::<Vec<_>>().join(" ")
}

/// The marks of events that were appended after a size, each with how often.
pub(super) fn events_after(path: &Path, size: u64, places: &Places) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    let text = read_after(path, size, places).unwrap_or_default();
    for event in text.split_inclusive(END) {
        *found.entry(mark(event)).or_insert(0) += 1;
    }
    found
}

fn read_after(path: &Path, size: u64, places: &Places) -> io::Result<String> {
    let mut file = open(path, OFlags::RDONLY, places)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.max(length.saturating_sub(READ_BACK))))?;
    let mut bytes = Vec::new();
    file.take(READ_BACK).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_plain_files_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let event = |number: &str, rest: &str| {
            format!("{number} (1.0.0) 2026-11-15 22:03:45 {rest}\n...\n")
        };
        let (first, second) = (event("000", "from <a>"), event("001", "on <b>"));
        let places = Places::default();
        let append = |path: &Path, text: &str| append(path, text, &places);
        let size = append(&log, &first).unwrap();
        let end = append(&log, &[&*second, &*second, &*first].concat()).unwrap();
        let events = events_after(&log, size, &places);
        assert_eq!(events.len(), 2);
        assert_eq!(events[&mark(&event("000", "from <elsewhere>"))], 1);
        assert_eq!(events[&mark(&second)], 2);
        let link = dir.path().join("link");
        symlink(&log, &link).unwrap();
        std::fs::write(dir.path().join("named"), "").unwrap();
        let twice = dir.path().join("twice");
        std::fs::hard_link(dir.path().join("named"), &twice).unwrap();
        let pipe = dir.path().join("pipe");
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
        for (path, words) in [
            (link.as_path(), "a link"),
            (&twice, "other names"),
            (pipe.as_path(), "not a plain file"),
            (Path::new("/dev/full"), "not a plain file"),
            (&dir.path().join("missing/log"), "No such file"),
            (dir.path(), "directory"),
        ] {
            let error = append(path, "x").unwrap_err().to_string();
            assert!(error.contains(words), "{}: {error}", path.display());
        }
        assert_eq!(std::fs::metadata(&log).unwrap().len(), end);
    }
}
