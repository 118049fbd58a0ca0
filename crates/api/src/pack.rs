//! How contents are uploaded: any number of pieces in one request, each behind a heading that says
//! which content it is of, so that thousands of small files take one request and a large one can be
//! gone on with where it stopped.

use shipway_model::Digest;

/// A digest, the size of the whole, where the piece begins and how long it is.
pub const HEADING: usize = 32 + 3 * 8;
/// Of one request: more go into another one.
pub const MAX_UPLOAD_BYTES: usize = 1 << 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heading {
    pub digest: Digest,
    pub size: u64,
    pub offset: u64,
    pub length: u64,
}

impl Heading {
    pub fn write(&self) -> [u8; HEADING] {
        let mut bytes = [0; HEADING];
        let numbers = [self.size, self.offset, self.length].map(u64::to_be_bytes);
        let all = self.digest.0.iter().chain(numbers.iter().flatten());
        bytes.iter_mut().zip(all).for_each(|(byte, value)| *byte = *value);
        bytes
    }

    /// `None`: the piece does not lie in its content.
    pub fn read(bytes: &[u8; HEADING]) -> Option<Heading> {
        let (digest, rest) = bytes.split_first_chunk::<32>()?;
        let ([size, offset, length], []) = rest.as_chunks::<8>() else { return None };
        let [size, offset, length] = [size, offset, length].map(|it| u64::from_be_bytes(*it));
        let end = offset.checked_add(length)?;
        (end <= size).then_some(Heading { digest: Digest(*digest), size, offset, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_reads_back_unless_it_says_what_cannot_be() {
        let heading = Heading { digest: Digest([9; 32]), size: 10, offset: 4, length: 6 };
        assert_eq!(Heading::read(&heading.write()), Some(heading));
        for wrong in [
            Heading { length: 7, ..heading },
            Heading { offset: u64::MAX, ..heading },
            Heading { size: 3, ..heading },
        ] {
            assert_eq!(Heading::read(&wrong.write()), None, "{wrong:?}");
        }
    }
}
