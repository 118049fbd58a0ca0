//! How contents are named between pilot and server: digests as bytes, one behind the other, so that
//! a list of them takes no more memory than it is long.

use shipway_model::Digest;

/// Bytes of a digest, and of one with how much of it is there.
const DIGEST: usize = 32;
const WANTED: usize = DIGEST + 8;

pub fn digest(bytes: &[u8]) -> Option<Digest> {
    bytes.try_into().ok().map(Digest)
}

pub fn write_digests<'a>(digests: impl IntoIterator<Item = &'a Digest>) -> Vec<u8> {
    digests.into_iter().flat_map(|digest| digest.0).collect()
}

/// `None`: it is no such list.
pub fn read_digests(bytes: &[u8]) -> Option<Vec<Digest>> {
    let (all, []) = bytes.as_chunks::<DIGEST>() else { return None };
    Some(all.iter().copied().map(Digest).collect())
}

/// What is wanted, and how much of each is there.
pub fn write_wanted(wanted: &[(Digest, u64)]) -> Vec<u8> {
    wanted
        .iter()
        .flat_map(|(digest, have)| digest.0.into_iter().chain(have.to_be_bytes()))
        .collect()
}

/// `None`: it is no such list.
pub fn read_wanted(bytes: &[u8]) -> Option<Vec<(Digest, u64)>> {
    let (all, []) = bytes.as_chunks::<WANTED>() else { return None };
    let one = |one: &[u8; WANTED]| {
        let (digest, have) = one.split_first_chunk::<DIGEST>()?;
        Some((Digest(*digest), u64::from_be_bytes(have.try_into().ok()?)))
    };
    all.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_back_and_others_are_none() {
        let [one, two] = [Digest([1; 32]), Digest([2; 32])];
        assert_eq!(read_digests(&write_digests([&one, &two])), Some(vec![one, two]));
        let wanted = vec![(one, 7), (two, u64::MAX)];
        assert_eq!(read_wanted(&write_wanted(&wanted)), Some(wanted));
        assert_eq!((read_digests(&[0; 33]), read_wanted(&[0; 41])), (None, None));
        assert_eq!(digest(&[0; 31]), None);
    }
}
