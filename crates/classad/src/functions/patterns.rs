//! Patterns of regular expressions: how they are read and built, and what that costs.
//!
//! Building one costs more than anything else in an expression, and matching grows with its size;
//! both are counted in the evaluation's steps. One that was built is kept until its end.

use crate::eval::Evaluator;
use crate::expr::{Call, Expr};
use crate::limits::{MAX_KEPT_PATTERN_BYTES, MAX_PATTERN_BYTES};
use crate::value::{Text, Value};
use regex::bytes::{Captures, Regex, RegexBuilder};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Letters of a pattern that a message shows.
const SHOWN_PATTERN: usize = 60;
/// Sizes of automata that are tried one after the other: the first that holds a pattern is what it
/// counts for. The library does not say how large one is, but stops where it grows beyond.
const SIZES: [usize; 4] = [LEAST_SIZE, MAX_KEPT_PATTERN_BYTES, 64 << 10, MAX_PATTERN_BYTES];
/// What one may learn about its texts while they are looked through, for each byte it takes.
const LEARNT_PER_BYTE: usize = 4;
const LEAST_SIZE: usize = 4 << 10;
/// Bytes of an automaton that are built in about the time of one step.
const BUILT_PER_STEP: usize = 16;
/// Bytes of a text that the smallest automaton is sure to go by in about the time of one step. A
/// larger one may have to follow as many more states for each of them.
const MATCHED_PER_STEP: usize = 4;
/// Patterns that are kept in one evaluation; beyond it all are forgotten. Each may hold half a
/// megabyte of what it has learnt about its texts.
const MAX_KEPT: usize = 16;

/// What letters after the pattern ask for; others say nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::struct_excessive_bools, reason = "each is a letter that people write")]
pub(super) struct Options {
    caseless: bool,
    multiline: bool,
    dot_all: bool,
    extended: bool,
    /// The whole text, with what was found replaced.
    pub(super) full: bool,
    /// All that is found, not the first alone.
    pub(super) global: bool,
    /// Not as Perl reads it: the library's own way.
    as_it_is: bool,
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
            as_it_is: false,
        }
    }

    /// Of names of attributes.
    pub(super) fn of_names() -> Options {
        Options { caseless: true, as_it_is: true, ..Options::default() }
    }

    pub(super) fn are_plain(self) -> bool {
        self == Options::default()
    }
}

/// A pattern that can be matched.
#[derive(Debug)]
pub(crate) struct Pattern {
    regex: Regex,
    /// What its automaton takes at most.
    size: usize,
}

impl Pattern {
    /// Whether it asks for the end of the text.
    pub(super) fn has_end(&self) -> bool {
        self.regex.as_str().contains('$')
    }
}

/// Those that were built in one evaluation; `None` for a text that is no pattern.
#[derive(Debug, Default)]
pub(crate) struct Patterns(BTreeMap<(Text, Options), Option<Arc<Pattern>>>);

impl Evaluator<'_> {
    /// The pattern of a text. Built once in an evaluation, and paid for then.
    pub(super) fn pattern(&mut self, text: &Text, options: Options) -> Option<Arc<Pattern>> {
        let key = (Text::clone(text), options);
        if let Some(known) = self.patterns.0.get(&key) {
            return known.clone();
        }
        let built = self.build(text, options);
        if self.patterns.0.len() >= MAX_KEPT {
            self.patterns.0.clear();
        }
        self.patterns.0.insert(key, built.clone());
        built
    }

    fn build(&mut self, text: &[u8], options: Options) -> Option<Arc<Pattern>> {
        let reading = text.len().saturating_add(LEAST_SIZE / BUILT_PER_STEP);
        if !self.spend_each(reading) {
            return None;
        }
        let built = build(text, options);
        // What was too large was built up to there.
        let size = built.as_ref().map_or(MAX_PATTERN_BYTES, |built| built.size);
        let is_readable = !matches!(&built, Err(wrong) if wrong != TOO_LARGE);
        if is_readable && !self.spend_each(size.saturating_sub(LEAST_SIZE) / BUILT_PER_STEP) {
            return None;
        }
        built.ok().map(Arc::new)
    }

    pub(super) fn is_match(&mut self, pattern: &Pattern, text: &[u8]) -> bool {
        self.spend_match(pattern, text.len()) && pattern.regex.is_match(text)
    }

    pub(super) fn captures_at<'t>(
        &mut self,
        pattern: &Pattern,
        text: &'t [u8],
        at: usize,
    ) -> Option<Captures<'t>> {
        // It may look at all that is left, and find something at its beginning.
        let may = at <= text.len() && self.spend_match(pattern, text.len().saturating_sub(at));
        if may { pattern.regex.captures_at(text, at) } else { None }
    }

    fn spend_match(&mut self, pattern: &Pattern, bytes: usize) -> bool {
        let times = (pattern.size / LEAST_SIZE).max(1);
        self.spend_each((bytes / MATCHED_PER_STEP).saturating_add(1).saturating_mul(times))
    }
}

impl Call {
    pub(super) fn has_literal_pattern(&self) -> bool {
        matches!(self.args.first(), Some(Expr::Literal(_)))
    }
}

/// The pattern of a call whose first argument is a literal: built once for all evaluations, and
/// paid for by the first, unless `prepare` did it before. Not one that is large: thousands of
/// expressions with such are in memory.
pub(super) fn built_once(on: &mut Evaluator<'_>, call: &Call, text: &Text) -> Option<Arc<Pattern>> {
    if let Some(known) = call.pattern.get() {
        return known.clone();
    }
    let built = on.pattern(text, Options::default());
    if is_kept(built.as_ref()) {
        let _ = call.pattern.set(built.clone());
    }
    built
}

