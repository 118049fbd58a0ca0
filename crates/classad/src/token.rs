//! Tokens: what the text is made of, and what texts in quotes mean.

use crate::expr::Binary;
use std::borrow::Cow;

/// What stands in the text is borrowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Token<'a> {
    Integer(i64),
    Real(f64),
    Boolean(bool),
    String(RawText<'a>),
    Undefined,
    Error,
    Identifier(RawText<'a>),
    /// An operator between two things; `is` and `isnt` are two of them.
    Operator(Binary),
    /// Another sign, or the two of `?:` as `Elvis`.
    Sign(u8),
    Elvis,
    End,
}

/// A name, or a text in quotes, as it was written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RawText<'a> {
    pub(crate) raw: &'a [u8],
    /// The quotes around it, where it has to be read closer: it has backslashes, or is several
    /// texts after each other.
    pub(crate) quote: Option<u8>,
}

impl<'a> RawText<'a> {
    /// What it means; `None` when it says `\0`, which no text can hold.
    #[inline]
    pub(crate) fn meaning(self) -> Option<Cow<'a, [u8]>> {
        match self.quote {
            None => Some(Cow::Borrowed(self.raw)),
            Some(quote) => self.unquoted(quote),
        }
    }

    fn unquoted(self, quote: u8) -> Option<Cow<'a, [u8]>> {
        // Joined first: what a backslash begins may go on in the next text.
        let (mut joined, mut rest) = (Vec::with_capacity(self.raw.len()), self.raw);
        while let Some(end) = closing(rest, quote) {
            let (text, after) = rest.split_at_checked(end)?;
            joined.extend_from_slice(text);
            let after = after.get(1..)?;
            let opening = after.iter().position(|byte| *byte == quote)?;
            rest = after.get(opening + 1..)?;
        }
        joined.extend_from_slice(rest);
        unescape(&joined).map(Cow::Owned)
    }
}

impl Token<'_> {
    /// For error messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Token::Integer(number) => format!("the number {number}"),
            Token::Real(number) => format!("the number {number}"),
            Token::Boolean(is) => format!("`{is}`"),
            Token::String(_) => "a text".into(),
            Token::Undefined => "`undefined`".into(),
            Token::Error => "`error`".into(),
            Token::Identifier(name) => {
                let name = String::from_utf8_lossy(name.raw);
                let name: String = name.chars().take(40).collect();
                format!("`{}`", name.escape_debug())
            }
            Token::Operator(op) => format!("`{}`", op.old_text().trim()),
            Token::Sign(sign) => format!("`{}`", char::from(*sign)),
            Token::Elvis => "`?:`".into(),
            Token::End => "the end".into(),
        }
    }

    /// Whether a minus after it is an operator between two things.
    pub(crate) fn ends_operand(&self) -> bool {
        match self {
            Token::Sign(sign) => matches!(sign, b'.' | b']' | b')' | b'}'),
            Token::Operator(_) | Token::Elvis | Token::End => false,
            _ => true,
        }
    }
}

/// Where the text ends: at the first quote that has no backslash of its own before it.
pub(crate) fn closing(text: &[u8], quote: u8) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = text.get(at..)?;
        at += rest.iter().position(|byte| *byte == quote || matches!(byte, b'\\' | 0))?;
        match *text.get(at)? {
            0 => return None,
            b'\\' if text.get(at + 1) == Some(&0) => return None,
            // Whatever else it stands before is part of the text.
            b'\\' => at = (at + 2).min(text.len()),
            _ => return Some(at),
        }
    }
}

/// `None` when it says `\0`.
fn unescape(raw: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(raw.len());
    let mut rest = raw.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            text.push(byte);
            continue;
        }
        let Some(escaped) = rest.next() else {
            text.push(b'\\');
            break;
        };
        text.push(match escaped {
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'0'..=b'7' => {
                let mut number = u32::from(escaped - b'0');
                let mut more = |number: u32| {
                    let digit = rest.next_if(|byte| matches!(byte, b'0'..=b'7'))?;
                    Some(number * 8 + u32::from(digit - b'0'))
                };
                if let Some(two) = more(number) {
                    number = two;
                    // A third only where the whole still is a byte.
                    if number < 32 {
                        number = more(number).unwrap_or(number);
                    }
                }
                let byte = u8::try_from(number).ok()?;
                if byte == 0 {
                    return None;
                }
                byte
            }
            other => other,
        });
    }
    Some(text)
}
