//! ClassAds as HTCondor's `-json` writes them. Reads what one says of itself; it evaluates nothing:
//! an expression is there, and its value is not known.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// More than a pool's slots, or an account's jobs, that one site gives us.
const MAX_ADS: usize = 200_000;
/// An ad has some three hundred.
const MAX_ATTRIBUTES: usize = 5_000;
/// Of longer values the beginning is kept: they are words for people.
const MAX_TEXT: usize = 4_000;

/// An ad, with the names of its attributes in lower case: case says nothing in ClassAds, and which
/// is written depends on who wrote the attribute first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Ad(BTreeMap<String, Value>);

#[derive(Debug, Clone, PartialEq)]
enum Value {
    Flag(bool),
    Whole(i64),
    Real(f64),
    Text(String),
    Nested(Ad),
    /// Undefined, an expression, or a list.
    Unknown,
}

/// Reads what `-json` printed. Nothing at all is no ads: `condor_q` prints no `[]`.
pub(super) fn read(stdout: &[u8]) -> Result<Vec<Ad>, String> {
    let text = String::from_utf8_lossy(stdout);
    let text = text.trim();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let ads: Ads = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Ok(ads.0)
}

impl Ad {
    fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(&name.to_ascii_lowercase())
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Numbers come as `16`, `16.0` and `"16"`.
    pub(super) fn whole(&self, name: &str) -> Option<i64> {
        match self.value(name)? {
            Value::Whole(number) => Some(*number),
            Value::Real(number) => format!("{number:.0}").parse().ok(),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// A number that cannot be less than nothing.
    pub(super) fn count(&self, name: &str) -> Option<u64> {
        u64::try_from(self.whole(name)?).ok()
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        match self.value(name) {
            Some(Value::Flag(flag)) => *flag,
            Some(Value::Text(text)) => text.eq_ignore_ascii_case("true"),
            Some(Value::Whole(number)) => *number != 0,
            _ => false,
        }
    }

    /// A number with one decimal, as versions and compute capabilities are written.
    pub(super) fn tenths(&self, name: &str) -> Option<String> {
        match self.value(name)? {
            Value::Whole(number) => Some(format!("{number}.0")),
            Value::Real(number) => Some(format!("{number:.1}")),
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    /// The ads in this one whose names begin so, in order.
    pub(super) fn nested<'a>(&'a self, prefix: &str) -> impl Iterator<Item = &'a Ad> {
        let prefix = prefix.to_ascii_lowercase();
        self.0.iter().filter_map(move |(name, value)| match value {
            Value::Nested(ad) if name.starts_with(&prefix) => Some(ad),
            _ => None,
        })
    }
}

struct Ads(Vec<Ad>);

impl<'de> Deserialize<'de> for Ads {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Ads, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Ads;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MAX_ADS} ads")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Ads, A::Error> {
                let mut ads = Vec::new();
                while let Some(ad) = list.next_element()? {
                    if ads.len() == MAX_ADS {
                        return Err(serde::de::Error::custom(format!("more than {MAX_ADS} ads")));
                    }
                    ads.push(ad);
                }
                Ok(Ads(ads))
            }
        }
        from.deserialize_seq(Reader)
    }
}

impl<'de> Deserialize<'de> for Ad {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Ad, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Ad;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an ad")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Ad, A::Error> {
                attributes(map)
            }
        }
        from.deserialize_map(Reader)
    }
}

fn attributes<'de, A: MapAccess<'de>>(mut map: A) -> Result<Ad, A::Error> {
    let mut found = BTreeMap::new();
    while let Some(name) = map.next_key::<String>()? {
        let value = map.next_value::<Value>()?;
        if value != Value::Unknown && found.len() < MAX_ATTRIBUTES {
            found.insert(name.to_ascii_lowercase(), value);
        }
    }
    Ok(Ad(found))
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Value;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Unknown)
            }
            fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
                Ok(Value::Flag(flag))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
                Ok(Value::Whole(number))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
                Ok(i64::try_from(number).map_or(Value::Unknown, Value::Whole))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
                Ok(Value::Real(number))
            }
            fn visit_str<E>(self, text: &str) -> Result<Value, E> {
                let expression = text.starts_with("/Expr(") && text.ends_with(")/");
                let text = || text.chars().take(MAX_TEXT).collect();
                Ok(if expression { Value::Unknown } else { Value::Text(text()) })
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Value::Unknown)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
                attributes(map).map(Value::Nested)
            }
        }
        from.deserialize_any(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_they_mean_however_they_are_written() {
        let text = br#" [{"A": 16.0, "b": "16", "C": 16, "D": null, "E": "\/Expr(1 + 15)\/",
            "F": ["x"], "G": {"Deep": 3.5}, "H": true, "I": 1e300, "J": 18446744073709551615}] "#;
        let ads = read(text).expect("readable");
        let [ad] = ads.as_slice() else { panic!("one ad, not {ads:?}") };
        assert_eq!(["a", "B", "c"].map(|name| ad.whole(name)), [Some(16); 3]);
        assert_eq!(["D", "E", "F", "G", "I", "J"].map(|name| ad.whole(name)), [None; 6]);
        assert_eq!((ad.text("E"), ad.is_true("h"), ad.is_true("a")), (None, true, false));
        let deep: Vec<_> = ad.nested("g").filter_map(|inner| inner.tenths("DEEP")).collect();
        assert_eq!(deep, ["3.5"]);
        assert_eq!(ad.tenths("c").as_deref(), Some("16.0"));
    }

    #[test]
    fn silence_is_no_ads_and_half_an_answer_is_none() {
        assert_eq!(read(b" \n"), Ok(Vec::new()));
        assert_eq!(read(b"[\n]\n"), Ok(Vec::new()));
        for bad in [&b"["[..], b"{}", b"[1]", b"[{]", b"[{}", b"Error: no", b"[{}] [{}]"] {
            assert!(read(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
        assert_eq!(read(b"[{\"A\": \"\xff\"}]").expect("lossy").len(), 1);
    }

    #[test]
    fn what_is_too_long_or_too_deep_is_not_kept() {
        let long = format!(r#"[{{"A": "{}"}}]"#, "x".repeat(MAX_TEXT + 1));
        let ads = read(long.as_bytes()).expect("readable");
        assert_eq!(ads[0].text("a").map(str::len), Some(MAX_TEXT));
        let deep = format!("[{}1{}]", r#"{"a":"#.repeat(300), "}".repeat(300));
        assert!(read(deep.as_bytes()).is_err(), "its reader would take the stack");
        let many = format!("[{}{{}}]", "{},".repeat(MAX_ADS));
        assert!(read(many.as_bytes()).expect_err("too many").contains("more than"));
    }
}
