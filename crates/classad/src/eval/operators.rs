//! What operators make of values: undefined and error first, then numbers, texts and times.

use crate::convert::{real, small};
use crate::expr::{Binary, Unary};
use crate::value::Value;
use std::cmp::Ordering;

pub(super) fn unary(op: Unary, value: Value) -> Value {
    match (op, value) {
        (_, Value::Undefined) => Value::Undefined,
        (Unary::Plus, number @ (Value::Integer(_) | Value::Real(_) | Value::RelTime(_))) => number,
        (Unary::Minus, Value::Integer(number)) => Value::Integer(number.wrapping_neg()),
        (Unary::Minus, Value::Real(number)) => Value::Real(-number),
        (Unary::Minus, Value::RelTime(seconds)) => Value::RelTime(-seconds),
        (Unary::BitNot, Value::Integer(number)) => Value::Integer(!number),
        (Unary::Not, value) => value.as_condition().map_or(Value::Error, |is| Value::Boolean(!is)),
        _ => Value::Error,
    }
}

/// What is known after the left side alone.
pub(super) fn decides(op: Binary, left: &Value) -> Option<Value> {
    let decisive = match op {
        Binary::And => false,
        Binary::Or => true,
        _ => return None,
    };
    match left {
        Value::Error => Some(Value::Error),
        left => left.as_condition().filter(|is| *is == decisive).map(Value::Boolean),
    }
}

pub(crate) fn binary(op: Binary, left: &Value, right: &Value) -> Value {
    match op {
        Binary::And => logical(false, left, right),
        Binary::Or => logical(true, left, right),
        Binary::Is => identical(left, right).map_or(Value::Error, Value::Boolean),
        Binary::Isnt => identical(left, right).map_or(Value::Error, |is| Value::Boolean(!is)),
        _ if left.is_error() || right.is_error() => Value::Error,
        _ if left.is_undefined() || right.is_undefined() => Value::Undefined,
        Binary::Equal
        | Binary::NotEqual
        | Binary::Less
        | Binary::LessOrEqual
        | Binary::Greater
        | Binary::GreaterOrEqual => compare(op, left, right),
        Binary::Add | Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Modulus => {
            arithmetic(op, left, right)
        }
        _ => bits(op, left, right),
    }
}

/// `decisive` settles it: true for `||`. The left side did not, or it is undefined.
fn logical(decisive: bool, left: &Value, right: &Value) -> Value {
    if let (Value::Boolean(left), Value::Boolean(right)) = (left, right) {
        return Value::Boolean(if *left == decisive { decisive } else { *right });
    }
    let known = |value: &Value| match value {
        Value::Undefined | Value::Error => Ok(value.clone()),
        other => other.as_condition().map(Value::Boolean).ok_or(()),
    };
    let (Ok(left), Ok(right)) = (known(left), known(right)) else { return Value::Error };
    match (left, right) {
        (Value::Error, _) => Value::Error,
        (Value::Boolean(is), _) if is == decisive => Value::Boolean(decisive),
        (Value::Boolean(_), right) => right,
        // Undefined, unless the other side settles it.
        (_, Value::Boolean(is)) if is != decisive => Value::Undefined,
        (_, right) => right,
    }
}

/// `None` for lists and ads, which cannot be compared.
fn identical(left: &Value, right: &Value) -> Option<bool> {
    Some(match (left, right) {
        (Value::Undefined, Value::Undefined) | (Value::Error, Value::Error) => true,
        (Value::Boolean(left), Value::Boolean(right)) => left == right,
        (Value::Integer(left), Value::Integer(right)) => left == right,
        (Value::Real(left), Value::Real(right)) | (Value::RelTime(left), Value::RelTime(right)) => {
            left.partial_cmp(right) == Some(Ordering::Equal)
        }
        (Value::String(left), Value::String(right)) => left == right,
        (
            Value::AbsTime { seconds, offset },
            Value::AbsTime { seconds: other, offset: other_offset },
        ) => seconds == other && offset == other_offset,
        (Value::List(_), Value::List(_)) | (Value::Ad(_), Value::Ad(_)) => return None,
        _ => false,
    })
}

/// Two numbers of one kind.
pub(crate) enum Numbers {
    Whole(i64, i64),
    Real(f64, f64),
}

/// Booleans are numbers, and whole ones become real beside a real. `None`: one is no number.
pub(crate) fn numbers(left: &Value, right: &Value) -> Option<Numbers> {
    if let (Some(left), Some(right)) = (as_whole(left), as_whole(right)) {
        return Some(Numbers::Whole(left, right));
    }
    let as_real = |value: &Value| match value {
        Value::Real(number) => Some(*number),
        other => as_whole(other).map(real),
    };
    Some(Numbers::Real(as_real(left)?, as_real(right)?))
}

fn as_whole(value: &Value) -> Option<i64> {
    match value {
        Value::Boolean(is) => Some(i64::from(*is)),
        Value::Integer(number) => Some(*number),
        _ => None,
    }
}

