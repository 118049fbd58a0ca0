//! Files with holes: where the stored bytes belong in the file.

use super::{SPARSE_SEGMENT_LIMIT, TarError};

/// A run of stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    pub offset: u64,
    pub length: u64,
}

/// Segments in order, without overlap, inside the file, and together as long as what is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SparseMap {
    segments: Vec<Segment>,
    size: u64,
}

impl SparseMap {
    /// From `offset, length, offset, length, …` as every form has it.
    pub(super) fn new(numbers: &[u64], size: u64, stored: u64) -> Result<SparseMap, TarError> {
        let (pairs, rest) = numbers.as_chunks::<2>();
        if !rest.is_empty() || pairs.len() > SPARSE_SEGMENT_LIMIT {
            return Err(TarError::Sparse);
        }
        let mut end = 0u64;
        let mut total = 0u64;
        let mut segments = Vec::with_capacity(pairs.len());
        for &[offset, length] in pairs {
            let next = offset.checked_add(length).filter(|next| *next <= size);
            let next = next.filter(|_| offset >= end).ok_or(TarError::Sparse)?;
            (end, total) = (next, total.saturating_add(length));
            // Writers mark the end of the file with an empty run.
            if length > 0 {
                segments.push(Segment { offset, length });
            }
        }
        if total != stored {
            return Err(TarError::Sparse);
        }
        Ok(SparseMap { segments, size })
    }

    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that are in the file and not in the archive.
    pub fn holes(&self) -> u64 {
        self.size - self.segments.iter().map(|segment| segment.length).sum::<u64>()
    }
}
