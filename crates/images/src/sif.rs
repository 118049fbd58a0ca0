//! Apptainer's image format: the header and its descriptors, read strictly. Pure.
//!
//! Only what is needed to run is looked for: the primary partition, where it lies, what it is.

use crate::limits::OverLimit;

/// Bytes of the global header.
pub const HEADER: usize = 128;
/// Bytes of one descriptor.
pub const DESCRIPTOR: usize = 585;
/// Writers reserve 48; more than this is no longer a table but an attack.
const DESCRIPTOR_LIMIT: u64 = 4096;

/// Where in a descriptor its own kind of data begins.
const EXTRA: usize = 201;

const PARTITION: i32 = 0x4004;
const PRIMARY: i32 = 2;
const SQUASHFS: i32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SifError {
    #[error("the file is not a SIF image")]
    NotSif,
    #[error("the SIF image is of version {0:?}; only 01 is known")]
    Version(String),
    #[error("the SIF image's header is malformed")]
    Header,
    #[error("a descriptor of the SIF image lies outside the file")]
    Outside,
    #[error("the SIF image has {0} primary partitions, and needs one")]
    Primaries(usize),
    #[error("the SIF image is for {found}, and this machine is {wanted}")]
    Architecture { wanted: String, found: &'static str },
    #[error("the SIF image is encrypted, and no key is known here")]
    Encrypted,
    #[error("the SIF image's partition is of kind {0}, and squashfs is known")]
    FileSystem(i32),
    #[error("a SIF image is unpacked by `unsquashfs`, which is not installed")]
    NoUnsquashfs,
    #[error("unpacking the SIF image was stopped")]
    Over(#[source] OverLimit),
    #[error("`unsquashfs` could not unpack the SIF image: {0}")]
    Unsquashfs(String),
}

/// Where the descriptors lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    pub offset: u64,
    pub count: u64,
}

impl Table {
    pub fn bytes(&self) -> u64 {
        self.count * DESCRIPTOR as u64
    }
}

/// The primary partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Primary {
    pub offset: u64,
    pub size: u64,
    pub architecture: &'static str,
}

/// Reads the global header of a file of this length.
pub fn header(bytes: &[u8; HEADER], length: u64) -> Result<Table, SifError> {
    if &bytes[32..42] != b"SIF_MAGIC\0" {
        return Err(SifError::NotSif);
    }
    if &bytes[42..45] != b"01\0" {
        let version = String::from_utf8_lossy(&bytes[42..44]).into_owned();
        return Err(SifError::Version(version));
    }
    let number = |at: usize| natural(bytes, at);
    let (count, offset, size) = (number(88)?, number(96)?, number(104)?);
    let table = Table { offset, count };
    if count > DESCRIPTOR_LIMIT || offset < HEADER as u64 || table.bytes() > size {
        return Err(SifError::Header);
    }
    let inside = offset.checked_add(table.bytes()).is_some_and(|end| end <= length);
    if inside { Ok(table) } else { Err(SifError::Outside) }
}

/// Finds the primary partition among the descriptors of a file of this length.
pub fn primary(table: &[u8], length: u64) -> Result<Primary, SifError> {
    let mut found = Vec::new();
    for descriptor in table.chunks_exact(DESCRIPTOR) {
        // Unused entries are zeros.
        let [is_used] = field(descriptor, 4)?;
        if is_used == 0 || signed(descriptor, 0)? != PARTITION {
            continue;
        }
        if signed(descriptor, EXTRA + 4)? != PRIMARY {
            continue;
        }
        let (offset, size) = (natural(descriptor, 17)?, natural(descriptor, 25)?);
        if offset < HEADER as u64 || offset.checked_add(size).is_none_or(|end| end > length) {
            return Err(SifError::Outside);
        }
        let architecture = architecture(field(descriptor, EXTRA + 8)?);
        found.push((signed(descriptor, EXTRA)?, offset, size, architecture));
    }
    match found[..] {
        [(SQUASHFS, offset, size, architecture)] => Ok(Primary { offset, size, architecture }),
        [(5 | 6, ..)] => Err(SifError::Encrypted),
        [(other, ..)] => Err(SifError::FileSystem(other)),
        _ => Err(SifError::Primaries(found.len())),
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], SifError> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or(SifError::Header)
}

