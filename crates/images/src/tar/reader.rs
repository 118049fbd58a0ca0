//! From a stream of blocks to members, one at a time, and the content of each.

use super::header::{BLOCK, Block, Header, number};
use super::pax::Extended;
use super::{
    EXTENDED_LIMIT, GLOBAL_LIMIT, Kind, Member, SPARSE_SEGMENT_LIMIT, SparseMap, TarError, Time,
};
use std::io::BufRead;

#[derive(Debug)]
pub struct TarReader<R> {
    input: R,
    /// Stored bytes of the current member not read yet.
    left: u64,
    /// Zeros after them, up to the end of the block.
    padding: u64,
    global: Extended,
    /// Bytes of the headers that speak of all members.
    said_of_all: u64,
}

impl<R: BufRead> TarReader<R> {
    pub fn new(input: R) -> Self {
        TarReader { input, left: 0, padding: 0, global: Extended::default(), said_of_all: 0 }
    }

    /// The next member, after skipping what was not read of the one before. None at the end;
    /// the stream is then read out, so that whoever hashes it has seen all of it.
    pub fn next_member(&mut self) -> Result<Option<Member>, TarError> {
        self.skip_content()?;
        let mut extended = self.global.clone();
        let (mut announced, mut said) = (false, 0);
        while let Some(header) = self.header()? {
            match header.kind() {
                b'x' => extended.read(&self.extended_body(&header, &mut said)?)?,
                b'g' => {
                    let body = self.global_body(&header)?;
                    self.global.read(&body)?;
                    extended.read(&body)?;
                    continue;
                }
                b'L' => {
                    extended.path = Some(zero_ended(self.extended_body(&header, &mut said)?));
                }
                b'K' => {
                    extended.link = Some(zero_ended(self.extended_body(&header, &mut said)?));
                }
                _ => return self.member(&header, extended).map(Some),
            }
            announced = true;
        }
        if announced { Err(TarError::Dangling) } else { self.drain().map(|()| None) }
    }

    /// Stored bytes of the current member: what is at hand, none at its end.
    pub fn content(&mut self) -> Result<&[u8], TarError> {
        if self.left == 0 {
            return Ok(&[]);
        }
        let at_hand = self.input.fill_buf().map_err(TarError::Read)?;
        if at_hand.is_empty() {
            return Err(TarError::Truncated);
        }
        let wanted = usize::try_from(self.left).ok().and_then(|left| at_hand.get(..left));
        Ok(wanted.unwrap_or(at_hand))
    }

    /// Marks bytes given by `content` as read: never more than are the member's.
    pub fn consume(&mut self, count: usize) {
        let count = count.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= count as u64;
        self.input.consume(count);
    }

    /// Stored bytes of the current member that are still to come.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// What is read from; after `next_member` it stands at the member's content.
    pub fn input(&self) -> &R {
        &self.input
    }

    fn member(&mut self, header: &Header, extended: Extended) -> Result<Member, TarError> {
        let mut path = extended.path.unwrap_or_else(|| header.name());
        let kind = kind(header.kind(), &path)?;
        let mut stored = match extended.size {
            Some(size) => size,
            None => header.size()?,
        };
        // Only files have content; writers leave the size of a link's target in its header.
        if kind != Kind::File {
            stored = 0;
        }
        self.start(stored);
        let is_file = kind == Kind::File;
        let records = extended.sparse;
        let sparse = if header.kind() == b'S' {
            Some(self.gnu_map(header, stored)?)
        } else if is_file && records.version == Some((1, 0)) {
            let size = records.real_size.ok_or(TarError::Sparse)?;
            let numbers = self.inline_map()?;
            Some(SparseMap::new(&numbers, size, self.left)?)
        } else if is_file && records.listed {
            let size = records.real_size.ok_or(TarError::Sparse)?;
            Some(SparseMap::new(&records.numbers, size, stored)?)
        } else {
            None
        };
        if let Some(name) = records.name.filter(|_| sparse.is_some()) {
            path = name;
        }
        let link = extended.link.unwrap_or_else(|| header.link().to_vec());
        let links = matches!(kind, Kind::HardLink | Kind::Symlink);
        let mtime = match extended.mtime {
            Some(time) => time,
            None => Time { seconds: header.mtime()?, nanos: 0 },
        };
        Ok(Member {
            path,
            kind,
            mode: header.mode()?,
            uid: owner(extended.uid.map_or_else(|| header.uid(), Ok)?, "owner")?,
            gid: owner(extended.gid.map_or_else(|| header.gid(), Ok)?, "group")?,
            mtime,
            link: if links { link } else { Vec::new() },
            size: sparse.as_ref().map_or(stored, SparseMap::size),
            sparse,
            xattrs: extended.xattrs,
        })
    }

    fn start(&mut self, stored: u64) {
        let block = BLOCK as u64;
        (self.left, self.padding) = (stored, (block - stored % block) % block);
    }

    /// A header; none at the end of the archive, be it marked or not.
    fn header(&mut self) -> Result<Option<Header>, TarError> {
        if self.input.fill_buf().map_err(TarError::Read)?.is_empty() {
            return Ok(None);
        }
        Header::parse(&self.block()?)
    }

    fn block(&mut self) -> Result<Block, TarError> {
        let mut block = [0; BLOCK];
        self.input.read_exact(&mut block).map_err(cut)?;
        Ok(block)
    }

