//! Regular expressions. They are matched in a time that grows with the text, whatever the pattern:
//! what cannot be matched so (backreferences, looking ahead or behind) is an error.

use crate::eval::{Evaluator, Scope};
use crate::expr::{Call, Expr};
use crate::limits::MAX_PATTERN_BYTES;
use crate::value::{Text, Value};
use regex::bytes::{Regex, RegexBuilder};
use std::fmt::Write as _;

/// Letters of a pattern that a message shows.
const SHOWN_PATTERN: usize = 60;

/// What letters after the pattern ask for; others say nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a letter that people write")]
pub(super) struct Options {
    caseless: bool,
    multiline: bool,
    dot_all: bool,
    extended: bool,
    /// The whole text, with what was found replaced.
    full: bool,
    /// All that is found, not the first alone.
    global: bool,
}

impl Options {
    pub(super) fn read(letters: &[u8]) -> Options {
        let has = |letter: u8| letters.contains(&letter);
        Options {
            caseless: has(b'i'),
            multiline: has(b'm'),
            dot_all: has(b's'),
            extended: has(b'x'),
            full: has(b'f'),
            global: has(b'g'),
        }
    }
}

pub(super) fn compile(pattern: &[u8], options: Options) -> Option<Regex> {
    build(pattern, options).ok()
}

/// The error says what is wrong, on one line.
fn build(pattern: &[u8], options: Options) -> Result<Regex, String> {
    let pattern = translated(pattern).ok_or("a backslash or a bracket in it has no end")?;
    let built = RegexBuilder::new(&pattern)
        .unicode(false)
        .case_insensitive(options.caseless)
        .multi_line(options.multiline)
        .dot_matches_new_line(options.dot_all)
        .ignore_whitespace(options.extended)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES)
        .build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "it is too large".into(),
        // Several lines, that show the place; the last says what is wrong.
        other => {
            let text = other.to_string();
            let last = text.lines().last().unwrap_or_default();
            last.trim_start_matches("error: ").to_owned()
        }
    })
}

/// What is wrong with the pattern of a call, where it is a literal.
pub(crate) fn bad_pattern(call: &Call) -> Option<String> {
    const OPTIONS_AT: [(&str, usize); 6] = [
        ("regexp", 2),
        ("regexpMember", 2),
        ("regexps", 3),
        ("replace", 3),
        ("replaceAll", 3),
        ("stringList_regexpMember", 3),
    ];
    let (_, options_at) = OPTIONS_AT.iter().find(|(name, _)| call.name.is(name))?;
    let Some(Expr::Literal(Value::String(pattern))) = call.args.first() else { return None };
    let options = match call.args.get(*options_at) {
        Some(Expr::Literal(Value::String(letters))) => Options::read(&letters.to_ascii_lowercase()),
        _ => Options::default(),
    };
    let wrong = build(pattern, options).err()?;
    let shown: String = String::from_utf8_lossy(pattern).chars().take(SHOWN_PATTERN).collect();
    Some(format!("the pattern {} cannot be used: {wrong}", shown.escape_debug()))
}

/// A brace that begins no count means itself, as in Perl; here it has to be said. Bytes that are
/// no text are written as numbers.
fn translated(pattern: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(pattern.len());
    let (mut at, mut in_class) = (0, false);
    while let Some(byte) = pattern.get(at) {
        at += 1;
        match byte {
            b'\\' => {
                let next = *pattern.get(at)?;
                at += 1;
                text.push('\\');
                if next.is_ascii() { text.push(char::from(next)) } else { return None }
            }
            b'[' if in_class => {
                let is_named = pattern.get(at) == Some(&b':');
                text.push_str(if is_named { "[" } else { "\\[" });
                if is_named {
                    let end = pattern[at..].windows(2).position(|pair| pair == b":]")?;
                    let named = &pattern[at..at + end + 2];
                    text.push_str(std::str::from_utf8(named).ok()?);
                    at += end + 2;
                }
            }
            b'[' => {
                in_class = true;
                text.push('[');
                if pattern.get(at) == Some(&b'^') {
                    text.push('^');
                    at += 1;
                }
                // A bracket that comes first means itself.
                if pattern.get(at) == Some(&b']') {
                    text.push_str("\\]");
                    at += 1;
                }
            }
            b']' => {
                in_class = false;
                text.push(']');
            }
            // These have a meaning in classes that Perl does not give them.
            b'&' | b'~' if in_class => {
                text.push('\\');
                text.push(char::from(*byte));
            }
            b'{' if !in_class && !begins_count(&pattern[at..]) => text.push_str("\\{"),
            byte if byte.is_ascii() => text.push(char::from(*byte)),
            byte => {
                let _ = write!(text, "\\x{byte:02X}");
            }
        }
    }
    Some(text)
}

