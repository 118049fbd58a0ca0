//! When a failed attempt is tried again, and after which wait.

use crate::limits::{DEFAULT_RETRY_DELAY, MAX_RETRY_DELAY};
use crate::outcome::Outcome;
use crate::units::Millis;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The words for ends that are no exit codes; `any` is all of those.
const ANY: &str = "any";
const SIGNAL: &str = "signal";
const OUT_OF_MEMORY: &str = "oom";
const TIMEOUT: &str = "timeout";
const WORDS: [&str; 4] = [ANY, SIGNAL, OUT_OF_MEMORY, TIMEOUT];
/// Letters of a wrong word that a complaint repeats.
const QUOTED: usize = 80;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RetryPolicy {
    /// Tries after the first one.
    pub limit: u32,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub delay: Millis,
    #[serde(skip_serializing_if = "RetryOn::is_usual")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub on: RetryOn,
}

/// Which ends count: exit codes (all, or listed ones), `signal`, `oom`, `timeout`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RetryOn {
    /// `None`: every code but 0.
    codes: Option<Vec<(i32, i32)>>,
    signal: bool,
    out_of_memory: bool,
    timeout: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an end to retry on (write codes such as 75 or 10-20, signal, oom, timeout)")]
pub struct BadRetryOn(String);

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy { limit: 0, delay: DEFAULT_RETRY_DELAY, on: RetryOn::default() }
    }
}

impl Default for RetryOn {
    /// A time-out would most likely time out again, so it counts only when asked for.
    fn default() -> Self {
        RetryOn { codes: None, signal: true, out_of_memory: true, timeout: false }
    }
}

impl RetryPolicy {
    /// The wait before the next try after `failures` failed ones, or `None` when there is none.
    pub fn wait_after(&self, failures: u32, outcome: &Outcome) -> Option<Millis> {
        if failures > self.limit || !self.on.counts(outcome) {
            return None;
        }
        let doubled = self.delay.0.saturating_mul(1u64 << failures.saturating_sub(1).min(32));
        Some(Millis(doubled.min(MAX_RETRY_DELAY.0.max(self.delay.0))))
    }

    pub fn is_none(&self) -> bool {
        self.limit == 0
    }

    /// Whether leaving it out says the same: a delay without retries is still what was written.
    pub fn is_default(&self) -> bool {
        *self == RetryPolicy::default()
    }
}

impl RetryOn {
    /// How many ranges of exit codes are listed.
    pub fn code_ranges(&self) -> usize {
        self.codes.as_ref().map_or(0, Vec::len)
    }

    fn is_usual(&self) -> bool {
        *self == RetryOn::default()
    }

    fn counts(&self, outcome: &Outcome) -> bool {
        match outcome {
            // What is not there will not be there next time either.
            Outcome::Exit { code: 0 }
            | Outcome::Cancelled
            | Outcome::NotStarted { .. }
            | Outcome::OutputsFailed { .. } => false,
            Outcome::Exit { code } => match &self.codes {
                None => true,
                Some(listed) => listed.iter().any(|(from, to)| (from..=to).contains(&code)),
            },
            Outcome::Signal { .. } => self.signal,
            Outcome::OutOfMemory { .. } => self.out_of_memory,
            Outcome::TimedOut { .. } => self.timeout,
            Outcome::Lost { .. } => true,
        }
    }

    /// From a list of words; an empty list is the usual set.
    pub fn from_words<'a>(words: impl Iterator<Item = &'a str>) -> Result<Self, BadRetryOn> {
        let mut ends = Ends::default();
        words.into_iter().try_for_each(|text| ends.add(text))?;
        Ok(ends.finish())
    }
}

/// What is read of a list of ends: as large as all ends together, however long the list is.
#[derive(Default)]
struct Ends {
    words: BTreeSet<&'static str>,
    /// Exit codes by number.
    codes: BTreeSet<i32>,
}

impl Ends {
    /// One word, or several with commas between them.
    fn add(&mut self, text: &str) -> Result<(), BadRetryOn> {
        for word in text.split(',').map(str::trim) {
            if let Some(known) = WORDS.into_iter().find(|known| *known == word) {
                self.words.insert(known);
            } else {
                let short = || BadRetryOn(word.chars().take(QUOTED).collect());
                let (from, to) = code_range(word).ok_or_else(short)?;
                self.codes.extend(from..=to);
            }
        }
        Ok(())
    }

    fn finish(self) -> RetryOn {
        if self.words.is_empty() && self.codes.is_empty() {
            return RetryOn::default();
        }
        let is_named = |word: &str| self.words.contains(word);
        let mut ranges: Vec<(i32, i32)> = Vec::new();
        for code in self.codes.iter().copied() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == code => *last = code,
                _ => ranges.push((code, code)),
            }
        }
        RetryOn {
            codes: (!is_named(ANY)).then_some(ranges),
            signal: is_named(SIGNAL),
            out_of_memory: is_named(OUT_OF_MEMORY),
            timeout: is_named(TIMEOUT),
        }
    }
}

