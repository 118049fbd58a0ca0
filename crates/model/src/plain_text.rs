//! Letters that steer what shows them: a name with one of these looks like another name, or moves
//! a terminal's cursor.
//!
//! Joiners (U+200C, U+200D) are not among them: some languages are written with them.

/// Whether a letter is a control character, changes the direction of writing, breaks a line, or
/// is there without being seen.
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'
                | '\u{200e}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Names, notes and messages are other people's: what could steer whoever shows them becomes `?`.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if steers(c) { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_turns_or_hides_is_told_from_what_is_written() {
        assert!("\u{202e}\u{2066}\u{200f}\u{feff}\n\u{9b}\u{2028}".chars().all(steers));
        assert!(!"fit-7 größe 質量 می\u{200c}خواهم 🚢".chars().any(steers));
    }
}
