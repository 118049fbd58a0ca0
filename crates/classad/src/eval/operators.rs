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

pub(crate) fn binary(op: Binary, left: Value, right: Value) -> Value {
    match (op, &left, &right) {
        // What is asked most, without a copy.
        (Binary::And, Value::Boolean(true), Value::Boolean(_))
        | (Binary::Or, Value::Boolean(false), Value::Boolean(_)) => return right,
        _ => {}
    }
    match op {
        Binary::And => logical(false, &left, &right),
        Binary::Or => logical(true, &left, &right),
        Binary::Is => identical(&left, &right).map_or(Value::Error, Value::Boolean),
        Binary::Isnt => identical(&left, &right).map_or(Value::Error, |is| Value::Boolean(!is)),
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
        _ => bits(op, &left, &right),
    }
}

/// `decisive` settles it: true for `||`. The left side did not, or it is undefined.
fn logical(decisive: bool, left: &Value, right: &Value) -> Value {
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

/// Booleans are numbers, and whole ones become real beside a real.
pub(crate) fn promote(left: Value, right: Value) -> (Value, Value) {
    let number = |value| match value {
        Value::Boolean(is) => Value::Integer(i64::from(is)),
        other => other,
    };
    let is_number =
        |value: &Value| matches!(value, Value::Boolean(_) | Value::Integer(_) | Value::Real(_));
    if !is_number(&left) || !is_number(&right) {
        return (left, right);
    }
    match (number(left), number(right)) {
        (Value::Integer(left), right @ Value::Real(_)) => (Value::Real(real(left)), right),
        (left @ Value::Real(_), Value::Integer(right)) => (left, Value::Real(real(right))),
        same => same,
    }
}

fn compare(op: Binary, left: Value, right: Value) -> Value {
    let order = match promote(left, right) {
        (Value::Integer(left), Value::Integer(right)) => Some(left.cmp(&right)),
        (Value::Real(left), Value::Real(right)) | (Value::RelTime(left), Value::RelTime(right)) => {
            left.partial_cmp(&right)
        }
        (Value::String(left), Value::String(right)) => Some(without_case(&left, &right)),
        (Value::AbsTime { seconds, .. }, Value::AbsTime { seconds: other, .. }) => {
            Some(seconds.cmp(&other))
        }
        _ => return Value::Error,
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

pub(crate) fn without_case(left: &[u8], right: &[u8]) -> Ordering {
    let fold = |text: &[u8]| text.iter().map(u8::to_ascii_lowercase).collect::<Vec<u8>>();
    if left.eq_ignore_ascii_case(right) { Ordering::Equal } else { fold(left).cmp(&fold(right)) }
}

fn arithmetic(op: Binary, left: Value, right: Value) -> Value {
    match promote(left, right) {
        (Value::Integer(left), Value::Integer(right)) => whole_arithmetic(op, left, right),
        (Value::Real(left), Value::Real(right)) => real_arithmetic(op, left, right),
        (left, right) => time_arithmetic(op, &left, &right),
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
    let by = u32::try_from(right & 63).expect("six bits");
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
            let rest = u32::try_from((right.wrapping_sub(1)) & 63).expect("six bits");
            (left >> 1 & i64::MAX) >> rest
        }
    })
}
