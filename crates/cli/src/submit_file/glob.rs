//! Files that match a pattern: `*`, `?` and `[a-z]` within the parts of a path, as the shell has
//! them. Bounded: a pattern that would look at very many files is refused.

use shipway_dialects::htcondor::Matching;
use shipway_dialects::htcondor::limits::MAX_TASKS;
use std::io;
use std::path::{Path, PathBuf};

/// Names of files looked at for one pattern: `*/*/*/*` of a large disk would never end.
const MAX_SEEN: u64 = 4 * MAX_TASKS;

#[derive(Debug, thiserror::Error)]
pub enum GlobError {
    #[error("more than {MAX_TASKS} files match")]
    ManyMatches,
    #[error("more than {MAX_SEEN} files would have to be looked at")]
    ManyFiles,
    #[error("cannot look into {}: {source}", .folder.display())]
    Folder { folder: PathBuf, source: io::Error },
}

/// What matches, in the order of the names; folders end with a slash.
pub fn matching(from: &Path, pattern: &str, kind: Matching) -> Result<Vec<String>, GlobError> {
    let mut parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    let last = parts.pop();
    let root = if pattern.starts_with('/') { "/" } else { "" };
    let mut seen = 0;
    let mut found = vec![root.to_string()];
    for part in parts {
        found = step(from, &found, part, &mut seen)?;
        for path in &mut found {
            path.push('/');
        }
    }
    let mut matched = Vec::new();
    for path in step(from, &found, last.unwrap_or_default(), &mut seen)? {
        let is_folder = from.join(&path).is_dir();
        match kind {
            Matching::Files if is_folder => {}
            Matching::Folders if !is_folder => {}
            _ if is_folder => matched.push(path + "/"),
            _ => matched.push(path),
        }
    }
    Ok(matched)
}

/// Every way from these folders to what one part of the pattern matches.
fn step(
    from: &Path,
    folders: &[String],
    part: &str,
    seen: &mut u64,
) -> Result<Vec<String>, GlobError> {
    let mut found = Vec::new();
    for folder in folders {
        if !part.contains(['*', '?', '[']) {
            let path = format!("{folder}{part}");
            if from.join(&path).exists() {
                found.push(path);
            }
            continue;
        }
        let names = names(&from.join(folder), part, seen)?;
        found.extend(names.into_iter().map(|name| format!("{folder}{name}")));
        if found.len() as u64 > MAX_TASKS {
            return Err(GlobError::ManyMatches);
        }
    }
    Ok(found)
}

fn names(folder: &Path, part: &str, seen: &mut u64) -> Result<Vec<String>, GlobError> {
    let failed = |source| GlobError::Folder { folder: folder.to_path_buf(), source };
    let listed = match std::fs::read_dir(if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    }) {
        Ok(listed) => listed,
        // What is no folder, or closed, has nothing that matches.
        Err(error) if folder_may_be_left_out(&error) => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in listed {
        *seen += 1;
        if *seen > MAX_SEEN {
            return Err(GlobError::ManyFiles);
        }
        // A name that is no text cannot stand in a job.
        let Ok(name) = entry.map_err(failed)?.file_name().into_string() else { continue };
        let hidden = name.starts_with('.') && !part.starts_with('.');
        if !hidden && is_match(part.as_bytes(), name.as_bytes()) {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn folder_may_be_left_out(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotADirectory | NotFound | PermissionDenied)
}

/// One part of a pattern against one name. After a `*` only the last one is tried again, so it
/// takes no longer than the product of both lengths.
fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut here) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while here < name.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, here));
            at += 1;
        } else if let Some(length) = one(&pattern[at..], name[here]) {
            at += length;
            here += 1;
        } else if let Some((star_at, taken)) = star {
            star = Some((star_at, taken + 1));
            (at, here) = (star_at + 1, taken + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// How much of the pattern matches this byte; `None` when it does not.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', rest @ ..] => match class(rest, byte) {
            Some((length, matched)) => matched.then_some(length + 1),
            // Without an end it is a bracket.
            None => (byte == b'[').then_some(1),
        },
        [letter, ..] => (*letter == byte).then_some(1),
    }
}

/// `a-z]` or `!a-z]`: its length, and whether the byte is in it.
fn class(pattern: &[u8], byte: u8) -> Option<(usize, bool)> {
    let negated = matches!(pattern.first(), Some(b'!' | b'^'));
    let mut at = usize::from(negated);
    let first = at;
    let mut matched = false;
    loop {
        match (pattern.get(at)?, pattern.get(at + 1), pattern.get(at + 2)) {
            (b']', ..) if at > first => return Some((at + 1, matched != negated)),
            (low, Some(b'-'), Some(high)) if *high != b']' => {
                matched |= (*low..=*high).contains(&byte);
                at += 3;
            }
            (letter, ..) => {
                matched |= *letter == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names() {
        let is = |pattern: &str, name: &str| is_match(pattern.as_bytes(), name.as_bytes());
        assert!(is("*.in", "a.in") && is("a*b*c", "axxbxbc") && is("?", "x") && is("*", ""));
        assert!(is("[a-c]x", "bx") && is("[!a-c]x", "dx") && is("[]]", "]") && is("[", "["));
        assert!(!is("*.in", "a.out") && !is("?", "") && !is("[a-c]", "d") && !is("a", "ab"));
        // Would take a lifetime if every star were tried with every other.
        assert!(!is(&("a*".repeat(40) + "b"), &"a".repeat(200)));
    }

    #[test]
    fn files_and_folders_are_told_apart() {
        let home = tempfile::tempdir().expect("a folder");
        let root = home.path();
        for folder in ["d1/deep", "d2"] {
            std::fs::create_dir_all(root.join(folder)).expect(folder);
        }
        for file in ["d1/a.in", "d1/b.in", "d2/c.in", "d.in", ".hidden.in"] {
            std::fs::write(root.join(file), "").expect(file);
        }
        let found = |pattern, kind| matching(root, pattern, kind).expect(pattern).join(" ");
        assert_eq!(found("d*/*.in", Matching::Files), "d1/a.in d1/b.in d2/c.in");
        assert_eq!(found("d*", Matching::Any), "d.in d1/ d2/");
        assert_eq!(found("d*", Matching::Folders), "d1/ d2/");
        assert_eq!(found("*.in", Matching::Files), "d.in");
        assert_eq!(found("d1/a.in", Matching::Any), "d1/a.in");
        assert_eq!(found("none*", Matching::Any), "");
        let absolute = format!("{}/d2/*", root.display());
        assert_eq!(found(&absolute, Matching::Any), format!("{}/d2/c.in", root.display()));
    }
}
