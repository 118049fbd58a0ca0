//! What a task has made and is to travel: found, listed with its digests, and handed to the pilot,
//! open, as that asks for it. Everything is opened from the top of the work directory, by names
//! that no link stands in: links, devices and what lies on another file system are not taken.

use super::folder::{Folder, key, kind, names, stamp};
use super::talk::{Said, Talk, Word};
use super::{Collect, Progress, Remembered, StageError, StageOut};
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use shipway_model::limits::MAX_TRAVELLING;
use shipway_model::manifest::{is_inside, is_meant, is_pattern};
use shipway_model::{Digest, Manifest, TravellingFile};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Names of folders that wait to be looked into, in bytes: how many there are is the task's choice.
const MOST_NAMES: usize = 32 << 20;
/// Folders within folders that are looked into: what lies deeper could not be listed.
const DEEPEST: usize = 64;

/// Everything that a work directory holds, folders within folders included.
pub(super) fn remember_all(work: &Folder) -> Result<Remembered, StageError> {
    let mut found = Remembered::new();
    walk(work, &mut |path, stat| {
        found.insert(key(path.as_os_str()), stamp(stat));
        Ok(())
    })?;
    Ok(found)
}

/// Lists what is wanted, and hands over what the pilot asks for of that.
pub(super) fn hand_over(
    plan: &StageOut,
    collect: &Collect,
    talk: &Talk,
    progress: &Progress,
) -> Result<(), StageError> {
    let Some(path) = &plan.work else { return Ok(()) };
    let failed = |errno: Errno| StageError::Work { path: path.clone(), source: errno.into() };
    let work = Folder::open(path).map_err(failed)?;
    let manifest = list(&work, collect, &plan.before, progress)?;
    let text = serde_json::to_vec(&manifest).expect("plain data");
    talk.say_long(Word::List, &text).map_err(gone)?;
    loop {
        match talk.hear().map_err(gone)? {
            Some(Said { word: Word::Wanted, text, .. }) => {
                let at = text.first_chunk().map(|bytes| u32::from_be_bytes(*bytes) as usize);
                let listed = at.and_then(|at| manifest.files.get(at));
                let listed = listed.ok_or_else(|| gone(io::ErrorKind::InvalidData.into()))?;
                let path = Path::new(&listed.path);
                progress.at(path);
                let (file, _) = open(&work, path)?;
                talk.say(Word::Files, &[], &[file.as_fd()]).map_err(gone)?;
            }
            Some(Said { word: Word::Done, .. }) => return Ok(()),
            _ => return Err(gone(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

fn gone(source: io::Error) -> StageError {
    StageError::Handed { source }
}

fn list(
    work: &Folder,
    collect: &Collect,
    before: &Remembered,
    progress: &Progress,
) -> Result<Manifest, StageError> {
    let mut chosen: Vec<PathBuf> = Vec::new();
    let mut met = vec![false; collect.names.len()];
    walk(work, &mut |path, stat| {
        let is_file = kind(stat) == FileType::RegularFile;
        let text = path.to_str();
        let is_new = collect.all_new && before.get(&key(path.as_os_str())) != Some(&stamp(stat));
        let mut wanted = is_new;
        for (name, met) in collect.names.iter().zip(&mut met) {
            let is_meant = text.is_some_and(|text| is_meant(name, text));
            wanted |= is_meant;
            if kind(stat) == FileType::Directory {
                continue;
            }
            if is_meant && !is_file && text == Some(name.as_str()) {
                return Err(no_file(path, kind(stat)));
            }
            *met |= is_meant && is_file;
        }
        if wanted && kind(stat) == FileType::Directory {
            return Err(StageError::OutputUnseen { name: path.to_owned() });
        }
        if !wanted || !is_file {
            return Ok(());
        }
        if text.is_none_or(|text| !is_inside(text)) {
            return Err(StageError::OutputName { name: path.to_owned() });
        }
        if chosen.len() >= MAX_TRAVELLING {
            return Err(StageError::TooMany);
        }
        chosen.push(path.to_owned());
        Ok(())
    })?;
    // Where all that is new is taken too, a name says nothing more.
    if let Some((name, _)) = collect.names.iter().zip(&met).find(|(_, met)| !**met) {
        let is_empty_folder = !is_pattern(name)
            && open_any(work, Path::new(name)).is_ok_and(|is| is == FileType::Directory);
        if !is_empty_folder {
            return Err(StageError::NoOutput { name: name.into() });
        }
    }
    chosen.sort();
    let files = chosen.iter().map(|path| listed(work, path, progress));
    Ok(Manifest { files: files.collect::<Result<_, _>>()?, ..Manifest::default() })
}

fn listed(work: &Folder, path: &Path, progress: &Progress) -> Result<TravellingFile, StageError> {
    progress.at(path);
    let (mut file, mode) = open(work, path)?;
    let (mut hash, mut size) = (Sha256::new(), 0_u64);
    let mut buffer = vec![0; 1 << 20];
    loop {
        let failed = |source| StageError::Output { name: path.to_owned(), source };
        match file.read(&mut buffer).map_err(failed)? {
            0 => break,
            count => {
                hash.update(&buffer[..count]);
                size += count as u64;
                if size % (64 << 20) < count as u64 {
                    progress.at(path);
                }
            }
        }
    }
    let path = path.to_string_lossy().into_owned();
    let sha256 = Digest(hash.finalize().into());
    Ok(TravellingFile { path, size, sha256, executable: mode.contains(Mode::XUSR) })
}

/// Of a plain file.
fn open(work: &Folder, path: &Path) -> Result<(File, Mode), StageError> {
    let (file, stat) = work.read_plainly(path).map_err(|errno| unread(path, errno))?;
    if kind(&stat) != FileType::RegularFile {
        return Err(no_file(path, kind(&stat)));
    }
    Ok((file, Mode::from_raw_mode(stat.st_mode)))
}

fn open_any(work: &Folder, path: &Path) -> Result<FileType, Errno> {
    work.read_plainly(path).map(|(_, stat)| kind(&stat))
}

fn no_file(path: &Path, is: FileType) -> StageError {
    let name = path.to_owned();
    match is {
        FileType::Symlink => StageError::OutputIsLink { name },
        _ => StageError::OutputKind { name },
    }
}

fn unread(path: &Path, errno: Errno) -> StageError {
    let name = path.to_owned();
    match errno {
        Errno::NOENT => StageError::NoOutput { name },
        Errno::XDEV | Errno::LOOP => StageError::OutputIsLink { name },
        Errno::NXIO => StageError::OutputKind { name },
        errno => StageError::Output { name, source: errno.into() },
    }
}

type Look<'a> = &'a mut dyn FnMut(&Path, &rustix::fs::Stat) -> Result<(), StageError>;

/// All that is no folder, and folders that cannot be looked into; one folder after the other, each
/// opened anew: how deep they are is the task's choice.
fn walk(work: &Folder, look: Look<'_>) -> Result<(), StageError> {
    let (mut left, mut names_left) = (vec![(PathBuf::new(), None)], 0_usize);
    while let Some((folder, stat)) = left.pop() {
        names_left = names_left.saturating_sub(folder.as_os_str().len());
        let top = if folder.as_os_str().is_empty() { Path::new(".") } else { &folder };
        let opened = match (work.read_plainly(top), &stat) {
            (Ok((opened, _)), _) => opened,
            // Another file system has been mounted there.
            (Err(Errno::XDEV), Some(_)) => continue,
            (Err(Errno::ACCESS), Some(stat)) => {
                look(&folder, stat)?;
                continue;
            }
            (Err(errno), _) => return Err(unread(top, errno)),
        };
        let opened = opened.into();
        for name in names(&opened).map_err(|errno| unread(top, errno))? {
            let path = folder.join(&name);
            let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            let stat = match rustix::fs::statat(&opened, &*name, flags) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(unread(&path, errno)),
            };
            let is_deep = path.components().count() > DEEPEST;
            if kind(&stat) != FileType::Directory || is_deep {
                look(&path, &stat)?;
            } else {
                names_left += path.as_os_str().len();
                if names_left > MOST_NAMES {
                    return Err(StageError::TooManyFolders);
                }
                left.push((path, Some(stat)));
            }
        }
    }
    Ok(())
}
