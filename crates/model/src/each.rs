//! Rows of named fields, of which each is a task. Kept by column, each in one text: a million rows
//! are a few large pieces of memory, and whoever copies a job shares them.
//!
//! As JSON and YAML they are a list of objects; reading and writing that form is `each/form.rs`.

mod form;

pub use form::LINE;

use crate::limits::{MAX_EACH_FIELDS, MAX_EACH_LEFT_OUT, MAX_EACH_ROWS, MAX_EACH_VALUES};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Texts one after the other in a single piece of memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextList {
    text: String,
    /// Where each of them ends. Half as wide as a place in memory: there may be millions, and a
    /// specification has room for far less than four gigabytes of text.
    ends: Vec<u32>,
}

impl TextList {
    /// So many empty ones.
    fn empties(count: usize) -> Self {
        TextList { text: String::new(), ends: vec![0; count] }
    }

    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.end_one();
    }

    fn end_one(&mut self) {
        self.ends.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
    }

    /// One more, made of all that is written to the end of the text it is given.
    pub fn push_written(&mut self, write: impl FnOnce(&mut String)) {
        let before = self.text.len();
        write(&mut self.text);
        debug_assert!(self.text.len() >= before, "what was there stays");
        self.end_one();
    }

    pub fn get(&self, at: usize) -> Option<&str> {
        let end = *self.ends.get(at)? as usize;
        self.text.get(self.start(at)..end)
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    /// Takes the last one out.
    fn pop(&mut self) {
        if let Some(last) = self.len().checked_sub(1) {
            self.text.truncate(self.start(last));
            self.ends.truncate(last);
        }
    }

    fn start(&self, at: usize) -> usize {
        at.checked_sub(1).map_or(0, |before| self.ends.get(before).map_or(0, |end| *end as usize))
    }
}

impl<'t> FromIterator<&'t str> for TextList {
    fn from_iter<I: IntoIterator<Item = &'t str>>(texts: I) -> Self {
        let mut list = TextList::default();
        texts.into_iter().for_each(|text| list.push(text));
        list
    }
}

/// The value of one field in every row.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    name: String,
    values: TextList,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Each {
    rows: usize,
    /// In the order of their names, which differ.
    columns: Arc<[Column]>,
}

impl Each {
    /// Each field with its values, one for each row. Fields of other lengths, or of a name that
    /// was there before, are a slip of the caller.
    pub fn from_columns(rows: usize, columns: Vec<(String, TextList)>) -> Each {
        let columns = columns.into_iter().map(|(name, values)| Column { name, values });
        let mut columns: Vec<Column> = columns.collect();
        columns.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        debug_assert!(columns.iter().all(|column| column.values.len() == rows), "of one length");
        debug_assert!(columns.is_sorted_by(|a, b| a.name < b.name), "each once");
        Each { rows, columns: columns.into() }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows
    }

    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }

    /// The values of one row, in the order of the fields.
    pub fn values(&self, at: usize) -> impl Iterator<Item = &str> {
        self.columns.iter().filter_map(move |column| column.values.get(at))
    }

    /// The fields of one row, by name.
    pub fn row(&self, at: usize) -> Option<BTreeMap<String, String>> {
        let pair =
            |column: &Column| Some((column.name.clone(), column.values.get(at)?.to_string()));
        (at < self.rows).then(|| self.columns.iter().filter_map(pair).collect())
    }

    /// Each field with the length of its longest value.
    pub fn longest(&self) -> impl Iterator<Item = (&str, usize)> {
        let length = |column: &Column| column.values.iter().map(str::len).max().unwrap_or(0);
        self.columns.iter().map(move |column| (column.name.as_str(), length(column)))
    }

    /// Bytes of the largest row: its values, and the names of all fields.
    pub fn largest_row(&self) -> usize {
        let names: usize = self.fields().map(str::len).sum();
        let values = |at| self.values(at).map(str::len).sum::<usize>();
        (0..self.rows).map(values).max().unwrap_or(0) + names
    }

    /// Whether a letter stands in any value.
    pub fn has_letter(&self, letter: char) -> bool {
        self.columns.iter().any(|column| column.values.text.contains(letter))
    }
}

/// Rows that would take more room than they are worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ManyValues {
    #[error("more than {MAX_EACH_ROWS} rows")]
    Rows,
    #[error("the rows have more than {MAX_EACH_FIELDS} fields together")]
    Fields,
    #[error("rows times fields is more than {MAX_EACH_VALUES}")]
    Values,
    #[error(
        "the rows leave out too much: written in full they would be more than {MAX_EACH_LEFT_OUT} \
         bytes longer (shorter names of fields, or fewer, help)"
    )]
    LeftOut,
}

/// What a value that is left out takes when it is written: quotes, a colon and a comma.
const EMPTY_WRITTEN: usize = 6;

/// Makes rows one after the other. A row may leave fields out; they are empty there then.
#[derive(Debug, Default)]
pub struct EachBuilder {
    rows: usize,
    columns: Vec<Column>,
    by_name: BTreeMap<String, usize>,
    /// Where the next field is, if this row has its fields as the last one had.
    next: usize,
    /// Bytes that values which no row has would take in the written form.
    left_out: usize,
}

