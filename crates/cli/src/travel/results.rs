//! What a task has made, brought to a folder of this machine. Nothing of the person's is lost by
//! it: a file that is there already is replaced only if it is what had travelled; otherwise what
//! came is put beside it. Links in that folder are not followed.

use super::{TravelError, digest_of};
use crate::commands::Context;
use crate::failure::Failure;
use crate::view::talk;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use shipway_api::routes;
use shipway_api::types::TaskOutputs;
use shipway_model::manifest::is_inside;
use shipway_model::{Digest, Manifest, TaskId, TravellingFile};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

/// What became of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Written {
    pub path: String,
    /// Its own name was taken by something else: it has this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_name: Option<String>,
}

/// Brings them there. `sent`: what had travelled from there. Those that were there already, the
/// same, are not in the answer.
pub async fn fetch(
    context: &Context,
    outputs: &TaskOutputs,
    (to, sent): (&Path, Option<&Manifest>),
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Written>, Failure> {
    let sent: HashMap<&str, Digest> = sent
        .iter()
        .flat_map(|manifest| &manifest.files)
        .map(|file| (&*file.path, file.sha256))
        .collect();
    let mut written = Vec::new();
    for file in outputs.files.iter().filter(|file| wanted(&file.path)) {
        if is_of_git(&file.path) {
            let path = &file.path;
            talk::say(format_args!("shipway: left out {path}: nothing is written into a .git"));
            continue;
        }
        // The server is not believed about where files go on this machine.
        if !is_inside(&file.path) {
            return Err(TravelError::Spoiled(file.path.clone()).into());
        }
        let Some(name) = name_for(file, (to, sent.get(&*file.path)), outputs.task)? else {
            continue;
        };
        one(context, outputs.task, file, (to, &name)).await?;
        let as_name = (name != file.path).then_some(name);
        written.push(Written { path: file.path.clone(), as_name });
    }
    Ok(written)
}

/// What lies there runs as the person at their next command (hooks), and did not travel either.
fn is_of_git(path: &str) -> bool {
    path.split('/').any(|name| name.eq_ignore_ascii_case(".git"))
}

/// Under which name it is written; `None`: it is there already.
fn name_for(
    file: &TravellingFile,
    (to, sent): (&Path, Option<&Digest>),
    task: TaskId,
) -> Result<Option<String>, TravelError> {
    let path = to.join(&file.path);
    let is_there = match std::fs::symlink_metadata(&path) {
        Ok(known) => known,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Some(file.path.clone()));
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Ok(Some(file.path.clone()));
        }
        Err(source) => return Err(TravelError::Read { path, source }),
    };
    if is_there.is_file() {
        let read = |source| TravelError::Read { path: path.clone(), source };
        let (digest, _) = digest_of(&path).map_err(read)?;
        if digest == file.sha256 {
            return Ok(None);
        }
        if Some(&digest) == sent {
            return Ok(Some(file.path.clone()));
        }
    }
    Ok(Some(format!("{}.from-{}-{}", file.path, task.job, task.index)))
}

async fn one(
    context: &Context,
    task: TaskId,
    file: &TravellingFile,
    (to, name): (&Path, &str),
) -> Result<(), Failure> {
    let failed = |source: io::Error| TravelError::Write { path: to.join(name), source };
    let place = Place::of(to, name).map_err(|errno| failed(errno.into()))?;
    let mut draft = place.draft().map_err(|errno| failed(errno.into()))?;
    let route = routes::task_output(task.job, task.index, &file.sha256);
    let mut coming = context.client.stream(&route).await?;
    let (mut hash, mut size) = (Sha256::new(), 0);
    while let Some(piece) = coming.next().await? {
        hash.update(&piece);
        size += piece.len() as u64;
        draft.write_all(&piece).map_err(failed)?;
    }
    if size != file.size || hash.finalize()[..] != file.sha256.0 {
        place.drop_draft();
        return Err(TravelError::Spoiled(file.path.clone()).into());
    }
    let mode = Mode::from_raw_mode(if file.executable { 0o755 } else { 0o644 });
    let done = rustix::fs::fchmod(&draft, mode).and_then(|()| place.name_it());
    done.map_err(|errno| failed(errno.into()))?;
    Ok(())
}