fn is_kept(built: Option<&Arc<Pattern>>) -> bool {
    built.is_some_and(|built| built.size <= MAX_KEPT_PATTERN_BYTES)
}

/// Builds the literal patterns of an expression that is evaluated many times, so that all its
/// evaluations cost the same. In how many steps.
pub fn prepare(expr: &Expr) -> u64 {
    let mut steps = 0_usize;
    crate::references::calls(expr, &mut |call| {
        let is_pattern = ["regexp", "regexpMember"].iter().any(|name| call.name.is(name));
        if let (true, Some(Expr::Literal(Value::String(text)))) = (is_pattern, call.args.first()) {
            let built = build(text, Options::default()).ok().map(Arc::new);
            let size = built.as_ref().map_or(MAX_PATTERN_BYTES, |built| built.size);
            steps = steps.saturating_add(text.len()).saturating_add(size / BUILT_PER_STEP);
            if is_kept(built.as_ref()) {
                let _known = call.pattern.set(built);
            }
        }
    });
    u64::try_from(steps).unwrap_or(u64::MAX)
}

#[cfg(test)]
thread_local! {
    /// How often an automaton was built on this thread, and how large those may have become.
    static BUILDS: std::cell::Cell<(u64, u64)> = const { std::cell::Cell::new((0, 0)) };
}

#[cfg(test)]
fn note_build(size: usize) {
    let (count, bytes) = BUILDS.get();
    BUILDS.set((count + 1, bytes + size as u64));
}

#[cfg(test)]
pub(super) fn builds() -> (u64, u64) {
    BUILDS.get()
}

const TOO_LARGE: &str = "it is too large";

/// The error says what is wrong, on one line.
fn build(pattern: &[u8], options: Options) -> Result<Pattern, String> {
    let pattern = if options.as_it_is {
        String::from_utf8_lossy(pattern).into_owned()
    } else {
        translated(pattern).ok_or("a backslash or a bracket in it has no end")?
    };
    for size in SIZES {
        let built = RegexBuilder::new(&pattern)
            .unicode(false)
            .case_insensitive(options.caseless)
            .multi_line(options.multiline)
            .dot_matches_new_line(options.dot_all)
            .ignore_whitespace(options.extended)
            .size_limit(size)
            .dfa_size_limit(LEARNT_PER_BYTE * size)
            .build();
        #[cfg(test)]
        note_build(size);
        match built {
            Ok(regex) => return Ok(Pattern { regex, size }),
            Err(regex::Error::CompiledTooBig(_)) => {}
            // Several lines, that show the place; the last says what is wrong.
            Err(other) => {
                let text = other.to_string();
                let last = text.lines().last().unwrap_or_default();
                return Err(last.trim_start_matches("error: ").to_owned());
            }
        }
    }
    Err(TOO_LARGE.to_owned())
}

/// What is wrong with the pattern of a call, where it is a literal. `room` is what all patterns of
/// an expression may still take together.
pub(crate) fn bad_pattern(call: &Call, room: &mut usize) -> Option<String> {
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
    let wrong = match build(pattern, options) {
        Ok(built) => {
            if let Some(left) = room.checked_sub(built.size) {
                *room = left;
                return None;
            }
            "the patterns together are too large".to_owned()
        }
        Err(wrong) => wrong,
    };
    let shown: String = String::from_utf8_lossy(pattern).chars().take(SHOWN_PATTERN).collect();
    Some(format!("the pattern {} cannot be used: {wrong}", shown.escape_debug()))
}

/// A brace that begins no count means itself, as in Perl; here it has to be said. Bytes that are
/// no text are written as numbers.
fn translated(pattern: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(pattern.len());
    let (mut at, mut in_class) = (0, false);
    while let Some(byte) = pattern.get(at) {
        at = at.saturating_add(1);
        match byte {
            b'\\' => {
                let next = *pattern.get(at)?;
                at = at.saturating_add(1);
                text.push('\\');
                if next.is_ascii() { text.push(char::from(next)) } else { return None }
            }
            b'[' if in_class => {
                let is_named = pattern.get(at) == Some(&b':');
                text.push_str(if is_named { "[" } else { "\\[" });
                if is_named {
                    let rest = pattern.get(at..)?;
                    let end = rest.windows(2).position(|pair| pair == b":]")?.saturating_add(2);
                    text.push_str(std::str::from_utf8(rest.get(..end)?).ok()?);
                    at = at.saturating_add(end);
                }
            }
            b'[' => {
                in_class = true;
                text.push('[');
                if pattern.get(at) == Some(&b'^') {
                    text.push('^');
                    at = at.saturating_add(1);
                }
                // A bracket that comes first means itself.
                if pattern.get(at) == Some(&b']') {
                    text.push_str("\\]");
                    at = at.saturating_add(1);
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
            b'{' if !in_class && !begins_count(pattern.get(at..)?) => text.push_str("\\{"),
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
    let after_digits =
        |text: &'_ [u8]| -> Option<usize> { text.iter().position(|byte| !byte.is_ascii_digit()) };
    let Some(digits @ 1..) = after_digits(rest) else { return false };
    match rest.get(digits..).unwrap_or_default() {
        [b'}', ..] => true,
        [b',', most @ ..] => after_digits(most).and_then(|end| most.get(end)) == Some(&b'}'),
        _ => false,
    }
}
