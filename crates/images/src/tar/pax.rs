//! PAX records: `LENGTH KEY=VALUE\n`, read into what they override.

use super::{TarError, Time};

/// What extended headers said about a member. A later record wins over an earlier one.
#[derive(Debug, Clone, Default)]
pub(super) struct Extended {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) uid: Option<i64>,
    pub(super) gid: Option<i64>,
    pub(super) mtime: Option<Time>,
    pub(super) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) sparse: SparseRecords,
}

/// The three ways PAX archives describe holes, as written.
#[derive(Debug, Clone, Default)]
pub(super) struct SparseRecords {
    pub(super) version: Option<(u64, u64)>,
    pub(super) major: Option<u64>,
    pub(super) minor: Option<u64>,
    pub(super) name: Option<Vec<u8>>,
    pub(super) real_size: Option<u64>,
    /// Version 0.0 repeats two keys, version 0.1 has one list; both end up here.
    pub(super) numbers: Vec<u64>,
    pub(super) listed: bool,
}

impl Extended {
    pub(super) fn read(&mut self, mut records: &[u8]) -> Result<(), TarError> {
        while !records.is_empty() {
            let (record, rest) = split(records)?;
            let (key, value) = cut(record, b'=').ok_or(TarError::Pax)?;
            self.take(key, value)?;
            records = rest;
        }
        Ok(())
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), TarError> {
        // An empty value takes an override back.
        let given = !value.is_empty();
        match key {
            b"path" => self.path = given.then(|| value.to_vec()),
            b"linkpath" => self.link = given.then(|| value.to_vec()),
            b"size" => self.size = given.then(|| decimal(value)).transpose()?,
            b"uid" => self.uid = given.then(|| signed(value)).transpose()?,
            b"gid" => self.gid = given.then(|| signed(value)).transpose()?,
            b"mtime" => self.mtime = given.then(|| time(value)).transpose()?,
            _ => {
                if let Some(key) = key.strip_prefix(b"GNU.sparse.") {
                    self.sparse.take(key, value)?;
                } else if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
                    self.xattrs.retain(|(known, _)| known != name);
                    if self.xattrs.len() == super::XATTR_COUNT_LIMIT {
                        return Err(TarError::TooManyAttributes);
                    }
                    self.xattrs.push((name.to_vec(), value.to_vec()));
                }
            }
        }
        Ok(())
    }
}

impl SparseRecords {
    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), TarError> {
        match key {
            b"major" => self.major = Some(decimal(value)?),
            b"minor" => self.minor = Some(decimal(value)?),
            b"name" => self.name = Some(value.to_vec()),
            b"size" | b"realsize" => self.real_size = Some(decimal(value)?),
            b"offset" | b"numbytes" => self.push(decimal(value)?)?,
            b"map" => {
                self.listed = true;
                for part in value.split(|b| *b == b',').filter(|part| !part.is_empty()) {
                    self.push(decimal(part)?)?;
                }
            }
            // `numblocks` repeats what the list itself says.
            _ => {}
        }
        if let (Some(major), Some(minor)) = (self.major, self.minor) {
            self.version = Some((major, minor));
        }
        Ok(())
    }

    fn push(&mut self, number: u64) -> Result<(), TarError> {
        self.listed = true;
        self.numbers.push(number);
        let fits = self.numbers.len() <= 2 * super::SPARSE_SEGMENT_LIMIT;
        if fits { Ok(()) } else { Err(TarError::Sparse) }
    }
}

/// What is before and after the first of these signs.
fn cut(text: &[u8], sign: u8) -> Option<(&[u8], &[u8])> {
    let mut parts = text.splitn(2, |b| *b == sign);
    parts.next().zip(parts.next())
}

/// The next record without its length and line end, and what is after it.
fn split(records: &[u8]) -> Result<(&[u8], &[u8]), TarError> {
    let space = records.iter().take(20).position(|b| *b == b' ').ok_or(TarError::Pax)?;
    let length = decimal(records.get(..space).unwrap_or_default())?;
    let length = usize::try_from(length).map_err(|_| TarError::Pax)?;
    let (record, rest) = records.split_at_checked(length).ok_or(TarError::Pax)?;
    let record = record.get(space + 1..).and_then(|record| record.strip_suffix(b"\n"));
    Ok((record.ok_or(TarError::Pax)?, rest))
}

fn decimal(text: &[u8]) -> Result<u64, TarError> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = str::from_utf8(text).ok().filter(|_| digits).ok_or(TarError::Pax)?;
    text.parse().map_err(|_| TarError::Pax)
}

fn signed(text: &[u8]) -> Result<i64, TarError> {
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let value = i64::try_from(decimal(digits)?).map_err(|_| TarError::Pax)?;
    Ok(if negative { -value } else { value })
}

/// `1700000000.25`, with any number of decimals; more than nine are cut.
fn time(text: &[u8]) -> Result<Time, TarError> {
    let (whole, fraction) = cut(text, b'.').unwrap_or((text, b""));
    let seconds = signed(whole)?;
    if !fraction.iter().all(u8::is_ascii_digit) {
        return Err(TarError::Pax);
    }
    let digits = fraction.iter().copied().chain(std::iter::repeat(b'0')).take(9);
    let nanos = digits.fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
    // `-1.25` is a quarter before -1: the fraction counts downwards.
    if text.starts_with(b"-") && nanos > 0 {
        return Ok(Time { seconds: seconds - 1, nanos: 1_000_000_000 - nanos });
    }
    Ok(Time { seconds, nanos })
}
