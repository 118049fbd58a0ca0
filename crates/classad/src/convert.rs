//! One kind of value from another, and numbers as C reads, casts and prints them: the engine these
//! expressions were written for is a C++ program, and what it rounds to is what people rely on.

use crate::times::{abs_time_text, rel_time_text};
use crate::unparse::unparse_value;
use crate::value::{Text, Value};

/// Toward zero; what does not fit is the least number, as the processor has it.
#[expect(clippy::cast_possible_truncation, reason = "what does not fit is sorted out before")]
pub(crate) fn whole(real: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&real) { real as i64 } else { i64::MIN }
}

/// The same for numbers of half the size.
pub(crate) fn small(real: f64) -> i32 {
    let fits = real > -2_147_483_649.0 && real < 2_147_483_648.0;
    if fits { wrapped(whole(real)) } else { i32::MIN }
}

/// The lower half of it.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is asked for")]
pub(crate) fn wrapped(number: i64) -> i32 {
    number as i32
}

#[expect(clippy::cast_precision_loss, reason = "reals are what it is compared with")]
pub(crate) fn real(number: i64) -> f64 {
    number as f64
}

pub(crate) fn length(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// As `strtod` reads: the number a text begins with; `None` when it begins with none.
pub(crate) fn leading_real(text: &[u8]) -> Option<f64> {
    let blank = |byte: &&u8| matches!(**byte, b' ' | b'\t'..=b'\r');
    let text = text.get(text.iter().take_while(blank).count()..)?;
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1.0, digits),
        [b'+', digits @ ..] => (1.0, digits),
        _ => (1.0, text),
    };
    let starts = |word: &str| {
        digits.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word.as_bytes()))
    };
    if starts("inf") {
        return Some(sign * f64::INFINITY);
    }
    if starts("nan") {
        return Some(f64::NAN);
    }
    if let [b'0', b'x' | b'X', rest @ ..] = digits
        && rest.first().is_some_and(u8::is_ascii_hexdigit)
    {
        return Some(sign * leading_hexadecimal(rest));
    }
    let end = real_length(digits)?;
    let number = std::str::from_utf8(digits.get(..end)?).ok()?;
    number.parse::<f64>().ok().map(|number| sign * number)
}

/// Digits, perhaps a fraction, perhaps an exponent.
fn real_length(text: &[u8]) -> Option<usize> {
    let digits = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let whole = digits(0);
    let mut end = whole;
    if text.get(end) == Some(&b'.') {
        let fraction = digits(end + 1);
        if whole + fraction == 0 {
            return None;
        }
        end += 1 + fraction;
    }
    if end == 0 {
        return None;
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    Some(end)
}

fn leading_hexadecimal(text: &[u8]) -> f64 {
    let digits = text.iter().map_while(|byte| char::from(*byte).to_digit(16));
    digits.fold(0.0, |number, digit| number * 16.0 + f64::from(digit))
}

/// `None`: it stays what the error says, undefined or error.
pub(crate) fn to_real(value: &Value) -> Result<f64, Value> {
    match value {
        Value::Undefined => Err(Value::Undefined),
        Value::Error | Value::Ad(_) | Value::List(_) => Err(Value::Error),
        Value::String(text) => leading_real(text).ok_or(Value::Error),
        Value::Boolean(is) => Ok(f64::from(u8::from(*is))),
        Value::Integer(number) => Ok(real(*number)),
        Value::Real(number) => Ok(*number),
        Value::AbsTime { seconds, .. } => Ok(real(*seconds)),
        Value::RelTime(seconds) => Ok(f64::from(small(*seconds))),
    }
}

pub(crate) fn to_integer(value: &Value) -> Result<i64, Value> {
    match value {
        Value::Integer(number) => Ok(*number),
        other => to_real(other).map(whole),
    }
}

pub(crate) fn to_text(value: &Value) -> Result<Text, Value> {
    let text = match value {
        Value::Undefined => return Err(Value::Undefined),
        Value::Error => return Err(Value::Error),
        Value::String(text) => return Ok(text.clone()),
        Value::AbsTime { seconds, offset } => abs_time_text(*seconds, *offset),
        Value::RelTime(seconds) => rel_time_text(f64::from(small(*seconds))),
        other => unparse_value(other),
    };
    Ok(text.into_bytes().into())
}

/// As `%1.15E` prints: `1.500000000000000E+00`.
pub(crate) fn scientific(number: f64) -> String {
    let text = format!("{number:.15e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}E{sign}{exponent:0>2}")
}

/// As `%.{precision}g` prints, with this letter before the exponent.
pub(crate) fn general(number: f64, precision: usize, letter: char) -> String {
    if number == 0.0 {
        return "0".into();
    }
    if !number.is_finite() {
        return number.to_string().to_ascii_lowercase();
    }
    let text = format!("{number:.*e}", precision - 1);
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').into()
        } else {
            text.to_owned()
        }
    };
    let precision = i32::try_from(precision).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= precision {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}{letter}{sign}{:0>2}", trim(digits), exponent.unsigned_abs());
    }
    let decimals = usize::try_from(precision - 1 - exponent).unwrap_or(0);
    trim(&format!("{number:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_cast_as_c_does() {
        let read = |text: &str| leading_real(text.as_bytes());
        assert_eq!(read(" -1.5e2x"), Some(-150.0));
        assert_eq!(read("12abc"), Some(12.0));
        assert_eq!(read("1e"), Some(1.0));
        assert_eq!(read(".5"), Some(0.5));
        assert_eq!(read("0x1F"), Some(31.0));
        assert_eq!(read("-INFINITY"), Some(f64::NEG_INFINITY));
        assert_eq!((read("abc"), read(""), read("."), read("-")), (None, None, None, None));
        assert_eq!((whole(1e30), whole(-3.9), whole(f64::NAN)), (i64::MIN, -3, i64::MIN));
        assert_eq!((small(1e10), small(-2.5)), (i32::MIN, -2));
    }

    #[test]
    fn numbers_are_printed_as_c_does() {
        assert_eq!(scientific(1.5), "1.500000000000000E+00");
        assert_eq!(scientific(-1e-100), "-1.000000000000000E-100");
        assert_eq!(general(0.1, 16, 'E'), "0.1");
        assert_eq!(general(1e16, 16, 'E'), "1E+16");
        assert_eq!(general(123_456.0, 16, 'E'), "123456");
        assert_eq!(general(4.5, 6, 'g'), "4.5");
        assert_eq!(general(0.000_012, 6, 'e'), "1.2e-05");
    }
}
