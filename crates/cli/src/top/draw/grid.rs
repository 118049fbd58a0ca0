//! A table on the screen: columns as wide as their widest cell, the last one takes what is left,
//! the selected row stays in view.

use super::style::{Look, SELECTED, Tone, clean_cut};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

/// Between two columns, and the place of the mark before the selected row.
const GAP: usize = 2;

#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) tone: Tone,
}

impl Cell {
    #[allow(clippy::needless_pass_by_value, reason = "numbers and borrowed texts read best bare")]
    pub(super) fn toned(text: impl ToString, tone: Tone) -> Cell {
        Cell { text: text.to_string(), tone }
    }
}

impl<T: ToString> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell::toned(text, Tone::Plain)
    }
}

/// A heading, and the most room its column takes.
pub(super) type Column = (&'static str, usize);

#[derive(Debug)]
pub(super) struct Grid {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<Cell>>,
    pub(super) selected: Option<usize>,
    /// Said when there are no rows.
    pub(super) empty: &'static str,
}

impl Grid {
    pub(super) fn draw(&self, frame: &mut Frame<'_>, area: Rect, look: Look, has_focus: bool) {
        if self.rows.is_empty() {
            let line = look.span(Tone::Faint, format!("  {}", self.empty));
            frame.render_widget(line, area);
            return;
        }
        let widths = self.widths(usize::from(area.width));
        let heading: Vec<Cell> =
            self.columns.iter().map(|(name, _)| Cell::toned(name, Tone::Faint)).collect();
        let mut lines = vec![line(&heading, &widths, look, "  ")];
        let room = usize::from(area.height).saturating_sub(1);
        let selected = self.selected.filter(|_| has_focus);
        for at in in_view(self.rows.len(), selected.unwrap_or(0), room) {
            let is_selected = selected == Some(at);
            let mark = if is_selected { "> " } else { "  " };
            let mut line = line(&self.rows[at], &widths, look, mark);
            if is_selected {
                // To the edge, so that the row is one bar.
                let rest = usize::from(area.width).saturating_sub(line.width());
                line.push_span(Span::raw(" ".repeat(rest)));
                line.style = line.style.add_modifier(SELECTED);
            }
            lines.push(line);
        }
        frame.render_widget(ratatui::text::Text::from(lines), area);
    }

    fn widths(&self, room: usize) -> Vec<usize> {
        let wanted = |at: usize| {
            let (name, most) = self.columns[at];
            let cells = self.rows.iter().map(|row| row[at].text.width());
            cells.max().unwrap_or(0).min(most).max(name.width())
        };
        let mut left = room.saturating_sub(GAP);
        let last = self.columns.len() - 1;
        let mut widths: Vec<usize> = (0..last)
            .map(|at| {
                let width = wanted(at).min(left);
                left = left.saturating_sub(width + GAP);
                width
            })
            .collect();
        // A heading that does not fit would only be noise.
        let fits = left >= self.columns[last].0.width();
        widths.push(if fits { left } else { 0 });
        widths
    }
}

fn line(cells: &[Cell], widths: &[usize], look: Look, mark: &'static str) -> Line<'static> {
    let mut spans = vec![Span::raw(mark)];
    for (cell, width) in cells.iter().zip(widths) {
        let text = clean_cut(&cell.text, *width);
        let gap = " ".repeat(width - text.width().min(*width) + GAP);
        spans.push(look.span(cell.tone, text));
        spans.push(Span::raw(gap));
    }
    Line::from(spans)
}

/// The rows to show: as many as there is room for, the selected one among them, in the middle
/// where that is possible.
fn in_view(count: usize, selected: usize, room: usize) -> std::ops::Range<usize> {
    let first = selected.saturating_sub(room / 2).min(count.saturating_sub(room));
    first..count.min(first + room)
}

#[cfg(test)]
mod tests {
    use super::in_view;

    #[test]
    fn the_selected_row_is_always_in_view() {
        for (count, selected, room, expected) in [
            (3, 0, 10, 0..3),
            (100, 0, 10, 0..10),
            (100, 50, 10, 45..55),
            (100, 99, 10, 90..100),
            (100, 99, 0, 99..99),
            (0, 0, 5, 0..0),
        ] {
            assert_eq!(in_view(count, selected, room), expected);
        }
    }
}
