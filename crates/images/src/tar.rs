//! A strict, streaming reader of tar archives: ustar, PAX and GNU, as image layers use them.
//!
//! It turns outside bytes into [`Member`]s and nothing else: it touches no file, and it decides
//! nothing about paths (that is `path`) or about what is written (that is `layer`).

mod header;
mod pax;
mod reader;
mod sparse;
#[cfg(test)]
mod tests;
pub mod write;

pub use reader::TarReader;
pub use sparse::{Segment, SparseMap};

use std::io;

/// All of a member's names and attributes together. GNU tar itself refuses more.
pub const EXTENDED_LIMIT: u64 = 1 << 20;
/// What is said of all members at once: each has a copy of it. Writers put a comment there.
pub const GLOBAL_LIMIT: u64 = 64 << 10;
/// Attributes of one member. File systems keep far fewer.
pub const XATTR_COUNT_LIMIT: usize = 1_000;
/// Above it a sparse file is an attack: one entry costs forty bytes of memory.
pub const SPARSE_SEGMENT_LIMIT: usize = 100_000;

/// What a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    HardLink,
    Symlink,
    Dir,
    Fifo,
    /// A character or block device.
    Device,
}

/// Seconds since 1970 and nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    pub seconds: i64,
    pub nanos: u32,
}

/// One member as the archive describes it; its content follows in the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub path: Vec<u8>,
    pub kind: Kind,
    /// Permission bits, set-id and sticky bits among them.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub mtime: Time,
    /// Where a link leads; empty for others.
    pub link: Vec<u8>,
    /// Bytes of the file when written, holes included.
    pub size: u64,
    pub sparse: Option<SparseMap>,
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Member {
    /// What its name, link and attributes take in memory.
    pub fn text_bytes(&self) -> u64 {
        /// Two texts of their own.
        const ATTRIBUTE: usize = 96;
        let attributes =
            self.xattrs.iter().map(|(name, value)| name.len() + value.len() + ATTRIBUTE);
        (self.path.len() + self.link.len() + attributes.sum::<usize>()) as u64
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TarError {
    #[error("cannot read the archive")]
    Read(#[source] io::Error),
    #[error("the archive ends in the middle of a member")]
    Truncated,
    #[error("a header has a wrong checksum")]
    Checksum,
    #[error("the {0} of a header is not a number")]
    Number(&'static str),
    #[error("the {0} of a header is out of range")]
    Range(&'static str),
    #[error("a member has the unknown type {0:?}")]
    UnknownKind(char),
    #[error("a PAX record is malformed")]
    Pax,
    #[error("the names and attributes of a member are larger than {EXTENDED_LIMIT} bytes")]
    ExtendedTooLarge,
    #[error("what is said of all members together is larger than {GLOBAL_LIMIT} bytes")]
    GlobalTooLarge,
    #[error("a member has more than {XATTR_COUNT_LIMIT} attributes")]
    TooManyAttributes,
    #[error("a name is announced, and no member follows")]
    Dangling,
    #[error("a sparse map is malformed")]
    Sparse,
}
