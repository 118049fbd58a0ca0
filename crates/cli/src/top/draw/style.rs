//! How tones look, and texts of other people made harmless and short enough.
//!
//! Only the terminal's own eight colours, and no backgrounds: they fit dark and light terminals
//! alike. Nothing is said by colour alone.

pub use crate::view::paper::Tone;
use crate::view::paper::clean;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

#[derive(Debug, Clone, Copy)]
pub struct Look {
    pub colour: bool,
}

impl Look {
    pub fn style(self, tone: Tone) -> Style {
        let colour = |colour| if self.colour { Style::new().fg(colour) } else { Style::new() };
        match tone {
            Tone::Plain => Style::new(),
            Tone::Strong => Style::new().add_modifier(Modifier::BOLD),
            Tone::Faint => Style::new().add_modifier(Modifier::DIM),
            Tone::Good => colour(Color::Green),
            Tone::Bad => colour(Color::Red),
            Tone::Busy => colour(Color::Cyan),
        }
    }

    pub fn span(self, tone: Tone, text: String) -> Span<'static> {
        Span::styled(text, self.style(tone))
    }
}

pub const SELECTED: Modifier = Modifier::REVERSED;

/// Harmless, and at most this wide on the terminal; what is cut off leaves a sign.
pub fn clean_cut(text: &str, width: usize) -> String {
    let text = clean(text);
    if text.width() <= width {
        return text;
    }
    let mut cut = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        cut.push(c);
    }
    if width > 0 {
        cut.push('…');
    }
    cut
}

/// In lines of at most this width, between words where that is possible. The indent stays.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let text = clean(text);
    let indent = text.chars().take_while(|c| *c == ' ').count().min(width / 2);
    let mut lines = Vec::new();
    let mut line = " ".repeat(indent);
    let mut used = indent;
    let mut has_words = false;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let gap = usize::from(has_words);
        if has_words && used + gap + word.width() > width {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            used = indent;
        } else if has_words {
            line.push(' ');
            used += 1;
        }
        for c in word.chars() {
            let wide = c.width().unwrap_or(0);
            if used + wide > width && used > indent {
                lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
                used = indent;
            }
            line.push(c);
            used += wide;
        }
        has_words = true;
    }
    lines.push(line);
    lines
}

/// `████░░░░`: how much of the whole, in this many places. Full only when it is the whole.
pub fn bar(part: u64, whole: u64, places: usize) -> String {
    let filled = (u128::from(part) * places as u128).checked_div(u128::from(whole)).unwrap_or(0);
    let filled = usize::try_from(filled).unwrap_or(places).min(places);
    format!("{}{}", "█".repeat(filled), "░".repeat(places - filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_where_the_terminal_would_cut_them() {
        for (text, width, expected) in
            [("short", 5, "short"), ("longer", 5, "long…"), ("日本語", 4, "日…"), ("ab", 0, "")]
        {
            assert_eq!(clean_cut(text, width), expected);
        }
        assert_eq!(clean_cut("a\u{1b}[2J\u{202e}b", 10), "a?[2J?b");
    }

    #[test]
    fn long_lines_go_on_below_with_their_indent() {
        assert_eq!(wrap("  1. one two three", 10), ["  1. one", "  two", "  three"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("", 10), [""]);
    }

    #[test]
    fn a_bar_is_full_at_the_end_and_not_before() {
        assert_eq!(bar(0, 0, 4), "░░░░");
        assert_eq!(bar(999, 1_000, 4), "███░");
        assert_eq!(bar(3, 3, 4), "████");
    }
}