fn code_range(text: &str) -> Option<(i32, i32)> {
    let code = |part: &str| part.parse().ok().filter(|code| (1..=255).contains(code));
    match text.split_once('-') {
        Some((from, to)) => Some((code(from)?, code(to)?)).filter(|(from, to)| from <= to),
        None => code(text).map(|code| (code, code)),
    }
}

impl FromStr for RetryOn {
    type Err = BadRetryOn;
    fn from_str(text: &str) -> Result<Self, BadRetryOn> {
        Self::from_words(std::iter::once(text))
    }
}

impl fmt::Display for RetryOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<String> = match &self.codes {
            None => vec!["any".into()],
            Some(listed) => listed
                .iter()
                .map(
                    |(from, to)| if from == to { from.to_string() } else { format!("{from}-{to}") },
                )
                .collect(),
        };
        let flags =
            [(self.signal, "signal"), (self.out_of_memory, "oom"), (self.timeout, "timeout")];
        words.extend(flags.iter().filter(|(set, _)| *set).map(|(_, word)| (*word).to_string()));
        f.write_str(&words.join(","))
    }
}

impl Serialize for RetryOn {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RetryOn {
    /// A text, or a list of texts and codes.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Written;
        impl<'de> de::Visitor<'de> for Written {
            type Value = RetryOn;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("ends to retry on")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<RetryOn, E> {
                RetryOn::from_words(std::iter::once(text)).map_err(E::custom)
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<RetryOn, A::Error> {
                let mut ends = Ends::default();
                while list.next_element_seed(OneEnd(&mut ends))?.is_some() {}
                Ok(ends.finish())
            }
        }
        from.deserialize_any(Written)
    }
}

/// One of a list of ends.
struct OneEnd<'a>(&'a mut Ends);

impl<'de> de::DeserializeSeed<'de> for OneEnd<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl de::Visitor<'_> for OneEnd<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an end to retry on")
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        self.0.add(text).map_err(E::custom)
    }
    fn visit_u64<E: de::Error>(self, code: u64) -> Result<(), E> {
        self.visit_str(&code.to_string())
    }
    fn visit_i64<E: de::Error>(self, code: i64) -> Result<(), E> {
        self.visit_str(&code.to_string())
    }
}

impl<'de> Deserialize<'de> for RetryPolicy {
    /// `retries: 3`, or `{limit: 3, delay: 10s, on: [75, signal]}`.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Long {
            limit: u32,
            delay: Option<Millis>,
            on: Option<RetryOn>,
        }
        struct Written;
        impl<'de> de::Visitor<'de> for Written {
            type Value = RetryPolicy;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of retries, or keys with `limit`")
            }
            fn visit_u64<E: de::Error>(self, limit: u64) -> Result<RetryPolicy, E> {
                let found = de::Unexpected::Unsigned(limit);
                let limit = u32::try_from(limit).map_err(|_| E::invalid_value(found, &self))?;
                Ok(RetryPolicy { limit, ..RetryPolicy::default() })
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<RetryPolicy, A::Error> {
                let long = Long::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(RetryPolicy {
                    limit: long.limit,
                    delay: long.delay.unwrap_or(DEFAULT_RETRY_DELAY),
                    on: long.on.unwrap_or_default(),
                })
            }
        }
        from.deserialize_any(Written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_and_ends() {
        let policy = RetryPolicy { limit: 3, ..RetryPolicy::default() };
        let failed = Outcome::Exit { code: 1 };
        let waits: Vec<_> = (1..=4).map(|n| policy.wait_after(n, &failed).map(|w| w.0)).collect();
        assert_eq!(waits, [Some(1_000), Some(2_000), Some(4_000), None]);
    }

    #[test]
    fn only_the_named_ends_count() {
        let on: RetryOn = "75,10-12,oom".parse().expect("good");
        let policy = RetryPolicy { limit: 1, on, ..RetryPolicy::default() };
        let again = |outcome| policy.wait_after(1, &outcome).is_some();
        assert!(again(Outcome::Exit { code: 75 }) && again(Outcome::Exit { code: 11 }));
        assert!(!again(Outcome::Exit { code: 1 }) && !again(Outcome::Signal { signal: 9 }));
        assert!(again(Outcome::OutOfMemory { limit: None, used: None, on_gpu: false }));
        for bad in ["0", "300", "x", "9-2", "1--2"] {
            assert!(bad.parse::<RetryOn>().is_err(), "{bad}");
        }
    }

    #[test]
    fn both_written_forms_are_read() {
        let short: RetryPolicy = serde_json::from_str("3").expect("short");
        assert_eq!(short.limit, 3);
        let long = r#"{"limit":2,"delay":"10s","on":[75,"signal"]}"#;
        let long: RetryPolicy = serde_json::from_str(long).expect("long");
        assert_eq!(
            (long.limit, long.delay, long.on.to_string()),
            (2, Millis(10_000), "75,signal".into())
        );
        let text = serde_json::to_string(&long).expect("json");
        assert_eq!(serde_json::from_str::<RetryPolicy>(&text).expect("back"), long);
    }
}
