//! Functions over arguments and environments as HTCondor writes them into one text.

use crate::convert::wrapped;
use crate::eval::{Evaluator, Scope};
use crate::expr::Call;
use crate::value::Value;
use std::collections::BTreeMap;

/// Words between blanks; single quotes hold blanks, two of them inside quotes are one.
/// `None`: a quote has no end.
fn words(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let is_quote = |byte: &u8| *byte == b'\'';
    let (mut words, mut word, mut rest) = (Vec::new(), None::<Vec<u8>>, text);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => words.extend(word.take()),
            b'\'' => {
                let word = word.get_or_insert_default();
                loop {
                    let (inside, after) = rest.split_at_checked(rest.iter().position(is_quote)?)?;
                    word.extend_from_slice(inside);
                    rest = after.strip_prefix(b"'")?;
                    let Some(after) = rest.strip_prefix(b"'") else { break };
                    word.push(b'\'');
                    rest = after;
                }
            }
            other => word.get_or_insert_default().push(*other),
        }
    }
    words.extend(word);
    Some(words)
}

/// The words of the older way of writing, which has no quotes.
fn plain_words(text: &[u8]) -> Vec<Vec<u8>> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    text.split(is_blank).filter(|word| !word.is_empty()).map(<[u8]>::to_vec).collect()
}

/// Blanks and quotes each in quotes; a quoted piece goes on where the one before ended.
fn append_word(output: &mut Vec<u8>, word: &[u8]) {
    if !output.is_empty() {
        output.push(b' ');
    }
    if word.is_empty() {
        output.extend_from_slice(b"''");
    }
    for byte in word {
        if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\'') {
            output.push(*byte);
            continue;
        }
        if output.last() == Some(&b'\'') {
            output.pop();
        } else {
            output.push(b'\'');
        }
        if *byte == b'\'' {
            output.push(b'\'');
        }
        output.push(*byte);
        output.push(b'\'');
    }
}

/// The first argument, and which way of writing the second asks for: 1 or 2.
fn value_and_way(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Option<(Value, bool)> {
    let args = on.between(call, scope, 1, 2)?;
    let is_old = match args.get(1) {
        None => false,
        Some(Value::Integer(way)) => match wrapped(*way) {
            1 => true,
            2 => false,
            _ => return None,
        },
        Some(_) => return None,
    };
    args.into_iter().next().map(|value| (value, is_old))
}

pub(super) fn args_to_list(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some((Value::String(text), is_old)) = value_and_way(on, call, scope) else {
        return Value::Error;
    };
    let words = if is_old { Some(plain_words(&text)) } else { words(&text) };
    let Some(words) = words else { return Value::Error };
    on.made_list(text.len(), words.into_iter().map(Value::from).collect())
}

pub(super) fn list_to_args(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some((Value::List(list), is_old)) = value_and_way(on, call, scope) else {
        return Value::Error;
    };
    let mut output = Vec::new();
    for item in on.items(&list, scope) {
        let Value::String(word) = item else { return Value::Error };
        let has_blanks = word.iter().any(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        if !on.may_make(word.len()) || is_old && has_blanks {
            return Value::Error;
        }
        if !is_old {
            append_word(&mut output, &word);
            continue;
        }
        if !output.is_empty() {
            output.push(b' ');
        }
        output.extend_from_slice(&word);
    }
    on.made(output)
}

/// `None` is a variable without `=` that holds a macro of a submit file: kept as it is.
type Environment = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

fn set(environment: &mut Environment, entry: &[u8]) -> Option<()> {
    match entry.iter().position(|byte| *byte == b'=') {
        Some(0) => None,
        Some(at) => {
            let (name, value) = entry.split_at_checked(at)?;
            environment.insert(name.to_vec(), Some(value.strip_prefix(b"=")?.to_vec()));
            Some(())
        }
        None if entry.windows(2).any(|pair| pair == b"$$") => {
            environment.insert(entry.to_vec(), None);
            Some(())
        }
        None => None,
    }
}

fn written(on: &mut Evaluator<'_>, environment: &Environment) -> Value {
    let mut output = Vec::new();
    for (name, value) in environment {
        let entry = match value {
            Some(value) => [name.as_slice(), b"=", value].concat(),
            None => name.clone(),
        };
        append_word(&mut output, &entry);
    }
    on.made(output)
}

pub(super) fn merge_environment(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let mut environment = Environment::new();
    for arg in &call.args {
        match on.arg(arg, scope) {
            Value::Undefined => {}
            Value::String(text) => {
                let entries = words(&text);
                // Each is put in its place among the others.
                on.spend_each(entries.as_ref().map_or(0, Vec::len));
                let merged = entries.and_then(|entries| {
                    entries.iter().try_for_each(|entry| set(&mut environment, entry))
                });
                if merged.is_none() {
                    return Value::Error;
                }
            }
            _ => return Value::Error,
        }
    }
    written(on, &environment)
}

/// Letters that, first in the text, say what stands between variables.
const SEPARATORS: &[u8] = b"!#$%&*+,-/:;<>?@^`|~\x1f";

pub(super) fn env_v1_to_v2(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let text = match on.exactly(call, scope) {
        Some([Value::Undefined]) => return Value::Undefined,
        Some([Value::String(text)]) => text,
        _ => return Value::Error,
    };
    let (separator, rest) = match text.split_first() {
        Some((first, rest)) if SEPARATORS.contains(first) => (*first, rest),
        _ => (b';', text.as_ref()),
    };
    let mut environment = Environment::new();
    let mut rest = rest;
    while !rest.is_empty() {
        // Blanks before a variable are none of its own, even where one of them is a separator.
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        rest = rest.get(blanks.count()..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == separator || *byte == b'\n');
        let (entry, after) = rest.split_at(end.unwrap_or(rest.len()));
        if !entry.is_empty() && (!on.spend(1) || set(&mut environment, entry).is_none()) {
            return Value::Error;
        }
        rest = after.get(1..).unwrap_or_default();
    }
    written(on, &environment)
}
