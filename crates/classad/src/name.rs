//! Names of attributes: compared without case, shown as they were written.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Short names come first, as HTCondor lists them. The first eight letters are kept folded in a
/// number, so that most comparisons are one of two numbers.
#[derive(Clone)]
pub struct Name {
    text: Arc<[u8]>,
    head: u64,
}

const HEAD: usize = 8;

impl Name {
    pub fn new(text: impl AsRef<[u8]>) -> Name {
        let text: Arc<[u8]> = text.as_ref().into();
        let mut head = [0; HEAD];
        for (folded, byte) in head.iter_mut().zip(text.iter()) {
            *folded = byte.to_ascii_lowercase();
        }
        Name { text, head: u64::from_be_bytes(head) }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// For people; bytes that are no text are shown as a question mark in a box.
    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(&self.text).into_owned()
    }

    pub fn is(&self, word: &str) -> bool {
        self.text.eq_ignore_ascii_case(word.as_bytes())
    }

    fn tail(&self) -> &[u8] {
        self.text.get(HEAD..).unwrap_or_default()
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Name) -> Ordering {
        let heads = || self.head.cmp(&other.head);
        let folded = |name: &Name| name.tail().to_ascii_lowercase();
        let tails = || {
            if self.tail().eq_ignore_ascii_case(other.tail()) {
                return Ordering::Equal;
            }
            folded(self).cmp(&folded(other))
        };
        self.text.len().cmp(&other.text.len()).then_with(heads).then_with(tails)
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
    fn names_have_no_case_and_short_ones_come_first() {
        assert_eq!(Name::from("RequestMemory"), Name::from("requestMEMORY"));
        assert_ne!(Name::from("RequestMemory"), Name::from("RequestMemorz"));
        assert!(Name::from("Zoo") < Name::from("Apple"));
        assert!(Name::from("ApplePies") < Name::from("applePIET"));
    }
}
