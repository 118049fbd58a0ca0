//! A job that could not be read, as far as it takes to say why: what was written, cut where it
//! would take much memory. A `Value` of all of it could be a hundred times as large as its text.

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::cell::Cell;
use std::fmt;

/// Values of a sketch. One that stands alone in its list or map takes most of a kilobyte.
const MOST_VALUES: usize = 4_096;
/// Of one list or map: nobody's mistake is further down than this and nowhere before.
const MOST_OF_ONE: usize = 256;
/// Bytes of all texts.
const MOST_TEXT: usize = 256 << 10;

/// What was written, and whether that is all of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sketch {
    pub value: Value,
    pub is_whole: bool,
}

/// `None`: it is no JSON.
pub fn sketch(json: &[u8]) -> Option<Sketch> {
    let (values, text, cut) = (Cell::new(MOST_VALUES), Cell::new(MOST_TEXT), Cell::new(false));
    let mut from = serde_json::Deserializer::from_slice(json);
    let drawing = Drawing { values: &values, text: &text, cut: &cut };
    let value = drawing.deserialize(&mut from).ok()?;
    Some(Sketch { value, is_whole: !cut.get() })
}

#[derive(Clone, Copy)]
struct Drawing<'a> {
    /// How many more there is room for.
    values: &'a Cell<usize>,
    text: &'a Cell<usize>,
    cut: &'a Cell<bool>,
}

impl Drawing<'_> {
    /// Whether there is room for one more value beside so many.
    fn has_room(&self, beside: usize) -> bool {
        let room = beside < MOST_OF_ONE && self.values.get() > 0;
        self.cut.set(self.cut.get() || !room);
        room
    }

    fn counted(self, value: Value) -> Value {
        self.values.set(self.values.get().saturating_sub(1));
        value
    }

    fn text(self, text: &str) -> String {
        let mut end = text.len().min(self.text.get());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.cut.set(self.cut.get() || end < text.len());
        self.text.set(self.text.get() - end);
        text.get(..end).unwrap_or_default().to_string()
    }
}

impl<'de> DeserializeSeed<'de> for Drawing<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Drawing<'_> {
    type Value = Value;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_bool<E: Error>(self, flag: bool) -> Result<Value, E> {
        Ok(self.counted(flag.into()))
    }
    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(self.counted(number.into()))
    }
    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(self.counted(number.into()))
    }
    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Ok(self.counted(number.into()))
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        let text = self.text(text);
        Ok(self.counted(text.into()))
    }
    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(self.counted(Value::Null))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut kept = Vec::new();
        loop {
            let more = if self.has_room(kept.len()) {
                list.next_element_seed(self)?.map(|value| kept.push(value))
            } else {
                list.next_element::<IgnoredAny>()?.map(drop)
            };
            if more.is_none() {
                return Ok(self.counted(kept.into()));
            }
        }
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut kept = serde_json::Map::new();
        while self.has_room(kept.len()) {
            let Some(key) = map.next_key_seed(Key(self))? else {
                return Ok(self.counted(kept.into()));
            };
            kept.insert(key, map.next_value_seed(self)?);
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(self.counted(kept.into()))
    }
}

struct Key<'a>(Drawing<'a>);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = String;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<String, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = String;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_str<E: Error>(self, key: &str) -> Result<String, E> {
        Ok(self.0.text(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_small_one_is_whole_and_a_large_one_is_cut() {
        let small = json!({"a": [1, -2, 2.5, null, true, {"b": "text"}], "c": {}});
        let drawn = sketch(small.to_string().as_bytes()).expect("JSON");
        assert_eq!((drawn.value, drawn.is_whole), (small, true));

        let many: Vec<Value> = (0..100_000).map(|_| json!({"": 1})).collect();
        let large = json!({"retries": {"on": many}, "unknown": 1}).to_string();
        let drawn = sketch(large.as_bytes()).expect("JSON");
        assert!(!drawn.is_whole);
        assert_eq!(drawn.value["retries"]["on"].as_array().map(Vec::len), Some(MOST_OF_ONE));
        assert_eq!(drawn.value["unknown"], 1, "what follows is still seen");
        let long = json!({ "a": "x".repeat(MOST_TEXT + 1) }).to_string();
        assert!(!sketch(long.as_bytes()).expect("JSON").is_whole);
        assert_eq!(sketch(b"{"), None);
    }
}
