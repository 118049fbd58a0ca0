//! Removes a tree, a few steps at a time.
//!
//! It goes down to the first folder that has none in it, and up again. Only the last few folders
//! on the way down are kept open; the one above them is found again by `..`, and must then be the
//! one that was left. Of the rest a few bytes are remembered, and of a very deep tree not even
//! that: then it is gone down again from the top.
//!
//! Where root removes what others were given, each folder is gone through with the rights of the
//! first on the way down who is not root; only what is root's own is touched as root.

use crate::folder::{self, Id};
use crate::kept;
use crate::owner::{Acting, Owner};
use rustix::fs::{Dir, DirEntry, FileType, Mode, OFlags, fstat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::collections::VecDeque;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Folders that are open at the same time: most trees are no deeper, and several removals may be
/// under way.
const OPEN: usize = 8;

/// Folders on the way down that are remembered: some 10 MB of memory at most.
const REMEMBERED: usize = 1 << 17;

/// How often a folder is gone through again because something was added or moved meanwhile. Whoever
/// goes on adding has to be stopped by other means.
const ROUNDS: u8 = 8;

/// Say that it is not ours to remove, and not that something is amiss for the moment.
const REFUSALS: [Errno; 5] =
    [Errno::ACCESS, Errno::PERM, Errno::NOTEMPTY, Errno::BUSY, Errno::XDEV];

/// Why something is still there. The first problem, and how many more there were.
#[derive(Debug, thiserror::Error)]
#[error("cannot remove {} in {}{}", shown(.name), .tree.display(), and_more(*.more))]
pub struct RemoveError {
    tree: PathBuf,
    name: CString,
    more: u64,
    source: io::Error,
}

fn shown(name: &CStr) -> std::path::Display<'_> {
    Path::new(OsStr::from_bytes(name.to_bytes())).display()
}

fn and_more(more: u64) -> String {
    if more == 0 { String::new() } else { format!(" (and {more} more)") }
}

#[derive(Debug)]
pub enum Progress {
    /// There is more to do.
    More,
    Over(Result<(), RemoveError>),
}

/// A folder on the way down.
#[derive(Debug)]
struct Folder {
    /// The last few are open.
    open: Option<Box<Dir>>,
    /// Its name in the one above, as long as that is open.
    name: Option<CString>,
    id: Id,
    /// With whose rights it is gone through, if not with our own.
    owner: Option<Owner>,
    /// Where the entry begins that was looked at last, and where the next one does.
    last: i64,
    next: i64,
    /// Something in it cannot be removed.
    stuck: bool,
    rounds: u8,
}

/// The removal of one tree. It holds a few descriptors until it is over or dropped; what it has
/// not removed by then stays.
#[derive(Debug)]
pub struct Removal {
    path: PathBuf,
    /// What the tree is in, and what it is called there.
    above: Option<(OwnedFd, CString)>,
    way: VecDeque<Folder>,
    /// The folder that was gone through last, for the one above it.
    left: Option<Folder>,
    /// Others were given something in it, and we are root, who could remove more than they.
    lends: bool,
    /// Something is there that its owner's rights are not enough for.
    refused: bool,
    /// The beginning of the way was forgotten.
    cut: bool,
    removed: u64,
    /// What was removed when it last went down from the top, and how often it did that.
    removed_before: u64,
    descents: u8,
    problem: Option<RemoveError>,
}

impl Folder {
    /// Opens a folder that was closed on the way down, from the one below it, and says what that
    /// is called here. Where it stands is a number of the file system's, which some do not keep:
    /// then everything is looked at again, and what is empty is removed on the way.
    fn open_again(&mut self, below: &Folder) -> Result<Option<CString>, Errno> {
        let from = below.open.as_ref().ok_or(Errno::BADF)?.fd()?;
        let mut dir = folder::open_above(from, self.id)?;
        dir.seek(self.last)?;
        let met = dir.read().and_then(Result::ok);
        let met = met.filter(|entry| folder::is(&dir, entry.file_name(), below.id));
        match &met {
            Some(entry) => self.next = entry.offset(),
            // What is stuck must not be met again, at the price of its neighbours.
            None if below.stuck => dir.seek(self.next)?,
            None => dir.rewind(),
        }
        self.open = Some(Box::new(dir));
        Ok(met.map(|entry| entry.file_name().into()))
    }
}

