//! Which directories of a node a site lets people bind.
//!
//! Looked at after links are resolved: what counts is where a path leads. What comes out is
//! marked as resolved, and a container refuses it if a link has appeared on the way since.

use crate::plan::Bind;
use std::io;
use std::path::PathBuf;

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

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
