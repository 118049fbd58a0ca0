//! Which directories of a node a site lets people use by a path of their own choice, and where in
//! an image a path leads. It compares; where a path of the node leads is found out in `reach.rs`.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A directory that may be used, with everything below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    pub path: PathBuf,
    pub writable: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AllowList(Vec<Allowed>);

/// What a site has not offered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    #[error(
        "{} leads to {}, which this site does not offer (--binds)",
        path.display(),
        leads_to.display()
    )]
    NotOffered { path: PathBuf, leads_to: PathBuf },
    #[error(
        "{} is not for writing: this site offers {} for reading (--binds)",
        path.display(),
        offered.display()
    )]
    NotWritable { path: PathBuf, offered: PathBuf },
}

impl AllowList {
    /// Entries that do not exist are no error: not every node has every directory.
    pub fn new(entries: impl IntoIterator<Item = Allowed>) -> Self {
        let resolved = entries.into_iter().filter_map(|entry| {
            let path = entry.path.canonicalize().ok()?;
            Some(Allowed { path, ..entry })
        });
        Self(resolved.collect())
    }

    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.0.iter().map(|offer| offer.path.clone()).collect()
    }

    /// What is offered for writing.
    pub fn writable(&self) -> Vec<PathBuf> {
        self.0.iter().filter(|offer| offer.writable).map(|offer| offer.path.clone()).collect()
    }

    /// Whether the site offers a place, links resolved, that was asked for as `path`.
    pub fn allows(&self, place: &Path, path: &Path, writing: bool) -> Result<(), NotAllowed> {
        let offers: Vec<&Allowed> =
            self.0.iter().filter(|offer| place.starts_with(&offer.path)).collect();
        let path = || path.to_owned();
        let Some(offer) = offers.first() else {
            return Err(NotAllowed::NotOffered { path: path(), leads_to: place.to_owned() });
        };
        if writing && !offers.iter().any(|offer| offer.writable) {
            return Err(NotAllowed::NotWritable { path: path(), offered: offer.path.clone() });
        }
        Ok(())
    }
}

impl FromStr for AllowList {
    type Err = OfferError;

    /// `/data,/scratch:rw`: for reading unless it says otherwise.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let entries = text.split(',').map(|entry| {
            let (path, writable) = match entry.strip_suffix(":rw") {
                Some(path) => (path, true),
                None => (entry.strip_suffix(":ro").unwrap_or(entry), false),
            };
            let path = PathBuf::from(path);
            let bad = || OfferError { entry: entry.to_owned() };
            path.is_absolute().then_some(Allowed { path, writable }).ok_or_else(bad)
        });
        Ok(Self::new(entries.collect::<Result<Vec<_>, _>>()?))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{entry}` is not offered in a way that can be understood: write /DIR, or /DIR:rw")]
pub struct OfferError {
    entry: String,
}

/// Most links on the way to a place, as many as the kernel follows.
const LINK_LIMIT: usize = 40;

/// The place that a path leads to in an image whose own links are followed inside it, as `/lib`
/// leads to `/usr/lib` in many. A link that leads to nothing in the image is left as it is, for
/// whoever makes the container to refuse. What comes out is looked up again without links.
pub fn settle(tree: &Path, target: &Path) -> PathBuf {
    let mut ahead: VecDeque<OsString> = names(target).collect();
    let mut settled = PathBuf::from("/");
    // How many of the names ahead come from links.
    let (mut of_links, mut links) = (0_usize, 0);
    while let Some(name) = ahead.pop_front() {
        let from_link = of_links > 0;
        of_links = of_links.saturating_sub(1);
        if name == ".." {
            settled.pop();
            continue;
        }
        let next = settled.join(&name);
        let on_disk = tree.join(next.strip_prefix("/").unwrap_or(&next));
        match on_disk.symlink_metadata() {
            Ok(found) if found.is_symlink() => {
                links += 1;
                let Ok(leads_to) = on_disk.read_link() else { return target.to_owned() };
                if links > LINK_LIMIT {
                    return target.to_owned();
                }
                if leads_to.is_absolute() {
                    settled = PathBuf::from("/");
                }
                let parts: Vec<OsString> = names(&leads_to).collect();
                of_links += parts.len();
                parts.into_iter().rev().for_each(|part| ahead.push_front(part));
            }
            Err(_) if from_link => return target.to_owned(),
            Ok(_) | Err(_) => settled = next,
        }
    }
    settled
}

/// The parts of a path that say where to go.
fn names(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    use std::path::Component::{Normal, ParentDir};
    path.components()
        .filter(|part| matches!(part, Normal(_) | ParentDir))
        .map(|part| part.as_os_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_of_an_image_are_followed_inside_it() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join("usr/lib")).unwrap();
        for (to, name) in [
            ("usr/lib", "lib"),
            ("/usr", "absolute"),
            ("../../../../usr", "up"),
            ("/etc/outside", "nowhere"),
            ("loop", "loop"),
            ("/proc/self/cwd", "magic"),
        ] {
            symlink(to, tree.path().join(name)).unwrap();
        }
        let settled = |path: &str| settle(tree.path(), Path::new(path)).display().to_string();
        assert_eq!(settled("/lib/x/y"), "/usr/lib/x/y");
        assert_eq!(settled("/absolute/lib"), "/usr/lib");
        assert_eq!(settled("/up/new"), "/usr/new");
        for same in ["/usr/lib/x", "/new/place", "/nowhere/x", "/loop/x", "/magic", "/nowhere"] {
            assert_eq!(settled(same), same);
        }
    }

    #[test]
    fn an_offer_is_for_reading_unless_it_says_otherwise() {
        let list: AllowList = "/tmp,/var:rw,/usr:ro".parse().unwrap();
        let write = |path: &str| list.allows(Path::new(path), Path::new("asked"), true).is_ok();
        assert!(write("/var") && !write("/tmp") && !write("/usr") && !write("/etc"));
        let read = |path: &str| list.allows(Path::new(path), Path::new("asked"), false).is_ok();
        assert!(read("/usr/lib") && read("/var/x") && !read("/usrx") && !read("/"));
        assert!("data".parse::<AllowList>().is_err() && "".parse::<AllowList>().is_err());
    }

    #[test]
    fn an_offer_is_where_its_links_lead() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        fs::create_dir(at("data")).unwrap();
        symlink(at("data"), at("link")).unwrap();
        let offer = |name: &str| Allowed { path: at(name), writable: false };
        let list = AllowList::new([offer("link"), offer("absent")]);
        assert!(list.allows(&at("data/set"), Path::new("asked"), false).is_ok());
        assert!(list.allows(&at("absent"), Path::new("asked"), false).is_err());
    }
}
