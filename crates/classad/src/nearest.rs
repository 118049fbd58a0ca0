//! The known name that a misspelt one most likely means.

/// Further away than this is not a slip of the fingers.
const FARTHEST: usize = 3;
/// A longer name is no misspelling; the distance costs the product of the lengths.
const LONGEST: usize = 40;

/// Without case; at least half of the letters have to be right. A name that is known has none.
pub fn nearest_name(name: &str, known: impl IntoIterator<Item = String>) -> Option<String> {
    nearest_within(name, known, FARTHEST)
}

/// The same with at most so many letters that are wrong.
pub fn nearest_within(
    name: &str,
    known: impl IntoIterator<Item = String>,
    farthest: usize,
) -> Option<String> {
    let wanted = name.to_ascii_lowercase();
    if wanted.len() > LONGEST {
        return None;
    }
    let near = |known: String| {
        let folded = known.to_ascii_lowercase();
        // Underscores are what people forget first.
        let is_same = folded.replace('_', "") == wanted.replace('_', "");
        (if is_same { usize::from(folded != wanted) } else { distance(&wanted, &folded) }, known)
    };
    let short = known.into_iter().filter(|known| known.len() <= LONGEST);
    let (distance, found) = short.map(near).min()?;
    (1..=farthest).contains(&distance).then_some(found).filter(|found| distance * 2 <= found.len())
}

/// Letters to change, add or leave out.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (at, letter) in from.chars().enumerate() {
        let (mut diagonal, mut left) = (at, at + 1);
        let Some((first, others)) = row.split_first_mut() else { break };
        *first = left;
        for (above, other) in others.iter_mut().zip(&to) {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = *above;
            left = changed.min(left + 1).min(diagonal + 1);
            *above = left;
        }
    }
    row.last().copied().unwrap_or(0)
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
        assert_eq!(nearest("Kubernetes"), None);
    }
}
