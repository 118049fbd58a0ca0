//! Text to tokens. What a minus before a digit is depends on the token before it, as in HTCondor.
#![expect(clippy::unnecessary_box_returns, reason = "what is nearly always returned stays small")]

use crate::error::ParseError;
use crate::expr::Binary;
use std::borrow::Cow;

/// What stands in the text is borrowed where it means itself.
#[derive(Debug, PartialEq)]
pub(crate) enum Token<'a> {
    Integer(i64),
    Real(f64),
    Boolean(bool),
    String(Cow<'a, [u8]>),
    Undefined,
    Error,
    Identifier(Cow<'a, [u8]>),
    /// An operator between two things; `is` and `isnt` are two of them.
    Operator(Binary),
    /// Another sign, or the two of `?:` as `Elvis`.
    Sign(u8),
    Elvis,
    End,
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
                let name: String = String::from_utf8_lossy(name).chars().take(40).collect();
                format!("`{}`", name.escape_debug())
            }
            Token::Operator(op) => format!("`{}`", op.old_text().trim()),
            Token::Sign(sign) => format!("`{}`", char::from(*sign)),
            Token::Elvis => "`?:`".into(),
            Token::End => "the end".into(),
        }
    }

    /// Whether a minus after it is an operator between two things.
    fn ends_operand(&self) -> bool {
        match self {
            Token::Sign(sign) => matches!(sign, b'.' | b']' | b')' | b'}'),
            Token::Operator(_) | Token::Elvis | Token::End => false,
            _ => true,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Lexer<'a> {
    source: &'a [u8],
    at: usize,
    pub(crate) start: usize,
    /// The token before this one was something that an operator may follow.
    after_operand: bool,
}

/// The error is boxed: what is nearly always returned stays small.
pub(crate) type Lexed<'a> = Result<Token<'a>, Box<ParseError>>;

impl<'a> Lexer<'a> {
    pub(crate) fn new(source: &'a [u8]) -> Lexer<'a> {
        Lexer { source, at: 0, start: 0, after_operand: false }
    }

    /// The next token; it begins at `start`.
    pub(crate) fn next(&mut self) -> Lexed<'a> {
        self.skip_blanks()?;
        self.start = self.at;
        let token = self.token()?;
        self.after_operand = token.ends_operand();
        Ok(token)
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.source.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn wrong(&self, at: usize, what: impl Into<String>) -> Box<ParseError> {
        Box::new(ParseError::new(at.min(self.source.len()), what))
    }

    fn skip_blanks(&mut self) -> Result<(), Box<ParseError>> {
        loop {
            while is_blank(self.peek(0)) {
                self.at += 1;
            }
            if self.peek(0) != b'/' {
                return Ok(());
            }
            match self.peek(1) {
                b'/' => {
                    let rest = &self.source[self.at..];
                    let end = rest.iter().position(|byte| *byte == b'\n');
                    self.at += end.unwrap_or(rest.len());
                }
                b'*' => {
                    let rest = &self.source[self.at + 2..];
                    let end = rest.windows(2).position(|pair| pair == b"*/");
                    let open = self.at;
                    let end = end.ok_or_else(|| self.wrong(open, "this comment has no end"))?;
                    self.at += end + 4;
                }
                _ => return Ok(()),
            }
        }
    }

    fn token(&mut self) -> Lexed<'a> {
        let first = self.peek(0);
        let is_number = match first {
            b'0'..=b'9' => true,
            b'.' => self.peek(1).is_ascii_digit(),
            b'-' => {
                let digit = |ahead| self.peek(ahead).is_ascii_digit();
                !self.after_operand && (digit(1) || self.peek(1) == b'.' && digit(2))
            }
            _ => false,
        };
        match first {
            _ if self.at >= self.source.len() => Ok(Token::End),
            _ if is_number => self.number(),
            b'"' | b'\'' => self.quoted(first),
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => Ok(self.word()),
            0 => Err(self.wrong(self.at, "a NUL byte cannot stand in an expression")),
            _ => self.mark(),
        }
    }

    fn mark(&mut self) -> Lexed<'a> {
        let (first, second, third) = (self.peek(0), self.peek(1), self.peek(2));
        let (op, length) = match (first, second, third) {
            (b'>', b'>', b'>') => (Binary::ShiftRightUnsigned, 3),
            (b'=', b'?', b'=') => (Binary::Is, 3),
            (b'=', b'!', b'=') => (Binary::Isnt, 3),
            (b'=', b'?', _) => {
                return Err(self.wrong(self.at, "`=?` is no operator; write `=?=`"));
            }
            (b'&', b'&', _) => (Binary::And, 2),
            (b'|', b'|', _) => (Binary::Or, 2),
            (b'<', b'=', _) => (Binary::LessOrEqual, 2),
            (b'>', b'=', _) => (Binary::GreaterOrEqual, 2),
            (b'<', b'<', _) => (Binary::ShiftLeft, 2),
            (b'>', b'>', _) => (Binary::ShiftRight, 2),
            (b'=', b'=', _) => (Binary::Equal, 2),
            (b'!', b'=', _) => (Binary::NotEqual, 2),
            (b'&', ..) => (Binary::BitAnd, 1),
            (b'|', ..) => (Binary::BitOr, 1),
            (b'<', ..) => (Binary::Less, 1),
            (b'>', ..) => (Binary::Greater, 1),
            (b'*', ..) => (Binary::Multiply, 1),
            (b'/', ..) => (Binary::Divide, 1),
            (b'%', ..) => (Binary::Modulus, 1),
            (b'+', ..) => (Binary::Add, 1),
            (b'-', ..) => (Binary::Subtract, 1),
            (b'^', ..) => (Binary::BitXor, 1),
            _ => return self.sign(first),
        };
        self.at += length;
        Ok(Token::Operator(op))
    }

    fn sign(&mut self, sign: u8) -> Lexed<'a> {
        if !b".~?:;,[](){}=!".contains(&sign) {
            let shown = sign.escape_ascii();
            return Err(self.wrong(self.at, format!("`{shown}` has no meaning here")));
        }
        self.at += 1;
        if sign == b'?' {
            // The colon of `a ?: b` may stand apart.
            let rest = &self.source[self.at..];
            let blanks = rest.iter().take_while(|byte| is_blank(**byte)).count();
            if rest.get(blanks) == Some(&b':') {
                self.at += blanks + 1;
                return Ok(Token::Elvis);
            }
        }
        Ok(Token::Sign(sign))
    }

    fn word(&mut self) -> Token<'a> {
        let rest = &self.source[self.at..];
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
        let word = &rest[..rest.iter().take_while(is_part).count()];
        self.at += word.len();
        let is = |known: &str| word.eq_ignore_ascii_case(known.as_bytes());
        match word.len() {
            2 if is("is") => Token::Operator(Binary::Is),
            4 if is("isnt") => Token::Operator(Binary::Isnt),
            4 if is("true") => Token::Boolean(true),
            5 if is("false") => Token::Boolean(false),
            5 if is("error") => Token::Error,
            9 if is("undefined") => Token::Undefined,
            _ => Token::Identifier(Cow::Borrowed(word)),
        }
    }

    fn number(&mut self) -> Lexed<'a> {
        let start = self.at;
        if self.peek(0) == b'-' {
            self.at += 1;
        }
        let first_digit = self.at;
        if self.peek(0) == b'0' && self.peek(1).eq_ignore_ascii_case(&b'x') {
            return self.hexadecimal(start);
        }
        self.digits();
        let mut is_real = false;
        if self.peek(0) == b'.' {
            self.at += 1;
            if self.digits() == 0 {
                return Err(self.wrong(start, "a number cannot end with a dot; write 1.0"));
            }
            is_real = true;
        }
        if self.peek(0).eq_ignore_ascii_case(&b'e') {
            self.at += 1;
            if matches!(self.peek(0), b'+' | b'-') {
                self.at += 1;
            }
            if self.digits() == 0 {
                return Err(self.wrong(start, "the exponent of this number has no digits"));
            }
            is_real = true;
        }
        let text = std::str::from_utf8(&self.source[start..self.at]).expect("digits are text");
        if is_real {
            return Ok(Token::Real(text.parse().expect("the form of a real was just read")));
        }
        let digits = &self.source[first_digit..self.at];
        if digits.len() > 1 && digits[0] == b'0' && first_digit == start {
            return Err(self.wrong(start, "a whole number cannot begin with 0"));
        }
        // HTCondor's engine reads what is too large for it as 0.
        Ok(Token::Integer(text.parse().unwrap_or(0)))
    }

    /// HTCondor reads `-0x10` as 0, and refuses `0x10`.
    fn hexadecimal(&mut self, start: usize) -> Lexed<'a> {
        let is_negative = self.source[start] == b'-';
        let digits = self.source[self.at + 2..].iter().take_while(|byte| byte.is_ascii_hexdigit());
        let digits = digits.count();
        if !is_negative || digits == 0 {
            return Err(self.wrong(start, "numbers are decimal; 0x has no meaning here"));
        }
        self.at += 2 + digits;
        Ok(Token::Integer(0))
    }

    fn digits(&mut self) -> usize {
        let rest = &self.source[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }

    /// A text in double quotes, or a name in single ones. Texts after each other are one.
    fn quoted(&mut self, quote: u8) -> Lexed<'a> {
        let start = self.at;
        let mut raw: Cow<'a, [u8]> = Cow::Borrowed(&[]);
        loop {
            self.at += 1;
            let rest = &self.source[self.at..];
            let length = closing(rest, quote);
            let length = length.ok_or_else(|| self.wrong(start, "this text has no end"))?;
            let piece = &rest[..length];
            if raw.is_empty() {
                raw = Cow::Borrowed(piece);
            } else {
                raw.to_mut().extend_from_slice(piece);
            }
            self.at += length + 1;
            let blanks = &self.source[self.at..];
            let blanks = blanks.iter().take_while(|byte| is_blank(**byte)).count();
            if self.peek(blanks) != quote {
                break;
            }
            self.at += blanks;
        }
        if raw.contains(&b'\\') {
            let text = unescape(&raw);
            raw = text.ok_or_else(|| self.wrong(start, "a text cannot hold a NUL"))?.into();
        }
        Ok(if quote == b'"' { Token::String(raw) } else { Token::Identifier(raw) })
    }
}

/// Where the text ends: at the first quote that has no backslash of its own before it.
fn closing(text: &[u8], quote: u8) -> Option<usize> {
    let mut is_escaped = false;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            0 => return None,
            byte if *byte == quote && !is_escaped => return Some(at),
            byte => is_escaped = *byte == b'\\' && !is_escaped,
        }
    }
    None
}

/// Blanks as C has them.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
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
