//! Values of expressions that refer to nothing: `2 * 7 + 1`, `strcat("a", "b")`. What they give is
//! said by `classad`; here they are asked for in the forms that submit files need.

use shipway_classad::{
    Ad, Context, Expr, Sides, Value, evaluate, parse_expression, unparse, unparse_value,
};
use std::sync::Arc;

fn value(text: &str) -> Option<Value> {
    let expression = parse_expression(text).ok()?;
    let context = Context { now: 0, zone: 0, seed: None };
    let found = evaluate(&expression, &Sides::alone(Arc::new(Ad::new())), &context);
    Some(found.value).filter(|_| found.exceeded.is_none())
}

/// A whole number; what is after the point is cut off.
pub(super) fn whole(text: &str) -> Option<i64> {
    if let Ok(number) = text.trim().parse() {
        return Some(number);
    }
    match value(text)? {
        Value::Integer(number) => Some(number),
        Value::Boolean(truth) => Some(truth.into()),
        Value::Real(real) if real.abs() < 9.0e18 => {
            #[expect(clippy::cast_possible_truncation, reason = "cutting off is what is asked for")]
            let cut = real as i64;
            Some(cut)
        }
        _ => None,
    }
}

pub(super) fn real(text: &str) -> Option<f64> {
    if let Some(number) = literal_number(text) {
        return Some(number);
    }
    match value(text)? {
        Value::Real(real) => Some(real),
        #[expect(clippy::cast_precision_loss, reason = "a real number is asked for")]
        Value::Integer(number) => Some(number as f64),
        _ => None,
    }
}

/// Digits, not the words that Rust also takes for numbers.
fn literal_number(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    text.parse().ok().filter(|_| digits)
}

/// Of an expression that is a text.
pub(super) fn text(text: &str) -> Option<String> {
    match value(text)? {
        Value::String(bytes) => String::from_utf8(bytes.to_vec()).ok(),
        _ => None,
    }
}

pub(super) fn truth(text: &str) -> Option<bool> {
    match text.trim() {
        "1" => Some(true),
        "0" => Some(false),
        word if word.eq_ignore_ascii_case("true") => Some(true),
        word if word.eq_ignore_ascii_case("false") => Some(false),
        other => value(other)?.as_condition(),
    }
}

/// Any value, as it is written.
pub(super) fn shown(text: &str) -> Option<String> {
    match value(text)? {
        Value::String(bytes) => String::from_utf8(bytes.to_vec()).ok(),
        other => Some(unparse_value(&other)),
    }
}

/// A literal: a text without its quotes, a number, true or false.
pub(super) fn plain_value(text: &str) -> Option<String> {
    match parse_expression(text).ok()? {
        Expr::Literal(Value::String(bytes)) => String::from_utf8(bytes.to_vec()).ok(),
        literal @ Expr::Literal(_) => Some(unparse(&literal)),
        _ => None,
    }
}

/// Why this is no expression, if it is none.
pub(super) fn fault(text: &str) -> Option<String> {
    parse_expression(text).err().map(|error| error.to_string())
}
