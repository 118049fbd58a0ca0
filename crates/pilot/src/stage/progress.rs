//! How far a process that copies files has come, and in the end its report: a file in memory that
//! it has as standard output. Whoever started it reads there at any time and waits for nobody, so
//! whoever else might hold that file holds up nothing.
//!
//! ```text
//! 0..8    how much has been moved: any change is progress
//! 8..12   length of the name
//! 12..    the file that it is at, cut off at NAME_LIMIT bytes
//! HEAD..  the report
//! ```

use super::Report;
use rustix::fs::{MemfdFlags, memfd_create};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The kernel's limit for a path.
const NAME_LIMIT: usize = 4096;
const NAME_AT: usize = 12;
const HEAD: u64 = (NAME_AT + NAME_LIMIT) as u64;

/// Longest report: it names every file at the top of a work directory, and a hundred bytes are
/// enough for most.
const REPORT_LIMIT: u64 = 64 << 20;

/// Bytes that are copied before it is said: so few that a slow file server moves them within the
/// time it is given, so many that saying it costs nothing.
const PIECE: u64 = 16 << 20;

/// The side of whoever copies.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Nobody looks where there is none.
    to: Option<File>,
    moved: Cell<u64>,
}

impl Progress {
    /// Told by standard output, which must be such a file.
    pub(super) fn by_stdout() -> io::Result<Self> {
        let to = rustix::stdio::stdout().try_clone_to_owned()?;
        Ok(Progress { to: Some(to.into()), moved: Cell::default() })
    }

    /// It turns to this file.
    pub(super) fn at(&self, path: &Path) {
        let name = path.as_os_str().as_bytes();
        let name = &name[..name.len().min(NAME_LIMIT)];
        let length = u32::try_from(name.len()).unwrap_or_default();
        let moved = self.moved.get() + 1;
        self.moved.set(moved);
        self.say(&[&moved.to_ne_bytes()[..], &length.to_ne_bytes(), name].concat());
    }

    fn moved(&self, bytes: u64) {
        self.moved.set(self.moved.get() + bytes);
        self.say(&self.moved.get().to_ne_bytes());
    }

    fn say(&self, bytes: &[u8]) {
        // Without it somebody may think that this hangs; it does not hinder the work.
        let _unheard = self.to.as_ref().map(|to| to.write_all_at(bytes, 0));
    }

    /// Copies a file, a piece at a time. What `between` does is done after so many of them.
    pub(super) fn copy(
        &self,
        from: &mut File,
        to: &mut File,
        (pieces, between): (u64, fn(&File) -> io::Result<()>),
    ) -> io::Result<()> {
        for number in 1.. {
            let count = io::copy(&mut from.by_ref().take(PIECE), to)?;
            self.moved(count);
            if count < PIECE {
                break;
            }
            if number % pieces == 0 {
                between(to)?;
                self.moved(1);
            }
        }
        Ok(())
    }

    pub(super) fn report(&self, report: &Report) -> io::Result<()> {
        let text = serde_json::to_vec(report).expect("plain data");
        self.to.as_ref().map_or(Ok(()), |to| to.write_all_at(&text, HEAD))
    }
}

/// The side of whoever waits for it.
#[derive(Debug)]
pub(crate) struct Watched(File);

impl Watched {
    /// With the standard output that the process is to have.
    pub(crate) fn new() -> io::Result<(Self, File)> {
        let file = File::from(memfd_create("progress", MemfdFlags::CLOEXEC)?);
        let given = file.try_clone()?;
        Ok((Watched(file), given))
    }

    /// Changes whenever it has come further.
    pub(crate) fn moved(&self) -> u64 {
        let mut bytes = [0; 8];
        let read = self.0.read_exact_at(&mut bytes, 0);
        read.map_or(0, |()| u64::from_ne_bytes(bytes))
    }

    /// The file that it is at.
    pub(crate) fn at(&self) -> String {
        let mut head = vec![0; NAME_AT + NAME_LIMIT];
        let count = self.0.read_at(&mut head, 0).unwrap_or(0);
        let length = <[u8; 4]>::try_from(&head[8..NAME_AT]).map_or(0, u32::from_ne_bytes);
        let end = NAME_AT.saturating_add(length as usize).min(count).max(NAME_AT);
        String::from_utf8_lossy(&head[NAME_AT..end]).into_owned()
    }

    /// Read when the process is dead.
    pub(crate) fn report(&self) -> io::Result<Report> {
        let length = self.0.metadata()?.len().saturating_sub(HEAD);
        if length > REPORT_LIMIT {
            return Err(io::Error::other("its report is too long"));
        }
        let mut text = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.0.read_exact_at(&mut text, HEAD)?;
        Ok(serde_json::from_slice(&text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_side_says_the_other_reads() {
        let (watched, given) = Watched::new().unwrap();
        assert_eq!((watched.moved(), watched.at()), (0, String::new()));
        assert!(watched.report().is_err(), "nothing has been said");
        let progress = Progress { to: Some(given), moved: Cell::default() };
        progress.at(Path::new("/data/a long name"));
        let before = watched.moved();
        progress.at(Path::new("/data/b"));
        assert!(watched.moved() != before && watched.at() == "/data/b");
        let report = Report { problem: Some("none".into()), ..Report::default() };
        progress.report(&report).unwrap();
        assert_eq!(watched.report().unwrap(), report);
    }

    /// Somebody of the same account may have a hand in it.
    #[test]
    fn nonsense_is_an_error_and_no_more() {
        let (watched, given) = Watched::new().unwrap();
        given.write_all_at(&[0xFF; 2 * NAME_LIMIT], 0).unwrap();
        assert!(watched.at().len() >= NAME_LIMIT && watched.report().is_err());
        given.set_len(HEAD + REPORT_LIMIT + 1).unwrap();
        assert!(watched.report().unwrap_err().to_string().contains("too long"));
    }
}
