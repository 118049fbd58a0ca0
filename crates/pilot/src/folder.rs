//! What a pilot's folder knows of itself: a key that shows the server who has it, and how often a
//! pilot was started in it. Both must be asked for with the folder's lock held.
//!
//! The key is a secret of the folder, unlike `node-key`, which every task carries: who shows it has
//! the folder, and so its lock, and so nobody that was here before lives.

use crate::leftovers::random_key;
use shipway_trees::write_whole;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

const KEY: &str = "folder-key";
const STARTS: &str = "starts";

/// Longest text taken from either file.
const LONGEST: usize = 64;

/// The key of this folder, made on first use.
pub(crate) fn key(dir: &Path) -> io::Result<String> {
    let path = dir.join(KEY);
    match read(&path)? {
        Some(key) if key.len() >= 32 && key.bytes().all(|byte| byte.is_ascii_hexdigit()) => Ok(key),
        _ => {
            let key = random_key()?;
            // With another one after a power cut the server would not know the folder again.
            write_whole(&path, key.as_bytes())?;
            Ok(key)
        }
    }
}

/// A number that grows from one start in this folder to the next, whatever the clock does.
pub(crate) fn next_start(dir: &Path) -> io::Result<u64> {
    let path = dir.join(STARTS);
    let last: u64 = read(&path)?.and_then(|text| text.parse().ok()).unwrap_or(0);
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    // Not above what the clock may ever say by much: a damaged file must not use up all numbers.
    let next = clock.max(if last <= clock.saturating_add(1 << 20) { last + 1 } else { 0 });
    write_whole(&path, next.to_string().as_bytes())?;
    Ok(next)
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().chars().take(LONGEST).collect())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_stays_and_starts_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let made = key(dir.path()).unwrap();
        assert_eq!(key(dir.path()).unwrap(), made);
        let first = next_start(dir.path()).unwrap();
        assert_eq!(next_start(dir.path()).unwrap(), first + 1, "within one second");
        std::fs::write(dir.path().join(STARTS), u64::MAX.to_string()).unwrap();
        let after = next_start(dir.path()).unwrap();
        assert!(after >= first && after < first + 1_000, "{after} after a damaged file");
    }
}
