//! Functions over lists that are one text: `"a, b, c"`.

use super::patterns::Options;
use crate::byte_set::ByteSet;
use crate::convert::{leading_real, length, real, whole};
use crate::eval::{Evaluator, Scope};
use crate::expr::Call;
use crate::value::{Text, Value};

/// Parts between any of the separators, without the blanks around them; empty ones are none.
fn parts<'t>(text: &'t [u8], separators: &[u8]) -> impl Iterator<Item = &'t [u8]> + use<'t> {
    let blank = |byte: u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let separators = ByteSet::of(separators);
    let split = text.split(move |byte| separators.has(*byte)).map(move |part| {
        let mut part = part;
        while let Some((_, rest)) = part.split_first().filter(|(first, _)| blank(**first)) {
            part = rest;
        }
        while let Some((_, rest)) = part.split_last().filter(|(last, _)| blank(**last)) {
            part = rest;
        }
        part
    });
    split.filter(|part| !part.is_empty())
}

/// The list, and the separators: those given or `, `.
fn list_and_separators(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Option<(Text, Text)> {
    let args = on.between(call, scope, 1, 2)?;
    match args.as_slice() {
        [Value::String(list)] => Some((list.clone(), b", ".as_slice().into())),
        [Value::String(list), Value::String(separators)] => {
            Some((list.clone(), separators.clone()))
        }
        _ => None,
    }
}

pub(super) fn size(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let found = list_and_separators(on, call, scope);
    found.map_or(Value::Error, |(list, separators)| {
        Value::Integer(length(parts(&list, &separators).count()))
    })
}

/// The numbers, and whether one of them is real.
fn numbers(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Option<(Vec<f64>, bool)> {
    let (list, separators) = list_and_separators(on, call, scope)?;
    let (mut numbers, mut is_real) = (Vec::new(), false);
    for part in parts(&list, &separators) {
        numbers.push(leading_real(part)?);
        is_real |= !part.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-'));
    }
    Some((numbers, is_real))
}

fn number(value: f64, is_real: bool) -> Value {
    if is_real { Value::Real(value) } else { Value::Integer(whole(value)) }
}

pub(super) fn sum(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    match numbers(on, call, scope) {
        None => Value::Error,
        Some((numbers, _)) if numbers.is_empty() => Value::Real(0.0),
        Some((numbers, is_real)) => number(numbers.iter().sum(), is_real),
    }
}

pub(super) fn avg(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    match numbers(on, call, scope) {
        None => Value::Error,
        Some((numbers, _)) if numbers.is_empty() => Value::Real(0.0),
        Some((numbers, is_real)) => {
            let count = real(length(numbers.len()));
            number(numbers.iter().sum::<f64>() / count, is_real)
        }
    }
}

pub(super) fn min(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    bound(on, call, scope, f64::from(f32::MAX), |number, best| number < best)
}

/// Nothing is below the least positive number: HTCondor's engine begins there, not at the least.
pub(super) fn max(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    bound(on, call, scope, f64::from(f32::MIN_POSITIVE), |number, best| number > best)
}

fn bound(
    on: &mut Evaluator<'_>,
    call: &Call,
    scope: &Scope,
    start: f64,
    is_better: fn(f64, f64) -> bool,
) -> Value {
    match numbers(on, call, scope) {
        None => Value::Error,
        Some((numbers, _)) if numbers.is_empty() => Value::Undefined,
        Some((numbers, is_real)) => {
            let pick = |best, next| if is_better(next, best) { next } else { best };
            number(numbers.into_iter().fold(start, pick), is_real)
        }
    }
}

/// What is asked of a list, with the separators. Undefined counts as empty, unless both are.
fn asked(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Result<[Text; 3], Value> {
    let Some(args) = on.between(call, scope, 2, 3) else { return Err(Value::Error) };
    let text = |value: Option<&Value>, default: &[u8]| match value {
        None | Some(Value::Undefined) => Ok(default.into()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(Value::Error),
    };
    let asked =
        [text(args.first(), b"")?, text(args.get(1), b"")?, text(args.get(2), b", \t\r\n")?];
    if args.iter().take(2).all(Value::is_undefined) {
        return Err(Value::Undefined);
    }
    Ok(asked)
}

fn has<'t>(mut list: impl Iterator<Item = &'t [u8]>, wanted: &[u8], with_case: bool) -> bool {
    list.any(|part| if with_case { part == wanted } else { part.eq_ignore_ascii_case(wanted) })
}

fn is_member(on: &mut Evaluator<'_>, call: &Call, scope: &Scope, with_case: bool) -> Value {
    match asked(on, call, scope) {
        Err(other) => other,
        Ok([wanted, list, separators]) => {
            Value::Boolean(has(parts(&list, &separators), &wanted, with_case))
        }
    }
}

pub(super) fn member(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    is_member(on, call, scope, true)
}
pub(super) fn member_without_case(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    is_member(on, call, scope, false)
}

/// The empty text is part of every list; a text of blanks and separators alone is part of none.
fn is_subset(on: &mut Evaluator<'_>, call: &Call, scope: &Scope, with_case: bool) -> Value {
    let [wanted, list, separators] = match asked(on, call, scope) {
        Ok(asked) => asked,
        Err(other) => return other,
    };
    let mut is_subset = wanted.is_empty();
    for part in parts(&wanted, &separators) {
        is_subset = has(parts(&list, &separators), part, with_case);
        if !is_subset || !on.touch(list.len()) {
            break;
        }
    }
    Value::Boolean(is_subset)
}

pub(super) fn subset(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    is_subset(on, call, scope, true)
}
pub(super) fn subset_without_case(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    is_subset(on, call, scope, false)
}

/// Here the blanks around the parts count.
pub(super) fn intersect(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some(args) = on.between(call, scope, 2, 3) else { return Value::Error };
    if args.iter().any(Value::is_error) {
        return Value::Error;
    }
    if args.iter().any(Value::is_undefined) {
        return Value::Undefined;
    }
    let texts: Option<Vec<Text>> = args
        .iter()
        .map(|arg| if let Value::String(text) = arg { Some(text.clone()) } else { None })
        .collect();
    let Some(texts) = texts else { return Value::Error };
    let given = texts.get(2).filter(|given| !given.is_empty());
    let separators: &[u8] = given.map_or(b" ,", |given| given);
    let separators = ByteSet::of(separators);
    let split = |text: Option<&Text>| -> Vec<Vec<u8>> {
        let text: &[u8] = text.map_or(b"", |text| text);
        let parts = text.split(|byte| separators.has(*byte));
        parts.filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect()
    };
    let (first, mut second) = (split(texts.first()), split(texts.get(1)));
    // Each is sorted in or looked for.
    if !on.spend_each(first.len().saturating_add(second.len())) {
        return Value::Error;
    }
    second.sort_unstable();
    Value::Boolean(first.iter().any(|part| second.binary_search(part).is_ok()))
}

pub(super) fn regexp_member(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some(args) = on.between(call, scope, 2, 4) else { return Value::Error };
    let text = |at: usize, default: &str| match args.get(at) {
        None => Some(default.as_bytes().into()),
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => None,
    };
    let texts: [Option<Text>; 4] = [text(0, ""), text(1, ""), text(2, ", "), text(3, "")];
    let [Some(pattern), Some(list), Some(separators), Some(options)] = texts else {
        return Value::Error;
    };
    let options = Options::read(&options.to_ascii_lowercase());
    let Some(pattern) = on.pattern(&pattern, options) else { return Value::Error };
    let mut found = Value::Undefined;
    for part in parts(&list, &separators) {
        let is_match = on.is_match(&pattern, part);
        found = Value::Boolean(is_match || matches!(found, Value::Boolean(true)));
    }
    found
}
