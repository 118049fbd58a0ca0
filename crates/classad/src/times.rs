//! Times as texts, and dates by the calendar. What the local zone is, is never asked: a time that
//! names none is taken as one of Greenwich.

use crate::convert::{general, small, wrapped};
use crate::value::Value;

/// A moment by the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Date {
    pub(crate) year: i64,
    /// 1 is January.
    pub(crate) month: i64,
    pub(crate) day: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
}

const DAY: i64 = 86_400;

impl Date {
    pub(crate) fn of(seconds: i64) -> Date {
        let (days, rest) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        // Years that begin in March end with the leap day.
        let era_day = days + 719_468;
        let (era, day_of_era) = (era_day.div_euclid(146_097), era_day.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Date {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month,
            day: day_of_year - (153 * from_march + 2) / 5 + 1,
            hour: rest / 3_600,
            minute: rest % 3_600 / 60,
            second: rest % 60,
        }
    }

    /// Months and days beyond their range run on into the next, as C's `mktime` has it.
    pub(crate) fn seconds(&self) -> i64 {
        let days = days(self.year, self.month) + self.day - 1;
        ((days * 24 + self.hour) * 60 + self.minute) * 60 + self.second
    }

    /// 0 is Sunday.
    pub(crate) fn weekday(&self) -> i64 {
        (days(self.year, self.month) + self.day - 1 + 4).rem_euclid(7)
    }

    /// 0 is the first of January.
    pub(crate) fn day_of_year(&self) -> i64 {
        days(self.year, self.month) + self.day - 1 - days(self.year, 1)
    }
}

/// Days from 1970 to the first of a month.
fn days(year: i64, month: i64) -> i64 {
    let (year, month) = (year + (month - 1).div_euclid(12), (month - 1).rem_euclid(12) + 1);
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * from_march + 2) / 5;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// `2020-01-01T00:00:00+01:00`: digits with anything between them, and perhaps a zone.
pub(crate) fn parse_abs_time(text: &[u8]) -> Option<Value> {
    let (text, offset) = zone(text);
    let mut at = 0;
    let mut number = |width: usize| -> Option<i64> {
        at += tail(&text, at).iter().take_while(|byte| !byte.is_ascii_digit()).count();
        let digits = text.get(at..at + width)?;
        at += width;
        let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
        Some(digits.fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
    };
    let year = number(4)?;
    let month = number(2).unwrap_or(1);
    let day = number(2).unwrap_or(0);
    let (hour, minute) = (number(2).unwrap_or(0), number(2).unwrap_or(0));
    let second = number(2).unwrap_or(0);
    if text.get(at..).unwrap_or_default().iter().any(u8::is_ascii_digit) {
        return None;
    }
    let seconds = Date { year, month, day, hour, minute, second }.seconds();
    // C's `mktime` says so when it fails, and is taken at its word. Other years cannot be written.
    let is_good = seconds != -1 && (0..=9_999).contains(&Date::of(seconds).year);
    is_good.then_some(Value::AbsTime { seconds: seconds - i64::from(offset), offset })
}

/// Takes a zone off the end: `Z`, `+0100` or `+01:00`.
fn zone(text: &[u8]) -> (Vec<u8>, i32) {
    let mut text = text.to_vec();
    let last = text.iter().rposition(|byte| !matches!(byte, b' ' | b'\t'..=b'\r'));
    let is_z = |at: &usize| matches!(text.get(*at), Some(b'z' | b'Z'));
    if let Some(last) = last.filter(|last| *last > 0 && is_z(last)) {
        text.remove(last);
        return (text, 0);
    }
    let length = text.len();
    let from_end = |count: usize| text.get(length.checked_sub(count)?).copied();
    let is_sign = |count: usize| length > count && matches!(from_end(count), Some(b'+' | b'-'));
    if is_sign(5) {
        // As it stands.
    } else if is_sign(6) && from_end(3) == Some(b':') {
        text.remove(length - 3);
    } else {
        return (text, 0);
    }
    let Some([sign, digits @ ..]) = text.last_chunk::<5>() else { return (text, 0) };
    if !digits.iter().all(u8::is_ascii_digit) {
        return (text, 0);
    }
    let [tens, ones, ten_minutes, minutes] = digits.map(|digit| i32::from(digit - b'0'));
    let (hours, minutes) = (tens * 10 + ones, ten_minutes * 10 + minutes);
    let sign = if *sign == b'-' { -1 } else { 1 };
    let offset = sign * (hours * 3_600 + minutes * 60);
    text.truncate(text.len() - 5);
    (text, offset)
}

/// `[[[days+]hours:]minutes:]seconds`, or with the letters d, h, m and s. Read from its end.
pub(crate) fn parse_rel_time(text: &[u8]) -> Option<f64> {
    let mut rest = trimmed(text);
    let mut seconds = 0.0;
    if let Some(last) =
        rest.last().filter(|last| last.is_ascii_digit() || matches!(last, b's' | b'S'))
    {
        if !last.is_ascii_digit() {
            rest = trimmed(head(rest, rest.len() - 1));
        }
        let mut digits = digits_at_end(rest);
        let point = rest.len() - digits.len();
        if let Some(before) = head(rest, point).strip_suffix(b".") {
            digits = tail(rest, before.len() - digits_at_end(before).len());
        }
        rest = head(rest, rest.len() - digits.len());
        let digits = std::str::from_utf8(digits).unwrap_or_default();
        seconds = digits.parse().unwrap_or(0.0);
    }
    for (letter, mark, weight) in [(b'm', b':', 60), (b'h', b':', 3_600), (b'd', b'+', 86_400)] {
        rest = trimmed(rest);
        if rest.last().is_some_and(|last| last.eq_ignore_ascii_case(&letter) || *last == mark) {
            rest = trimmed(head(rest, rest.len() - 1));
            let digits = digits_at_end(rest);
            rest = head(rest, rest.len() - digits.len());
            let digits = std::str::from_utf8(digits).unwrap_or_default();
            seconds += f64::from(digits.parse::<i32>().unwrap_or(0).wrapping_mul(weight));
        }
    }
    rest = trimmed(rest);
    let is_negative = rest.last() == Some(&b'-');
    if is_negative {
        rest = trimmed(head(rest, rest.len() - 1));
    }
    // Longer ones cannot be written.
    let is_good = rest.is_empty() && seconds <= f64::from(i32::MAX);
    is_good.then_some(if is_negative { -seconds } else { seconds })
}

/// The first so many bytes.
fn head(text: &[u8], count: usize) -> &[u8] {
    text.get(..count).unwrap_or(text)
}

/// All but the first so many bytes.
fn tail(text: &[u8], count: usize) -> &[u8] {
    text.get(count..).unwrap_or_default()
}

fn trimmed(text: &[u8]) -> &[u8] {
    let kept = text.iter().rposition(|byte| !matches!(byte, b' ' | b'\t'..=b'\r'));
    head(text, kept.map_or(0, |last| last + 1))
}

fn digits_at_end(text: &[u8]) -> &[u8] {
    let before = text.iter().rposition(|byte| !byte.is_ascii_digit());
    tail(text, before.map_or(0, |last| last + 1))
}

pub(crate) fn abs_time_text(seconds: i64, offset: i32) -> String {
    let Date { year, month, day, hour, minute, second } =
        Date::of(seconds.saturating_add(i64::from(offset)));
    let sign = if offset > 0 { '+' } else { '-' };
    let east = offset.unsigned_abs();
    let (hours, minutes) = (east / 3_600, east / 60 % 60);
    let day = format!("{year:04}-{month:02}-{day:02}");
    format!("{day}T{hour:02}:{minute:02}:{second:02}{sign}{hours:02}:{minutes:02}")
}

pub(crate) fn rel_time_text(seconds: f64) -> String {
    let sign = if seconds < 0.0 { "-" } else { "" };
    let seconds = seconds.abs();
    let fraction = seconds - seconds.floor();
    let whole = small(seconds);
    let (days, hours, minutes) = (whole / 86_400, whole % 86_400 / 3_600, whole % 3_600 / 60);
    let last = whole % 60;
    let last = if fraction == 0.0 {
        format!("{last:02}")
    } else {
        let last = f64::from(last) + fraction;
        let short = general(last, 6, 'e');
        // With an exponent it would not read back.
        if short.contains('e') { last.to_string() } else { format!("{short:0>2}") }
    };
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{sign}{last}"),
        (0, 0, minutes) => format!("{sign}{minutes:02}:{last}"),
        (0, hours, minutes) => format!("{sign}{hours:02}:{minutes:02}:{last}"),
        (days, hours, minutes) => format!("{sign}{days}+{hours:02}:{minutes:02}:{last}"),
    }
}

/// `3600` as `1:00:00`, as HTCondor's `interval` has it.
pub(crate) fn interval_text(seconds: i64) -> String {
    let seconds = wrapped(seconds);
    let (days, hours) = (seconds / 86_400, seconds % 86_400 / 3_600);
    let (minutes, last) = (seconds % 3_600 / 60, seconds % 60);
    let (h, m, s) = (hours.unsigned_abs(), minutes.unsigned_abs(), last.unsigned_abs());
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{last}"),
        (0, 0, minutes) => format!("{minutes}:{s:02}"),
        (0, hours, _) => format!("{hours}:{m:02}:{s:02}"),
        (days, _, _) => format!("{days}+{h:02}:{m:02}:{s:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_go_there_and_back() {
        for seconds in [0, -1, 951_782_400, 951_868_799, 4_107_542_400, -2_203_891_200] {
            assert_eq!(Date::of(seconds).seconds(), seconds);
        }
        let leap = Date::of(951_782_400);
        assert_eq!((leap.year, leap.month, leap.day), (2000, 2, 29));
        assert_eq!((leap.weekday(), leap.day_of_year()), (2, 59));
    }

    #[test]
    fn times_are_read_and_printed() {
        let Some(Value::AbsTime { seconds, offset }) = parse_abs_time(b"2020-01-01T00:00:00+01:00")
        else {
            panic!("a time")
        };
        assert_eq!((seconds, offset), (1_577_833_200, 3_600));
        assert_eq!(abs_time_text(seconds, offset), "2020-01-01T00:00:00+01:00");
        assert_eq!(parse_rel_time(b"1+02:03:04.5"), Some(93_784.5));
        assert_eq!(parse_rel_time(b"-2h"), Some(-7_200.0));
        assert_eq!(parse_rel_time(b"abc"), None);
        assert_eq!(rel_time_text(93_784.5), "1+02:03:4.5");
        assert_eq!(interval_text(-90_061), "-1+01:01:01");
    }
}