/// Whether there is another step to do.
#[derive(PartialEq, Eq)]
enum Next {
    Step,
    Over,
}

impl Removal {
    /// A tree of our own. The last part of the path is not followed where it is a link; the folders
    /// above it are the caller's own.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            above: None,
            way: VecDeque::new(),
            left: None,
            lends: false,
            refused: false,
            cut: false,
            removed: 0,
            removed_before: 0,
            descents: 0,
            problem: None,
        }
    }

    /// A folder of ours that holds what others were given. Where we are root, that is removed with
    /// the rights of whose it is. What these are not enough for is kept for people to look at,
    /// with the rest of the folder, and counts as removed: nobody need try again.
    pub fn of_others(path: &Path) -> Self {
        Self { lends: geteuid().is_root(), ..Self::new(path) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Does so many steps; in each, one file or folder is looked at.
    pub fn go_on(&mut self, steps: u32) -> Progress {
        let mut acting = Acting::default();
        for _ in 0..steps {
            let owner = self.way.back().and_then(|folder| folder.owner);
            let next = match acting.by(owner) {
                Ok(()) => self.go(),
                Err(errno) => {
                    self.refused = true;
                    self.give_up(c".".into(), errno)
                }
            };
            if next == Next::Over {
                drop(acting);
                return Progress::Over(self.end());
            }
        }
        Progress::More
    }

    fn go(&mut self) -> Next {
        match self.left.take() {
            Some(left) => self.leave(left),
            None if self.way.is_empty() => self.begin(),
            None => self.step(),
        }
    }

    /// How it went. With our own rights.
    fn end(&mut self) -> Result<(), RemoveError> {
        let Some(problem) = self.problem.take() else { return Ok(()) };
        let (true, Some((above, name))) = (self.refused, &self.above) else { return Err(problem) };
        let Some(place) = kept::place_for(&self.path) else { return Err(problem) };
        let cause = &problem.source;
        match kept::keep(above.as_fd(), name, &place) {
            Ok(to) => {
                let to = to.display();
                tracing::warn!(%problem, %cause, %to, "not theirs to remove: it is kept");
                Ok(())
            }
            Err(errno) => {
                tracing::warn!(%problem, %cause, "it cannot even be moved aside: {errno}");
                Err(problem)
            }
        }
    }

    /// At the top, before all else and after.
    fn begin(&mut self) -> Next {
        let (above, name) = match self.open_above() {
            Ok(found) => found,
            Err(Errno::NOENT) => return Next::Over,
            Err(errno) => return self.give_up(c"..".into(), errno),
        };
        let removed = match folder::remove_folder(above.as_fd(), &name) {
            Err(Errno::NOTDIR) => folder::remove_file(above.as_fd(), &name),
            other => other,
        };
        let opened = match removed {
            // Whatever was in the way before is not there any more.
            Ok(()) => {
                self.problem = None;
                return Next::Over;
            }
            Err(Errno::NOTEMPTY) if self.problem.is_some() => return Next::Over,
            Err(Errno::NOTEMPTY) if self.may_descend() => folder::open(above.as_fd(), &name),
            Err(errno) => return self.give_up(name, errno),
        };
        self.cut = false;
        match opened.and_then(|top| self.push(top, &name)) {
            Ok(()) => Next::Step,
            Err(errno) => self.give_up(name, errno),
        }
    }

    fn open_above(&mut self) -> Result<(OwnedFd, CString), Errno> {
        if self.above.is_none() {
            let name = self.path.file_name().ok_or(Errno::INVAL)?;
            let name = CString::new(name.as_bytes()).map_err(|_| Errno::INVAL)?;
            let above = self.path.parent().filter(|above| !above.as_os_str().is_empty());
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let above = rustix::fs::open(above.unwrap_or(Path::new(".")), flags, Mode::empty())?;
            self.above = Some((above, name));
        }
        let (above, name) = self.above.as_ref().expect("set above");
        Ok((above.try_clone().map_err(|_| Errno::MFILE)?, name.clone()))
    }

    /// Only so often, unless the tree is so deep that this is the way to go.
    fn may_descend(&mut self) -> bool {
        let goes_on = self.cut && self.removed > self.removed_before;
        self.removed_before = self.removed;
        self.descents += u8::from(!goes_on);
        self.descents <= ROUNDS
    }

    fn push(&mut self, dir: Dir, name: &CStr) -> Result<(), Errno> {
        let found = fstat(dir.fd()?)?;
        let lent = self.way.back().and_then(|above| above.owner);
        let owner = if self.lends { lent.or_else(|| Owner::of(&found)) } else { None };
        let id = folder::id_of(&found);
        let (open, name) = (Some(Box::new(dir)), Some(name.to_owned()));
        let (last, next, stuck, rounds) = (0, 0, false, 0);
        self.way.push_back(Folder { open, name, id, owner, last, next, stuck, rounds });
        let length = self.way.len();
        if length > OPEN {
            self.way[length - OPEN - 1].open = None;
            self.way[length - OPEN].name = None;
        }
        if length > REMEMBERED {
            self.way.pop_front();
            self.cut = true;
        }
        Ok(())
    }

    /// The next entry of the folder it stands in.
    fn step(&mut self) -> Next {
        let Some(folder) = self.way.back_mut() else { return Next::Step };
        match folder.open.as_mut().and_then(|dir| dir.read()) {
            None => self.left = self.way.pop_back(),
            Some(Err(errno)) => {
                self.note(c".".into(), errno);
                self.left = self.way.pop_back();
            }
            Some(Ok(entry)) => {
                (folder.last, folder.next) = (folder.next, entry.offset());
                if ![c".", c".."].contains(&entry.file_name()) {
                    self.remove_entry(&entry);
                }
            }
        }
        Next::Step
    }

    fn remove_entry(&mut self, entry: &DirEntry) {
        let Some(here) = self.here() else { return };
        let name = entry.file_name();
        let removed = unlocking(here, || {
            // Not every file system says what it is, and it may be something else by now.
            match entry.file_type() {
                FileType::Directory => match folder::remove_folder(here, name) {
                    Err(Errno::NOTDIR) => folder::remove_file(here, name),
                    other => other,
                },
                _ => match folder::remove_file(here, name) {
                    Err(Errno::ISDIR) => folder::remove_folder(here, name),
                    other => other,
                },
            }
        });
        let removed = match removed {
            Ok(()) => {
                self.removed += 1;
                return;
            }
            Err(Errno::NOTEMPTY) => folder::open(here, name),
            Err(errno) => Err(errno),
        };
        match removed.and_then(|below| self.push(below, name)) {
            // It went away, or became a link: whatever it is now is met in the next round.
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(errno) => self.note(name.into(), errno),
        }
    }

    fn here(&self) -> Option<BorrowedFd<'_>> {
        self.way.back()?.open.as_ref()?.fd().ok()
    }

    /// Everything in a folder was looked at: back to the one above, where it is removed.
    fn leave(&mut self, mut left: Folder) -> Next {
        let Some(above) = self.way.back_mut() else { return Next::Step };
        above.stuck |= left.stuck;
        if above.open.is_none() {
            let Ok(name) = above.open_again(&left) else {
                // One of them was moved away: from the top, then.
                self.way.clear();
                return Next::Step;
            };
            left.name = name;
        }
        let (Some(here), Some(name)) = (self.here(), left.name.clone()) else { return Next::Step };
        if left.stuck {
            return Next::Step;
        }
        match unlocking(here, || folder::remove_folder(here, &name)) {
            Ok(()) => self.removed += 1,
            Err(Errno::NOTEMPTY) if left.rounds < ROUNDS => {
                left.rounds += 1;
                if let Some(dir) = left.open.as_mut() {
                    dir.rewind();
                }
                self.way.push_back(left);
            }
            Err(errno) => self.note(name, errno),
        }
        Next::Step
    }

    fn note(&mut self, name: CString, errno: Errno) {
        if let Some(folder) = self.way.back_mut() {
            folder.stuck = true;
        }
        self.refused |= self.lends && REFUSALS.contains(&errno);
        if let Some(problem) = &mut self.problem {
            problem.more += 1;
        } else {
            let tree = self.path.clone();
            self.problem = Some(RemoveError { tree, name, more: 0, source: errno.into() });
        }
    }

    fn give_up(&mut self, name: CString, errno: Errno) -> Next {
        self.note(name, errno);
        Next::Over
    }
}

/// Tries again where the folder's mode was in the way.
fn unlocking(here: BorrowedFd<'_>, act: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
    match act() {
        Err(Errno::ACCESS | Errno::PERM) if folder::unlock(here).is_ok() => act(),
        done => done,
    }
}