fn compare(op: Binary, left: &Value, right: &Value) -> Value {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => Some(without_case(left, right)),
        (Value::RelTime(left), Value::RelTime(right)) => left.partial_cmp(right),
        (Value::AbsTime { seconds, .. }, Value::AbsTime { seconds: other, .. }) => {
            Some(seconds.cmp(other))
        }
        _ => match numbers(left, right) {
            Some(Numbers::Whole(left, right)) => Some(left.cmp(&right)),
            Some(Numbers::Real(left, right)) => left.partial_cmp(&right),
            None => return Value::Error,
        },
    };
    Value::Boolean(match op {
        Binary::Equal => order == Some(Ordering::Equal),
        Binary::NotEqual => order != Some(Ordering::Equal),
        Binary::Less => order == Some(Ordering::Less),
        Binary::LessOrEqual => order.is_some_and(Ordering::is_le),
        Binary::Greater => order == Some(Ordering::Greater),
        _ => order.is_some_and(Ordering::is_ge),
    })
}

fn without_case(left: &[u8], right: &[u8]) -> Ordering {
    left.iter().map(u8::to_ascii_lowercase).cmp(right.iter().map(u8::to_ascii_lowercase))
}

fn arithmetic(op: Binary, left: &Value, right: &Value) -> Value {
    match numbers(left, right) {
        Some(Numbers::Whole(left, right)) => whole_arithmetic(op, left, right),
        Some(Numbers::Real(left, right)) => real_arithmetic(op, left, right),
        None => time_arithmetic(op, left, right),
    }
}

fn whole_arithmetic(op: Binary, left: i64, right: i64) -> Value {
    Value::Integer(match op {
        Binary::Add => left.wrapping_add(right),
        Binary::Subtract => left.wrapping_sub(right),
        Binary::Multiply => left.wrapping_mul(right),
        _ if right == 0 => return Value::Error,
        Binary::Divide => left.checked_div(right).unwrap_or(i64::MAX),
        _ => left.checked_rem(right).unwrap_or(0),
    })
}

/// What is too large is an error; what is too small is not, and neither is what is no number.
fn real_arithmetic(op: Binary, left: f64, right: f64) -> Value {
    let result = match op {
        Binary::Add => left + right,
        Binary::Subtract => left - right,
        Binary::Multiply => left * right,
        Binary::Divide => left / right,
        _ => return Value::Error,
    };
    if result == f64::INFINITY { Value::Error } else { Value::Real(result) }
}

fn time_arithmetic(op: Binary, left: &Value, right: &Value) -> Value {
    let later = |seconds: i64, offset: i32, by: i32| {
        let seconds = seconds.wrapping_add(i64::from(by));
        Value::AbsTime { seconds, offset }
    };
    match (op, left, right) {
        (Binary::Add, Value::AbsTime { seconds, offset }, Value::RelTime(by))
        | (Binary::Add, Value::RelTime(by), Value::AbsTime { seconds, offset }) => {
            later(*seconds, *offset, small(*by))
        }
        (Binary::Subtract, Value::AbsTime { seconds, offset }, Value::RelTime(by)) => {
            later(*seconds, *offset, small(*by).wrapping_neg())
        }
        (
            Binary::Subtract,
            Value::AbsTime { seconds, .. },
            Value::AbsTime { seconds: other, .. },
        ) => Value::RelTime(real(seconds.wrapping_sub(*other))),
        (Binary::Add, Value::RelTime(left), Value::RelTime(right)) => Value::RelTime(left + right),
        (Binary::Subtract, Value::RelTime(left), Value::RelTime(right)) => {
            Value::RelTime(left - right)
        }
        (Binary::Multiply, Value::RelTime(left), Value::Integer(right))
        | (Binary::Multiply, Value::Integer(right), Value::RelTime(left)) => {
            Value::RelTime(left * real(*right))
        }
        (Binary::Divide, Value::RelTime(left), Value::Integer(right)) => {
            Value::RelTime(left / real(*right))
        }
        (Binary::Multiply, Value::RelTime(left), Value::Real(right))
        | (Binary::Multiply, Value::Real(right), Value::RelTime(left)) => {
            Value::RelTime(left * right)
        }
        (Binary::Divide, Value::RelTime(left), Value::Real(right)) => Value::RelTime(left / right),
        _ => Value::Error,
    }
}

/// Shifts go by the lower six bits of their right side, as the processor has it.
fn bits(op: Binary, left: &Value, right: &Value) -> Value {
    let (Value::Integer(left), Value::Integer(right)) = (left, right) else {
        return Value::Error;
    };
    let six_bits = |number: i64| u32::try_from(number & 63).unwrap_or(0);
    let by = six_bits(*right);
    Value::Integer(match op {
        Binary::BitOr => left | right,
        Binary::BitXor => left ^ right,
        Binary::BitAnd => left & right,
        Binary::ShiftLeft => left << by,
        _ if *left >= 0 => left >> by,
        Binary::ShiftRight => match *right {
            ..=0 => *left,
            1..=63 => left >> by,
            _ => -1,
        },
        _ => {
            let rest = six_bits(right.wrapping_sub(1));
            (left >> 1 & i64::MAX) >> rest
        }
    })
}