/// `3}`, `3,}` or `3,5}`.
fn begins_count(rest: &[u8]) -> bool {
    let digits = |from: usize| rest[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let first = digits(0);
    match rest.get(first) {
        Some(b'}') => first > 0,
        Some(b',') => first > 0 && rest.get(first + 1 + digits(first + 1)) == Some(&b'}'),
        _ => false,
    }
}

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

/// The pattern of a call, built once where it is a literal and has no options.
fn pattern_of<'c>(
    call: &'c Call,
    text: &Text,
    options: Options,
    own: &'c mut Option<Regex>,
) -> Option<&'c Regex> {
    let is_plain = options == Options::default();
    if is_plain && matches!(call.args[0], Expr::Literal(_)) {
        return call.pattern.get_or_init(|| compile(text, options)).as_ref();
    }
    *own = compile(text, options);
    own.as_ref()
}

pub(super) fn regexp(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let asked = match asked(on, call, scope, 2) {
        Ok(asked) => asked,
        Err(other) => return other,
    };
    let [Value::String(pattern), Value::String(text)] = asked.values.as_slice() else {
        return Value::Error;
    };
    let mut own = None;
    let pattern = pattern_of(call, pattern, Options::read(&asked.options), &mut own);
    pattern.map_or(Value::Error, |pattern| Value::Boolean(is_match(pattern, text)))
}

/// `$` stands before a newline that ends the text too, as in Perl.
fn is_match(pattern: &Regex, text: &[u8]) -> bool {
    let without = text.strip_suffix(b"\n").filter(|_| pattern.as_str().contains('$'));
    pattern.is_match(text) || without.is_some_and(|without| pattern.is_match(without))
}

pub(super) fn regexp_member(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let asked = match asked(on, call, scope, 2) {
        Ok(asked) => asked,
        Err(other) => return other,
    };
    let [Value::String(pattern), Value::List(list)] = asked.values.as_slice() else {
        return Value::Error;
    };
    let mut own = None;
    let pattern = pattern_of(call, pattern, Options::read(&asked.options), &mut own);
    let mut result = Value::Boolean(false);
    for item in on.items(list, scope) {
        match item {
            Value::String(text) if pattern.is_some_and(|pattern| is_match(pattern, &text)) => {
                return Value::Boolean(true);
            }
            Value::String(_) => {}
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
    let Some(pattern) = compile(pattern, options) else { return Value::Error };
    let (mut output, mut at) = (Vec::new(), 0);
    while let Some(found) = pattern.captures_at(text, at) {
        let whole = found.get(0).expect("the whole is the first of them");
        if options.full {
            output.extend_from_slice(&text[at..whole.start()]);
        }
        // Groups after the last one that took part are not there at all.
        let groups = (0..found.len()).rev().find(|group| found.get(*group).is_some()).unwrap_or(0);
        if append_replacement(&mut output, with, |group| {
            (group <= groups).then(|| found.get(group).map_or(&b""[..], |part| part.as_bytes()))
        })
        .is_none()
            || !on.may_make(with.len() + whole.len() + 1)
        {
            return Value::Error;
        }
        at = whole.end();
        if !options.global {
            break;
        }
        if whole.is_empty() {
            // HTCondor's engine goes beyond the end here, and gives an error.
            let Some(byte) = text.get(at) else { return Value::Error };
            output.push(*byte);
            at += 1;
        }
    }
    if options.full {
        output.extend_from_slice(&text[at..]);
    }
    on.made(output)
}

/// `None`: it names a group that is not there.
fn append_replacement<'t>(
    output: &mut Vec<u8>,
    with: &[u8],
    group: impl Fn(usize) -> Option<&'t [u8]>,
) -> Option<()> {
    let mut at = 0;
    while let Some(byte) = with.get(at) {
        at += 1;
        match (byte, with.get(at)) {
            (b'\\', Some(digit)) if digit.is_ascii_digit() => {
                output.extend_from_slice(group(usize::from(digit - b'0'))?);
                at += 1;
            }
            _ => output.push(*byte),
        }
    }
    Some(())
}
