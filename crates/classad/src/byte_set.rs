//! A set of bytes, asked in one look however many are in it.

#[derive(Debug, Clone, Copy)]
pub(crate) struct ByteSet([u128; 2]);

impl ByteSet {
    pub(crate) fn of(bytes: &[u8]) -> ByteSet {
        let (mut low, mut high) = (0, 0);
        for byte in bytes {
            let half = if byte.is_ascii() { &mut low } else { &mut high };
            *half |= 1 << (byte & 0x7f);
        }
        ByteSet([low, high])
    }

    pub(crate) fn has(self, byte: u8) -> bool {
        let ByteSet([low, high]) = self;
        let half: u128 = if byte.is_ascii() { low } else { high };
        half >> (byte & 0x7f) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_what_was_put_in() {
        let set = ByteSet::of(b"a, \xff\0");
        let found: Vec<u8> = (0..=u8::MAX).filter(|byte| set.has(*byte)).collect();
        assert_eq!(found, b"\0 ,a\xff");
    }
}
