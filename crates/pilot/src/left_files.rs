//! Folders that an earlier pilot of the same directory left. Whatever is in them belongs to nobody;
//! it may be a lot, so it is put aside at once. `run/removing.rs` removes it by and by.

use crate::leftovers::random_key;
use rustix::process::geteuid;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where folders are put that wait to be removed. Nobody else may enter it.
const ASIDE: &str = "removing";

/// What waits to be removed, of earlier pilots too, and the id of whose it is.
pub(crate) fn aside(dir: &Path) -> Vec<(PathBuf, u32)> {
    entries(&dir.join(ASIDE)).into_iter().map(|path| (path.clone(), owner(&path))).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// The folder itself is the pilot's; what was given to somebody is in it.
fn owner(folder: &Path) -> u32 {
    let own = geteuid().as_raw();
    let ids = entries(folder).into_iter();
    let mut ids = ids.filter_map(|entry| Some(entry.symlink_metadata().ok()?.uid()));
    ids.find(|id| *id != own).unwrap_or(own)
}

/// Makes the name of a folder in the pilot's directory free.
pub(crate) fn clear(dir: &Path, name: &str) {
    let path = dir.join(name);
    let error = match put_aside(dir, name) {
        Ok(()) => return,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => error,
    };
    tracing::warn!(%error, path = %path.display(), "cannot be put aside, and is removed at once");
    if let Err(error) = shipway_trees::remove_of_others(&path) {
        tracing::warn!(%error, "what an earlier pilot left is still there");
    }
}

/// What is in it is put aside one by one: it may be of several people, and is then removed at the
/// cost of each.
fn put_aside(dir: &Path, name: &str) -> io::Result<()> {
    let path = dir.join(name);
    path.symlink_metadata()?;
    let aside = dir.join(ASIDE);
    match std::fs::DirBuilder::new().mode(0o700).create(&aside) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let key = random_key()?;
    let all = aside.join(format!("{name}.{key}"));
    std::fs::rename(path, &all)?;
    for one in entries(&all) {
        let Some(name) = one.file_name() else { continue };
        let mut name = name.to_owned();
        name.push(format!(".{key}"));
        // What cannot be moved goes with the folder it is in.
        let _ = std::fs::rename(&one, aside.join(name));
    }
    let _not_empty = std::fs::remove_dir(&all);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::chown;

    #[test]
    fn a_name_is_free_at_once_and_each_folder_goes_for_itself() {
        let dir = tempfile::tempdir().unwrap();
        clear(dir.path(), "work");
        assert!(!dir.path().join(ASIDE).exists(), "there was nothing");
        for round in 1..=2 {
            for attempt in ["1.0.1", "2.0.1"] {
                std::fs::create_dir_all(dir.path().join("work").join(attempt).join("a")).unwrap();
            }
            clear(dir.path(), "work");
            assert!(!dir.path().join("work").exists());
            // Those from before wait too.
            assert_eq!(aside(dir.path()).len(), 2 * round);
        }
        let names = aside(dir.path()).into_iter().map(|(path, _)| path);
        let count = |start: &str| {
            let text = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
            names.clone().filter(|path| text(path).starts_with(start)).count()
        };
        assert_eq!((count("1.0.1."), count("2.0.1.")), (2, 2));
    }

    #[test]
    fn whose_a_folder_is_says_what_is_in_it() {
        let own = geteuid();
        if !crate::skips::is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("work/1.0.1");
        std::fs::create_dir_all(folder.join("work")).unwrap();
        std::fs::write(folder.join("stdout.all"), "").unwrap();
        std::fs::create_dir_all(dir.path().join("work/2.0.1")).unwrap();
        chown(folder.join("work"), Some(64_001), None).unwrap();
        clear(dir.path(), "work");
        let mut ids: Vec<u32> = aside(dir.path()).into_iter().map(|(_, id)| id).collect();
        ids.sort_unstable();
        assert_eq!(ids, [own.as_raw(), 64_001]);
    }
}
