//! The known name that a misspelt one most likely means.

/// Further away than this is not a slip of the fingers.
const FARTHEST: usize = 3;
/// A longer name is no misspelling; the distance costs the product of the lengths.
const LONGEST: usize = 40;

/// Without case; at least half of the letters have to be right. A name that is known has none.
pub fn nearest_name<N: AsRef<str> + Ord>(
    name: &str,
    known: impl IntoIterator<Item = N>,
) -> Option<N> {
    nearest_within(name, known, FARTHEST)
}

/// The same with at most so many slips: a letter that is wrong, missing or too many, or two that
/// are exchanged.
pub fn nearest_within<N: AsRef<str> + Ord>(
    name: &str,
    known: impl IntoIterator<Item = N>,
    farthest: usize,
) -> Option<N> {
    let wanted = name.to_ascii_lowercase();
    if wanted.len() > LONGEST {
        return None;
    }
    let near = |known: N| {
        let folded = known.as_ref().to_ascii_lowercase();
        // Underscores are what people forget first.
        let is_same = folded.replace('_', "") == wanted.replace('_', "");
        let slips = || strsim::osa_distance(&wanted, &folded);
        (if is_same { usize::from(folded != wanted) } else { slips() }, known)
    };
    let short = known.into_iter().filter(|known| known.as_ref().len() <= LONGEST);
    let (slips, found) = short.map(near).min()?;
    let is_near = (1..=farthest).contains(&slips) && slips * 2 <= found.as_ref().len();
    is_near.then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_names_are_not() {
        let known = || ["CUDACapability", "has_avx2", "Memory"].map(String::from);
        let nearest = |name: &str| nearest_name(name, known());
        assert_eq!(nearest("CudaCapabilty").as_deref(), Some("CUDACapability"));
        assert_eq!(nearest("hasavx2").as_deref(), Some("has_avx2"));
        assert_eq!(nearest("memory"), None, "it is that one");
        let exchanged = nearest_within("Mmeory", known(), 1);
        assert_eq!(exchanged.as_deref(), Some("Memory"), "two letters are exchanged: one slip");
        assert_eq!(nearest("Kubernetes"), None);
    }
}
