//! The folder of one attempt, with all that the pilot makes for it: its work directory, its
//! script, what it reads and what it printed.
//!
//! The folder itself stays the pilot's, and no account may write there. So no name in it can be
//! exchanged for another, and what is handed to an account is handed over last, by descriptor.
//! Inside of what an account was given the pilot makes, changes and opens nothing. Nor can the
//! account come in from elsewhere, and put there what is not its own, unless its task has to pass
//! through the folder.

use super::start::own_mode;
use crate::accounts::Whom;
use rustix::fs::{Gid, Mode, OFlags, Stat, Uid, fchmod, fchown, fstat, mkdirat, open, openat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

const NEW_FILE: OFlags = OFlags::RDWR
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Of a folder or a file that is its account's alone.
const PRIVATE_FOLDER: Mode = Mode::RWXU;
const PROGRAM: Mode = Mode::RWXU;
const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

/// The folder that those of attempts are in.
#[derive(Debug)]
pub(super) struct Folders {
    path: PathBuf,
    /// Opened when the first attempt needs it.
    opened: Option<OwnedFd>,
}

impl Folders {
    pub(super) const fn new(path: PathBuf) -> Self {
        Folders { path, opened: None }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of an attempt; made by the first who asks for it.
    pub(super) fn of(&mut self, name: &str) -> io::Result<OwnFolder> {
        let above = match &mut self.opened {
            Some(opened) => opened,
            none => none.insert(open_or_make(&self.path)?),
        };
        let folder = make_folder(above, name, PRIVATE_FOLDER)?;
        Ok(OwnFolder { folder, path: self.path.join(name) })
    }
}

#[derive(Debug)]
pub(super) struct OwnFolder {
    folder: OwnedFd,
    path: PathBuf,
}

impl OwnFolder {
    /// Lets accounts pass through, to what is theirs in it.
    pub(super) fn let_pass(&self) -> io::Result<()> {
        Ok(fchmod(&self.folder, Mode::from_raw_mode(own_mode()))?)
    }

    /// A folder that is its account's alone.
    pub(super) fn private(&self, name: &str, whom: &Whom) -> io::Result<PathBuf> {
        let made = match mkdirat(&self.folder, name, PRIVATE_FOLDER) {
            Ok(()) => true,
            // Made and handed over when its files were brought.
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno.into()),
        };
        if made && whom.account().is_some() {
            let folder = openat(&self.folder, name, FOLDER, Mode::empty())?;
            hand_over(&folder, whom)?;
        }
        Ok(self.path.join(name))
    }

    /// A program with this text.
    pub(super) fn program(&self, name: &str, text: &str, whom: &Whom) -> io::Result<PathBuf> {
        let mut file = File::from(openat(&self.folder, name, NEW_FILE, PROGRAM)?);
        file.write_all(text.as_bytes())?;
        hand_over(&file, whom)?;
        Ok(self.path.join(name))
    }

    /// An empty file that its account fills.
    pub(super) fn empty_file(&self, name: &str, whom: &Whom) -> io::Result<PathBuf> {
        hand_over(&self.file(name)?, whom)?;
        Ok(self.path.join(name))
    }

    /// An empty file of the pilot's.
    pub(super) fn file(&self, name: &str) -> io::Result<File> {
        Ok(openat(&self.folder, name, NEW_FILE, PRIVATE_FILE)?.into())
    }
}

fn open_or_make(path: &Path) -> io::Result<OwnedFd> {
    std::fs::DirBuilder::new().recursive(true).mode(own_mode()).create(path)?;
    let opened = open(path, FOLDER, Mode::empty())?;
    pilots_own(&opened, Mode::from_raw_mode(own_mode()))?;
    Ok(opened)
}

/// A folder that stays the pilot's, whatever mask this process has.
fn make_folder(above: &OwnedFd, name: &str, mode: Mode) -> io::Result<OwnedFd> {
    let made = match mkdirat(above, name, mode) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(errno.into()),
    };
    let folder = openat(above, name, FOLDER, Mode::empty())?;
    if made {
        pilots_own(&folder, mode)?;
    }
    Ok(folder)
}

