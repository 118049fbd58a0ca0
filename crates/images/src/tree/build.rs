//! From a tree in memory to one on disk: directories, hard links to objects, symbolic links.
//!
//! Every path used here was made of directories this same function has just made, below a
//! directory that is ours alone; and the kernel is told to follow no link anyway.

use super::merge::{Body, Node, ROOT, Tree};
use crate::layer::index::{Meta, ObjectId};
use crate::layer::sift::Owners;
use crate::layer::stage::{self, ObjectLocation, Staging, object_path};
use crate::path;
use crate::room::DiskRoom;
use rustix::fs::{self, AtFlags, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Linking is a matter of the kernel's locks; more threads than this only wait for each other.
const THREADS: usize = 4;

#[derive(Debug, thiserror::Error)]
#[error("cannot make `{path}` of the tree")]
pub struct BuildError {
    pub path: String,
    #[source]
    pub source: io::Error,
}

/// A directory to fill.
struct Dir {
    path: Vec<u8>,
    node: usize,
}

/// Makes the tree below `root`, an empty directory.
pub fn build(tree: &Tree, root: BorrowedFd<'_>, staging: &Staging) -> Result<(), BuildError> {
    let dirs = make_dirs(tree, root, staging.room())?;
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    thread::scope(|scope| {
        let fill = || {
            while let Some(dir) = dirs.get(next.fetch_add(1, Ordering::Relaxed)) {
                fill(tree, dir, root, staging)?;
            }
            Ok(())
        };
        // Without room for more threads there are fewer.
        let others = (1..threads).map(|_| thread::Builder::new().spawn_scoped(scope, fill));
        let others: Vec<_> = others.filter_map(Result::ok).collect();
        let mut done = fill();
        for other in others {
            done = done.and(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    })?;
    // Children first: a directory's time moves with every name, and its mode may lock us out.
    for dir in dirs.iter().rev() {
        let meta = &node(tree, dir.node, &dir.path)?.meta;
        finish(dir, root, meta, staging.owners()).map_err(failed(&dir.path))?;
    }
    Ok(())
}

fn failed(path: &[u8]) -> impl FnOnce(io::Error) -> BuildError {
    let path = path::shown(path);
    move |source| BuildError { path, source }
}

fn node<'a>(tree: &'a Tree, at: usize, path: &[u8]) -> Result<&'a Node, BuildError> {
    tree.nodes.get(at).ok_or_else(|| failed(path)(io::ErrorKind::NotFound.into()))
}

/// All directories, parents first.
fn make_dirs(tree: &Tree, root: BorrowedFd<'_>, room: &DiskRoom) -> Result<Vec<Dir>, BuildError> {
    let mut dirs = vec![Dir { path: Vec::new(), node: ROOT }];
    let mut at = 0;
    while let Some(above) = dirs.get(at) {
        let (above, path) = (above.node, above.path.clone());
        for (name, slot) in tree.children(above) {
            let node = node(tree, slot.node, name)?;
            if !matches!(node.body, Body::Dir(_)) {
                continue;
            }
            let path =
                if path.is_empty() { name.clone() } else { [&path, &b"/"[..], name].concat() };
            let weight = stage::attributes(&node.meta);
            room.take_file(weight).map_err(failed(&path))?;
            let made = fs::mkdirat(root, path.as_slice(), Mode::RWXU);
            made.map_err(|errno| failed(&path)(errno.into()))?;
            dirs.push(Dir { path, node: slot.node });
        }
        at += 1;
    }
    Ok(dirs)
}

fn fill(tree: &Tree, dir: &Dir, root: BorrowedFd<'_>, staging: &Staging) -> Result<(), BuildError> {
    let fd = open_beneath(root, &dir.path).map_err(failed(&dir.path))?;
    for (name, slot) in tree.children(dir.node) {
        let made = make(node(tree, slot.node, name)?, &fd, name, staging);
        made.map_err(|source| failed(&[&dir.path, &b"/"[..], name].concat())(source))?;
    }
    Ok(())
}

/// Makes one name; folders are there already.
fn make(node: &Node, dir: &OwnedFd, name: &[u8], staging: &Staging) -> io::Result<()> {
    // It takes a part of its folder, and what has no object a file of its own.
    match &node.body {
        Body::Dir(_) | Body::File { .. } => staging.room().take(name.len() as u64)?,
        Body::Symlink { .. } | Body::Fifo => staging.room().take_file(0)?,
    }
    match &node.body {
        Body::Dir(_) => Ok(()),
        Body::File { object, .. } => link(object, &node.meta, dir.as_fd(), name, staging),
        Body::Symlink { to } => {
            fs::symlinkat(to.as_slice(), dir, name)?;
            dress(dir, name, &node.meta, staging)
        }
        Body::Fifo => {
            let mode = Mode::from_raw_mode(node.meta.mode & 0o777);
            fs::mknodat(dir, name, fs::FileType::Fifo, mode, 0)?;
            fs::chmodat(dir, name, mode, AtFlags::empty())?;
            dress(dir, name, &node.meta, staging)
        }
    }
}

/// Owner and time of what has no object of its own.
fn dress(dir: &OwnedFd, name: &[u8], meta: &Meta, staging: &Staging) -> io::Result<()> {
    if staging.owners() == Owners::Kept && (meta.uid, meta.gid) != (0, 0) {
        let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
        fs::chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    fs::utimensat(dir, name, &stage::times(meta), AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(())
}

fn link(
    object: &ObjectId,
    meta: &Meta,
    dir: BorrowedFd<'_>,
    name: &[u8],
    staging: &Staging,
) -> io::Result<()> {
    let (from, source) = match staging.place(object) {
        ObjectLocation::Stored => (staging.objects(), object_path(object)),
        ObjectLocation::Staged(number) => (staging.root(), format!("{number}/{}", object.hex())),
    };
    match fs::linkat(from, &source, dir, name, AtFlags::empty()) {
        // A file system counts names in a few bits (ext4: 65,000). A fresh copy begins anew.
        Err(Errno::MLINK) => {
            staging.renew(object, from, &source, meta)?;
            Ok(fs::linkat(from, &source, dir, name, AtFlags::empty())?)
        }
        other => Ok(other?),
    }
}

fn finish(dir: &Dir, root: BorrowedFd<'_>, meta: &Meta, owners: Owners) -> io::Result<()> {
    let fd = open_beneath(root, &dir.path)?;
    if owners == Owners::Kept && (meta.uid, meta.gid) != (0, 0) {
        fs::fchown(&fd, Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)))?;
    }
    for (name, value) in &meta.xattrs {
        match fs::fsetxattr(&fd, name.as_slice(), value, fs::XattrFlags::empty()) {
            Err(Errno::NOTSUP) => {}
            other => other?,
        }
    }
    fs::fchmod(&fd, Mode::from_raw_mode(meta.mode))?;
    Ok(fs::futimens(&fd, &stage::times(meta))?)
}

/// A directory of the tree, by a path without links in it.
fn open_beneath(root: BorrowedFd<'_>, path: &[u8]) -> io::Result<OwnedFd> {
    let path = if path.is_empty() { b"." } else { path };
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match fs::openat2(root, path, flags, Mode::empty(), resolve) {
        // Kernels before 5.6 and some filters do not know it; step by step is the same.
        Err(Errno::NOSYS | Errno::PERM) => {
            let mut at = stage::open_dir(root, ".")?;
            for name in path.split(|b| *b == b'/') {
                at = stage::open_dir(at.as_fd(), name)?;
            }
            Ok(at)
        }
        other => Ok(other?),
    }
}
