//! Functions that ask for the kind of a value, or make one kind of another.

use crate::convert;
use crate::eval::{Evaluator, Scope};
use crate::expr::Call;
use crate::value::Value;

fn is(
    on: &mut Evaluator<'_>,
    call: &Call,
    scope: &Scope,
    kind: impl FnOnce(&Value) -> bool,
) -> Value {
    on.exactly(call, scope).map_or(Value::Error, |[value]| Value::Boolean(kind(&value)))
}

pub(super) fn is_undefined(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    is(on, call, scope, Value::is_undefined)
}
pub(super) fn is_error(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    is(on, call, scope, Value::is_error)
}
pub(super) fn is_string(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    is(on, call, scope, |value| matches!(value, Value::String(_)))
}
pub(super) fn is_integer(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    is(on, call, scope, |value| matches!(value, Value::Integer(_)))
}
pub(super) fn is_real(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    is(on, call, scope, |value| matches!(value, Value::Real(_)))
}
pub(super) fn is_boolean(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    is(on, call, scope, |value| matches!(value, Value::Boolean(_)))
}
pub(super) fn is_list(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    is(on, call, scope, |value| matches!(value, Value::List(_)))
}
pub(super) fn is_class_ad(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    is(on, call, scope, |value| matches!(value, Value::Ad(_)))
}
pub(super) fn is_abs_time(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    is(on, call, scope, |value| matches!(value, Value::AbsTime { .. }))
}
pub(super) fn is_rel_time(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    is(on, call, scope, |value| matches!(value, Value::RelTime(_)))
}

pub(super) fn to_int(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some([value]) = on.exactly(call, scope) else { return Value::Error };
    convert::to_integer(&value).map_or_else(|other| other, Value::Integer)
}

pub(super) fn to_real(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some([value]) = on.exactly(call, scope) else { return Value::Error };
    convert::to_real(&value).map_or_else(|other| other, Value::Real)
}

pub(super) fn to_string(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some([value]) = on.exactly(call, scope) else { return Value::Error };
    match on.text_of(&value) {
        Ok(text) if on.may_make(text.len()) => Value::String(text),
        Ok(_) => Value::Error,
        Err(other) => other,
    }
}

pub(super) fn to_bool(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some([value]) = on.exactly(call, scope) else { return Value::Error };
    match &value {
        Value::String(text) if text.eq_ignore_ascii_case(b"true") => Value::Boolean(true),
        Value::String(text) if text.eq_ignore_ascii_case(b"false") => Value::Boolean(false),
        Value::Undefined | Value::String(_) => Value::Undefined,
        Value::RelTime(seconds) => Value::Boolean(convert::small(*seconds) != 0),
        other => other.as_condition().map_or(Value::Error, Value::Boolean),
    }
}

/// Gives its argument: there is no log that it could write to.
pub(super) fn debug(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    on.exactly(call, scope).map_or(Value::Error, |[value]| value)
}

/// No home folder is looked up: the default is given where there is one, and undefined elsewhere.
pub(super) fn user_home(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some(args) = on.between(call, scope, 1, 2) else { return Value::Error };
    match args.as_slice() {
        [_, default @ Value::String(text)] if !text.is_empty() => default.clone(),
        [Value::String(_) | Value::Undefined, ..] => Value::Undefined,
        _ => Value::Error,
    }
}

/// There are no maps of users: the default is given where there is one, and undefined elsewhere.
pub(super) fn user_map(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some(args) = on.between(call, scope, 2, 4) else { return Value::Error };
    let default = args.get(3).cloned().unwrap_or(Value::Undefined);
    let is_error = args.iter().take(2).any(Value::is_error);
    if is_error { Value::Error } else { default }
}
