//! Text to tokens. What a minus before a digit is depends on the token before it, as in HTCondor.

use crate::error::ParseError;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    Integer(i64),
    Real(f64),
    Boolean(bool),
    String(Vec<u8>),
    Undefined,
    Error,
    Identifier(Vec<u8>),
    /// An operator or a bracket, as written; `is` and `isnt` are `=?=` and `=!=`.
    Mark(&'static str),
    End,
}

impl Token {
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
            Token::Mark(mark) => format!("`{mark}`"),
            Token::End => "the end".into(),
        }
    }

    /// Whether a minus after it is an operator between two things.
    fn ends_operand(&self) -> bool {
        let marks = [".", "]", ")", "}"];
        match self {
            Token::Mark(mark) => marks.contains(mark),
            Token::End => false,
            _ => true,
        }
    }
}

/// Longest first.
const MARKS: [&str; 33] = [
    ">>>", "=?=", "=!=", "&&", "||", "<=", ">=", "<<", ">>", "==", "!=", ".", "*", "/", "%", "+",
    "-", "~", "^", "?", ":", ";", ",", "[", "]", "(", ")", "{", "}", "&", "|", "<", ">",
];

#[derive(Debug)]
pub(crate) struct Lexer<'a> {
    source: &'a [u8],
    at: usize,
    last: Token,
}

type Lexed = Result<Token, ParseError>;

impl<'a> Lexer<'a> {
    pub(crate) fn new(source: &'a [u8]) -> Lexer<'a> {
        Lexer { source, at: 0, last: Token::End }
    }

    /// The next token and where it begins.
    pub(crate) fn next(&mut self) -> Result<(Token, usize), ParseError> {
        self.skip_blanks()?;
        let at = self.at;
        let token = self.token()?;
        self.last = match &token {
            // Only its kind is asked for.
            Token::String(_) | Token::Identifier(_) => Token::Undefined,
            other => other.clone(),
        };
        Ok((token, at))
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.source.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn wrong(&self, at: usize, what: impl Into<String>) -> ParseError {
        ParseError::new(at.min(self.source.len()), what)
    }

    fn skip_blanks(&mut self) -> Result<(), ParseError> {
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

    fn token(&mut self) -> Lexed {
        let first = self.peek(0);
        let is_number = match first {
            b'0'..=b'9' => true,
            b'.' => self.peek(1).is_ascii_digit(),
            b'-' => {
                let digit = |ahead| self.peek(ahead).is_ascii_digit();
                !self.last.ends_operand() && (digit(1) || self.peek(1) == b'.' && digit(2))
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

    fn mark(&mut self) -> Lexed {
        let rest = &self.source[self.at..];
        let found = MARKS.iter().find(|mark| rest.starts_with(mark.as_bytes()));
        let mark = match found {
            Some(mark) => *mark,
            None if rest.starts_with(b"=?") => {
                return Err(self.wrong(self.at, "`=?` is no operator; write `=?=`"));
            }
            None if rest[0] == b'=' => "=",
            None if rest[0] == b'!' => "!",
            None => {
                let shown = rest[0].escape_ascii();
                return Err(self.wrong(self.at, format!("`{shown}` has no meaning here")));
            }
        };
        self.at += mark.len();
        if mark == "?" {
            // The colon of `a ?: b` may stand apart.
            let blanks = rest[1..].iter().take_while(|byte| is_blank(**byte)).count();
            if rest.get(1 + blanks) == Some(&b':') {
                self.at += blanks + 1;
                return Ok(Token::Mark("?:"));
            }
        }
        Ok(Token::Mark(mark))
    }

    fn word(&mut self) -> Token {
        let rest = &self.source[self.at..];
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
        let word = &rest[..rest.iter().take_while(is_part).count()];
        self.at += word.len();
        let is = |known: &str| word.eq_ignore_ascii_case(known.as_bytes());
        match word.len() {
            2 if is("is") => Token::Mark("=?="),
            4 if is("isnt") => Token::Mark("=!="),
            4 if is("true") => Token::Boolean(true),
            5 if is("false") => Token::Boolean(false),
            5 if is("error") => Token::Error,
            9 if is("undefined") => Token::Undefined,
            _ => Token::Identifier(word.to_vec()),
        }
    }

    fn number(&mut self) -> Lexed {
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
    fn hexadecimal(&mut self, start: usize) -> Lexed {
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
    fn quoted(&mut self, quote: u8) -> Lexed {
        let start = self.at;
        let mut raw = Vec::new();
        loop {
            self.at += 1;
            let rest = &self.source[self.at..];
            let length = closing(rest, quote);
            let length = length.ok_or_else(|| self.wrong(start, "this text has no end"))?;
            raw.extend_from_slice(&rest[..length]);
            self.at += length + 1;
            let blanks = &self.source[self.at..];
            let blanks = blanks.iter().take_while(|byte| is_blank(**byte)).count();
            if self.peek(blanks) != quote {
                break;
            }
            self.at += blanks;
        }
        let text = unescape(&raw).ok_or_else(|| self.wrong(start, "a text cannot hold a NUL"))?;
        Ok(if quote == b'"' { Token::String(text) } else { Token::Identifier(text) })
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