impl EachBuilder {
    /// A field of the row that is being made; of two of one name the last one stays.
    pub fn set(&mut self, field: &str, value: &str) -> Result<(), ManyValues> {
        let at = self.column(field)?;
        self.put(at, value);
        Ok(())
    }

    /// The same, for a column that is known.
    fn put(&mut self, at: usize, value: &str) {
        let Some(column) = self.columns.get_mut(at) else { return };
        let values = &mut column.values;
        if values.len() > self.rows {
            values.pop();
        }
        values.push(value);
    }

    pub fn end_row(&mut self) -> Result<(), ManyValues> {
        self.rows += 1;
        self.next = 0;
        self.check()?;
        for column in &mut self.columns {
            if column.values.len() < self.rows {
                column.values.push("");
                self.left_out += column.name.len() + EMPTY_WRITTEN;
            }
        }
        if self.left_out > MAX_EACH_LEFT_OUT { Err(ManyValues::LeftOut) } else { Ok(()) }
    }

    pub fn finish(self) -> Each {
        let columns = self.columns.into_iter().map(|mut column| {
            column.values.text.shrink_to_fit();
            column.values.ends.shrink_to_fit();
            (column.name, column.values)
        });
        Each::from_columns(self.rows, columns.collect())
    }

    fn column(&mut self, field: &str) -> Result<usize, ManyValues> {
        let expected = self.columns.get(self.next).filter(|column| column.name == field);
        let at = match expected {
            Some(_) => self.next,
            None => match self.by_name.get(field) {
                Some(at) => *at,
                None => self.add_column(field)?,
            },
        };
        self.next = at + 1;
        Ok(at)
    }

    fn add_column(&mut self, field: &str) -> Result<usize, ManyValues> {
        let at = self.columns.len();
        let before = self.rows.saturating_mul(field.len() + EMPTY_WRITTEN);
        self.left_out = self.left_out.saturating_add(before);
        if self.left_out > MAX_EACH_LEFT_OUT {
            return Err(ManyValues::LeftOut);
        }
        self.by_name.insert(field.to_string(), at);
        let values = TextList::empties(self.rows);
        self.columns.push(Column { name: field.to_string(), values });
        self.check().map(|()| at)
    }

    /// Fields that rows leave out take room too.
    fn check(&self) -> Result<(), ManyValues> {
        let values = self.columns.len().saturating_mul(self.rows + 1);
        if self.rows > MAX_EACH_ROWS {
            Err(ManyValues::Rows)
        } else if self.columns.len() > MAX_EACH_FIELDS {
            Err(ManyValues::Fields)
        } else if values > MAX_EACH_VALUES + self.columns.len() {
            Err(ManyValues::Values)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_may_leave_fields_out_and_name_them_in_any_order() {
        let mut rows = EachBuilder::default();
        for row in [&[("b", "1"), ("a", "2")][..], &[("a", "3")], &[("c", ""), ("a", "4")], &[]] {
            for (field, value) in row {
                rows.set(field, value).expect("room");
            }
            rows.end_row().expect("room");
        }
        let each = rows.finish();
        assert_eq!((each.len(), each.fields().collect::<String>()), (4, "abc".into()));
        let values = |at| each.values(at).collect::<Vec<_>>().join("|");
        assert_eq!([0, 1, 2, 3, 4].map(values), ["2|1|", "3||", "4||", "||", ""]);
        assert_eq!(each.row(1).expect("a row")["a"], "3");
        assert_eq!(each.row(4), None);
        assert!(!each.is_empty() && EachBuilder::default().finish().is_empty());
    }

    #[test]
    fn the_last_of_two_values_stays() {
        let mut rows = EachBuilder::default();
        rows.set("a", "long").expect("room");
        rows.set("a", "b").expect("room");
        rows.end_row().expect("room");
        assert_eq!(rows.finish().values(0).collect::<Vec<_>>(), ["b"]);
    }

    /// Rows that name one field each would be a square of values.
    #[test]
    fn left_out_values_are_counted() {
        let mut rows = EachBuilder::default();
        let full = (0..10_000).find_map(|at| {
            let set = rows.set(&format!("f{at}"), "");
            set.and_then(|()| rows.end_row()).err()
        });
        assert_eq!(full, Some(ManyValues::LeftOut));
    }

    /// A long name in the last of many rows would be written as often as there are rows.
    #[test]
    fn what_is_left_out_is_counted_as_it_would_be_written() {
        let mut rows = EachBuilder::default();
        for _ in 0..1_000 {
            rows.end_row().expect("nothing is left out yet");
        }
        assert_eq!(rows.set(&"n".repeat(1 << 20), ""), Err(ManyValues::LeftOut));
        let mut rows = EachBuilder::default();
        rows.set(&"n".repeat(1 << 20), "").expect("one is no harm");
        let ended = (0..10).find_map(|_| rows.end_row().err());
        assert_eq!(ended, Some(ManyValues::LeftOut));
    }

    #[test]
    fn fields_and_rows_have_a_most() {
        let mut rows = EachBuilder::default();
        let full = (0..=MAX_EACH_FIELDS).find_map(|at| rows.set(&format!("f{at}"), "").err());
        assert_eq!(full, Some(ManyValues::Fields));
        let mut rows = EachBuilder::default();
        assert_eq!((0..=MAX_EACH_ROWS).find_map(|_| rows.end_row().err()), Some(ManyValues::Rows));
    }
}
