//! Files that travel, made in a work directory of what the pilot hands over, open. Each is a file
//! of the account's own: nothing it does to one of them reaches what the pilot keeps. Where the
//! file system can, the two share their blocks until one is written to.

use super::folder::Folder;
use super::talk::{Said, Talk, Word};
use super::{Progress, StageError};
use rustix::fs::{Mode, fchmod};
use shipway_model::Manifest;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

const FILE: Mode = Mode::from_raw_mode(0o644);
const PROGRAM: Mode = Mode::from_raw_mode(0o755);
const FOLDER: Mode = Mode::from_raw_mode(0o755);

/// The list has been checked: no path in it leads out.
pub(super) fn make(
    manifest: &Manifest,
    talk: &Talk,
    work: &Folder,
    progress: &Progress,
) -> Result<(), StageError> {
    for folder in &manifest.folders {
        let path = Path::new(folder);
        work.make(path, FOLDER).map_err(|errno| unwritten(path, errno.into()))?;
    }
    let mut handed = Handed { talk, files: VecDeque::new() };
    for listed in &manifest.files {
        let path = Path::new(&listed.path);
        progress.at(path);
        let failed = |error| unwritten(path, error);
        let mut from = handed.next().map_err(failed)?;
        let mut to = work.create(path).map_err(|errno| failed(errno.into()))?;
        progress.copy(&mut from, &mut to, super::inputs::NEVER).map_err(failed)?;
        let mode = if listed.executable { PROGRAM } else { FILE };
        fchmod(&to, mode).map_err(|errno| failed(errno.into()))?;
    }
    for link in &manifest.links {
        let path = Path::new(&link.path);
        let made = work.link(path, Path::new(&link.to));
        made.map_err(|errno| unwritten(path, errno.into()))?;
    }
    Ok(())
}

struct Handed<'a> {
    talk: &'a Talk,
    files: VecDeque<OwnedFd>,
}

impl Handed<'_> {
    fn next(&mut self) -> io::Result<File> {
        while self.files.is_empty() {
            match self.talk.hear()? {
                Some(Said { word: Word::Files, files, .. }) if !files.is_empty() => {
                    self.files.extend(files);
                }
                _ => return Err(io::Error::other("the pilot hands over no more files")),
            }
        }
        self.files.pop_front().map(File::from).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

fn unwritten(target: &Path, source: io::Error) -> StageError {
    StageError::Place { path: target.to_owned(), source }
}
