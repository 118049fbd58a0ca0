//! Times and spans as people read them. The zone and the present are given.

use jiff::tz::TimeZone;
use shipway_model::{Millis, Timestamp};

/// When and where a view is read.
#[derive(Debug, Clone)]
pub struct Reader {
    pub now: Timestamp,
    pub zone: TimeZone,
}

impl Reader {
    pub fn here() -> Self {
        Reader { now: crate::settings::now(), zone: TimeZone::system() }
    }

    /// `2026-01-31 14:03:20`
    pub fn moment(&self, at: Timestamp) -> String {
        let moment =
            i64::try_from(at.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        moment.map_or_else(
            || "?".into(),
            |moment| moment.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        )
    }

    /// `2026-01-31 14:03:20 (5m ago)`
    pub fn moment_and_age(&self, at: Timestamp) -> String {
        format!("{} ({} ago)", self.moment(at), short(self.now.since(at)))
    }

    pub fn age(&self, at: Timestamp) -> String {
        short(self.now.since(at))
    }
}

/// Two units at most: what is between 2 and 3 days old need not say its seconds.
pub fn short(span: Millis) -> String {
    let seconds = span.0 / 1_000;
    let pair = |big: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{big}{unit}"),
        _ => format!("{big}{unit}{small:02}{small_unit}"),
    };
    match seconds {
        0 => format!("{}ms", span.0),
        1..60 => format!("{seconds}s"),
        60..3_600 => pair(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => pair(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => pair(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        for (millis, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (59_999, "59s"),
            (60_000, "1m"),
            (61_000, "1m01s"),
            (3_600_000, "1h"),
            (5_400_000, "1h30m"),
            (90_000_000, "1d01h"),
        ] {
            assert_eq!(short(Millis(millis)), text);
        }
    }

    #[test]
    fn a_time_out_of_reach_is_no_panic() {
        let reader = Reader { now: Timestamp(0), zone: TimeZone::UTC };
        assert_eq!(reader.moment(Timestamp(0)), "1970-01-01 00:00:00");
        assert_eq!(reader.moment(Timestamp(u64::MAX)), "?");
    }
}
