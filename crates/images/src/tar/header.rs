//! One 512-byte header block: fields, numbers, checksum.

use super::TarError;

pub(super) const BLOCK: usize = 512;
pub(super) type Block = [u8; BLOCK];

const CHECKSUM: std::ops::Range<usize> = 148..156;

/// Views of the fields of one block.
#[derive(Debug, Clone)]
pub(super) struct Header(Block);

impl Header {
    /// None for a block of zeros, which ends an archive.
    pub(super) fn parse(block: &Block) -> Result<Option<Header>, TarError> {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let header = Header(*block);
        let wanted = number(&header.0[CHECKSUM], "checksum")?;
        // Some old writers summed signed bytes.
        if wanted != header.sum(i64::from) && wanted != header.sum(|b| i64::from(b.cast_signed())) {
            return Err(TarError::Checksum);
        }
        Ok(Some(header))
    }

    fn sum(&self, value: impl Fn(u8) -> i64) -> i64 {
        let bytes = self.0.iter().enumerate();
        bytes.map(|(at, b)| if CHECKSUM.contains(&at) { 32 } else { value(*b) }).sum()
    }

    pub(super) fn kind(&self) -> u8 {
        self.0[156]
    }

    pub(super) fn mode(&self) -> Result<u32, TarError> {
        let mode = number(&self.0[100..108], "mode")?;
        u32::try_from(mode & 0o7777).map_err(|_| TarError::Range("mode"))
    }

    pub(super) fn uid(&self) -> Result<i64, TarError> {
        number(&self.0[108..116], "owner")
    }

    pub(super) fn gid(&self) -> Result<i64, TarError> {
        number(&self.0[116..124], "group")
    }

    pub(super) fn size(&self) -> Result<u64, TarError> {
        let size = number(&self.0[124..136], "size")?;
        u64::try_from(size).map_err(|_| TarError::Range("size"))
    }

    pub(super) fn mtime(&self) -> Result<i64, TarError> {
        number(&self.0[136..148], "time")
    }

    pub(super) fn link(&self) -> &[u8] {
        text(&self.0[157..257])
    }

    /// The name, with the prefix that POSIX (not GNU) archives keep apart.
    pub(super) fn name(&self) -> Vec<u8> {
        let name = text(&self.0[0..100]);
        let prefix = text(&self.0[345..500]);
        if &self.0[257..263] != b"ustar\0" || prefix.is_empty() {
            return name.to_vec();
        }
        [prefix, b"/", name].concat()
    }

    /// The sparse map of an old GNU header: its entries, whether more blocks follow, the size.
    pub(super) fn gnu_sparse(&self) -> Result<(&[u8], bool, u64), TarError> {
        let real = number(&self.0[483..495], "size")?;
        let real = u64::try_from(real).map_err(|_| TarError::Range("size"))?;
        Ok((&self.0[386..482], self.0[482] != 0, real))
    }
}

/// Up to the first zero byte.
pub(super) fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Octal digits, or two's complement behind a set first bit. An empty field is zero.
pub(super) fn number(field: &[u8], what: &'static str) -> Result<i64, TarError> {
    if field.first().is_some_and(|first| first & 0x80 != 0) {
        return binary(field, what);
    }
    let digits = text(field).trim_ascii();
    let mut value: i64 = 0;
    for digit in digits {
        if !matches!(digit, b'0'..=b'7') {
            return Err(TarError::Number(what));
        }
        let next =
            value.checked_mul(8).and_then(|value| value.checked_add(i64::from(digit - b'0')));
        value = next.ok_or(TarError::Range(what))?;
    }
    Ok(value)
}

fn binary(field: &[u8], what: &'static str) -> Result<i64, TarError> {
    let negative = field.first().is_some_and(|first| first & 0x40 != 0);
    let mut value: i128 = if negative { -1 } else { 0 };
    for (at, byte) in field.iter().enumerate() {
        let byte = if at == 0 && !negative { byte & 0x7f } else { *byte };
        value = (value << 8) | i128::from(byte);
    }
    i64::try_from(value).map_err(|_| TarError::Range(what))
}
