//! Which directories of a node a site lets people bind, and where in an image that leads.
//!
//! Looked at after links are resolved: what counts is where a path leads. What comes out is
//! marked as resolved, and a container refuses it if a link has appeared on the way since.

use crate::plan::Bind;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A directory that may be bound, with everything below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    pub path: PathBuf,
    pub writable: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList(Vec<Allowed>);

#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("cannot bind {}", path.display())]
    Source { path: PathBuf, source: io::Error },
    #[error(
        "cannot bind {}: it leads to {}, which this site does not offer",
        path.display(),
        leads_to.display()
    )]
    NotOffered { path: PathBuf, leads_to: PathBuf },
    #[error(
        "cannot bind {} for writing: this site offers {} for reading",
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

    /// The same bind, resolved, if the site allows it.
    pub fn check(&self, bind: &Bind) -> Result<Bind, BindError> {
        let path = bind.source.clone();
        let leads_to = match path.canonicalize() {
            Ok(leads_to) => leads_to,
            Err(source) => return Err(BindError::Source { path, source }),
        };
        let offers: Vec<&Allowed> =
            self.0.iter().filter(|offer| leads_to.starts_with(&offer.path)).collect();
        let Some(offer) = offers.first() else {
            return Err(BindError::NotOffered { path, leads_to });
        };
        if bind.writable && !offers.iter().any(|offer| offer.writable) {
            return Err(BindError::NotWritable { path, offered: offer.path.clone() });
        }
        Ok(Bind { source: leads_to, resolved: true, ..bind.clone() })
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
        let write = |path: &str| list.check(&Bind::writable(path, "/x")).is_ok();
        assert!(write("/var") && !write("/tmp") && !write("/usr") && !write("/etc"));
        assert!("data".parse::<AllowList>().is_err() && "".parse::<AllowList>().is_err());
    }

    #[test]
    fn what_counts_is_where_a_path_leads() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for name in ["data", "data/set", "home", "database"] {
            fs::create_dir(at(name)).unwrap();
        }
        symlink(at("home"), at("data/link")).unwrap();
        symlink(at("data/set"), at("home/link")).unwrap();
        let allowed = Allowed { path: at("data"), writable: false };
        let absent = Allowed { path: at("absent"), writable: true };
        let list = AllowList::new([allowed, absent]);
        let check = |source: &str| list.check(&Bind::read_only(at(source), "/x"));
        assert_eq!(check("data/set").unwrap().source, at("data/set"));
        assert!(check("home/link").unwrap().resolved);
        assert!(matches!(check("data/link"), Err(BindError::NotOffered { .. })));
        assert!(matches!(check("data/../home"), Err(BindError::NotOffered { .. })));
        assert!(matches!(check("database"), Err(BindError::NotOffered { .. })));
        assert!(matches!(check("data/none"), Err(BindError::Source { .. })));
        let write = list.check(&Bind::writable(at("data/set"), "/x"));
        assert!(matches!(write, Err(BindError::NotWritable { .. })));
    }
}
