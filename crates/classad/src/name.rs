//! Names of attributes: compared without case, shown as they were written.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Short names come first, as HTCondor lists them. Nearly all need no memory of their own.
#[derive(Clone)]
pub struct Name(Text);

/// Length and first letters of a name, folded, in one number: what names are sorted by. Nearly all
/// comparisons of names are of two such numbers.
pub(crate) type Key = u128;

/// Letters in a key; its first byte is the length, up to a byte's.
const HEAD: usize = 15;
const SHORT: usize = 22;

#[derive(Clone)]
enum Text {
    Short(u8, [u8; SHORT]),
    Long(Arc<[u8]>),
}

impl Name {
    pub fn new(text: impl AsRef<[u8]>) -> Name {
        let bytes = text.as_ref();
        match u8::try_from(bytes.len()) {
            Ok(length) if bytes.len() <= SHORT => {
                let mut short = [0; SHORT];
                short.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
                Name(Text::Short(length, short))
            }
            _ => Name(Text::Long(bytes.into())),
        }
    }

    #[inline]
    pub(crate) fn key(&self) -> Key {
        // Short names have as many bytes too, zeros at last: a read of a fixed length is quick.
        let (length, head) = match &self.0 {
            Text::Short(length, short) => (*length, short.first_chunk()),
            Text::Long(text) => (u8::try_from(text.len()).unwrap_or(u8::MAX), text.first_chunk()),
        };
        // Both kinds are longer.
        let head: [u8; HEAD + 1] = head.copied().unwrap_or_default();
        Key::from(length) << (8 * HEAD) | folded(Key::from_be_bytes(head)) >> 8
    }

    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Text::Short(length, short) => short.get(..usize::from(*length)).unwrap_or(short),
            Text::Long(text) => text,
        }
    }

    /// For people; bytes that are no text are shown as a question mark in a box.
    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(self.as_bytes()).into_owned()
    }

    pub fn is(&self, word: &str) -> bool {
        self.as_bytes().eq_ignore_ascii_case(word.as_bytes())
    }

    fn tail(&self) -> &[u8] {
        self.as_bytes().get(HEAD..).unwrap_or_default()
    }

    /// The order of two names whose keys are the same.
    pub(crate) fn cmp_tails(&self, other: &Name) -> Ordering {
        // The same length, then.
        if self.as_bytes().len() <= HEAD {
            return Ordering::Equal;
        }
        let (own, theirs) = (self.tail(), other.tail());
        let folded = |tail: &'_ [u8]| tail.to_ascii_lowercase();
        // Longer ones than a byte can say have no other difference in their keys.
        let lengths = own.len().cmp(&theirs.len());
        if own.eq_ignore_ascii_case(theirs) {
            return Ordering::Equal;
        }
        lengths.then_with(|| folded(own).cmp(&folded(theirs)))
    }
}

/// Small letters for large ones in all bytes of a number at once.
fn folded(bytes: Key) -> Key {
    const EACH: Key = Key::MAX / 0xff;
    const HIGHEST: Key = EACH * 0x80;
    // The highest bit of a byte says whether the rest of it is at least `A`, or beyond `Z`.
    let rest = bytes & !HIGHEST;
    let at_least_a = rest + EACH * (0x80 - 'A' as Key);
    let beyond_z = rest + EACH * (0x7f - 'Z' as Key);
    let is_large = at_least_a & !beyond_z & !bytes & HIGHEST;
    bytes | is_large >> 2
}

impl Ord for Name {
    fn cmp(&self, other: &Name) -> Ordering {
        self.key().cmp(&other.key()).then_with(|| self.cmp_tails(other))
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Name) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Name {}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Name {
        Name::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_of_a_number_are_folded_as_one_by_one() {
        for first in (0..=u8::MAX).step_by(16) {
            let bytes: [u8; 16] = std::array::from_fn(|at| first + u8::try_from(at).expect("few"));
            let mut expected = bytes;
            expected.make_ascii_lowercase();
            assert_eq!(folded(Key::from_be_bytes(bytes)).to_be_bytes(), expected);
        }
    }

    #[test]
    fn names_have_no_case_and_short_ones_come_first() {
        assert_eq!(Name::from("RequestMemory"), Name::from("requestMEMORY"));
        assert_ne!(Name::from("RequestMemory"), Name::from("RequestMemorz"));
        assert!(Name::from("Zoo") < Name::from("Apple"));
        assert!(Name::from("ApplePies") < Name::from("applePIET"));
        assert!(Name::from("AppleAndBananaPies") < Name::from("appleANDbananaPIET"));
        let long = |letter: &str, count| Name::new(letter.repeat(count));
        assert!(long("a", 300) < long("a", 301) && long("A", 300) == long("a", 300));
    }
}
