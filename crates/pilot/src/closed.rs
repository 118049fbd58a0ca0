//! What no task of this node sees: what the server and the pilot keep, by every name it has.
//!
//! A folder may be mounted a second time elsewhere, alone or as a part of its file system. The
//! kernel's table of mounts says where; it is read again when it has changed. How it is hidden is
//! the runtime's work, and `stage.rs`'s for files.

use crate::accounts::Whom;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shipway_runtime::binds::AllowList;
use shipway_runtime::mount_table::{TABLE, unescaped};
use shipway_runtime::reach::Reach;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where the node's services answer, by both names.
const SERVICES: [&str; 2] = ["/run", "/var/run"];

/// File systems by which a kernel tells about all processes and devices.
const OF_THE_KERNEL: [&str; 2] = ["proc", "sysfs"];

/// Where a home is unless `SHIPWAY_HOME` says otherwise, below that of its user.
const USUAL_HOME: &str = ".local/share/shipway";

#[derive(Debug)]
pub(crate) struct Closed {
    kept: Vec<PathBuf>,
    /// Tells when the table has changed; without it, it is read every time.
    table: Option<File>,
    places: Vec<PathBuf>,
}

impl Closed {
    pub(crate) fn new(kept: Vec<PathBuf>) -> Self {
        let mut closed = Self { kept, table: File::open(TABLE).ok(), places: Vec::new() };
        closed.read();
        closed
    }

    /// All that is closed now: folders, with all that is below them.
    pub(crate) fn places(&mut self) -> &[PathBuf] {
        if self.table.as_ref().is_none_or(has_changed) {
            self.read();
        }
        &self.places
    }

    fn read(&mut self) {
        let table = std::fs::read(TABLE).unwrap_or_default();
        let services = SERVICES.iter().map(PathBuf::from);
        let kept: Vec<PathBuf> =
            self.kept.iter().cloned().chain(services).map(|path| resolved(&path)).collect();
        self.places = all_names(&kept, &mounts(&table));
    }
}

/// Who may reach what on this node by a path of their choice.
#[derive(Debug)]
pub(crate) struct Reaches {
    closed: Closed,
    /// What the site offers; everything where it says nothing.
    offered: Option<AllowList>,
    own_home: Option<PathBuf>,
}

impl Reaches {
    pub(crate) fn new(kept: Vec<PathBuf>, offered: Option<AllowList>) -> Self {
        // Accounts of the system have homes that are everybody's.
        let is_own = |home: &PathBuf| {
            let found = home.metadata();
            found.is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw())
        };
        let own_home = crate::accounts::own_home().filter(is_own);
        Self { closed: Closed::new(kept), offered, own_home }
    }

    /// A guest has the rights of this process, and sees nothing of the home of its user: keys and
    /// passwords are there.
    pub(crate) fn of(&mut self, whom: &Whom) -> Reach {
        let mut closed = self.closed.places().to_vec();
        let guest = *whom == Whom::Guest;
        let home = self.own_home.as_deref().filter(|_| guest).map(resolved);
        closed.extend(home.clone());
        Reach { closed, home, offered: self.offered.clone(), guest }
    }
}

/// Homes of servers that the user of this process may have beside the one of this pilot.
pub(crate) fn usual_homes() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let home = home.filter(|home| home.is_absolute()).into_iter();
    home.chain(crate::accounts::own_home()).map(|home| home.join(USUAL_HOME)).collect()
}

fn has_changed(table: &File) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut table = [PollFd::new(table, PollFlags::PRI)];
    // What cannot be asked may have changed.
    poll(&mut table, Some(&at_once)).map_or(true, |changed| changed > 0)
}

/// Without links, also where it is not there yet.
fn resolved(path: &Path) -> PathBuf {
    let path = &std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let above = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, real)) = above else { return path.to_owned() };
    match path.strip_prefix(above) {
        Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
        _ => real,
    }
}

/// A line of the table.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    device: String,
    /// What of the file system is shown, and where.
    root: PathBuf,
    place: PathBuf,
    kind: String,
}

fn mounts(table: &[u8]) -> Vec<Mount> {
    table.split(|byte| *byte == b'\n').filter_map(mount).collect()
}