fn natural(bytes: &[u8], at: usize) -> Result<u64, SifError> {
    u64::try_from(i64::from_le_bytes(field(bytes, at)?)).map_err(|_| SifError::Header)
}

fn signed(bytes: &[u8], at: usize) -> Result<i32, SifError> {
    field(bytes, at).map(i32::from_le_bytes)
}

/// By the names images use for machines.
fn architecture(code: [u8; 3]) -> &'static str {
    match &code {
        b"01\0" => "386",
        b"02\0" => "amd64",
        b"03\0" => "arm",
        b"04\0" => "arm64",
        b"06\0" => "ppc64le",
        b"11\0" => "s390x",
        b"12\0" => "riscv64",
        _ => "an unknown machine",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with one primary squashfs partition at 64 KiB.
    fn sample() -> Vec<u8> {
        let mut file = vec![0u8; 70_000];
        file[32..45].copy_from_slice(b"SIF_MAGIC\x0001\0");
        let mut number =
            |at: usize, value: i64| file[at..at + 8].copy_from_slice(&value.to_le_bytes());
        number(88, 48);
        number(96, 4096);
        number(104, 48 * 585);
        number(4096 + 17, 65_536);
        number(4096 + 25, 1000);
        file[4096..4100].copy_from_slice(&PARTITION.to_le_bytes());
        file[4100] = 1;
        file[4096 + 201..4096 + 205].copy_from_slice(&SQUASHFS.to_le_bytes());
        file[4096 + 205..4096 + 209].copy_from_slice(&PRIMARY.to_le_bytes());
        file[4096 + 209..4096 + 212].copy_from_slice(b"02\0");
        file
    }

    fn read(file: &[u8]) -> Result<Primary, SifError> {
        let length = file.len() as u64;
        let table = header(file[..HEADER].try_into().expect("long enough"), length)?;
        let start = usize::try_from(table.offset).expect("inside");
        let end = start + usize::try_from(table.bytes()).expect("inside");
        primary(&file[start..end], length)
    }

    #[test]
    fn the_primary_partition_is_found() {
        let wanted = Primary { offset: 65_536, size: 1000, architecture: "amd64" };
        assert_eq!(read(&sample()), Ok(wanted));
    }

    #[test]
    fn what_is_malformed_is_refused() {
        let changed = |at: usize, bytes: &[u8]| {
            let mut file = sample();
            file[at..at + bytes.len()].copy_from_slice(bytes);
            read(&file)
        };
        assert_eq!(changed(32, b"X"), Err(SifError::NotSif));
        assert_eq!(changed(42, b"02"), Err(SifError::Version("02".into())));
        assert_eq!(changed(88, &(-1i64).to_le_bytes()), Err(SifError::Header));
        assert_eq!(changed(88, &i64::MAX.to_le_bytes()), Err(SifError::Header));
        assert_eq!(changed(96, &69_999i64.to_le_bytes()), Err(SifError::Outside));
        assert_eq!(changed(4096 + 25, &i64::MAX.to_le_bytes()), Err(SifError::Outside));
        assert_eq!(changed(4096 + 17, &0i64.to_le_bytes()), Err(SifError::Outside));
        assert_eq!(changed(4100, &[0]), Err(SifError::Primaries(0)));
        assert_eq!(changed(4096 + 201, &5i32.to_le_bytes()), Err(SifError::Encrypted));
        assert_eq!(changed(4096 + 201, &2i32.to_le_bytes()), Err(SifError::FileSystem(2)));
    }
}
