//! What a layer says, as data: its members in order, with files named by their objects.
//!
//! An index outlives its layer: with it an image is put together without fetching the layer
//! again. On disk it is a small binary form with a checksum; one that does not read back is as
//! good as missing.

use crate::tar::Time;

const MAGIC: &[u8; 8] = b"swlayer1";
const CHECKSUM: usize = 32;

/// The digest of a file's content and of all that its inode carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub [u8; 32]);

impl ObjectId {
    pub fn hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }
}

/// What an inode carries beside its content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meta {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub mtime: Time,
    /// Sorted by name.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    File {
        object: ObjectId,
        size: u64,
    },
    /// Another name of a file of this or a lower layer, by its path.
    HardLink {
        to: Vec<u8>,
    },
    Symlink {
        to: Vec<u8>,
    },
    Dir,
    Fifo,
    /// The lower layers' file of this path is gone.
    Whiteout,
    /// Everything the lower layers have in this directory is gone.
    Opaque,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// In normal form.
    pub path: Vec<u8>,
    pub meta: Meta,
    pub what: What,
}

/// What was left out of a layer, for people to know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LeftOut {
    /// Device nodes: a container gets its devices from the runtime.
    pub devices: u64,
    /// Set-user-id and set-group-id bits of files.
    pub set_id_bits: u64,
    /// File capabilities an ordinary user may not set.
    pub capabilities: u64,
    /// Attributes that would mean something to the kernel or to an overlay.
    pub xattrs: u64,
}

impl LeftOut {
    pub fn add(&mut self, other: LeftOut) {
        self.devices += other.devices;
        self.set_id_bits += other.set_id_bits;
        self.capabilities += other.capabilities;
        self.xattrs += other.xattrs;
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LayerIndex {
    pub entries: Vec<Entry>,
    pub left_out: LeftOut,
    /// Bytes of the layer, unpacked.
    pub unpacked: u64,
}

impl LayerIndex {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.entries.len() * 96);
        out.extend_from_slice(MAGIC);
        let LeftOut { devices, set_id_bits, capabilities, xattrs } = self.left_out;
        let count = self.entries.len() as u64;
        for number in [devices, set_id_bits, capabilities, xattrs, self.unpacked, count] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for entry in &self.entries {
            encode(entry, &mut out);
        }
        let sum = blake3::hash(&out);
        out.extend_from_slice(sum.as_bytes());
        out
    }

    /// None when it was cut, changed, or written by another version.
    pub fn decode(bytes: &[u8]) -> Option<LayerIndex> {
        let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM)?)?;
        if blake3::hash(body).as_bytes() != sum {
            return None;
        }
        let mut from = Cursor(body.strip_prefix(MAGIC)?);
        let left_out = LeftOut {
            devices: from.u64()?,
            set_id_bits: from.u64()?,
            capabilities: from.u64()?,
            xattrs: from.u64()?,
        };
        let unpacked = from.u64()?;
        let count = usize::try_from(from.u64()?).ok()?;
        let mut entries = Vec::with_capacity(count.min(body.len() / 32));
        for _ in 0..count {
            entries.push(decode(&mut from)?);
        }
        from.0.is_empty().then_some(LayerIndex { entries, left_out, unpacked })
    }
}

fn encode(entry: &Entry, out: &mut Vec<u8>) {
    let Entry { path, meta, what } = entry;
    let (tag, object, size, link): (u8, &[u8], u64, &[u8]) = match what {
        What::File { object, size } => (0, &object.0, *size, b""),
        What::HardLink { to } => (1, b"", 0, to),
        What::Symlink { to } => (2, b"", 0, to),
        What::Dir => (3, b"", 0, b""),
        What::Fifo => (4, b"", 0, b""),
        What::Whiteout => (5, b"", 0, b""),
        What::Opaque => (6, b"", 0, b""),
    };
    out.push(tag);
    for number in [meta.mode, meta.uid, meta.gid, meta.mtime.nanos] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&meta.mtime.seconds.to_le_bytes());
    text(path, out);
    if tag == 0 {
        out.extend_from_slice(object);
        out.extend_from_slice(&size.to_le_bytes());
    }
    if tag == 1 || tag == 2 {
        text(link, out);
    }
    let count = length(meta.xattrs.len());
    out.extend_from_slice(&count.to_le_bytes());
    for (name, value) in &meta.xattrs {
        text(name, out);
        text(value, out);
    }
}

fn text(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&length(bytes.len()).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Names and values have been measured: none comes near it. One that did would be read back as
/// damaged, and not as another.
fn length(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn decode(from: &mut Cursor<'_>) -> Option<Entry> {
    let [tag] = from.array()?;
    let (mode, uid, gid, nanos) = (from.u32()?, from.u32()?, from.u32()?, from.u32()?);
    let seconds = from.u64()?.cast_signed();
    let path = from.text()?;
    let what = match tag {
        0 => {
            let object = ObjectId(from.array()?);
            What::File { object, size: from.u64()? }
        }
        1 => What::HardLink { to: from.text()? },
        2 => What::Symlink { to: from.text()? },
        3 => What::Dir,
        4 => What::Fifo,
        5 => What::Whiteout,
        6 => What::Opaque,
        _ => return None,
    };
    let mut xattrs = Vec::new();
    for _ in 0..from.u32()? {
        xattrs.push((from.text()?, from.text()?));
    }
    let mtime = Time { seconds, nanos };
    Some(Entry { path, meta: Meta { mode, uid, gid, mtime, xattrs }, what })
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<Vec<u8>> {
        let length = usize::try_from(self.u32()?).ok()?;
        self.take(length).map(<[u8]>::to_vec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> LayerIndex {
        let meta = Meta {
            mode: 0o755,
            uid: 1,
            gid: 2,
            mtime: Time { seconds: -5, nanos: 7 },
            xattrs: vec![(b"user.a".to_vec(), b"\0\xff".to_vec())],
        };
        let object = ObjectId([9; 32]);
        let whats = [
            What::File { object, size: 12 },
            What::HardLink { to: b"a".to_vec() },
            What::Symlink { to: b"../b".to_vec() },
            What::Dir,
            What::Fifo,
            What::Whiteout,
            What::Opaque,
        ];
        let entry = |what| Entry { path: b"p\xff".to_vec(), meta: meta.clone(), what };
        let left_out = LeftOut { devices: 1, set_id_bits: 2, capabilities: 3, xattrs: 4 };
        LayerIndex { entries: whats.map(entry).to_vec(), left_out, unpacked: 99 }
    }

    #[test]
    fn an_index_reads_back_and_a_damaged_one_does_not() {
        let bytes = sample().encode();
        assert_eq!(LayerIndex::decode(&bytes), Some(sample()));
        for cut in 0..bytes.len() {
            assert_eq!(LayerIndex::decode(&bytes[..cut]), None, "cut at {cut}");
            let mut changed = bytes.clone();
            changed[cut] ^= 1;
            assert_eq!(LayerIndex::decode(&changed), None, "changed at {cut}");
        }
    }
}
