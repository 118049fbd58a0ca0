//! Reads the cache of the dynamic loader: which library is where on this node.
//!
//! The file is root's, but a length in it is still only a number: everything is looked up within
//! the bytes that are there.

/// Longest cache that is read; real ones have some hundred kilobytes.
pub(super) const CACHE_LIMIT: u64 = 64 << 20;

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";

/// Bytes of the header: magic, two counts, flags, and room for later.
const HEADER_BYTES: usize = 48;
const ENTRY_BYTES: usize = 24;
/// The older format that may come first.
const OLD_HEADER_BYTES: usize = 16;
const OLD_ENTRY_BYTES: usize = 12;
const ALIGNMENT: usize = 8;

/// The kind of entry that programs of this architecture use.
#[cfg(target_arch = "x86_64")]
const OURS: u32 = 0x0303;
#[cfg(target_arch = "aarch64")]
const OURS: u32 = 0x0A03;
const KIND_MASK: u32 = 0xFFFF;

/// Name and path of every library for this architecture, as the loader finds them. `None` when it
/// is not such a file.
pub(super) fn parse(bytes: &[u8]) -> Option<Vec<(&str, &str)>> {
    let cache = newer_part(bytes)?;
    let count = usize::try_from(word(cache, MAGIC.len())?).ok()?;
    let entries =
        cache.get(HEADER_BYTES..HEADER_BYTES.checked_add(count.checked_mul(ENTRY_BYTES)?)?)?;
    let mut libraries = Vec::new();
    for entry in entries.chunks_exact(ENTRY_BYTES) {
        if word(entry, 0)? & KIND_MASK != OURS {
            continue;
        }
        let (name, path) = (text(cache, word(entry, 4)?)?, text(cache, word(entry, 8)?)?);
        libraries.push((name, path));
    }
    Some(libraries)
}

fn newer_part(bytes: &[u8]) -> Option<&[u8]> {
    if bytes.starts_with(MAGIC) {
        return Some(bytes);
    }
    if !bytes.starts_with(OLD_MAGIC) {
        return None;
    }
    let count = usize::try_from(word(bytes, OLD_HEADER_BYTES - 4)?).ok()?;
    let end = count.checked_mul(OLD_ENTRY_BYTES)?.checked_add(OLD_HEADER_BYTES)?;
    let part = bytes.get(end.checked_next_multiple_of(ALIGNMENT)?..)?;
    part.starts_with(MAGIC).then_some(part)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(four.try_into().ok()?))
}

fn text(bytes: &[u8], at: u32) -> Option<&str> {
    let rest = bytes.get(usize::try_from(at).ok()?..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A cache with these libraries.
    pub(in crate::gpu) fn cache(libraries: &[(&str, &str)]) -> Vec<u8> {
        let mut strings = Vec::new();
        let mut entries = Vec::new();
        let base = HEADER_BYTES + libraries.len() * ENTRY_BYTES;
        let mut add = |text: &str| {
            let at = u32::try_from(base + strings.len()).unwrap();
            strings.extend(text.bytes());
            strings.push(0);
            at
        };
        for (name, path) in libraries {
            let (name, path) = (add(name), add(path));
            for word in [OURS, name, path, 0, 0, 0] {
                entries.extend(word.to_ne_bytes());
            }
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend(u32::try_from(libraries.len()).unwrap().to_ne_bytes());
        bytes.resize(HEADER_BYTES, 0);
        bytes.extend(entries);
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn reads_this_nodes_own() {
        let bytes = std::fs::read("/etc/ld.so.cache").unwrap();
        let libraries = parse(&bytes).unwrap();
        let libc = libraries.iter().find(|(name, _)| *name == "libc.so.6").unwrap();
        assert!(std::path::Path::new(libc.1).exists(), "{libc:?}");
    }

    #[test]
    fn an_older_part_may_come_first() {
        let newer = cache(&[("liba.so.1", "/lib/liba.so.1")]);
        let mut bytes = OLD_MAGIC.to_vec();
        bytes.push(0);
        bytes.extend(1_u32.to_ne_bytes());
        bytes.resize((OLD_HEADER_BYTES + OLD_ENTRY_BYTES).next_multiple_of(ALIGNMENT), 0);
        bytes.extend(&newer);
        assert_eq!(parse(&bytes).unwrap(), [("liba.so.1", "/lib/liba.so.1")]);
    }

    #[test]
    fn every_cut_and_every_lie_is_an_answer() {
        let bytes = cache(&[("liba.so.1", "/lib/liba.so.1"), ("libb.so.2", "/lib/libb.so.2")]);
        for length in 0..bytes.len() {
            assert_eq!(parse(&bytes[..length]), None, "cut at {length}");
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7F, 0xFF] {
                let mut lie = bytes.clone();
                lie[at] = value;
                // Only that it answers.
                let _any = parse(&lie);
            }
        }
    }
}
