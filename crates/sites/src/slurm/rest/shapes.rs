//! Values as versions of slurmrestd write them, and answers read piece by piece: a list of all jobs
//! of a cluster may be a gigabyte, of which a few rows are ours. Pure; it knows no field's meaning.
//!
//! v0.0.38 writes numbers and words plainly; later ones say `{"set": …, "infinite": …,
//! "number": …}` and make lists of what may be several.

use serde::Deserialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess};
use serde::de::{SeqAccess, Visitor};
use std::fmt;
use std::io::{self, Read};
use std::marker::PhantomData;

/// Of one string or number. Slurm's longest are lists of nodes.
const MAX_TOKEN: usize = 1 << 20;
/// Words of one list: states, features, partitions.
const MAX_WORDS_EACH: usize = 256;
/// Complaints in one answer.
const MAX_COMPLAINTS: usize = 16;

/// `None`: not set, without end, or no number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Number(pub(super) Option<u64>);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Number, D::Error> {
        from.deserialize_any(OfNumber)
    }
}

struct OfNumber;

impl<'de> Visitor<'de> for OfNumber {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }
    fn visit_u64<E>(self, number: u64) -> Result<Number, E> {
        Ok(Number(Some(number)))
    }
    fn visit_i64<E>(self, number: i64) -> Result<Number, E> {
        Ok(Number(u64::try_from(number).ok()))
    }
    /// Whole ones only: nothing that is read here has parts.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
    fn visit_f64<E>(self, number: f64) -> Result<Number, E> {
        let is_whole = (0.0..9e15).contains(&number) && number.fract() == 0.0;
        Ok(Number(is_whole.then_some(number as u64)))
    }
    fn visit_bool<E>(self, _: bool) -> Result<Number, E> {
        Ok(Number(None))
    }
    fn visit_str<E>(self, text: &str) -> Result<Number, E> {
        Ok(Number(text.parse().ok()))
    }
    fn visit_unit<E>(self) -> Result<Number, E> {
        Ok(Number(None))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Number, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Number(None))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Number, A::Error> {
        let (mut is_set, mut number) = (true, Number(None));
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "set" => is_set &= map.next_value::<bool>()?,
                "infinite" => is_set &= !map.next_value::<bool>()?,
                "number" => number = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(if is_set { number } else { Number(None) })
    }
}

/// A word, or several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Words(pub(super) Vec<String>);

impl Words {
    pub(super) fn text(&self) -> String {
        self.0.join(",")
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Words, D::Error> {
        from.deserialize_any(OfWords)
    }
}

struct OfWords;

impl<'de> Visitor<'de> for OfWords {
    type Value = Words;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("words")
    }
    fn visit_str<E>(self, text: &str) -> Result<Words, E> {
        Ok(Words(
            Some(text).filter(|text| !text.is_empty()).map(String::from).into_iter().collect(),
        ))
    }
    fn visit_unit<E>(self) -> Result<Words, E> {
        Ok(Words::default())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Words, A::Error> {
        Ok(Words(some(list, MAX_WORDS_EACH)?))
    }
}

/// The first of a list; the rest is read and let go.
fn some<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(
    mut list: A,
    most: usize,
) -> Result<Vec<T>, A::Error> {
    let mut kept = Vec::new();
    while kept.len() < most {
        match list.next_element()? {
            Some(one) => kept.push(one),
            None => return Ok(kept),
        }
    }
    while list.next_element::<IgnoredAny>()?.is_some() {}
    Ok(kept)
}

/// One of the errors that an answer has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Complaint {
    /// Of Slurm's own table.
    pub(super) error: Words,
    pub(super) description: Words,
}

#[derive(Debug, Default)]
pub(super) struct Complaints(pub(super) Vec<Complaint>);

impl<'de> Deserialize<'de> for Complaints {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Complaints, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Complaints;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of errors")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Complaints, A::Error> {
                Ok(Complaints(some(list, MAX_COMPLAINTS)?))
            }
            fn visit_unit<E>(self) -> Result<Complaints, E> {
                Ok(Complaints::default())
            }
        }
        from.deserialize_any(List)
    }
}

/// What an answer with a list says besides it.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) complaints: Complaints,
    /// The list was there, and so was its end.
    pub(super) has_list: bool,
}

/// Reads an answer to its end, and hands the rows of its list on one by one. An answer that breaks
/// off is an error: what it did not say is not known.
pub(super) fn rows<T: DeserializeOwned>(
    from: impl Read,
    list: &'static str,
    mut each: impl FnMut(T) -> Result<(), String>,
) -> Result<Told, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_reader(io::BufReader::new(Tokens::new(from)));
    let top = Top { list, each: &mut each, rows: PhantomData };
    let told = top.deserialize(&mut json)?;
    json.end()?;
    Ok(told)
}

/// A short answer, whole.
pub(super) fn whole<T: DeserializeOwned>(from: impl Read) -> Result<T, serde_json::Error> {
    serde_json::from_reader(io::BufReader::new(Tokens::new(from)))
}

struct Top<'a, T> {
    list: &'static str,
    each: &'a mut dyn FnMut(T) -> Result<(), String>,
    rows: PhantomData<T>,
}

impl<'de, T: DeserializeOwned> DeserializeSeed<'de> for Top<'_, T> {
    type Value = Told;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Told, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, T: DeserializeOwned> Visitor<'de> for Top<'_, T> {
    type Value = Told;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an answer with {}", self.list)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Told, A::Error> {
        let mut told = Told::default();
        while let Some(key) = map.next_key::<String>()? {
            if key == self.list {
                map.next_value_seed(Rows { each: &mut *self.each, rows: PhantomData::<T> })?;
                told.has_list = true;
            } else if key == "errors" {
                told.complaints = map.next_value()?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(told)
    }
}

struct Rows<'a, T> {
    each: &'a mut dyn FnMut(T) -> Result<(), String>,
    rows: PhantomData<T>,
}

impl<'de, T: DeserializeOwned> DeserializeSeed<'de> for Rows<'_, T> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de, T: DeserializeOwned> Visitor<'de> for Rows<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(row) = list.next_element()? {
            (self.each)(row).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

/// Passes bytes on and refuses a string or number that is longer than any of Slurm's: a reader of
/// JSON holds each of them whole.
struct Tokens<R> {
    from: R,
    in_string: bool,
    escaped: bool,
    length: usize,
}

impl<R> Tokens<R> {
    fn new(from: R) -> Tokens<R> {
        Tokens { from, in_string: false, escaped: false, length: 0 }
    }

    fn is_short(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| {
            let ends = match (self.in_string, self.escaped, byte) {
                (true, false, b'"') => {
                    self.in_string = false;
                    true
                }
                (true, false, b'\\') => {
                    self.escaped = true;
                    false
                }
                (true, _, _) => {
                    self.escaped = false;
                    false
                }
                (false, _, b'"') => {
                    self.in_string = true;
                    true
                }
                (false, _, byte) => b",:[]{} \n\r\t".contains(byte),
            };
            self.length = if ends { 0 } else { self.length + 1 };
            self.length <= MAX_TOKEN
        })
    }
}

impl<R: Read> Read for Tokens<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(into)?;
        if self.is_short(into.get(..count).unwrap_or_default()) {
            return Ok(count);
        }
        Err(io::Error::other(format!("a text in it is longer than {} MiB", MAX_TOKEN >> 20)))
    }
}

#[cfg(test)]
mod tests;
