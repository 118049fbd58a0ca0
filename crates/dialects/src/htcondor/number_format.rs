//! Formats as C's `printf` has them: one `%…` with text around it. No more than submit files use.

use super::limits::MAX_FORMAT_WIDTH;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Whole,
    Real,
    Text,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Format {
    before: String,
    after: String,
    /// Of `-`, `+`, blank, `0` and `#`.
    flags: String,
    width: usize,
    precision: Option<usize>,
    letter: char,
}

impl Format {
    pub(super) fn parse(text: &str, kind: Kind) -> Option<Format> {
        let (before, rest) = text.split_once('%')?;
        let flags: String = rest.chars().take_while(|c| "-+ 0#".contains(*c)).collect();
        let rest = rest.strip_prefix(flags.as_str())?;
        let (width, rest) = digits(rest)?;
        let (precision, rest) = match rest.strip_prefix('.') {
            Some(rest) => digits(rest).map(|(number, rest)| (Some(number), rest))?,
            None => (None, rest),
        };
        let rest = rest.trim_start_matches(['l', 'h', 'j', 'z', 'L']);
        let mut letters_left = rest.chars();
        let letter = letters_left.next()?;
        let letters = match kind {
            Kind::Whole => "diuxXo",
            Kind::Real => "eEfFgG",
            Kind::Text => "s",
        };
        let after = letters_left.as_str();
        let good = letters.contains(letter) && !after.contains('%');
        good.then(|| Format {
            before: before.into(),
            after: after.into(),
            flags,
            width,
            precision,
            letter,
        })
    }

    pub(super) fn whole(&self, number: i64) -> String {
        let signed = matches!(self.letter, 'd' | 'i');
        let mut digits = match self.letter {
            'x' => format!("{number:x}"),
            'X' => format!("{number:X}"),
            'o' => format!("{number:o}"),
            'u' => number.cast_unsigned().to_string(),
            _ => number.unsigned_abs().to_string(),
        };
        if let Some(least) = self.precision {
            digits = format!("{digits:0>least$}");
        }
        let prefix = match self.letter {
            'x' if self.has('#') && number != 0 => "0x",
            'X' if self.has('#') && number != 0 => "0X",
            'o' if self.has('#') && number != 0 => "0",
            _ if signed => self.sign(number < 0),
            _ => "",
        };
        self.padded(prefix, &digits, self.has('0') && self.precision.is_none())
    }

    pub(super) fn real(&self, number: f64) -> String {
        let size = number.abs();
        let precision = self.precision.unwrap_or(6);
        let digits = match self.letter.to_ascii_lowercase() {
            _ if number.is_nan() => "nan".into(),
            _ if number.is_infinite() => "inf".into(),
            'e' => exponent(size, precision),
            'g' => general(size, precision, self.has('#')),
            _ => format!("{size:.precision$}"),
        };
        let upper = self.letter.is_ascii_uppercase();
        let digits = if upper { digits.to_ascii_uppercase() } else { digits };
        self.padded(
            self.sign(number.is_sign_negative()),
            &digits,
            self.has('0') && number.is_finite(),
        )
    }

    pub(super) fn text(&self, text: &str) -> String {
        let most = self.precision.unwrap_or(usize::MAX);
        let cut: String = text.chars().take(most).collect();
        self.padded("", &cut, false)
    }

    fn has(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.has('+'), self.has(' ')) {
            (true, ..) => "-",
            (false, true, _) => "+",
            (false, false, true) => " ",
            _ => "",
        }
    }

    fn padded(&self, prefix: &str, digits: &str, zeros: bool) -> String {
        let missing = self.width.saturating_sub(prefix.len() + digits.chars().count());
        let Format { before, after, .. } = self;
        let (spaces, none) = (" ".repeat(missing), "");
        let (left, zeros, right) = match (self.has('-'), zeros) {
            (true, _) => (none, String::new(), spaces.as_str()),
            (false, true) => (none, "0".repeat(missing), none),
            (false, false) => (spaces.as_str(), String::new(), none),
        };
        format!("{before}{left}{prefix}{zeros}{digits}{right}{after}")
    }
}

/// A number in front of the rest; none is 0.
#[expect(clippy::string_slice, reason = "digits have a byte each")]
fn digits(text: &str) -> Option<(usize, &str)> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = if length == 0 { 0 } else { text[..length].parse().ok()? };
    (number <= MAX_FORMAT_WIDTH).then_some((number, &text[length..]))
}

/// As C writes it: a sign and at least two digits.
fn exponent(size: f64, precision: usize) -> String {
    let text = format!("{size:.precision$e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", power.abs())
}

fn general(size: f64, precision: usize, keep_zeros: bool) -> String {
    let precision = precision.max(1);
    let text = format!("{size:.*e}", precision - 1);
    let power: i64 = text.split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0);
    let digits = i64::try_from(precision).unwrap_or(i64::MAX);
    let out = if power < -4 || power >= digits {
        exponent(size, precision - 1)
    } else {
        let after = usize::try_from(digits - 1 - power).unwrap_or(0);
        format!("{size:.after$}")
    };
    if keep_zeros || !out.contains('.') {
        return out;
    }
    let (number, power) = out.split_once('e').map_or((out.as_str(), None), |(n, p)| (n, Some(p)));
    let short = number.trim_end_matches('0').trim_end_matches('.');
    power.map_or_else(|| short.to_string(), |power| format!("{short}e{power}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_c_writes_them() {
        let whole =
            |format, number| Format::parse(format, Kind::Whole).expect(format).whole(number);
        assert_eq!(whole("%04d", 7), "0007");
        assert_eq!(whole("%-4d|", 7), "7   |");
        assert_eq!(whole("%+d", 7), "+7");
        assert_eq!(whole("%05d", -42), "-0042");
        assert_eq!(whole("%x", 255), "ff");
        assert_eq!(whole("%#X", 255), "0XFF");
        assert_eq!(whole("run%lld.log", 3), "run3.log");
        assert_eq!(whole("%5.3d", 7), "  007");
        let real = |format, number| Format::parse(format, Kind::Real).expect(format).real(number);
        assert_eq!(real("%.2f", 2.5), "2.50");
        assert_eq!(real("%e", 15.0), "1.500000e+01");
        assert_eq!(real("%.16G", 7.0), "7");
        assert_eq!(real("%g", 0.000_012_5), "1.25e-05");
        assert_eq!(real("%g", 1e10), "1e+10");
        assert_eq!(real("%08.3f", -2.5), "-002.500");
        let text = |format, text| Format::parse(format, Kind::Text).expect(format).text(text);
        assert_eq!(text("%5s|", "ab"), "   ab|");
        assert_eq!(text("%.1s", "ab"), "a");
    }

    #[test]
    fn what_is_no_format_is_refused() {
        for bad in ["", "5", "%", "%s", "%d%d", "%9999d", "%.f"] {
            assert!(Format::parse(bad, Kind::Whole).is_none(), "{bad}");
        }
    }
}
