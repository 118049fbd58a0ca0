//! Regular expressions. They are matched in a time that grows with the text, whatever the pattern:
//! what cannot be matched so (backreferences, looking ahead or behind) is an error.
//!
//! How a pattern is built, and what that costs, is in `patterns.rs`.

use super::patterns::{Options, Pattern, built_once};
use crate::eval::{Evaluator, Scope};
use crate::expr::Call;
use crate::value::Value;
use std::sync::Arc;

/// The arguments as texts and the options after them: error before undefined, as HTCondor has it.
struct Asked {
    values: Vec<Value>,
    options: Vec<u8>,
}

fn asked(on: &mut Evaluator<'_>, call: &Call, scope: &Scope, count: usize) -> Result<Asked, Value> {
    let Some(mut values) = on.between(call, scope, count, count + 1) else {
        return Err(Value::Error);
    };
    if values.iter().any(Value::is_error) {
        return Err(Value::Error);
    }
    if values.iter().any(Value::is_undefined) {
        return Err(Value::Undefined);
    }
    let options = match values.get(count) {
        None => Vec::new(),
        Some(Value::String(options)) => options.to_vec(),
        Some(_) => return Err(Value::Error),
    };
    values.truncate(count);
    Ok(Asked { values, options })
}

/// The pattern of a call with these options.
fn pattern_of(
    on: &mut Evaluator<'_>,
    call: &Call,
    text: &Value,
    options: Options,
) -> Option<Arc<Pattern>> {
    let Value::String(text) = text else { return None };
    if options.are_plain() && call.has_literal_pattern() {
        return built_once(on, call, text);
    }
    on.pattern(text, options)
}

pub(super) fn regexp(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let asked = match asked(on, call, scope, 2) {
        Ok(asked) => asked,
        Err(other) => return other,
    };
    let [pattern @ Value::String(_), Value::String(text)] = asked.values.as_slice() else {
        return Value::Error;
    };
    let pattern = pattern_of(on, call, pattern, Options::read(&asked.options));
    pattern.map_or(Value::Error, |pattern| Value::Boolean(is_match(on, &pattern, text)))
}

/// `$` stands before a newline that ends the text too, as in Perl.
fn is_match(on: &mut Evaluator<'_>, pattern: &Pattern, text: &[u8]) -> bool {
    let without = text.strip_suffix(b"\n").filter(|_| pattern.has_end());
    on.is_match(pattern, text) || without.is_some_and(|without| on.is_match(pattern, without))
}

pub(super) fn regexp_member(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let asked = match asked(on, call, scope, 2) {
        Ok(asked) => asked,
        Err(other) => return other,
    };
    let [pattern @ Value::String(_), Value::List(list)] = asked.values.as_slice() else {
        return Value::Error;
    };
    let pattern = pattern_of(on, call, pattern, Options::read(&asked.options));
    let mut result = Value::Boolean(false);
    for item in on.items(list, scope) {
        match item {
            Value::String(text) => {
                if pattern.as_ref().is_some_and(|pattern| is_match(on, pattern, &text)) {
                    return Value::Boolean(true);
                }
            }
            Value::Undefined => result = Value::Undefined,
            _ => return Value::Error,
        }
    }
    result
}

pub(super) fn regexps(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    substituted(on, call, scope, b"")
}
pub(super) fn replace(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    substituted(on, call, scope, b"f")
}
pub(super) fn replace_all(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    substituted(on, call, scope, b"fg")
}

fn substituted(on: &mut Evaluator<'_>, call: &Call, scope: &Scope, more: &[u8]) -> Value {
    let asked = match asked(on, call, scope, 3) {
        Ok(asked) => asked,
        Err(other) => return other,
    };
    let [Value::String(pattern), Value::String(text), Value::String(with)] =
        asked.values.as_slice()
    else {
        return Value::Error;
    };
    let options = Options::read(&[&asked.options, more].concat());
    let Some(pattern) = on.pattern(pattern, options) else { return Value::Error };
    let output = replaced(on, &pattern, text, with, options);
    output.map_or(Value::Error, |output| on.made(output))
}

/// `None`: an error, or more than there is room for.
fn replaced(
    on: &mut Evaluator<'_>,
    pattern: &Pattern,
    text: &[u8],
    with: &[u8],
    options: Options,
) -> Option<Vec<u8>> {
    let (mut output, mut at) = (Vec::new(), 0);
    while let Some(found) = on.captures_at(pattern, text, at) {
        let whole = found.get(0)?;
        if options.full {
            output.extend_from_slice(text.get(at..whole.start())?);
        }
        // Groups after the last one that took part are not there at all.
        let groups = (0..found.len()).rev().find(|group| found.get(*group).is_some()).unwrap_or(0);
        append_replacement(&mut output, with, |group| {
            (group <= groups).then(|| found.get(group).map_or(&b""[..], |part| part.as_bytes()))
        })?;
        if !on.may_make(with.len().saturating_add(whole.len()).saturating_add(1)) {
            return None;
        }
        at = whole.end();
        if !options.global {
            break;
        }
        if whole.is_empty() {
            // HTCondor's engine goes beyond the end here, and gives an error.
            output.push(*text.get(at)?);
            at = at.saturating_add(1);
        }
    }
    if options.full {
        output.extend_from_slice(text.get(at..)?);
    }
    Some(output)
}

/// `None`: it names a group that is not there.
fn append_replacement<'t>(
    output: &mut Vec<u8>,
    with: &[u8],
    group: impl Fn(usize) -> Option<&'t [u8]>,
) -> Option<()> {
    let mut rest = with;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after.split_first()) {
            (b'\\', Some((digit @ b'0'..=b'9', after))) => {
                output.extend_from_slice(group(usize::from(digit.saturating_sub(b'0')))?);
                rest = after;
            }
            _ => output.push(*byte),
        }
    }
    Some(())
}
