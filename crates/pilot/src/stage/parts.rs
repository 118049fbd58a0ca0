//! What a file is called until it is complete: a name of its own beside the one it will have, by
//! which another try of the same task finds what is left of an earlier one.
//!
//! ```text
//! .NAME.MARK.part            usually
//! .NAME.MARK.LETTERS.part    where somebody else has that name: others may write to the folder
//! ```

use crate::leftovers::random_key;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Bytes of a name that are part of this one; a name may have 255.
const NAME_PART: usize = 100;
const END: &[u8] = b".part";
/// Entries of a folder that are looked at for what is left: others may have filled it.
const MOST_LOOKED_AT: usize = 100_000;

pub(super) struct PartNames {
    /// All but what comes behind the mark.
    start: Vec<u8>,
}

impl PartNames {
    pub(super) fn of(name: &OsStr, mark: &str) -> Self {
        let name = name.as_bytes();
        let name = name.get(..NAME_PART).unwrap_or(name);
        PartNames { start: [b".", name, b".", mark.as_bytes()].concat() }
    }

    pub(super) fn usual(&self) -> OsString {
        OsString::from_vec([&self.start, END].concat())
    }

    pub(super) fn random(&self) -> Result<OsString, Errno> {
        let letters = random_key().map_err(|_| Errno::AGAIN)?;
        Ok(OsString::from_vec([&self.start, &b"."[..], letters.as_bytes(), END].concat()))
    }

    /// Removes what is left of earlier tries under names that nobody could guess, as far as this
    /// user may.
    pub(super) fn clear(&self, folder: &OwnedFd) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(folder, ".", flags, Mode::empty());
        let Ok(entries) = opened.and_then(Dir::new) else { return };
        for entry in entries.take(MOST_LOOKED_AT).map_while(Result::ok) {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if self.is_random(name) {
                let _of_others = unlinkat(folder, name, AtFlags::empty());
            }
        }
    }

    fn is_random(&self, name: &OsStr) -> bool {
        let rest = name.as_bytes().strip_prefix(&self.start[..]);
        let letters = rest.and_then(|rest| rest.strip_prefix(b".")?.strip_suffix(END));
        letters.is_some_and(|letters| letters.iter().all(u8::is_ascii_hexdigit))
    }
}
