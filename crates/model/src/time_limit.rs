//! How long a task may run: a warning signal at the limit, some grace, then the kill.

use crate::limits::DEFAULT_GRACE;
use crate::reading::{parse, text};
use crate::units::Millis;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TimeLimit {
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub limit: Millis,
    /// Sent to the whole process group when the limit is reached.
    pub warn: Signal,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub grace: Millis,
}

/// The signals a job may ask for as its warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    Term,
    Int,
    Hup,
    Usr1,
    Usr2,
    Quit,
}

impl Signal {
    /// Linux numbers, the same on every machine we run on.
    pub fn number(self) -> i32 {
        match self {
            Signal::Hup => 1,
            Signal::Int => 2,
            Signal::Quit => 3,
            Signal::Usr1 => 10,
            Signal::Usr2 => 12,
            Signal::Term => 15,
        }
    }

    pub const ALL: [Signal; 6] =
        [Signal::Term, Signal::Int, Signal::Hup, Signal::Usr1, Signal::Usr2, Signal::Quit];

    pub fn from_number(number: i32) -> Option<Signal> {
        Self::ALL.into_iter().find(|signal| signal.number() == number)
    }
}

impl std::fmt::Display for Signal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Signal::Term => "SIGTERM",
            Signal::Int => "SIGINT",
            Signal::Hup => "SIGHUP",
            Signal::Usr1 => "SIGUSR1",
            Signal::Usr2 => "SIGUSR2",
            Signal::Quit => "SIGQUIT",
        })
    }
}

impl std::str::FromStr for Signal {
    type Err = crate::units::BadAmount;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = text.to_ascii_uppercase();
        let name = name.strip_prefix("SIG").unwrap_or(&name);
        Self::ALL
            .into_iter()
            .find(|signal| signal.to_string().strip_prefix("SIG") == Some(name))
            .ok_or(crate::units::BadAmount {
                text: text.into(),
                wanted: "a warning signal (TERM, INT, HUP, USR1, USR2 or QUIT)",
            })
    }
}

impl<'de> Deserialize<'de> for Signal {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text(from)
    }
}

impl TimeLimit {
    pub fn new(limit: Millis) -> Self {
        TimeLimit { limit, warn: Signal::Term, grace: DEFAULT_GRACE }
    }
}

impl<'de> Deserialize<'de> for TimeLimit {
    /// `time_limit: 2h`, or `{limit: 2h, warn: USR1, grace: 5m}`.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Long {
            limit: Millis,
            warn: Option<Signal>,
            grace: Option<Millis>,
        }
        struct Written;
        impl<'de> de::Visitor<'de> for Written {
            type Value = TimeLimit;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time, or keys with `limit`")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<TimeLimit, E> {
                parse(text).map(TimeLimit::new)
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<TimeLimit, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<TimeLimit, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<TimeLimit, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<TimeLimit, A::Error> {
                let long = Long::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(TimeLimit {
                    limit: long.limit,
                    warn: long.warn.unwrap_or(Signal::Term),
                    grace: long.grace.unwrap_or(DEFAULT_GRACE),
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
    fn a_signal_is_shown_as_people_write_it() {
        assert_eq!(Signal::Usr1.to_string(), "SIGUSR1");
        for signal in Signal::ALL {
            assert_eq!(signal.to_string().parse(), Ok(signal), "it reads back");
            assert_eq!(format!("{signal:?}").parse(), Ok(signal), "without SIG too");
        }
    }
}
