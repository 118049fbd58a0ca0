//! What of a member is kept: set-id bits, devices and dangerous attributes are not.
//!
//! Pure: from a member of the archive and a policy to an entry of the index, or to nothing.

use super::index::{LeftOut, Meta, What};
use crate::limits::XATTR_LIMIT;
use crate::path::{self, BadPath};
use crate::tar::{Kind, Member, Time};

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Who the files of a store belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owners {
    /// To the user who unpacks: an ordinary user cannot give files away.
    One,
    /// To whom the image says, with file capabilities. Takes root.
    Kept,
}

/// A member as it will be stored.
#[derive(Debug, PartialEq, Eq)]
pub enum Sifted {
    /// Its content follows in the archive.
    File {
        path: Vec<u8>,
        meta: Meta,
    },
    /// All there is to it.
    Plain {
        path: Vec<u8>,
        meta: Meta,
        what: What,
    },
    LeftOut,
}

pub fn sift(member: &Member, owners: Owners, out: &mut LeftOut) -> Result<Sifted, BadPath> {
    let path = path::normal(&member.path)?;
    if let Some(sifted) = whiteout(&path)? {
        return Ok(sifted);
    }
    if member.kind == Kind::Device {
        out.devices += 1;
        return Ok(Sifted::LeftOut);
    }
    let mut meta = meta(member, owners, out);
    let what = match member.kind {
        // Counted above.
        Kind::Device => return Ok(Sifted::LeftOut),
        // The root is a directory, whatever a layer says.
        _ if path.is_empty() && member.kind != Kind::Dir => return Err(BadPath::Upwards),
        Kind::File => {
            out.set_id_bits += u64::from(meta.mode & 0o6000 != 0);
            meta.mode &= 0o1777;
            return Ok(Sifted::File { path, meta });
        }
        Kind::HardLink => What::HardLink { to: path::normal(&member.link)? },
        Kind::Symlink => {
            path::link_text(&member.link)?;
            What::Symlink { to: member.link.clone() }
        }
        Kind::Dir => What::Dir,
        Kind::Fifo => {
            meta.mode &= 0o1777;
            What::Fifo
        }
    };
    Ok(Sifted::Plain { path, meta, what })
}

/// Whether the name is one of the marks by which layers take things away.
fn whiteout(path: &[u8]) -> Result<Option<Sifted>, BadPath> {
    let Some((dir, name)) = path::split(path) else { return Ok(None) };
    let Some(hidden) = name.strip_prefix(WHITEOUT) else { return Ok(None) };
    let plain = |path: &[u8], what| {
        Ok(Some(Sifted::Plain { path: path.to_vec(), meta: Meta::default(), what }))
    };
    if name == OPAQUE {
        return plain(dir, What::Opaque);
    }
    // `.wh.`, `.wh..` and `.wh...` would hide the directory itself, or the one above.
    if matches!(hidden, b"" | b"." | b"..") {
        return Err(BadPath::Upwards);
    }
    // Marks of old tools (`.wh..wh.plnk`) hide nothing.
    if hidden.starts_with(WHITEOUT) {
        return Ok(Some(Sifted::LeftOut));
    }
    let target = if dir.is_empty() { hidden.to_vec() } else { [dir, b"/", hidden].concat() };
    plain(&target, What::Whiteout)
}

fn meta(member: &Member, owners: Owners, out: &mut LeftOut) -> Meta {
    let (uid, gid) = match owners {
        Owners::One => (0, 0),
        Owners::Kept => (member.uid, member.gid),
    };
    let mut xattrs = Vec::new();
    for (name, value) in &member.xattrs {
        match judge(name, value, owners) {
            Verdict::Kept => xattrs.push((name.clone(), value.clone())),
            Verdict::Capability => out.capabilities += 1,
            Verdict::Dropped => out.xattrs += 1,
        }
    }
    xattrs.sort();
    // Links and pipes hold no user attributes.
    if !matches!(member.kind, Kind::File | Kind::Dir) {
        xattrs.clear();
    }
    Meta { mode: member.mode & 0o7777, uid, gid, mtime: time(member.mtime), xattrs }
}

enum Verdict {
    Kept,
    Capability,
    Dropped,
}

fn judge(name: &[u8], value: &[u8], owners: Owners) -> Verdict {
    let named = name.len() <= crate::limits::NAME_LIMIT && !name.contains(&0);
    if name == b"security.capability" {
        return if owners == Owners::Kept { Verdict::Kept } else { Verdict::Capability };
    }
    // `user.overlay.*` would steer an overlay that has the tree as a lower layer.
    let user = name.starts_with(b"user.") && !name.starts_with(b"user.overlay.");
    if user && named && value.len() <= XATTR_LIMIT { Verdict::Kept } else { Verdict::Dropped }
}

/// File systems keep times from 1901 to 2446 at least; what is outside becomes 1970.
fn time(time: Time) -> Time {
    let kept = (-(1 << 31)..(1i64 << 33)).contains(&time.seconds);
    if kept { time } else { Time::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(path: &str, kind: Kind) -> Member {
        Member {
            path: path.into(),
            kind,
            mode: 0o6755,
            uid: 5,
            gid: 6,
            mtime: Time { seconds: 1, nanos: 0 },
            link: b"target".to_vec(),
            size: 0,
            sparse: None,
            xattrs: ["user.a", "user.overlay.opaque", "trusted.overlay.x", "security.capability"]
                .map(|name| (name.into(), b"v".to_vec()))
                .to_vec(),
        }
    }

    fn of(path: &str, kind: Kind) -> Result<Sifted, BadPath> {
        sift(&member(path, kind), Owners::One, &mut LeftOut::default())
    }

    #[test]
    fn marks_hide_what_they_name_and_never_their_directory() {
        let hides = |path: &str, target: &str, what: What| match of(path, Kind::File) {
            Ok(Sifted::Plain { path, what: found, .. }) => {
                assert_eq!((path, found), (target.into(), what));
            }
            other => panic!("{path}: {other:?}"),
        };
        hides("a/.wh.b", "a/b", What::Whiteout);
        hides(".wh.b", "b", What::Whiteout);
        hides("a/.wh..wh..opq", "a", What::Opaque);
        for bad in [".wh.", "a/.wh..", "a/.wh..."] {
            assert_eq!(of(bad, Kind::File), Err(BadPath::Upwards), "{bad}");
        }
        assert_eq!(of("a/.wh..wh.plnk", Kind::Dir), Ok(Sifted::LeftOut));
    }

    #[test]
    fn what_gives_power_is_left_out_and_counted() {
        let mut out = LeftOut::default();
        let file = sift(&member("f", Kind::File), Owners::One, &mut out);
        let Ok(Sifted::File { meta, .. }) = file else { panic!("{file:?}") };
        assert_eq!((meta.mode, meta.uid, meta.xattrs.len()), (0o755, 0, 1));
        assert_eq!(sift(&member("d", Kind::Device), Owners::One, &mut out), Ok(Sifted::LeftOut));
        assert_eq!(out, LeftOut { devices: 1, set_id_bits: 1, capabilities: 1, xattrs: 2 });
        let kept = sift(&member("f", Kind::File), Owners::Kept, &mut LeftOut::default());
        let Ok(Sifted::File { meta, .. }) = kept else { panic!("{kept:?}") };
        assert_eq!((meta.uid, meta.gid, meta.xattrs.len()), (5, 6, 2));
    }

    #[test]
    fn the_root_stays_a_directory() {
        assert!(of("./", Kind::Dir).is_ok());
        assert!(of("/", Kind::Symlink).is_err());
    }
}
