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

/// The same with the beginning cut off: for what is being typed.
pub fn clean_end(text: &str, width: usize) -> String {
    let text = clean(text);
    if text.width() <= width {
        return text;
    }
    let mut used = 1;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= width
    };
    let mut kept: Vec<char> = text.chars().rev().take_while(fits).collect();
    if width > 0 {
        kept.push('…');
    }
    kept.into_iter().rev().collect()
}

/// In lines of at most this width, between words where that is possible. The indent stays.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let text = clean(text);
    if text.width() <= width {
        return vec![text];
    }
    let indent = text.chars().take_while(|c| *c == ' ').count().min(width / 2);
    let mut lines = vec![" ".repeat(indent)];
    let mut used = indent;
    // Each word with the spaces after it: what stood in columns stays there.
    for word in text.trim_start().split_inclusive(' ') {
        if used + word.trim_end().width() > width && used > indent {
            lines.push(" ".repeat(indent));
            used = indent;
        }
        for c in word.chars() {
            let wide = c.width().unwrap_or(0);
            if used + wide > width {
                if c == ' ' {
                    continue;
                }
                lines.push(" ".repeat(indent));
                used = indent;
            }
            lines.last_mut().expect("never empty").push(c);
            used += wide;
        }
    }
    lines.iter().map(|line| line.trim_end().to_string()).collect()
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
        for (text, width, expected) in
            [("abcdef", 6, "abcdef"), ("abcdef", 4, "…def"), ("日本語", 4, "…語"), ("abc", 0, "")]
        {
            assert_eq!(clean_end(text, width), expected);
        }
    }

    #[test]
    fn long_lines_go_on_below_with_their_indent() {
        assert_eq!(wrap("  1. one two three", 10), ["  1. one", "  two", "  three"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("a   b cccccccc", 10), ["a   b", "cccccccc"]);
        assert_eq!(wrap("", 10), [""]);
    }

    #[test]
    fn a_bar_is_full_at_the_end_and_not_before() {
        assert_eq!(bar(0, 0, 4), "░░░░");
        assert_eq!(bar(999, 1_000, 4), "███░");
        assert_eq!(bar(3, 3, 4), "████");
    }
}