    /// The content of a header that only speaks of the next member. `said` is how much came before
    /// it for the same one: there may be any number of them.
    fn extended_body(&mut self, header: &Header, said: &mut u64) -> Result<Vec<u8>, TarError> {
        let size = header.size()?;
        *said = said.saturating_add(size);
        if *said > EXTENDED_LIMIT {
            return Err(TarError::ExtendedTooLarge);
        }
        self.body(size)
    }

    /// The content of a header that speaks of all that follow.
    fn global_body(&mut self, header: &Header) -> Result<Vec<u8>, TarError> {
        let size = header.size()?;
        self.said_of_all = self.said_of_all.saturating_add(size);
        if self.said_of_all > GLOBAL_LIMIT {
            return Err(TarError::GlobalTooLarge);
        }
        self.body(size)
    }

    fn body(&mut self, size: u64) -> Result<Vec<u8>, TarError> {
        let mut body = vec![0; usize::try_from(size).map_err(|_| TarError::Range("size"))?];
        self.input.read_exact(&mut body).map_err(cut)?;
        self.start(size);
        self.left = 0;
        self.skip_content()?;
        Ok(body)
    }

    /// The map of an old GNU header, which goes on in blocks before the content.
    fn gnu_map(&mut self, header: &Header, stored: u64) -> Result<SparseMap, TarError> {
        let (first, mut more, size) = header.gnu_sparse()?;
        let mut numbers = Vec::new();
        pairs(first, &mut numbers)?;
        while more {
            let block = self.block()?;
            pairs(&block[..504], &mut numbers)?;
            more = block[504] != 0;
            if numbers.len() > 2 * SPARSE_SEGMENT_LIMIT {
                return Err(TarError::Sparse);
            }
        }
        SparseMap::new(&numbers, size, stored)
    }

    /// The map of PAX sparse 1.0: decimal lines at the beginning of the content, in whole blocks.
    fn inline_map(&mut self) -> Result<Vec<u64>, TarError> {
        let mut text = Vec::new();
        let mut numbers: Vec<u64> = Vec::new();
        let mut wanted = None;
        loop {
            let block = BLOCK as u64;
            self.left = self.left.checked_sub(block).ok_or(TarError::Sparse)?;
            text.extend_from_slice(&self.block()?);
            // No number is that long.
            if text.len() > 2 * BLOCK {
                return Err(TarError::Sparse);
            }
            while let Some(end) = text.iter().position(|b| *b == b'\n') {
                let line = str::from_utf8(text.get(..end).unwrap_or_default())
                    .map_err(|_| TarError::Sparse)?;
                let number = line.parse().map_err(|_| TarError::Sparse)?;
                text.drain(..=end);
                match wanted {
                    None if number > SPARSE_SEGMENT_LIMIT as u64 => return Err(TarError::Sparse),
                    None => wanted = Some(2 * number),
                    Some(_) => numbers.push(number),
                }
                if wanted == Some(numbers.len() as u64) {
                    return Ok(numbers);
                }
            }
        }
    }

    fn skip_content(&mut self) -> Result<(), TarError> {
        let mut left = self.left.checked_add(self.padding).ok_or(TarError::Range("size"))?;
        while left > 0 {
            let at_hand = self.input.fill_buf().map_err(TarError::Read)?.len();
            if at_hand == 0 {
                return Err(TarError::Truncated);
            }
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(at_hand);
            self.input.consume(count);
            left -= count as u64;
        }
        (self.left, self.padding) = (0, 0);
        Ok(())
    }

    /// What is after the end belongs to the digest and to nothing else.
    fn drain(&mut self) -> Result<(), TarError> {
        loop {
            let count = self.input.fill_buf().map_err(TarError::Read)?.len();
            if count == 0 {
                return Ok(());
            }
            self.input.consume(count);
        }
    }
}

fn cut(error: std::io::Error) -> TarError {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => TarError::Truncated,
        _ => TarError::Read(error),
    }
}

fn zero_ended(mut text: Vec<u8>) -> Vec<u8> {
    let end = text.iter().position(|b| *b == 0).unwrap_or(text.len());
    text.truncate(end);
    text
}

fn kind(flag: u8, path: &[u8]) -> Result<Kind, TarError> {
    Ok(match flag {
        b'\0' | b'0' if path.ends_with(b"/") => Kind::Dir,
        b'\0' | b'0' | b'7' | b'S' => Kind::File,
        b'1' => Kind::HardLink,
        b'2' => Kind::Symlink,
        b'3' | b'4' => Kind::Device,
        b'5' => Kind::Dir,
        b'6' => Kind::Fifo,
        other => return Err(TarError::UnknownKind(char::from(other))),
    })
}

/// The last two numbers mean "none" to the kernel, not an owner.
fn owner(id: i64, what: &'static str) -> Result<u32, TarError> {
    let id = u32::try_from(id).ok().filter(|id| *id < u32::MAX - 1);
    id.ok_or(TarError::Range(what))
}

/// Entries of 24 bytes; one without a length ends the list.
fn pairs(fields: &[u8], numbers: &mut Vec<u64>) -> Result<(), TarError> {
    for pair in fields.as_chunks::<24>().0 {
        if pair[0] == 0 {
            return Ok(());
        }
        for field in [&pair[..12], &pair[12..]] {
            let value = number(field, "size")?;
            numbers.push(u64::try_from(value).map_err(|_| TarError::Range("size"))?);
        }
    }
    Ok(())
}
