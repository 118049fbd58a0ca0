//! Rows as people write them: a list of objects with plain values, or of texts (each is the field
//! `line`). Values go straight to their columns, because a job may have a million of them.

use super::{Each, EachBuilder};
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// What a line is called.
pub const LINE: &str = "line";

struct Row<'a> {
    each: &'a Each,
    at: usize,
}

impl Serialize for Each {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq((0..self.len()).map(|at| Row { each: self, at }))
    }
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.each.columns.len()))?;
        for (field, value) in self.each.fields().zip(self.each.values(self.at)) {
            map.serialize_entry(field, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Each {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(Rows)
    }
}

struct Rows;

impl<'de> Visitor<'de> for Rows {
    type Value = Each;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of lines, or of rows with plain values")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Each, A::Error> {
        let mut rows = EachBuilder::default();
        let mut value = String::new();
        while list.next_element_seed(OneRow { rows: &mut rows, value: &mut value })?.is_some() {
            rows.end_row().map_err(de::Error::custom)?;
        }
        Ok(rows.finish())
    }
}

struct OneRow<'a> {
    rows: &'a mut EachBuilder,
    /// Room for a value, used again and again.
    value: &'a mut String,
}

impl<'de> DeserializeSeed<'de> for OneRow<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for OneRow<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a line, or a row with plain values")
    }
    fn visit_str<E: de::Error>(self, line: &str) -> Result<(), E> {
        self.rows.set(LINE, line).map_err(E::custom)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(at) = map.next_key_seed(Name(&mut *self.rows))? {
            self.value.clear();
            map.next_value_seed(Plain(&mut *self.value))?;
            self.rows.put(at, self.value);
        }
        Ok(())
    }
}

/// The name of a field, as the place of its column.
struct Name<'a>(&'a mut EachBuilder);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = usize;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<usize, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = usize;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }
    fn visit_str<E: de::Error>(self, name: &str) -> Result<usize, E> {
        self.0.column(name).map_err(E::custom)
    }
}

/// A plain value, as text.
struct Plain<'a>(&'a mut String);

impl Plain<'_> {
    fn write<E: de::Error>(self, value: impl fmt::Display) -> Result<(), E> {
        fmt::write(self.0, format_args!("{value}")).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Plain<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl Visitor<'_> for Plain<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a plain value")
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        self.0.push_str(text);
        Ok(())
    }
    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<(), E> {
        self.write(flag)
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<(), E> {
        self.write(number)
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<(), E> {
        self.write(number)
    }
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<(), E> {
        self.write(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Each {
        serde_json::from_str(json).expect(json)
    }

    #[test]
    fn what_is_written_reads_the_same() {
        let each =
            read(r#"[{"b":1,"a":"x\"y"},{"a":true,"b":-2.5},{"b":18446744073709551615},{}]"#);
        let json = serde_json::to_string(&each).expect("json");
        let full = r#"[{"a":"x\"y","b":"1"},{"a":"true","b":"-2.5"},"#;
        assert_eq!(
            json,
            format!(r#"{full}{{"a":"","b":"18446744073709551615"}},{{"a":"","b":""}}]"#)
        );
        assert_eq!(read(&json), each);
        assert_eq!(read("[{},{}]").len(), 2);
    }

    #[test]
    fn lines_are_rows_of_one_field() {
        let each = read(r#"["a","b c",{"line":"d"}]"#);
        assert_eq!(each.row(1).expect("a row")[LINE], "b c");
        assert_eq!(each.len(), 3);
    }

    #[test]
    fn what_is_not_plain_is_refused() {
        for json in ["{}", "[1]", "[null]", r#"[{"a":[1]}]"#, r#"[{"a":{}}]"#, r#"[{"a":null}]"#] {
            assert!(serde_json::from_str::<Each>(json).is_err(), "{json}");
        }
    }
}
