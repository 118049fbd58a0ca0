//! Times as HTCondor writes them, from numbers: a pure crate has no clock and no time zones.

const DAY: i64 = 86_400;

/// Local time, as events are dated.
pub(super) fn local(at_ms: u64, ahead_s: i32) -> String {
    let (date, time) = civil(seconds(at_ms) + i64::from(ahead_s));
    format!("{date} {time}")
}

pub(super) fn utc(at_ms: u64) -> String {
    let (date, time) = civil(seconds(at_ms));
    format!("{date}T{time}Z")
}

/// A time that something took: days, hours, minutes and seconds.
pub(super) fn span(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60 % 60, seconds / 3_600 % 24);
    format!("{} {hours:02}:{minutes:02}:{:02}", seconds / 86_400, seconds % 60)
}

fn seconds(at_ms: u64) -> i64 {
    i64::try_from(at_ms / 1_000).unwrap_or(i64::MAX / 2)
}

/// Days are counted from 1 March of the year 0, so that the day that is sometimes there comes
/// last, and in spans of 400 years, after which the calendar repeats.
fn civil(seconds: i64) -> (String, String) {
    const SPAN: i64 = 146_097;
    const FROM_YEAR_ZERO: i64 = 719_468;
    let (days, second) = (seconds.div_euclid(DAY) + FROM_YEAR_ZERO, seconds.rem_euclid(DAY));
    let (spans, day) = (days.div_euclid(SPAN), days.rem_euclid(SPAN));
    let year = (day - day / 1_460 + day / 36_524 - day / (SPAN - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = 400 * spans + year + next;
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    (format!("{year:04}-{month:02}-{day:02}"), format!("{hour:02}:{minute:02}:{:02}", second % 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_794_780_225, "2026-11-15T22:03:45Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(utc(seconds * 1_000), expected);
        }
        assert_eq!(local(0, -3_600), "1969-12-31 23:00:00");
        assert_eq!(span(90_061), "1 01:01:01");
    }
}
