//! Paths as the kernel writes them in its table of mounts. What is made of the table is for those
//! who read it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Where the kernel says what is mounted, to this process.
pub const TABLE: &str = "/proc/self/mountinfo";

/// Blanks and the like are written as three octal digits behind a backslash.
pub fn unescaped(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut left = word;
    while let Some((first, rest)) = left.split_first() {
        let digits = rest.get(..3).filter(|_| *first == b'\\');
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_digit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(byte.unwrap_or(*first));
        left = if byte.is_some() { &rest[3..] } else { rest };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn what_is_escaped_is_read_and_all_else_left() {
        let rows: [(&[u8], &str); 7] = [
            (b"/plain", "/plain"),
            (br"/all\040of\011it", "/all of\tit"),
            (br"/a\134b\012", "/a\\b\n"),
            (br"/a\04", r"/a\04"),
            (br"/a\999b", r"/a\999b"),
            (br"/a\+12", r"/a\+12"),
            (br"\", r"\"),
        ];
        for (word, path) in rows {
            assert_eq!(unescaped(word), Path::new(path));
        }
    }
}
