//! Where a log may be, and the way there: folder by folder, by descriptor. The server follows no
//! link that somebody else may have put on the way, since it may be root.

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open, openat, readlink, readlinkat};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// Where the kernel and the services of a machine answer: nothing is kept there.
const OF_THE_MACHINE: [&str; 3] = ["/proc", "/sys", "/run"];

/// Most links on the way, as many as the kernel follows.
const LINK_LIMIT: usize = 40;

const PART: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Which folders logs may be in.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// Never in one of these.
    pub closed: Vec<PathBuf>,
    /// Only in these, where the site says which: what it offers for writing.
    pub offered: Option<Vec<PathBuf>>,
}

impl Places {
    /// Pure.
    fn allow(&self, folder: &Path) -> io::Result<()> {
        let machine = OF_THE_MACHINE.iter().map(Path::new);
        let mut closed = self.closed.iter().map(PathBuf::as_path).chain(machine);
        let is_offered =
            |offered: &Vec<PathBuf>| offered.iter().any(|offer| folder.starts_with(offer));
        if closed.any(|closed| folder.starts_with(closed)) {
            return Err(io::Error::other(format!("{} is not for logs", folder.display())));
        }
        if !self.offered.as_ref().is_none_or(is_offered) {
            let what = "which this site does not offer for writing (--binds)";
            return Err(io::Error::other(format!("it is in {}, {what}", folder.display())));
        }
        Ok(())
    }

    /// The folder of a log, and the log's name in it.
    pub(super) fn folder_of(&self, log: &Path) -> io::Result<(OwnedFd, OsString)> {
        let (Some(folder), Some(name)) = (log.parent(), log.file_name()) else {
            return Err(io::Error::other("it names no file"));
        };
        let folder = walk(folder)?;
        let leads_to = readlink(format!("/proc/self/fd/{}", folder.as_raw_fd()), Vec::new())?;
        self.allow(Path::new(&OsString::from_vec(leads_to.into_bytes())))?;
        Ok((folder, name.to_owned()))
    }
}

/// Links of root's and of the server's own user are followed: nobody else can make one.
fn walk(path: &Path) -> io::Result<OwnedFd> {
    let own = rustix::process::geteuid().as_raw();
    let mut at = open("/", PART, Mode::empty())?;
    let mut ahead: VecDeque<OsString> = parts(path);
    let mut links = 0;
    while let Some(name) = ahead.pop_front() {
        if name == "/" {
            at = open("/", PART, Mode::empty())?;
            continue;
        }
        let next = openat(&at, &name, PART, Mode::empty())?;
        let found = fstat(&next)?;
        if !is_link(&found) {
            at = next;
            continue;
        }
        links += 1;
        if links > LINK_LIMIT || (found.st_uid != 0 && found.st_uid != own) {
            let what = format!("`{}` on the way is somebody else's link", name.to_string_lossy());
            return Err(io::Error::other(what));
        }
        let leads_to = readlinkat(&next, "", Vec::new())?;
        for part in parts(Path::new(OsStr::from_bytes(leads_to.as_bytes()))).into_iter().rev() {
            ahead.push_front(part);
        }
    }
    Ok(at)
}

fn is_link(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::Symlink
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    parts.map(|part| part.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_the_server_keeps_is_no_place_for_a_log() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("home/below")).unwrap();
        std::fs::create_dir(top.join("logs")).unwrap();
        symlink(top.join("home"), top.join("logs/link")).unwrap();
        let places = Places { closed: vec![top.join("home")], offered: None };
        for log in ["home/x", "home/below/x", "logs/link/x", "logs/../home/x"] {
            let error = places.folder_of(&top.join(log)).unwrap_err().to_string();
            assert!(error.contains("not for logs"), "{log}: {error}");
        }
        assert!(places.folder_of(Path::new("/proc/self/x")).is_err());
        assert!(places.folder_of(&top.join("logs/x")).is_ok());
        let offered = Some(vec![top.join("home")]);
        let offering = Places { offered, closed: Vec::new() };
        assert!(offering.folder_of(&top.join("home/x")).is_ok());
        let error = offering.folder_of(&top.join("logs/x")).unwrap_err().to_string();
        assert!(error.contains("does not offer"), "{error}");
    }

    #[test]
    fn links_of_others_lead_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        std::fs::create_dir(top.join("logs")).unwrap();
        symlink("logs", top.join("link")).unwrap();
        let places = Places::default();
        assert!(places.folder_of(&top.join("link/x")).is_ok(), "one's own");
        // Only root can make something that is somebody else's.
        if std::os::unix::fs::lchown(top.join("link"), Some(65_534), None).is_ok() {
            let error = places.folder_of(&top.join("link/x")).unwrap_err().to_string();
            assert!(error.contains("somebody else's link"), "{error}");
        }
    }
}
