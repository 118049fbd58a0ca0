//! Many contents in one request (`api/src/pack.rs`), taken in as they come. Whatever ends the
//! request early, what had come whole by then is kept, and a part is gone on with.

use super::coming::Whole;
use super::{FileStore, FilesError, Whose};
use shipway_api::pack::{HEADING, Heading};
use std::io::{self, Read};

/// How many files are given their names together, and bytes: each time all of them are synced.
const TOGETHER: usize = 512;
const BYTES_TOGETHER: u64 = 64 << 20;

/// What came of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    pub files: u64,
    pub bytes: u64,
}

impl FileStore {
    /// A content that comes in several pieces behind one another is one all the same.
    ///
    /// On a thread that may wait for the disk and for whoever sends.
    pub fn take_pack(&self, whose: &Whose, from: &mut impl Read) -> Result<Taken, FilesError> {
        let mut whole = Vec::new();
        let mut taken = Taken::default();
        let read = self.read_pack(whose, from, &mut whole, &mut taken);
        let named = self.name(whose, &mut whole);
        self.drop_unnamed(whose, &whole);
        read.and(named).map(|()| taken)
    }

    fn read_pack(
        &self,
        whose: &Whose,
        from: &mut impl Read,
        whole: &mut Vec<Whole>,
        taken: &mut Taken,
    ) -> Result<(), FilesError> {
        let mut buffer = vec![0; 256 << 10];
        let mut unnamed = 0;
        while let Some(heading) = heading(from)? {
            let Heading { digest, size, offset, length } = heading;
            if self.has(whose, &digest, size) || whole.iter().any(|it| it.digest == digest) {
                // It has come twice, or another request of theirs was faster: it is read past.
                io::copy(&mut from.by_ref().take(length), &mut io::sink())
                    .map_err(FilesError::Pack)?;
                continue;
            }
            let mut coming = self.begin(whose, (digest, size), offset)?;
            let mut left = length;
            while left > 0 {
                let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
                let piece = buffer.get_mut(..most).unwrap_or_default();
                let count = from.read(piece).map_err(FilesError::Pack)?;
                if count == 0 {
                    return Err(FilesError::Pack(io::ErrorKind::UnexpectedEof.into()));
                }
                coming.write(piece.get(..count).unwrap_or_default())?;
                left -= count as u64;
            }
            taken.bytes += length;
            if let Some(done) = coming.end()? {
                taken.files += 1;
                unnamed += done.size;
                whole.push(done);
            }
            if whole.len() >= TOGETHER || unnamed >= BYTES_TOGETHER {
                self.name(whose, whole)?;
                unnamed = 0;
            }
        }
        Ok(())
    }
}

/// The next one, or the end where one may be.
fn heading(from: &mut impl Read) -> Result<Option<Heading>, FilesError> {
    let mut bytes = [0; HEADING];
    let mut filled = 0;
    while filled < HEADING {
        let rest = bytes.get_mut(filled..).unwrap_or_default();
        match from.read(rest).map_err(FilesError::Pack)? {
            0 if filled == 0 => return Ok(None),
            0 => return Err(FilesError::Pack(io::ErrorKind::UnexpectedEof.into())),
            count => filled += count,
        }
    }
    let wrong = || FilesError::Pack(io::ErrorKind::InvalidData.into());
    Heading::read(&bytes).map(Some).ok_or_else(wrong)
}
