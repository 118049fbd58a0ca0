//! Folders that an earlier pilot of the same directory left. Whatever is in them belongs to nobody;
//! it may be a lot, so it is put aside at once and removed by and by.

use crate::leftovers::random_key;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Where folders are put that wait to be removed. Nobody else may enter it.
const ASIDE: &str = "removing";

/// Goes on with what earlier pilots had put aside and not removed when they ended.
pub(crate) fn go_on(dir: &Path) {
    // Now, when no task can leave it without a thread.
    shipway_trees::get_ready();
    aside(dir).into_iter().for_each(shipway_trees::remove_later);
}

/// What waits to be removed.
pub(crate) fn aside(dir: &Path) -> Vec<PathBuf> {
    let left = std::fs::read_dir(dir.join(ASIDE)).into_iter().flatten();
    left.filter_map(|entry| Some(entry.ok()?.path())).collect()
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

fn put_aside(dir: &Path, name: &str) -> io::Result<()> {
    let path = dir.join(name);
    path.symlink_metadata()?;
    let aside = dir.join(ASIDE);
    match std::fs::DirBuilder::new().mode(0o700).create(&aside) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let to = aside.join(format!("{name}.{}", random_key()?));
    std::fs::rename(path, &to)?;
    shipway_trees::remove_later(to);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn wait_empty(folder: &Path) {
        let deadline = Instant::now() + Duration::from_mins(1);
        while std::fs::read_dir(folder).unwrap().count() > 0 {
            assert!(Instant::now() < deadline, "{} is not emptied", folder.display());
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_name_is_free_at_once_and_what_was_there_goes() {
        let dir = tempfile::tempdir().unwrap();
        clear(dir.path(), "work");
        assert!(!dir.path().join(ASIDE).exists(), "there was nothing");
        for _ in 0..2 {
            std::fs::create_dir_all(dir.path().join("work/1.0.1/work/a")).unwrap();
            clear(dir.path(), "work");
            assert!(!dir.path().join("work").exists());
        }
        wait_empty(&dir.path().join(ASIDE));
    }

    #[test]
    fn what_was_put_aside_before_goes_too() {
        let dir = tempfile::tempdir().unwrap();
        go_on(dir.path());
        std::fs::create_dir_all(dir.path().join(ASIDE).join("work.0/a/b")).unwrap();
        go_on(dir.path());
        wait_empty(&dir.path().join(ASIDE));
    }
}
