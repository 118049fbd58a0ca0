//! A table: a heading, rows of cells, columns as wide as their widest cell on a terminal.

use super::paper::{Paper, Tone, clean};
use unicode_width::UnicodeWidthStr;

/// Between two columns.
const GAP: usize = 2;

#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    #[allow(clippy::needless_pass_by_value, reason = "numbers and borrowed texts read best bare")]
    pub fn toned(text: impl ToString, tone: Tone) -> Self {
        Cell { text: clean(&text.to_string()), tone }
    }
}

impl<T: ToString> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell::toned(text, Tone::Plain)
    }
}

#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub fn new(heading: &[&str]) -> Self {
        Table { rows: vec![heading.iter().map(|word| Cell::toned(word, Tone::Strong)).collect()] }
    }

    pub fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.rows[0].len(), "a cell for each column");
        self.rows.push(cells);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    pub fn write(&self, paper: &mut Paper) {
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].text.width()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..self.rows[0].len()).map(width).collect();
        for row in &self.rows {
            for (cell, width) in row.iter().zip(&widths) {
                paper.write(cell.tone, &cell.text);
                paper.write(Tone::Plain, &" ".repeat(width - cell.text.width() + GAP));
            }
            paper.end_line();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_look() {
        let mut table = Table::new(&["ID", "NAME", "X"]);
        table.row(vec!["1".into(), "日本".into(), "a".into()]);
        table.row(vec!["1234".into(), "b".into(), "".into()]);
        let mut paper = Paper::new(false);
        table.write(&mut paper);
        assert_eq!(paper.into_text(), "ID    NAME  X\n1     日本  a\n1234  b\n");
    }
}
