//! Functions that compare versions: numbers inside the texts count as numbers.

use crate::eval::{Evaluator, Scope};
use crate::expr::Call;
use crate::value::Value;

/// Below 0, 0 or above it, as `strverscmp` of C has it: `1.9` before `1.10`.
fn order(left: &[u8], right: &[u8]) -> i64 {
    let common = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    let byte = |text: &[u8], at: usize| text.get(at).copied().unwrap_or(0);
    let is_digit = |text: &[u8], at: usize| byte(text, at).is_ascii_digit();
    let (first, second) = (byte(left, common), byte(right, common));
    if common == left.len() && common == right.len() {
        return 0;
    }
    // C's letters have a sign.
    let letters = i64::from(first.cast_signed()).saturating_sub(i64::from(second.cast_signed()));
    let before = left.iter().take(common).rev();
    let digits = before.take_while(|byte| byte.is_ascii_digit()).count();
    let start = common.saturating_sub(digits);
    if digits == 0 && !(is_digit(left, common) && is_digit(right, common)) {
        return letters;
    }
    let zeros = |text: &[u8]| {
        let zeros = text.iter().skip(start).take_while(|byte| **byte == b'0').count();
        // The last one is the number itself.
        let is_all = !is_digit(text, start.saturating_add(zeros));
        if is_all { zeros.saturating_sub(1) } else { zeros }
    };
    let count =
        |text: &[u8]| text.iter().skip(start).take_while(|byte| byte.is_ascii_digit()).count();
    let difference = |left: usize, right: usize| {
        crate::convert::length(left).saturating_sub(crate::convert::length(right))
    };
    let (left_zeros, right_zeros) = (zeros(left), zeros(right));
    if left_zeros != right_zeros {
        return difference(right_zeros, left_zeros);
    }
    if left_zeros > 0 || count(left) == count(right) {
        return letters;
    }
    difference(count(left), count(right))
}

fn ordered(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Result<i64, Value> {
    let Some([left, right]) = on.exactly(call, scope) else { return Err(Value::Error) };
    if left.is_undefined() || right.is_undefined() {
        return Err(Value::Undefined);
    }
    Ok(order(&on.text_of(&left)?, &on.text_of(&right)?))
}

fn is(on: &mut Evaluator<'_>, call: &Call, scope: &Scope, wanted: fn(i64) -> bool) -> Value {
    let order = ordered(on, call, scope);
    order.map_or_else(|other| other, |order| Value::Boolean(wanted(order)))
}

pub(super) fn compare(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    ordered(on, call, scope).map_or_else(|other| other, Value::Integer)
}
pub(super) fn equal(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    is(on, call, scope, |order| order == 0)
}
pub(super) fn at_least(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    is(on, call, scope, |order| order >= 0)
}
pub(super) fn above(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    is(on, call, scope, |order| order > 0)
}
pub(super) fn at_most(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    is(on, call, scope, |order| order <= 0)
}
pub(super) fn below(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    is(on, call, scope, |order| order < 0)
}

pub(super) fn in_range(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some([tested, least, most]) = on.exactly(call, scope) else { return Value::Error };
    if least.is_undefined() || most.is_undefined() {
        return Value::Undefined;
    }
    match (on.text_of(&tested), on.text_of(&least), on.text_of(&most)) {
        (Ok(tested), Ok(least), Ok(most)) => {
            Value::Boolean(order(&least, &tested) <= 0 && order(&tested, &most) <= 0)
        }
        _ => Value::Error,
    }
}
