//! Functions over texts.

use crate::byte_set::ByteSet;
use crate::convert::{length, wrapped};
use crate::eval::{Evaluator, Scope};
use crate::expr::Call;
use crate::value::{Text, Value};

pub(super) fn strcat(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let mut text = Vec::new();
    for arg in &call.args {
        let value = on.arg(arg, scope);
        match on.text_of(&value) {
            Ok(part) if on.may_make(part.len()) => text.extend_from_slice(&part),
            Ok(_) => return Value::Error,
            Err(other) => return other,
        }
    }
    text.into()
}

/// `join(separator, text…)`, `join(separator, list)` or `join(list)`. What is undefined is left
/// out; the whole is undefined when nothing else is there.
pub(super) fn join(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let mut values: Vec<Value> = call.args.iter().map(|arg| on.arg(arg, scope)).collect();
    if let (1 | 2, Some(Value::List(list))) = (values.len(), values.last()) {
        let items = on.items(&list.clone(), scope);
        values.pop();
        if values.is_empty() {
            values.push(Value::text(""));
        }
        values.extend(items);
    }
    let (mut separator, mut text): (Text, Vec<u8>) = (Text::default(), Vec::new());
    let (mut is_undefined, mut is_defined) = (false, false);
    for (at, value) in values.iter().enumerate() {
        let part = match on.text_of(value) {
            Ok(part) => part,
            Err(Value::Undefined) => {
                is_undefined = true;
                continue;
            }
            Err(_) => return Value::Error,
        };
        if at == 0 {
            separator = part;
            continue;
        }
        if !on.may_make(part.len().saturating_add(separator.len())) {
            return Value::Error;
        }
        if !text.is_empty() {
            text.extend_from_slice(&separator);
        }
        is_defined = true;
        text.extend_from_slice(&part);
    }
    if is_undefined && !is_defined { Value::Undefined } else { text.into() }
}

pub(super) fn to_upper(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    with_case(on, call, scope, <[u8]>::to_ascii_uppercase)
}

pub(super) fn to_lower(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    with_case(on, call, scope, <[u8]>::to_ascii_lowercase)
}

fn with_case(
    on: &mut Evaluator<'_>,
    call: &Call,
    scope: &Scope,
    change: fn(&[u8]) -> Vec<u8>,
) -> Value {
    let Some([value]) = on.exactly(call, scope) else { return Value::Error };
    on.text_of(&value).map_or_else(|other| other, |text| on.made(change(&text)))
}

/// Offsets and lengths below 0 count from the end, as in Perl.
pub(super) fn substr(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some(args) = on.between(call, scope, 2, 3) else { return Value::Error };
    if args.iter().any(Value::is_undefined) {
        return Value::Undefined;
    }
    let (text, offset, wanted) = match args.as_slice() {
        [Value::String(text), Value::Integer(offset)] => (text, offset, None),
        [Value::String(text), Value::Integer(offset), Value::Integer(wanted)] => {
            (text, offset, Some(i64::from(wrapped(*wanted))))
        }
        _ => return Value::Error,
    };
    let (whole, offset) = (length(text.len()), i64::from(wrapped(*offset)));
    let offset = if offset < 0 { whole.saturating_add(offset).max(0) } else { offset.min(whole) };
    let rest = whole.saturating_sub(offset);
    let count = match wanted {
        None => rest,
        Some(0) => 0,
        Some(wanted @ ..0) => rest.saturating_add(wanted).max(0),
        Some(wanted) => wanted.min(rest),
    };
    let (offset, count) = (usize::try_from(offset), usize::try_from(count));
    let (offset, count) = (offset.unwrap_or(0), count.unwrap_or(0));
    let part = text.get(offset..offset.saturating_add(count)).unwrap_or_default();
    on.made(part.to_vec())
}

pub(super) fn strcmp(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    compared(on, call, scope, Ord::cmp)
}

pub(super) fn stricmp(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    compared(on, call, scope, |left, right| {
        left.to_ascii_lowercase().cmp(&right.to_ascii_lowercase())
    })
}

fn compared(
    on: &mut Evaluator<'_>,
    call: &Call,
    scope: &Scope,
    compare: fn(&[u8], &[u8]) -> std::cmp::Ordering,
) -> Value {
    let Some([left, right]) = on.exactly(call, scope) else { return Value::Error };
    if left.is_undefined() || right.is_undefined() {
        return Value::Undefined;
    }
    match (on.text_of(&left), on.text_of(&right)) {
        (Ok(left), Ok(right)) => Value::Integer(i64::from(compare(&left, &right) as i8)),
        _ => Value::Error,
    }
}

/// At each of the separators; blanks beside one say nothing, two of them have an empty text
/// between them.
pub(super) fn split(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some(args) = on.between(call, scope, 1, 2) else { return Value::Error };
    let (text, separators) = match args.as_slice() {
        [Value::String(text)] => (text, ByteSet::of(b", \t")),
        [Value::String(text), Value::String(separators)] => (text, ByteSet::of(separators)),
        _ => return Value::Error,
    };
    let (mut parts, mut last) = (Vec::new(), None);
    let mut rest: &[u8] = text;
    while let Some(at) = rest.iter().position(|byte| separators.has(*byte)) {
        let (part, after) = rest.split_at(at);
        let Some((byte, after)) = after.split_first() else { break };
        rest = after;
        if !part.is_empty() {
            parts.push(Value::text(part));
        } else if last == Some(*byte) {
            parts.push(Value::text(""));
        }
        if !matches!(byte, b' ' | b'\t'..=b'\r') {
            last = Some(*byte);
        }
    }
    if !rest.is_empty() {
        parts.push(Value::text(rest));
    }
    on.made_list(text.len(), parts)
}

pub(super) fn split_user_name(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    split_at(on, call, scope, |whole| (whole, Value::text("")))
}

pub(super) fn split_slot_name(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    split_at(on, call, scope, |whole| (Value::text(""), whole))
}

fn split_at(
    on: &mut Evaluator<'_>,
    call: &Call,
    scope: &Scope,
    alone: fn(Value) -> (Value, Value),
) -> Value {
    let Some([Value::String(text)]) = on.exactly(call, scope) else { return Value::Error };
    let (first, second) = match text.iter().position(|byte| *byte == b'@') {
        Some(at) => {
            let (before, after) = text.split_at(at);
            (Value::text(before), Value::text(after.get(1..).unwrap_or_default()))
        }
        None => alone(Value::String(text)),
    };
    Value::list([first, second])
}
