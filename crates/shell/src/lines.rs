//! Events as one commit holds them: compact JSON documents, one to a line, in one piece of memory.
//! They are written here first and nowhere else, so that the largest job is there once.

/// Growing by half of this and less wastes little, and seldom moves anything.
const SMALL: usize = 1 << 20;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines {
    text: Vec<u8>,
    /// Where each line ends, without its line break.
    ends: Vec<usize>,
}

impl Lines {
    /// One more, made of all that is written to the end of the text it is given. Returns where in
    /// the text it begins.
    pub fn push_written(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        if !self.ends.is_empty() {
            self.text.push(b'\n');
        }
        let start = self.text.len();
        write(&mut self.text);
        self.ends.push(self.text.len());
        start
    }

    /// Makes room for so many bytes, and no more; what is small makes its own.
    pub fn expect(&mut self, bytes: usize) {
        if bytes > SMALL {
            self.text.reserve_exact(bytes);
        }
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
    /// All of them, as they are stored.
    pub fn text(&self) -> &[u8] {
        &self.text
    }
    /// Bytes of one line, and the break before it.
    pub fn size(&self, at: usize) -> usize {
        let end = |at: usize| self.ends.get(at).copied().unwrap_or(0);
        end(at).saturating_sub(at.checked_sub(1).map_or(0, end))
    }

    /// Keeps the first ones.
    pub fn truncate(&mut self, count: usize) {
        self.ends.truncate(count);
        self.text.truncate(self.ends.last().copied().unwrap_or(0));
    }
}

impl FromIterator<Vec<u8>> for Lines {
    fn from_iter<I: IntoIterator<Item = Vec<u8>>>(events: I) -> Self {
        let mut lines = Lines::default();
        for event in events {
            lines.push_written(|text| text.extend_from_slice(&event));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ones_are_kept() {
        let events = [b"{\"a\":1}".to_vec(), b"{}".to_vec(), b"[\"\\n\"]".to_vec()];
        let mut all: Lines = events.clone().into_iter().collect();
        assert_eq!(all.text(), events.join(&b'\n'));
        assert_eq!((all.len(), all.size(0)), (3, events[0].len()));
        all.truncate(1);
        assert_eq!(all, events[..1].iter().cloned().collect());
        all.truncate(0);
        assert_eq!(all, Lines::default());
    }
}