/// `ID PARENT DEVICE ROOT PLACE OPTIONS [FIELDS…] - KIND SOURCE OPTIONS`.
fn mount(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|byte| *byte == b' ').skip(2);
    let device = String::from_utf8(words.next()?.to_vec()).ok()?;
    let (root, place) = (unescaped(words.next()?), unescaped(words.next()?));
    let kind = words.skip_while(|word| *word != b"-").nth(1)?;
    Some(Mount { device, root, place, kind: String::from_utf8_lossy(kind).into_owned() })
}

/// Every path by which one of these folders, or a part of it, is seen; and every mount of the
/// kernel's own file systems. What lies below another of them is left out.
fn all_names(kept: &[PathBuf], mounts: &[Mount]) -> Vec<PathBuf> {
    let mut all: BTreeSet<PathBuf> = kept.iter().cloned().collect();
    for path in kept {
        // The last of those with the longest path lies on top.
        let on = mounts.iter().filter(|mount| path.starts_with(&mount.place));
        let Some(on) = on.max_by_key(|mount| mount.place.as_os_str().len()) else { continue };
        let Some(inside) = moved(path, &on.place, &on.root) else { continue };
        for mount in mounts.iter().filter(|mount| mount.device == on.device) {
            match moved(&inside, &mount.root, &mount.place) {
                Some(alias) => drop(all.insert(alias)),
                None if mount.root.starts_with(&inside) => drop(all.insert(mount.place.clone())),
                None => {}
            }
        }
    }
    let kernels = mounts.iter().filter(|mount| OF_THE_KERNEL.contains(&mount.kind.as_str()));
    all.extend(kernels.map(|mount| mount.place.clone()));
    let is_top = |path: &&PathBuf| !path.ancestors().skip(1).any(|above| all.contains(above));
    all.iter().filter(is_top).cloned().collect()
}

/// The path below `to` that corresponds to one below `from`.
fn moved(path: &Path, from: &Path, to: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix(from).ok()?;
    Some(if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &[u8] = br"22 27 0:21 / /proc rw - proc proc rw
23 27 0:22 / /sys rw - sysfs sysfs rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 27 254:1 /vol/home /home rw - ext4 /dev/vdb rw
31 27 254:1 / /mnt/all\040of\040it rw - ext4 /dev/vdb rw
32 27 254:1 /vol/home/ada /srv/ada rw - ext4 /dev/vdb rw
33 27 254:1 /vol/home/ada/ship/pilot /srv/pilot rw - ext4 /dev/vdb rw
34 27 254:1 /vol/other /srv/other rw - ext4 /dev/vdb rw
35 27 0:21 / /srv/jail/proc rw - proc proc rw
36 27 0:50 / /srv/tmp rw master:2 propagate_from:1 - tmpfs none rw
";

    #[test]
    fn a_folder_is_found_under_every_name() {
        let kept = ["/home/ada/ship", "/home/ada/ship/images", "/run"].map(PathBuf::from);
        let names = all_names(&kept, &mounts(LINES));
        let expected = [
            "/home/ada/ship",
            "/mnt/all of it/vol/home/ada/ship",
            "/proc",
            "/run",
            "/srv/ada/ship",
            "/srv/jail/proc",
            "/srv/pilot",
            "/sys",
        ];
        assert_eq!(names, expected.map(PathBuf::from));
    }

    #[test]
    fn links_are_resolved_as_far_as_there_is_something() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        std::fs::create_dir(top.join("real")).unwrap();
        std::os::unix::fs::symlink("real", top.join("link")).unwrap();
        assert_eq!(resolved(&top.join("link/not/yet")), top.join("real/not/yet"));
        assert_eq!(resolved(&top.join("link")), top.join("real"));
    }

    #[test]
    fn the_table_is_read_again_when_it_has_changed() {
        let mut closed = Closed::new(vec!["/no/such/home".into()]);
        assert!(closed.places().contains(&PathBuf::from("/no/such/home")));
        closed.places.clear();
        let table = closed.table.take();
        assert!(table.as_ref().is_some_and(|table| !has_changed(table)), "nothing was mounted");
        assert!(!closed.places().is_empty(), "without knowing, it is read");
    }
}
