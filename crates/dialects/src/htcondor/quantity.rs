//! Amounts as HTCondor writes them: `2 GB`, `512M`, `1.5T`, in powers of 1024 and rounded up to
//! the unit of the command, which is also what a bare number means.

/// In units of so many bytes; `None` when it is not an amount.
#[expect(clippy::string_slice, reason = "digits have a byte each")]
pub(super) fn amount(text: &str, unit: u64) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let whole: u64 = if digits == 0 { 0 } else { text[..digits].parse().ok()? };
    let mut rest = &text[digits..];
    let mut thousandths = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
        let padded = format!("{:0<3}", &fraction[..length]);
        thousandths = padded[..3].parse().ok()?;
        rest = &fraction[length..];
    } else if digits == 0 {
        return None;
    }
    let factor = factor(rest.trim_start(), unit)?;
    let bytes =
        u128::from(whole) * u128::from(factor) + (u128::from(factor) * thousandths).div_ceil(1_000);
    u64::try_from(bytes.div_ceil(u128::from(unit))).ok()
}

fn factor(suffix: &str, unit: u64) -> Option<u64> {
    let mut letters = suffix.chars();
    let factor = match letters.next().map(|letter| letter.to_ascii_lowercase()) {
        None => return Some(unit),
        Some('k') => 1 << 10,
        Some('m') => 1 << 20,
        Some('g') => 1 << 30,
        Some('t') => 1u64 << 40,
        Some(_) => return None,
    };
    let rest = letters.as_str();
    (rest.is_empty() || rest.eq_ignore_ascii_case("b")).then_some(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_rounding() {
        let (kib, mib) = (1 << 10, 1 << 20);
        for (text, unit, expected) in [
            ("2048", mib, Some(2048)),
            ("2 GB", mib, Some(2048)),
            ("1.5GB", mib, Some(1536)),
            ("1K", mib, Some(1)),
            ("2t", mib, Some(2 << 20)),
            ("3", kib, Some(3)),
            ("1MB", kib, Some(1024)),
            ("0.5", mib, Some(1)),
            ("2 GiB", mib, None),
            ("RequestX", mib, None),
            ("", mib, None),
            ("-1", mib, None),
        ] {
            assert_eq!(amount(text, unit), expected, "{text}");
        }
    }
}
