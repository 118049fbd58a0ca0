//! Text to tokens, which `token.rs` has. What a minus before a digit is depends on the token before
//! it, as in HTCondor.

#![expect(clippy::unnecessary_box_returns, reason = "what is nearly always returned stays small")]

use crate::error::ParseError;
use crate::expr::Binary;
use crate::token::{RawText, Token, closing};

#[derive(Debug)]
pub(crate) struct Lexer<'a> {
    source: &'a [u8],
    at: usize,
    /// The token that was read last, and where it begins.
    pub(crate) token: Token<'a>,
    pub(crate) start: usize,
}

/// The error is boxed: what is nearly always returned stays small.
pub(crate) type Lexed<T> = Result<T, Box<ParseError>>;

impl<'a> Lexer<'a> {
    /// Before the first token.
    pub(crate) fn new(source: &'a [u8]) -> Lexer<'a> {
        Lexer { source, at: 0, token: Token::End, start: 0 }
    }

    /// Reads the next token. It is written where it stays: copies of it are what would take time.
    pub(crate) fn advance(&mut self) -> Lexed<()> {
        self.skip_blanks()?;
        self.start = self.at;
        let first = self.peek(0);
        match first {
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => self.word(),
            b'0'..=b'9' => return self.number(),
            b'.' if self.peek(1).is_ascii_digit() => return self.number(),
            b'-' if self.begins_negative() => return self.number(),
            b'"' | b'\'' => return self.quoted(first),
            0 if self.at >= self.source.len() => self.token = Token::End,
            0 => return Err(self.wrong(self.at, "a NUL byte cannot stand in an expression")),
            _ => return self.mark(),
        }
        Ok(())
    }

    /// Whether the minus that comes next belongs to a number.
    fn begins_negative(&self) -> bool {
        let digit = |ahead| self.peek(ahead).is_ascii_digit();
        !self.token.ends_operand() && (digit(1) || self.peek(1) == b'.' && digit(2))
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.source.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn wrong(&self, at: usize, what: impl Into<String>) -> Box<ParseError> {
        Box::new(ParseError::new(at.min(self.source.len()), what))
    }

    /// What is left of the text, but for so many bytes.
    fn rest(&self, skip: usize) -> &'a [u8] {
        self.source.get(self.at + skip..).unwrap_or_default()
    }

    fn skip_blanks(&mut self) -> Lexed<()> {
        loop {
            while is_blank(self.peek(0)) {
                self.at += 1;
            }
            if self.peek(0) != b'/' {
                return Ok(());
            }
            match self.peek(1) {
                b'/' => {
                    let rest = self.rest(0);
                    let end = rest.iter().position(|byte| *byte == b'\n');
                    self.at += end.unwrap_or(rest.len());
                }
                b'*' => {
                    let rest = self.rest(2);
                    let end = rest.windows(2).position(|pair| pair == b"*/");
                    let open = self.at;
                    let end = end.ok_or_else(|| self.wrong(open, "this comment has no end"))?;
                    self.at += end + 4;
                }
                _ => return Ok(()),
            }
        }
    }

    fn mark(&mut self) -> Lexed<()> {
        let (first, second, third) = (self.peek(0), self.peek(1), self.peek(2));
        let (op, length) = match (first, second, third) {
            (b'>', b'>', b'>') => (Binary::ShiftRightUnsigned, 3),
            (b'=', b'?', b'=') => (Binary::Is, 3),
            (b'=', b'!', b'=') => (Binary::Isnt, 3),
            (b'=', b'?', _) => {
                return Err(self.wrong(self.at, "`=?` is not an operator; write `=?=`"));
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
        self.token = Token::Operator(op);
        Ok(())
    }

    fn sign(&mut self, sign: u8) -> Lexed<()> {
        if !b".~?:;,[](){}=!".contains(&sign) {
            let shown = sign.escape_ascii();
            return Err(self.wrong(self.at, format!("`{shown}` has no meaning here")));
        }
        self.at += 1;
        self.token = Token::Sign(sign);
        if sign == b'?' {
            // The colon of `a ?: b` may stand apart.
            let rest = self.rest(0);
            let blanks = rest.iter().take_while(|byte| is_blank(**byte)).count();
            if rest.get(blanks) == Some(&b':') {
                self.at += blanks + 1;
                self.token = Token::Elvis;
            }
        }
        Ok(())
    }

    fn word(&mut self) {
        let rest = self.rest(0);
        let is_no_part = |byte: &u8| !IS_WORD.get(usize::from(*byte)).copied().unwrap_or(false);
        let word = rest.split_at(rest.iter().position(is_no_part).unwrap_or(rest.len())).0;
        self.at += word.len();
        let is = |known: &str| word.eq_ignore_ascii_case(known.as_bytes());
        self.token = match word.len() {
            2 if is("is") => Token::Operator(Binary::Is),
            4 if is("isnt") => Token::Operator(Binary::Isnt),
            4 if is("true") => Token::Boolean(true),
            5 if is("false") => Token::Boolean(false),
            5 if is("error") => Token::Error,
            9 if is("undefined") => Token::Undefined,
            _ => Token::Identifier(RawText { raw: word, quote: None }),
        };
    }

    fn number(&mut self) -> Lexed<()> {
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
        let text = self.source.get(start..self.at).unwrap_or_default();
        let text = std::str::from_utf8(text).unwrap_or_default();
        if is_real {
            let number = text.parse().ok();
            let number = number.ok_or_else(|| self.wrong(start, "this is not a number"))?;
            self.token = Token::Real(number);
            return Ok(());
        }
        if first_digit == start && text.len() > 1 && text.starts_with('0') {
            return Err(self.wrong(start, "a whole number cannot begin with 0"));
        }
        // HTCondor's engine reads what is too large for it as 0.
        self.token = Token::Integer(text.parse().unwrap_or(0));
        Ok(())
    }

    /// HTCondor reads `-0x10` as 0, and refuses `0x10`.
    fn hexadecimal(&mut self, start: usize) -> Lexed<()> {
        let is_negative = self.source.get(start) == Some(&b'-');
        let digits = self.rest(2).iter().take_while(|byte| byte.is_ascii_hexdigit());
        let digits = digits.count();
        if !is_negative || digits == 0 {
            return Err(self.wrong(start, "numbers are decimal; 0x has no meaning here"));
        }
        self.at += 2 + digits;
        self.token = Token::Integer(0);
        Ok(())
    }

    fn digits(&mut self) -> usize {
        let count = self.rest(0).iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }

    /// A text in double quotes, or a name in single ones. Texts after each other are one.
    fn quoted(&mut self, quote: u8) -> Lexed<()> {
        let (start, mut texts) = (self.at, 0);
        let end = loop {
            self.at += 1;
            let length = closing(self.rest(0), quote);
            self.at += length.ok_or_else(|| self.wrong(start, "this text has no end"))?;
            let end = self.at;
            self.at += 1;
            texts += 1;
            let rest = self.rest(0);
            let blanks = rest.iter().take_while(|byte| is_blank(**byte)).count();
            if rest.get(blanks) != Some(&quote) {
                break end;
            }
            self.at += blanks;
        };
        let raw = self.source.get(start + 1..end).unwrap_or_default();
        let is_plain = texts == 1 && !raw.contains(&b'\\');
        let written = RawText { raw, quote: Some(quote).filter(|_| !is_plain) };
        let is_text = quote == b'"';
        self.token = if is_text { Token::String(written) } else { Token::Identifier(written) };
        Ok(())
    }
}

/// Bytes that names are made of.
#[expect(clippy::indexing_slicing, reason = "computed by the compiler, which would say so")]
const IS_WORD: [bool; 256] = {
    let mut is_word = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        is_word[byte as usize] = byte.is_ascii_alphanumeric() || byte == b'_';
        byte += 1;
    }
    is_word
};

/// Blanks as C has them.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}
