//! Takes files and folders out of a work directory. What lies there was made by the task: a link
//! may lead anywhere and a name may be a pipe, so everything is opened from the top of the work
//! directory and looked at when it is open.

use super::folder::{Folder, key, kind, names, stamp};
use super::modes;
use super::targets::Targets;
use super::{Output, Progress, StageError, StageOut};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Takes as much as it can. The first thing that went wrong, and how many more did.
pub(super) fn take(plan: &StageOut, progress: &Progress) -> Option<String> {
    let mut problems = Vec::new();
    let taker = Taker { to: Targets::new(&plan.reach, &plan.mark, progress) };
    for (from, to) in &plan.streams {
        problems.extend(taker.stream(from, to).err());
    }
    if let Some(path) = &plan.work {
        match Folder::open(path) {
            Ok(work) => taker.all(plan, &work, &mut problems),
            Err(errno) => {
                problems.push(StageError::Work { path: path.clone(), source: errno.into() });
            }
        }
    }
    let first = problems.first()?.told(&plan.rights);
    Some(match problems.len() {
        1 => first,
        many => format!("{first} (and {} more)", many - 1),
    })
}

struct Taker<'a> {
    to: Targets<'a>,
}

impl Taker<'_> {
    fn all(&self, plan: &StageOut, work: &Folder, problems: &mut Vec<StageError>) {
        for output in &plan.outputs {
            let taken = self.named(work, output);
            // Of what is new, some goes elsewhere if it is there.
            let fine = plan.new_to.is_some() && matches!(taken, Err(StageError::NoOutput { .. }));
            problems.extend(taken.err().filter(|_| !fine));
        }
        if let Some(to) = &plan.new_to {
            match work.top() {
                Err(errno) => problems.push(unread(Path::new("."), errno)),
                Ok(names) => {
                    let elsewhere = |name: &OsStr| plan.outputs.iter().any(|it| it.name == name);
                    for name in names.into_iter().filter(|name| !elsewhere(name)) {
                        problems.extend(self.if_new(plan, work, &name, to).err());
                    }
                }
            }
        }
    }

    fn stream(&self, from: &Path, to: &Path) -> Result<(), StageError> {
        let unread = |source| StageError::Output { name: from.to_owned(), source };
        let mut file = File::open(from).map_err(unread)?;
        self.to.write(&mut file, to, None)
    }

    fn named(&self, work: &Folder, output: &Output) -> Result<(), StageError> {
        let name = &output.name;
        let (mut file, stat) = work.read(name).map_err(|errno| unread(name, errno))?;
        match kind(&stat) {
            FileType::Directory => self.folder(work, name, &output.target),
            _ if output.contents => Err(StageError::OutputNoFolder { name: name.clone() }),
            FileType::RegularFile => {
                self.to.write(&mut file, &output.target, Some(modes::of_file(stat.st_mode)))
            }
            _ => Err(StageError::OutputKind { name: name.clone() }),
        }
    }

    fn if_new(
        &self,
        plan: &StageOut,
        work: &Folder,
        name: &OsStr,
        to: &Path,
    ) -> Result<(), StageError> {
        let look = work.look(name).map_err(|errno| unread(Path::new(name), errno))?;
        let is_file = matches!(kind(&look), FileType::RegularFile | FileType::Symlink);
        if !is_file || plan.before.get(&key(name)) == Some(&stamp(&look)) {
            return Ok(());
        }
        let (mut file, stat) = match work.read(Path::new(name)) {
            Ok(read) => read,
            // Nobody named this one: a link that leads elsewhere is left where it is.
            Err(_) if kind(&look) == FileType::Symlink => return Ok(()),
            Err(errno) => return Err(unread(Path::new(name), errno)),
        };
        if kind(&stat) != FileType::RegularFile {
            return Ok(());
        }
        self.to.write(&mut file, &to.join(name), Some(modes::of_file(stat.st_mode)))
    }

    /// All that is in a folder. A link in it is taken as the file it leads to, if that is in the
    /// work directory, and otherwise as a link.
    ///
    /// One folder after the other, each opened anew: how deep they are is the task's choice.
    fn folder(&self, work: &Folder, name: &Path, target: &Path) -> Result<(), StageError> {
        let (_, stat) = work.read(name).map_err(|errno| unread(name, errno))?;
        let inside = Taker { to: self.to.below(target, modes::of_folder(stat.st_mode))? };
        let mut folders = vec![(name.to_owned(), target.to_owned())];
        while let Some((name, target)) = folders.pop() {
            let (folder, stat) = work.read(&name).map_err(|errno| unread(&name, errno))?;
            // It was one a moment ago.
            if kind(&stat) != FileType::Directory {
                return Err(StageError::OutputKind { name });
            }
            inside.to.make(&target, modes::of_folder(stat.st_mode))?;
            let folder = folder.into();
            for entry in names(&folder).map_err(|errno| unread(&name, errno))? {
                let (from, to) = (name.join(&entry), target.join(&entry));
                folders.extend(inside.entry(work, (&folder, &entry), from, to)?);
            }
        }
        Ok(())
    }

    /// Something in a folder. A folder in it is handed back, with where it goes to.
    fn entry(
        &self,
        work: &Folder,
        (folder, entry): (&OwnedFd, &OsStr),
        inside: PathBuf,
        to: PathBuf,
    ) -> Result<Option<(PathBuf, PathBuf)>, StageError> {
        let look = rustix::fs::statat(folder, entry, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
        let is_link = kind(&look.map_err(|errno| unread(&inside, errno))?) == FileType::Symlink;
        match work.read(&inside) {
            Ok((mut file, stat)) if kind(&stat) == FileType::RegularFile => {
                self.to.write(&mut file, &to, Some(modes::of_file(stat.st_mode)))?;
            }
            Ok((_, stat)) if kind(&stat) == FileType::Directory && !is_link => {
                return Ok(Some((inside, to)));
            }
            _ if is_link => {
                let leads_to = rustix::fs::readlinkat(folder, entry, Vec::new());
                let leads_to = leads_to.map_err(|errno| unread(&inside, errno))?;
                self.to.link(OsStr::from_bytes(leads_to.as_bytes()), &to)?;
            }
            Ok(_) => return Err(StageError::OutputKind { name: inside }),
            Err(errno) => return Err(unread(&inside, errno)),
        }
        Ok(None)
    }
}

fn unread(name: &Path, errno: Errno) -> StageError {
    let name = name.to_owned();
    match errno {
        Errno::NOENT => StageError::NoOutput { name },
        Errno::XDEV | Errno::LOOP => StageError::OutputLink { name },
        // Of what can be opened at all, a socket cannot.
        Errno::NXIO => StageError::OutputKind { name },
        errno => StageError::Output { name, source: errno.into() },
    }
}
