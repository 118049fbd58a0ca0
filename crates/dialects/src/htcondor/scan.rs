//! Finding the next macro in a text. What it stands for is said elsewhere.

use super::error::Wrong;
use super::limits::{MAX_VALUE_WORK, MAX_WORK};
use std::cell::Cell;

/// Counts the bytes looked at, and says when it is enough.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meter<'a> {
    work: &'a Cell<u64>,
    stop: u64,
}

impl<'a> Meter<'a> {
    /// For one value, with all the values that stand in it.
    pub(super) fn new(work: &'a Cell<u64>) -> Self {
        Meter { work, stop: (work.get() + MAX_VALUE_WORK).min(MAX_WORK) }
    }

    pub(super) fn charge(&self, bytes: usize) {
        self.work.set(self.work.get() + bytes as u64);
    }

    fn is_over(&self) -> bool {
        self.work.get() > self.stop
    }

    /// What was not found may be there, once it is over.
    pub(super) fn check(&self, what: &str) -> Result<(), Wrong> {
        if self.is_over() { Err(Wrong::Endless(what.into())) } else { Ok(()) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    /// `$(name)`
    Value,
    Env,
    RandomChoice,
    RandomInteger,
    Choice,
    Substr,
    Int,
    Real,
    Text,
    Eval,
    Basename,
    Dirname,
    /// `$F…(name)`, with its letters in the text.
    File,
}

const NAMES: [(&str, Function); 11] = [
    ("ENV", Function::Env),
    ("RANDOM_CHOICE", Function::RandomChoice),
    ("RANDOM_INTEGER", Function::RandomInteger),
    ("CHOICE", Function::Choice),
    ("SUBSTR", Function::Substr),
    ("INT", Function::Int),
    ("REAL", Function::Real),
    ("STRING", Function::Text),
    ("EVAL", Function::Eval),
    ("BASENAME", Function::Basename),
    ("DIRNAME", Function::Dirname),
];

/// Letters that may follow `$F`.
const FILE_LETTERS: &[u8] = b"pnxdqabfwu";
/// What may stand in a default beside the letters of a name.
const IN_DEFAULT: &[u8] = b"$ ,\\:";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found<'a> {
    pub(super) function: Function,
    /// The letters between `$` and `(`.
    pub(super) letters: &'a str,
    /// Up to `:` where a default is possible, else all that stands in the brackets.
    pub(super) name: &'a str,
    pub(super) default: Option<&'a str>,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The first macro from `from` on that is not to be skipped. `unclosed` is where the first `$`
/// stands that was no macro as things are, but may become one. Each byte looked at is
/// counted; nothing more is found once it is over.
#[expect(clippy::string_slice, reason = "cut at brackets, dollars and colons, of a byte each")]
pub(super) fn next_macro<'a>(
    text: &'a str,
    from: usize,
    meter: Meter<'_>,
    skip: impl Fn(&Found<'a>) -> bool,
    unclosed: &mut Option<usize>,
) -> Option<Found<'a>> {
    let bytes = text.as_bytes();
    let mut at = from;
    while !meter.is_over() {
        let dollar = at + bytes.get(at..)?.iter().position(|byte| *byte == b'$')?;
        meter.charge(dollar - at + 1);
        let machine = bytes.get(dollar + 1) == Some(&b'$');
        let letters = dollar + 1 + usize::from(machine);
        let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let open = letters + bytes.iter().skip(letters).take_while(|byte| is_letter(byte)).count();
        at = open;
        let function = function(&text[letters..open]);
        let (Some(b'('), false, Some(function)) = (bytes.get(open), machine, function) else {
            continue;
        };
        at = open + 1;
        let body = open + 1;
        match close(bytes, body, function, meter) {
            Some((right, colon)) => {
                let found = Found {
                    function,
                    letters: &text[letters..open],
                    name: &text[body..colon.unwrap_or(right)],
                    default: colon.map(|colon| &text[colon + 1..right]),
                    start: dollar,
                    end: right + 1,
                };
                if !skip(&found) {
                    return Some(found);
                }
                at = right;
            }
            None => {
                unclosed.get_or_insert(dollar);
            }
        }
    }
    None
}

fn function(letters: &str) -> Option<Function> {
    if letters.is_empty() {
        return Some(Function::Value);
    }
    let of_file = |byte: u8| FILE_LETTERS.contains(&byte.to_ascii_lowercase());
    if letters.strip_prefix('F').is_some_and(|rest| rest.bytes().all(of_file)) {
        return Some(Function::File);
    }
    NAMES.iter().find(|(name, _)| *name == letters).map(|(_, function)| *function)
}

/// Where the closing bracket is, and the colon before a default; `None` when it is no macro.
fn close(
    bytes: &[u8],
    body: usize,
    function: Function,
    meter: Meter<'_>,
) -> Option<(usize, Option<usize>)> {
    let plain = matches!(function, Function::Value | Function::Env);
    let mut colon = None;
    let mut at = body;
    let end = loop {
        match (*bytes.get(at).unwrap_or(&0), colon) {
            (0, _) => break None,
            (b')', _) => break Some((at, colon)),
            _ if !plain => {}
            (b':', None) => colon = Some(at),
            // A default may have brackets of its own.
            (b'(', Some(_)) => {
                let Some(length) = bytes.iter().skip(at).position(|byte| *byte == b')') else {
                    meter.charge(bytes.len() - at);
                    break None;
                };
                at += length;
            }
            (byte, Some(_)) if IN_DEFAULT.contains(&byte) => {}
            (byte, _) if byte.is_ascii_alphanumeric() || b"_./".contains(&byte) => {}
            _ => break None,
        }
        at += 1;
    };
    meter.charge(at - body);
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(text: &str) -> Option<(Function, &str, Option<&str>)> {
        let found = {
            let work = Cell::new(0);
            next_macro(text, 0, Meter::new(&work), |_| false, &mut None)?
        };
        Some((found.function, found.name, found.default))
    }

    #[test]
    fn what_is_a_macro_and_what_is_not() {
        use Function::{File, Int, Value};
        assert_eq!(first("a $(b.c) d"), Some((Value, "b.c", None)));
        assert_eq!(first("$(b:x, y\\z:w)"), Some((Value, "b", Some("x, y\\z:w"))));
        assert_eq!(first("$(no:(a b))"), Some((Value, "no", Some("(a b)"))));
        assert_eq!(first("$(a$(b))"), Some((Value, "b", None)), "the inner one first");
        assert_eq!(first("$INT(x y,%d)"), Some((Int, "x y,%d", None)));
        assert_eq!(first("$Fpnx(x)"), Some((File, "x", None)));
        for text in ["$$(Memory)", "$x", "$(a b)", "$(a", "$Foo(x)", "$int(x)", "$", "$("] {
            assert_eq!(first(text), None, "{text}");
        }
    }
}
