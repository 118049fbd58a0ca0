//! How long something is as JSON, before it is written.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

use serde::Serialize;
use std::io;

/// How long it will be when it is written, without the memory for it.
pub(crate) fn length<T: Serialize>(value: &T) -> usize {
    struct Length(usize);
    impl io::Write for Length {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut length = Length(0);
    // What cannot be written is said when it is.
    let _ = serde_json::to_writer(&mut length, value);
    length.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_long_as_it_will_be() {
        let value = ["\u{1}\"", "ä"];
        assert_eq!(length(&value), serde_json::to_vec(&value).expect("plain data").len());
    }
}
