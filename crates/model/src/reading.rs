//! Reading what came from outside with no more memory than it takes itself: lists and names have a
//! most and are refused at the first one over it, and a value that may be written in several ways
//! is looked at as it comes, never kept aside to be tried again (as serde's `untagged` does, at a
//! hundred bytes for every two).

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

/// Letters of a text that stands for something else: a size, a version, an index set, a file. The
/// longest of them, an array of ten thousand ranges, takes two thirds of it.
const MAX_TEXT: usize = 1 << 20;

/// A list of at most so many.
pub fn list<'de, const MOST: usize, T, D>(from: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    from.deserialize_seq(List::<MOST, T>(PhantomData))
}

struct List<const MOST: usize, T>(PhantomData<T>);

impl<'de, const MOST: usize, T: Deserialize<'de>> Visitor<'de> for List<MOST, T> {
    type Value = Vec<T>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, from: A) -> Result<Vec<T>, A::Error> {
        elements::<MOST, T, A>(from)
    }
}

/// The rest of a list that has begun.
pub(crate) fn elements<'de, const MOST: usize, T, A>(mut from: A) -> Result<Vec<T>, A::Error>
where
    T: Deserialize<'de>,
    A: SeqAccess<'de>,
{
    let mut found = Vec::new();
    while found.len() < MOST {
        match from.next_element()? {
            Some(element) => found.push(element),
            None => return Ok(found),
        }
    }
    match from.next_element::<IgnoredAny>()? {
        Some(_) => Err(de::Error::custom(format_args!("more than {MOST} of them"))),
        None => Ok(found),
    }
}

/// Names with values, at most so many.
pub fn map<'de, const MOST: usize, V, D>(from: D) -> Result<BTreeMap<String, V>, D::Error>
where
    V: Deserialize<'de>,
    D: Deserializer<'de>,
{
    from.deserialize_map(Map::<MOST, V>(PhantomData))
}

struct Map<const MOST: usize, V>(PhantomData<V>);

impl<'de, const MOST: usize, V: Deserialize<'de>> Visitor<'de> for Map<MOST, V> {
    type Value = BTreeMap<String, V>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut found = BTreeMap::new();
        while let Some((key, value)) = from.next_entry::<String, V>()? {
            found.insert(key, value);
            if found.len() > MOST {
                return Err(de::Error::custom(format_args!("more than {MOST} of them")));
            }
        }
        Ok(found)
    }
}

/// A type that is written as one text.
pub(crate) fn text<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: FromStr<Err: fmt::Display>,
    D: Deserializer<'de>,
{
    from.deserialize_str(Text { wanted: "a string", numbers: Numbers::None, of: PhantomData })
}

/// The same, where a whole number from 0 says as much as its digits would.
pub(crate) fn text_or_whole<'de, T, D>(wanted: &'static str, from: D) -> Result<T, D::Error>
where
    T: FromStr<Err: fmt::Display>,
    D: Deserializer<'de>,
{
    from.deserialize_any(Text { wanted, numbers: Numbers::Whole, of: PhantomData })
}

/// The same with any number.
pub(crate) fn text_or_number<'de, T, D>(wanted: &'static str, from: D) -> Result<T, D::Error>
where
    T: FromStr<Err: fmt::Display>,
    D: Deserializer<'de>,
{
    let numbers = Numbers::Written(|number| number.to_string());
    from.deserialize_any(Text { wanted, numbers, of: PhantomData })
}

/// The same for versions: a capability of 8.0 must not become 8, they compare part by part.
pub(crate) fn text_or_version<'de, T, D>(wanted: &'static str, from: D) -> Result<T, D::Error>
where
    T: FromStr<Err: fmt::Display>,
    D: Deserializer<'de>,
{
    let numbers = Numbers::Written(|number| format!("{number:?}"));
    from.deserialize_any(Text { wanted, numbers, of: PhantomData })
}

/// Which numbers are taken for a text.
#[derive(Clone, Copy)]
enum Numbers {
    None,
    Whole,
    /// All of them, those with a fraction as this writes them.
    Written(fn(f64) -> String),
}

struct Text<T> {
    wanted: &'static str,
    numbers: Numbers,
    of: PhantomData<T>,
}

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Text<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.wanted)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        parse(text)
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        match self.numbers {
            Numbers::None => Err(E::invalid_type(de::Unexpected::Unsigned(number), &self)),
            Numbers::Whole | Numbers::Written(_) => parse(&number.to_string()),
        }
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        match self.numbers {
            Numbers::None | Numbers::Whole => {
                Err(E::invalid_type(de::Unexpected::Signed(number), &self))
            }
            Numbers::Written(_) => parse(&number.to_string()),
        }
    }
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        match self.numbers {
            Numbers::None | Numbers::Whole => {
                Err(E::invalid_type(de::Unexpected::Float(number), &self))
            }
            Numbers::Written(write) => parse(&write(number)),
        }
    }
}

/// Complaints repeat what was written, so a text that cannot mean anything is not even tried.
pub(crate) fn parse<T: FromStr<Err: fmt::Display>, E: de::Error>(text: &str) -> Result<T, E> {
    if text.len() > MAX_TEXT {
        return Err(E::custom(format_args!("{} bytes; at most {MAX_TEXT}", text.len())));
    }
    text.parse().map_err(E::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Read {
        #[serde(deserialize_with = "list::<2, _, _>", default)]
        few: Vec<u8>,
        #[serde(deserialize_with = "map::<2, _, _>", default)]
        named: BTreeMap<String, u8>,
    }

    #[test]
    fn the_first_one_over_the_most_is_refused() {
        let read: Read = serde_json::from_str(r#"{"few":[1,2],"named":{"a":1,"b":2}}"#).expect("2");
        assert_eq!((read.few, read.named.len()), (vec![1, 2], 2));
        for many in [r#"{"few":[1,2,{"#, r#"{"few":[1,2,3"#, r#"{"named":{"a":1,"b":2,"c":3"#] {
            let error = serde_json::from_str::<Read>(many).expect_err("it does not even end");
            let early = error.to_string().contains("more than 2 of them");
            assert!(early || many.ends_with('{'), "{many}: {error}");
        }
    }
}