fn pilots_own(folder: &OwnedFd, mode: Mode) -> io::Result<()> {
    let found: Stat = fstat(folder)?;
    if found.st_uid != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it is not the pilot's own"));
    }
    if Mode::from_raw_mode(found.st_mode) != mode {
        fchmod(folder, mode)?;
    }
    Ok(())
}

/// The last thing that is done to it.
fn hand_over(what: impl AsFd, whom: &Whom) -> io::Result<()> {
    let Some(account) = whom.account() else { return Ok(()) };
    let (uid, gid) = (Uid::from_raw(account.user.uid), Gid::from_raw(account.user.gid));
    Ok(fchown(what, Some(uid), Some(gid))?)
}

/// A folder on the way to `dir` in which somebody who is not root can put something else in the
/// place of what is there: no name below it can be relied on.
pub(super) fn changeable_by_others(dir: &Path) -> Option<PathBuf> {
    /// In such a folder everybody changes what is their own only.
    const STICKY: u32 = 0o1000;
    const OTHERS_WRITE: u32 = 0o002;
    const GROUP_WRITES: u32 = 0o020;
    let is_changeable = |found: std::fs::Metadata| {
        let mode = found.permissions().mode();
        let by_group = mode & GROUP_WRITES != 0 && found.gid() != 0;
        let by_others = mode & OTHERS_WRITE != 0;
        found.uid() != 0 || ((by_group || by_others) && mode & STICKY == 0)
    };
    // Where it really is, and not by which link it was named.
    let real = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    // What is not there yet will be made by us.
    let found = |path: &&Path| path.metadata().is_ok_and(is_changeable);
    real.ancestors().find(found).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::Account;
    use shipway_runtime::plan::User;

    const NOBODY: u32 = 65_534;

    fn nobody() -> Whom {
        let user = User { uid: NOBODY, gid: NOBODY, groups: Vec::new() };
        let (home, shell) = ("/".into(), "/bin/sh".into());
        Whom::Account(Account { name: "nobody".into(), user, home, shell })
    }

    /// What root works in by name must be no account's to change.
    #[test]
    fn only_what_is_handed_over_is_the_accounts() {
        if !crate::skips::is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let mut folders = Folders::new(dir.path().join("work"));
        let own = folders.of("1.0.1").unwrap();
        let script = own.program("script", "#!/bin/sh\n", &nobody()).unwrap();
        let work = own.private("work", &nobody()).unwrap();
        let stdin = own.empty_file("stdin", &nobody()).unwrap();
        let mode = || work.parent().unwrap().metadata().unwrap().mode() & 0o777;
        assert_eq!(mode(), 0o700, "nobody comes in who need not");
        own.let_pass().unwrap();
        assert_eq!(mode(), 0o711);
        for given in [&script, &work, &stdin] {
            assert_eq!(given.symlink_metadata().unwrap().uid(), NOBODY, "{}", given.display());
            for above in given.ancestors().skip(1).take(3) {
                let found = above.metadata().unwrap();
                assert_eq!((found.uid(), found.mode() & 0o022), (0, 0), "{}", above.display());
            }
        }
        assert_eq!(script.metadata().unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn nothing_is_made_through_what_lies_there() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        std::fs::write(&target, "mine").unwrap();
        let mut folders = Folders::new(dir.path().join("work"));
        let own = folders.of("1.0.1").unwrap();
        let inside = |name: &str| dir.path().join("work/1.0.1").join(name);
        std::os::unix::fs::symlink(&target, inside("script")).unwrap();
        std::os::unix::fs::symlink(&target, inside("stdout.all")).unwrap();
        assert!(own.program("script", "theirs", &Whom::Pilot).is_err());
        assert!(own.file("stdout.all").is_err());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "mine");
        std::os::unix::fs::symlink(dir.path(), dir.path().join("work/2.0.1")).unwrap();
        assert!(folders.of("2.0.1").is_err());
    }

    #[test]
    fn a_folder_of_somebody_else_is_no_place() {
        if !crate::skips::is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        assert_eq!(changeable_by_others(&inner), None, "/tmp is everybody's, and sticky");
        std::os::unix::fs::chown(dir.path().join("a"), Some(NOBODY), None).unwrap();
        assert_eq!(changeable_by_others(&inner), Some(dir.path().join("a")));
    }
}
