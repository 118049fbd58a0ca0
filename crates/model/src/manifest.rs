//! Files that travel: what a folder on one machine holds, so that it can be made again on another.
//! The contents are elsewhere and named by their digests; and which of a task's files are wanted
//! back.
//!
//! A manifest comes from users and from tasks. Whoever reads one has it checked before anything is
//! made of it: after that no path in it leads out of the folder that it is for. No file is looked
//! at here.

use crate::image_ref::Digest;
use crate::limits::{MAX_PATH_BYTES, MAX_TRAVELLING};
use crate::reading::list;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Folders in one another. Each file is found from the top again, and no source tree is as deep.
const MAX_DEPTH: usize = 64;
/// The longest name that Linux takes.
const MAX_NAME: usize = 255;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Manifest {
    #[serde(
        deserialize_with = "list::<MAX_TRAVELLING, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub files: Vec<TravellingFile>,
    /// Links to something in the same folder.
    #[serde(
        deserialize_with = "list::<MAX_TRAVELLING, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub links: Vec<TravellingLink>,
    /// Folders that nothing else needs.
    #[serde(
        deserialize_with = "list::<MAX_TRAVELLING, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub folders: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TravellingFile {
    /// Below the folder, its parts parted by `/`.
    pub path: String,
    pub size: u64,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub sha256: Digest,
    #[serde(default, skip_serializing_if = "is_not")]
    pub executable: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TravellingLink {
    pub path: String,
    pub to: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_not(flag: &bool) -> bool {
    !*flag
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadManifest {
    #[error("it lists {0} files, links and folders; at most {MAX_TRAVELLING}")]
    TooMany(usize),
    #[error("`{0}` is not a path inside the folder")]
    Path(String),
    #[error("`{0}` is listed twice, or below something that is no folder")]
    Twice(String),
    #[error("the link `{0}` leads out of the folder")]
    Link(String),
}

impl Manifest {
    /// Itself, if nothing in it leads out of its folder or stands in the way of something else.
    pub fn checked(self) -> Result<Manifest, BadManifest> {
        let many = self.files.len() + self.links.len() + self.folders.len();
        if many > MAX_TRAVELLING {
            return Err(BadManifest::TooMany(many));
        }
        let files = self.files.iter().map(|file| &*file.path);
        let links = self.links.iter().map(|link| &*link.path);
        let mut no_folders = BTreeSet::new();
        for path in files.chain(links) {
            if !is_inside(path) {
                return Err(BadManifest::Path(shown(path)));
            }
            if !no_folders.insert(path) {
                return Err(BadManifest::Twice(shown(path)));
            }
        }
        for folder in &self.folders {
            if !is_inside(folder) {
                return Err(BadManifest::Path(shown(folder)));
            }
        }
        let folders: BTreeSet<&str> = self.folders.iter().map(|folder| &**folder).collect();
        let twice = folders.len() < self.folders.len();
        let wrong = no_folders.iter().chain(&folders).find(|path| {
            let is_both = folders.contains(**path) && no_folders.contains(**path);
            is_both || above(path).any(|above| no_folders.contains(above))
        });
        if let Some(path) = wrong.copied().or(folders.first().copied().filter(|_| twice)) {
            return Err(BadManifest::Twice(shown(path)));
        }
        match self.links.iter().find(|link| !leads_inside(&link.path, &link.to)) {
            Some(link) => Err(BadManifest::Link(shown(&link.path))),
            None => Ok(self),
        }
    }

    /// The bytes of all its files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |all, file| all.saturating_add(file.size))
    }

    /// Each content once, with its size. Two files that say different sizes of one content are
    /// both in it: one of them is wrong, and found to be so when it comes.
    pub fn contents(&self) -> BTreeMap<Digest, u64> {
        self.files.iter().map(|file| (file.sha256, file.size)).collect()
    }
}

fn shown(path: &str) -> String {
    path.chars().take(200).collect()
}

/// The folders that something is in.
fn above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').filter_map(|(at, _)| path.get(..at))
}

/// Whether this is a plain path below a folder, in the one form that it can be written in.
pub fn is_inside(path: &str) -> bool {
    let is_name = |part: &str| !matches!(part, "" | "." | "..") && part.len() <= MAX_NAME;
    path.len() <= MAX_PATH_BYTES
        && !path.contains('\0')
        && path.split('/').count() <= MAX_DEPTH
        && path.split('/').all(is_name)
}

/// Whether a link at this path stays in the folder. It may go up first and down then: whoever goes
/// up behind a name may come from elsewhere, where that is a link too.
pub fn leads_inside(path: &str, to: &str) -> bool {
    let mut parts = to.trim_end_matches('/').split('/').peekable();
    let mut depth = above(path).count();
    while let Some(part) = parts.next_if(|part| matches!(*part, ".." | ".")) {
        if part == ".." {
            let Some(less) = depth.checked_sub(1) else { return false };
            depth = less;
        }
    }
    let is_name = |part: &str| !matches!(part, "" | "..") && part.len() <= MAX_NAME;
    let plain = !to.is_empty() && !to.starts_with('/') && !to.contains('\0');
    plain && to.len() <= MAX_PATH_BYTES && parts.all(is_name)
}

/// Whether a name of what is wanted back means this path: the same, a folder that it is in, or a
/// pattern of either (`*` and `?` within a name, `**` for any number of folders).
pub fn is_meant(name: &str, path: &str) -> bool {
    let name = name.trim_start_matches("./").trim_end_matches('/');
    let names: Vec<&str> = name.split('/').collect();
    let parts: Vec<&str> = path.split('/').collect();
    (1..=parts.len()).any(|count| parts.get(..count).is_some_and(|parts| fits(&names, parts)))
}

/// Whether a name has letters that stand for others.
pub fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?'])
}

