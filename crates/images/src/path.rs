//! Names inside an image: from bytes in an archive to components that lead nowhere but down.
//!
//! Pure. Links are not followed here; `tree` does that, in memory.

use crate::limits::{DEPTH_LIMIT, NAME_LIMIT, PATH_LIMIT};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    #[error("a path leads upwards")]
    Upwards,
    #[error("a path has a zero byte")]
    Zero,
    #[error("a path is longer than {PATH_LIMIT} bytes")]
    TooLong,
    #[error("a name is longer than {NAME_LIMIT} bytes")]
    NameTooLong,
    #[error("a path is deeper than {DEPTH_LIMIT} directories")]
    TooDeep,
    #[error("a link leads nowhere")]
    EmptyLink,
}

/// Checks a member's path and puts it in the one form we keep: names joined by `/`, none of them
/// empty, `.` or `..`. The root itself is empty. A leading `/` means the image's root.
pub fn normal(path: &[u8]) -> Result<Vec<u8>, BadPath> {
    if path.len() > PATH_LIMIT {
        return Err(BadPath::TooLong);
    }
    if path.contains(&0) {
        return Err(BadPath::Zero);
    }
    let mut out = Vec::with_capacity(path.len());
    let mut depth = 0;
    for name in path.split(|b| *b == b'/').filter(|name| !name.is_empty() && *name != b".") {
        depth += 1;
        match name {
            b".." => return Err(BadPath::Upwards),
            _ if name.len() > NAME_LIMIT => return Err(BadPath::NameTooLong),
            _ if depth > DEPTH_LIMIT => return Err(BadPath::TooDeep),
            _ => {}
        }
        if depth > 1 {
            out.push(b'/');
        }
        out.extend_from_slice(name);
    }
    Ok(out)
}

/// What a symbolic link says: any text the kernel would take. Where it leads is the business of
/// whoever follows it, inside the image.
pub fn link_text(target: &[u8]) -> Result<(), BadPath> {
    match target {
        [] => Err(BadPath::EmptyLink),
        _ if target.len() >= PATH_LIMIT => Err(BadPath::TooLong),
        _ if target.contains(&0) => Err(BadPath::Zero),
        _ => Ok(()),
    }
}

/// The directory part and the last name of a normal path; none for the root.
pub fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.is_empty() {
        return None;
    }
    let mut parts = path.rsplitn(2, |b| *b == b'/');
    let name = parts.next()?;
    Some((parts.next().unwrap_or_default(), name))
}

/// A path for people: what is not text becomes `?`.
pub fn shown(path: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(path).chars().take(200).collect();
    shipway_model::plain_text::clean(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_down_or_nowhere() {
        let long = [b"a".repeat(255), b"/b".to_vec()].concat();
        for (given, wanted) in [
            (&b"a/b"[..], Ok(&b"a/b"[..])),
            (b"./a//b/.", Ok(b"a/b")),
            (b"/etc/passwd", Ok(b"etc/passwd")),
            (b"./", Ok(b"")),
            (b"...", Ok(b"...")),
            (b"\xff", Ok(b"\xff")),
            (&long, Ok(&long)),
            (b"../a", Err(BadPath::Upwards)),
            (b"a/../b", Err(BadPath::Upwards)),
            (b"/..", Err(BadPath::Upwards)),
            (b"a\0b", Err(BadPath::Zero)),
            (&b"a".repeat(256), Err(BadPath::NameTooLong)),
            (&b"a/".repeat(257), Err(BadPath::TooDeep)),
            (&b"a".repeat(5000), Err(BadPath::TooLong)),
        ] {
            assert_eq!(normal(given), wanted.map(<[u8]>::to_vec), "{}", shown(given));
        }
    }
}