/// Where a file goes: its folder, opened without following a link below `to`.
struct Place {
    folder: OwnedFd,
    name: OsString,
    draft: OsString,
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Place {
    fn of(to: &Path, name: &str) -> Result<Self, Errno> {
        match rustix::fs::mkdir(to, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        let mut folder = openat(CWD, to, FOLDER, Mode::empty())?;
        let mut parts = name.split('/').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                let draft = OsString::from(format!(".{part}.shipway-part"));
                let name = OsStr::new(part).to_owned();
                // A name may be as long as names may be.
                let draft = if draft.len() > 255 { ".shipway-part".into() } else { draft };
                return Ok(Place { folder, name, draft });
            }
            match mkdirat(&folder, part, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            folder = openat(&folder, part, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
        }
        Err(Errno::INVAL)
    }

    fn draft(&self) -> Result<File, Errno> {
        self.drop_draft();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        Ok(openat(&self.folder, &self.draft, flags | OFlags::NOFOLLOW, mode)?.into())
    }

    fn drop_draft(&self) {
        let _not_there = unlinkat(&self.folder, &self.draft, AtFlags::empty());
    }

    fn name_it(&self) -> Result<(), Errno> {
        renameat(&self.folder, &self.draft, &self.folder, &self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_model::{JobId, TaskIndex};

    fn file(path: &str, text: &str) -> TravellingFile {
        let sha256 = Digest(Sha256::digest(text.as_bytes()).into());
        let size = text.len() as u64;
        TravellingFile { path: path.into(), size, sha256, executable: false }
    }

    #[test]
    fn what_is_the_persons_own_is_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path();
        std::fs::write(to.join("x"), "old").unwrap();
        let (old, new) = (file("x", "old").sha256, file("x", "new"));
        let task = JobId(7).task(TaskIndex(2));
        let name = |file: &TravellingFile, sent| name_for(file, (to, sent), task).unwrap();
        assert_eq!(name(&new, Some(&old)).as_deref(), Some("x"), "it is what had travelled");
        let beside = Some("x.from-7-2");
        assert_eq!(name(&new, None).as_deref(), beside, "it had not travelled");
        assert_eq!(name(&new, Some(&new.sha256)).as_deref(), beside, "changed since it travelled");
        assert_eq!(name(&file("x", "old"), None), None, "it is there");
        assert_eq!(name(&file("d/y", "y"), None).as_deref(), Some("d/y"));
    }

    #[test]
    fn nothing_is_written_into_a_folder_of_git() {
        for path in [".git/hooks/post-commit", "sub/.GIT/config", ".Git"] {
            assert!(is_of_git(path), "{path}");
        }
        for path in [".gitignore", "a.git/x", "git", ".github/x"] {
            assert!(!is_of_git(path), "{path}");
        }
    }

    #[test]
    fn no_link_is_followed_on_the_way() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(elsewhere.path(), dir.path().join("out")).unwrap();
        assert!(Place::of(dir.path(), "out/passwd").is_err());
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("x")).unwrap();
        let place = Place::of(dir.path(), "a/b/x").unwrap();
        place.draft().unwrap().write_all(b"mine").unwrap();
        place.name_it().unwrap();
        assert_eq!(std::fs::read(dir.path().join("a/b/x")).unwrap(), b"mine");
        // What has the name itself is replaced, and not written through.
        let place = Place::of(dir.path(), "x").unwrap();
        place.draft().unwrap().write_all(b"mine").unwrap();
        place.name_it().unwrap();
        assert!(dir.path().join("x").symlink_metadata().unwrap().is_file());
    }
}
