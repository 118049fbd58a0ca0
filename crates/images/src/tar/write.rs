//! Writing archives: POSIX headers, with PAX records where a plain header has no room.
//!
//! The counterpart of the reader, for trees that become layers. It checks nothing: what it is
//! given comes from our own walk of a tree.

use super::{Kind, Member};
use std::io::{self, Write};

/// Where names no longer fit into a plain header.
const NAME_FIELD: usize = 100;
/// The largest number of eleven octal digits.
const SIZE_FIELD: u64 = (1 << 33) - 1;
/// The largest number of seven octal digits.
const ID_FIELD: u32 = (1 << 21) - 1;

/// Writes a member's header; its content, if any, is to follow with `pad` after it.
pub fn header(to: &mut impl Write, member: &Member) -> io::Result<()> {
    let mut records = Vec::new();
    let long = |text: &[u8]| text.len() >= NAME_FIELD;
    if long(&member.path) {
        record(&mut records, b"path", &member.path);
    }
    if long(&member.link) {
        record(&mut records, b"linkpath", &member.link);
    }
    if member.size > SIZE_FIELD {
        record(&mut records, b"size", member.size.to_string().as_bytes());
    }
    for (key, id) in [(&b"uid"[..], member.uid), (b"gid", member.gid)] {
        if id > ID_FIELD {
            record(&mut records, key, id.to_string().as_bytes());
        }
    }
    let time = member.mtime;
    if time.nanos > 0 || !(0..=SIZE_FIELD.cast_signed()).contains(&time.seconds) {
        record(&mut records, b"mtime", decimal(time).as_bytes());
    }
    for (name, value) in &member.xattrs {
        record(&mut records, &[b"SCHILY.xattr.", name.as_slice()].concat(), value);
    }
    if !records.is_empty() {
        let size = records.len() as u64;
        to.write_all(&block(b"pax", b'x', size, member, b""))?;
        to.write_all(&records)?;
        pad(to, size)?;
    }
    to.write_all(&block(&member.path, flag(member.kind), member.size, member, &member.link))
}

/// Zeros up to the end of the block after content of this size.
pub fn pad(to: &mut impl Write, size: u64) -> io::Result<()> {
    let zeros = [0; 512];
    match usize::try_from(size % 512).ok().filter(|rest| *rest > 0) {
        Some(rest) => to.write_all(zeros.get(rest..).unwrap_or_default()),
        None => Ok(()),
    }
}

/// Two empty blocks.
pub fn end(to: &mut impl Write) -> io::Result<()> {
    to.write_all(&[0; 1024])
}

fn flag(kind: Kind) -> u8 {
    match kind {
        Kind::File => b'0',
        Kind::HardLink => b'1',
        Kind::Symlink => b'2',
        Kind::Device => b'3',
        Kind::Dir => b'5',
        Kind::Fifo => b'6',
    }
}

fn block(path: &[u8], flag: u8, size: u64, of: &Member, link: &[u8]) -> [u8; 512] {
    let mut block = [0; 512];
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(field) = block.get_mut(at..at + bytes.len()) {
            field.copy_from_slice(bytes);
        }
    };
    let octal = |value: u64, digits: usize| format!("{value:0digits$o}");
    let fits = |id: u32| u64::from(if id > ID_FIELD { 0 } else { id });
    let seconds = u64::try_from(of.mtime.seconds).unwrap_or(0);
    put(0, path.get(..NAME_FIELD).unwrap_or(path));
    put(100, octal(u64::from(of.mode & 0o7777), 7).as_bytes());
    put(108, octal(fits(of.uid), 7).as_bytes());
    put(116, octal(fits(of.gid), 7).as_bytes());
    put(124, octal(if size > SIZE_FIELD { 0 } else { size }, 11).as_bytes());
    put(136, octal(if seconds > SIZE_FIELD { 0 } else { seconds }, 11).as_bytes());
    put(148, b"        ");
    put(156, &[flag]);
    put(157, link.get(..NAME_FIELD).unwrap_or(link));
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

fn record(records: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    // The length counts its own digits.
    let rest = key.len() + value.len() + 3;
    let digits = |length: usize| length.to_string().len();
    let mut length = rest + digits(rest);
    if rest + digits(length) != length {
        length += 1;
    }
    records.extend_from_slice(format!("{length} ").as_bytes());
    for part in [key, b"=", value, b"\n"] {
        records.extend_from_slice(part);
    }
}

fn decimal(time: super::Time) -> String {
    let (seconds, nanos) = (time.seconds, time.nanos);
    if seconds < 0 && nanos > 0 {
        // -1.25 is kept as -2 and 0.75.
        return format!("-{}.{:09}", -(seconds + 1), 1_000_000_000 - nanos);
    }
    format!("{seconds}.{nanos:09}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tar::{TarReader, Time};
    use proptest::prelude::*;

    fn member() -> impl Strategy<Value = Member> {
        let text = || proptest::collection::vec(1..=255u8, 1..300);
        let time = (-3000i64..10_000_000_000, 0..1_000_000_000u32);
        let xattrs = proptest::collection::vec((text(), text()), 0..3);
        let numbers = (0..0o10000u32, 0..4_000_000_000u32, 0..3_000_000u32);
        (text(), text(), time, xattrs, numbers, any::<bool>()).prop_map(
            |(path, link, (seconds, nanos), mut xattrs, (mode, uid, gid), is_link)| {
                xattrs.retain(|(name, _)| !name.contains(&b'='));
                xattrs.dedup_by(|a, b| a.0 == b.0);
                // Names of files that end in a slash are directories.
                let path = [path, b"x".to_vec()].concat();
                Member {
                    path,
                    kind: if is_link { Kind::Symlink } else { Kind::Dir },
                    mode,
                    uid,
                    gid,
                    mtime: Time { seconds, nanos },
                    link: if is_link { link } else { Vec::new() },
                    size: 0,
                    sparse: None,
                    xattrs,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(member in member()) {
            let mut bytes = Vec::new();
            header(&mut bytes, &member).expect("memory");
            end(&mut bytes).expect("memory");
            let mut reader = TarReader::new(bytes.as_slice());
            prop_assert_eq!(reader.next_member().expect("read"), Some(member));
            prop_assert_eq!(reader.next_member().expect("read"), None);
        }
    }
}
