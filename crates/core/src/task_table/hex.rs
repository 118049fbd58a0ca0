//! Bytes as hexadecimal text: four times smaller than a JSON list of numbers. What repeats itself
//! for long is written once with how often (`ff*2500000,03`): ten million tasks that were cancelled
//! before they began are a few letters, in the journal, in history and in every snapshot.

use serde::{Deserialize, Deserializer, Serializer, de::Error};

const DIGITS: &[u8; 16] = b"0123456789abcdef";
/// Shorter texts are written in full, as they always were.
const SHORT: usize = 1 << 10;
/// More bytes than any table has: a text that says so is damaged.
const MOST: usize = 64 << 20;

pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    let short = if bytes.len() > SHORT { repeated(bytes) } else { None };
    to.serialize_str(&short.unwrap_or_else(|| full(bytes)))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(from)?;
    read(&text).ok_or_else(|| D::Error::custom("not hexadecimal"))
}

fn full(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        push(&mut text, *byte);
    }
    text
}

fn push(text: &mut String, byte: u8) {
    for digit in [byte >> 4, byte & 15] {
        text.extend(DIGITS.get(usize::from(digit)).map(|digit| char::from(*digit)));
    }
}

/// `None` where that is not shorter.
fn repeated(bytes: &[u8]) -> Option<String> {
    let mut text = String::new();
    for run in bytes.chunk_by(|one, next| one == next) {
        if !text.is_empty() {
            text.push(',');
        }
        push(&mut text, *run.first()?);
        if run.len() > 1 {
            text.push('*');
            text.push_str(&run.len().to_string());
        }
        if text.len() >= 2 * bytes.len() {
            return None;
        }
    }
    Some(text)
}

fn read(text: &str) -> Option<Vec<u8>> {
    if !text.contains(['*', ',']) {
        return text.as_bytes().chunks(2).map(pair).collect();
    }
    let mut bytes = Vec::new();
    for run in text.split(',') {
        let (byte, times) = run.split_once('*').unwrap_or((run, "1"));
        let (byte, times) = (pair(byte.as_bytes())?, times.parse::<usize>().ok()?);
        let len = bytes.len().checked_add(times).filter(|len| *len <= MOST)?;
        bytes.resize(len, byte);
    }
    Some(bytes)
}

fn pair(pair: &[u8]) -> Option<u8> {
    let digit = |letter: u8| char::from(letter).to_digit(16).and_then(|it| u8::try_from(it).ok());
    match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_repeats_itself_is_short() {
        let mut bytes = vec![0xff; 2_500_000];
        bytes.push(3);
        assert_eq!(repeated(&bytes).as_deref(), Some("ff*2500000,03"));
        let mixed: Vec<u8> = (0..=255).cycle().take(SHORT + 1).collect();
        assert_eq!(repeated(&mixed), None, "in full, it is shorter");
    }

    #[test]
    fn what_is_damaged_is_refused() {
        for bad in ["f", "fg", "ff*", "ff*-1", ",", "ff*99999999999", "ff*3,ff*99999999"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn both_forms_are_read(runs in prop::collection::vec((any::<u8>(), 1usize..50), 0..50)) {
            let all = runs.iter().flat_map(|(byte, times)| std::iter::repeat_n(*byte, *times));
            let bytes: Vec<u8> = all.collect();
            prop_assert_eq!(read(&full(&bytes)), Some(bytes.clone()));
            if let Some(text) = repeated(&bytes).filter(|text| !text.is_empty()) {
                prop_assert_eq!(read(&text), Some(bytes));
            }
        }
    }
}