/// Work that is done for one pattern and one path at most: names with many stars are for nobody.
fn fits(names: &[&str], parts: &[&str]) -> bool {
    // Which numbers of parts the names so far can be.
    let mut reached = vec![false; parts.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    for name in names {
        let mut next = vec![false; parts.len() + 1];
        let mut any = false;
        for (at, is_reached) in reached.iter().enumerate() {
            if *name == "**" {
                any |= is_reached;
                if let Some(slot) = next.get_mut(at) {
                    *slot = any;
                }
            } else if let (true, Some(part)) = (is_reached, parts.get(at))
                && is_like(name, part)
                && let Some(slot) = next.get_mut(at + 1)
            {
                *slot = true;
            }
        }
        reached = next;
    }
    reached.last() == Some(&true)
}

/// One name against another one with `*` and `?` in it.
fn is_like(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut of) = (0, 0);
    // Where to go on when it does not fit: behind the last star, one letter further.
    let mut again: Option<(usize, usize)> = None;
    while let Some(letter) = name.get(of) {
        match pattern.get(at) {
            Some('*') => {
                again = Some((at + 1, of));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || wanted == letter => (at, of) = (at + 1, of + 1),
            _ => {
                let Some((behind, from)) = again else { return false };
                (at, of) = (behind, from + 1);
                again = Some((behind, from + 1));
            }
        }
    }
    pattern.iter().skip(at).all(|letter| *letter == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> TravellingFile {
        let (path, sha256) = (path.to_owned(), Digest([7; 32]));
        TravellingFile { path, size: 3, sha256, executable: false }
    }

    fn of(paths: &[&str]) -> Manifest {
        Manifest { files: paths.iter().map(|path| file(path)).collect(), ..Manifest::default() }
    }

    #[test]
    fn what_leads_out_is_refused() {
        assert!(of(&["a", "b/c", "b/d/e"]).checked().is_ok());
        let long = "x".repeat(256);
        let deep = vec!["d"; 65].join("/");
        for path in
            ["", "/a", "../a", "a/../b", "a//b", "a/", "./a", "a/.", "..", "a\0b", &long, &deep]
        {
            let refused = of(&[path]).checked();
            assert!(matches!(refused, Err(BadManifest::Path(_))), "{path}");
            let folders = Manifest { folders: vec![path.into()], ..Manifest::default() };
            assert!(folders.checked().is_err(), "{path}");
        }
    }

    #[test]
    fn nothing_stands_twice_or_below_what_is_no_folder() {
        for paths in [&["a", "a"][..], &["a", "a/b"], &["a/b/c", "a/b"]] {
            assert!(matches!(of(paths).checked(), Err(BadManifest::Twice(_))), "{paths:?}");
        }
        let link = |path: &str| TravellingLink { path: path.into(), to: "x".into() };
        let through = Manifest { links: vec![link("l")], ..of(&["l/passwd"]) };
        assert!(matches!(through.checked(), Err(BadManifest::Twice(_))));
        let both = Manifest { folders: vec!["a".into()], ..of(&["a"]) };
        assert!(both.checked().is_err());
        let empty = Manifest { folders: vec!["a".into(), "a".into()], ..Manifest::default() };
        assert!(empty.checked().is_err());
        let fine = Manifest { folders: vec!["a".into()], ..of(&["a/b"]) };
        assert!(fine.checked().is_ok());
    }

    #[test]
    fn a_link_goes_up_first_and_never_out() {
        for (path, to) in
            [("l", "a"), ("l", "./a/b"), ("d/l", "../a"), ("d/e/l", "../../a/"), ("l", ".")]
        {
            assert!(leads_inside(path, to), "{path} -> {to}");
        }
        for (path, to) in [
            ("l", "/etc"),
            ("l", ".."),
            ("l", "../a"),
            ("d/l", "../../a"),
            ("l", ""),
            ("d/l", "a/../b"),
            ("l", "a//b"),
        ] {
            assert!(!leads_inside(path, to), "{path} -> {to}");
        }
    }

    #[test]
    fn too_much_is_refused_while_it_is_read() {
        let one =
            r#"{"path":"a","size":0,"sha256":"sha256:"#.to_owned() + &"00".repeat(32) + r#""}"#;
        let text = format!(r#"{{"files":[{}]}}"#, vec![one; MAX_TRAVELLING + 1].join(","));
        assert!(serde_json::from_str::<Manifest>(&text).is_err());
        let text = serde_json::to_string(&of(&["a", "b"])).expect("plain");
        assert_eq!(serde_json::from_str::<Manifest>(&text).expect("back"), of(&["a", "b"]));
    }

    #[test]
    fn names_and_patterns_mean_files() {
        for (name, path) in [
            ("a", "a"),
            ("a", "a/b/c"),
            ("./a/", "a/b"),
            ("*.o", "x.o"),
            ("out/*", "out/x/y"),
            ("**/*.log", "a/b/c.log"),
            ("**/*.log", "c.log"),
            ("a/**/z", "a/z"),
            ("a/**/z", "a/b/c/z"),
            ("?a*b*c", "xaQQbRc"),
        ] {
            assert!(is_meant(name, path), "{name} means {path}");
        }
        for (name, path) in
            [("a", "b"), ("*.o", "d/x.o"), ("a/b", "a"), ("?", "ab"), ("a*b", "acd")]
        {
            assert!(!is_meant(name, path), "{name} does not mean {path}");
        }
    }

    #[test]
    fn a_pattern_that_means_harm_costs_little() {
        let name = "*a".repeat(100) + "b";
        assert!(!is_meant(&name, &"a".repeat(250)));
        let name = vec!["**"; 60].join("/") + "/x";
        assert!(!is_meant(&name, &vec!["a"; 60].join("/")));
    }
}
