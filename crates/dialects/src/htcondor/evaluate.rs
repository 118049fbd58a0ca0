//! Values of expressions that refer to nothing: `2 * 7 + 1`, `"a text"`.

/// A whole number; what is after the point is cut off.
pub(super) fn whole(text: &str) -> Option<i64> {
    let text = text.trim();
    text.parse().ok().or_else(|| {
        let real: f64 = text.parse().ok().filter(|real: &f64| real.abs() < 9.0e18)?;
        #[expect(clippy::cast_possible_truncation, reason = "cutting off is what is asked for")]
        let cut = real as i64;
        Some(cut)
    })
}

pub(super) fn real(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|real: &f64| real.is_finite())
}

/// Of an expression that is a text.
pub(super) fn text(text: &str) -> Option<String> {
    text.strip_prefix('"')?.strip_suffix('"').map(str::to_string)
}

pub(super) fn truth(text: &str) -> Option<bool> {
    match text.trim() {
        "1" => Some(true),
        "0" => Some(false),
        word if word.eq_ignore_ascii_case("true") => Some(true),
        word if word.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// Any value, as it is written.
pub(super) fn shown(text: &str) -> Option<String> {
    real(text).map(|_| text.to_string()).or_else(|| self::text(text))
}

/// A literal: a text without its quotes, a number, true or false.
pub(super) fn plain_value(text: &str) -> Option<String> {
    let text = text.trim();
    self::text(text).or_else(|| {
        let literal = real(text).is_some() || truth(text).is_some();
        literal.then(|| text.to_string())
    })
}
