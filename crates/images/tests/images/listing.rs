//! A tree as text: all of it that two tools must agree on.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// All of a tree that is compared, by path.
pub(crate) fn listing(root: &Path) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let mut todo = vec![root.to_path_buf()];
    let as_root = rustix::process::geteuid().is_root();
    while let Some(path) = todo.pop() {
        let found = fs::symlink_metadata(&path).expect("there");
        let kind = found.file_type();
        if kind.is_char_device() || kind.is_block_device() {
            continue;
        }
        let mut parts = vec![format!("{kind:?}")];
        if kind.is_symlink() {
            parts.push(fs::read_link(&path).expect("read").display().to_string());
        } else {
            // Set-id bits of files are left out on purpose.
            let bits = if kind.is_file() { 0o1777 } else { 0o7777 };
            parts.push(format!("{:o} {:?}", found.mode() & bits, xattrs(&path)));
        }
        if kind.is_file() {
            let content = blake3::hash(&fs::read(&path).expect("read"));
            parts.push(format!("{} {} {content}", found.len(), found.mtime()));
        }
        if as_root {
            parts.push(format!("{}:{}", found.uid(), found.gid()));
        }
        let line = parts.join(" ");
        if found.is_dir() {
            todo.extend(
                fs::read_dir(&path).expect("listed").map(|entry| entry.expect("entry").path()),
            );
        }
        out.insert(path.strip_prefix(root).expect("below").display().to_string(), line);
    }
    out
}

fn xattrs(path: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut names = vec![0; 4096];
    let length = rustix::fs::llistxattr(path, &mut names).expect("listed");
    let mut found = Vec::new();
    for name in names[..length].split(|b| *b == 0).filter(|name| !name.is_empty()) {
        // In it umoci notes, for an ordinary user, whose the file should be.
        if name == b"user.rootlesscontainers" {
            continue;
        }
        let mut value = vec![0; 4096];
        let length = rustix::fs::lgetxattr(path, name, &mut value).expect("read");
        found.push((name.to_vec(), value[..length].to_vec()));
    }
    found.sort();
    found
}
