//! Tokens to expressions and ads. Reads what HTCondor's parser reads, and says where it stopped.
#![expect(clippy::unnecessary_box_returns, reason = "what is nearly always returned stays small")]

use crate::ad::Ad;
use crate::error::ParseError;
use crate::expr::{Binary, Call, Chain, Expr, Reference, Unary};
use crate::functions::Function;
use crate::lexer::{Lexer, Token};
use crate::limits::{MAX_ATTRIBUTES, MAX_NESTING, MAX_POSTFIX, MAX_SOURCE_BYTES};
use crate::name::Name;
use crate::times::{parse_abs_time, parse_rel_time};
use crate::value::Value;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// One expression, and nothing after it.
pub fn parse_expression(source: &str) -> Result<Expr, ParseError> {
    parse_expression_bytes(source.as_bytes())
}

/// The same from bytes, which need not be text everywhere: what stands in quotes may be anything.
pub fn parse_expression_bytes(source: &[u8]) -> Result<Expr, ParseError> {
    whole_expression(source).map_err(|error| *error)
}

/// One ad in brackets, and nothing after it.
pub fn parse_ad(source: &str) -> Result<Ad, ParseError> {
    parse_ad_bytes(source.as_bytes())
}

pub fn parse_ad_bytes(source: &[u8]) -> Result<Ad, ParseError> {
    whole_ad(source).map_err(|error| *error)
}

fn whole_expression(source: &[u8]) -> Parsed {
    let mut parser = Parser::new(source)?;
    let expr = parser.expression()?;
    parser.end()?;
    Ok(expr)
}

fn whole_ad(source: &[u8]) -> Result<Ad, Stop> {
    let mut parser = Parser::new(source)?;
    parser.expect(b'[')?;
    let ad = parser.ad()?;
    parser.end()?;
    Ok(ad)
}

pub(crate) struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token<'a>,
    /// Where it begins.
    at: usize,
    nesting: u32,
}

/// Boxed, so that what is nearly always returned stays small.
type Stop = Box<ParseError>;
type Parsed = Result<Expr, Stop>;

fn stop(at: usize, what: impl Into<String>) -> Stop {
    Box::new(ParseError::new(at, what))
}

impl<'a> Parser<'a> {
    pub(crate) fn new(source: &'a [u8]) -> Result<Parser<'a>, Stop> {
        if source.len() > MAX_SOURCE_BYTES {
            let what = format!("{} bytes; at most {MAX_SOURCE_BYTES}", source.len());
            return Err(stop(0, what));
        }
        let mut lexer = Lexer::new(source);
        let token = lexer.next()?;
        let at = lexer.start;
        Ok(Parser { lexer, token, at, nesting: 0 })
    }

    fn advance(&mut self) -> Result<Token<'a>, Stop> {
        let token = self.lexer.next()?;
        self.at = self.lexer.start;
        Ok(std::mem::replace(&mut self.token, token))
    }

    fn is(&self, sign: u8) -> bool {
        matches!(self.token, Token::Sign(found) if found == sign)
    }

    fn expect(&mut self, sign: u8) -> Result<(), Stop> {
        if self.is(sign) {
            return self.advance().map(drop);
        }
        Err(self.wanted(&format!("`{}`", char::from(sign))))
    }

    fn wanted(&self, what: &str) -> Stop {
        stop(self.at, format!("wanted {what}, found {}", self.token.describe()))
    }

    pub(crate) fn end(&mut self) -> Result<(), Stop> {
        match self.token {
            Token::End => Ok(()),
            Token::Sign(b'=') => {
                let what = "found `=`; to compare, write `==`";
                Err(stop(self.at, what))
            }
            _ => Err(self.wanted("an operator or the end")),
        }
    }

    /// So many levels deeper while `parse` runs.
    #[inline]
    fn nested(&mut self, levels: u32, parse: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        if self.nesting + levels > MAX_NESTING {
            let what = format!("nested too deep: more than {MAX_NESTING} levels");
            return Err(stop(self.at, what));
        }
        self.nesting += levels;
        let parsed = parse(self);
        self.nesting -= levels;
        parsed
    }

    pub(crate) fn expression(&mut self) -> Parsed {
        self.nested(1, |parser| {
            let condition = parser.operators(1)?;
            if !parser.is(b'?') {
                return Ok(condition);
            }
            parser.advance()?;
            let then = parser.expression()?;
            parser.expect(b':')?;
            let otherwise = parser.expression()?;
            Ok(Expr::Ternary(Box::new([condition, then, otherwise])))
        })
    }

    /// Operators of this level and those that bind closer.
    fn operators(&mut self, level: u8) -> Parsed {
        let mut left = self.unary()?;
        while let Some(op) = self.operator().filter(|op| op.level() >= level) {
            let own = op.level();
            let mut chain = Chain::new(left);
            while let Some(op) = self.operator().filter(|op| op.level() == own) {
                self.advance()?;
                chain.push(op, self.operators(own + 1)?);
            }
            left = Expr::Chain(chain);
        }
        Ok(left)
    }

    fn operator(&self) -> Option<Binary> {
        if let Token::Operator(op) = self.token { Some(op) } else { None }
    }

    fn unary(&mut self) -> Parsed {
        let op = match self.token {
            Token::Operator(Binary::Subtract) => Unary::Minus,
            Token::Operator(Binary::Add) => Unary::Plus,
            Token::Sign(b'!') => Unary::Not,
            Token::Sign(b'~') => Unary::BitNot,
            // One level for the operator that is not there, one for what it would stand before.
            _ => return self.nested(2, Self::postfix),
        };
        self.nested(1, |parser| {
            parser.advance()?;
            Ok(Expr::Unary(op, Box::new(parser.unary()?)))
        })
    }

    fn postfix(&mut self) -> Parsed {
        let mut expr = self.primary()?;
        let mut length = 0;
        while matches!(self.token, Token::Sign(b'[' | b'.') | Token::Elvis) {
            length += 1;
            if length > MAX_POSTFIX {
                let what = format!("more than {MAX_POSTFIX} selections after each other");
                return Err(stop(self.at, what));
            }
            expr = self.selection(expr)?;
        }
        Ok(expr)
    }

    fn selection(&mut self, of: Expr) -> Parsed {
        match self.advance()? {
            Token::Sign(b'[') => {
                let index = self.expression()?;
                self.expect(b']')?;
                Ok(Expr::Subscript(Box::new([of, index])))
            }
            Token::Elvis => {
                let otherwise = self.nested(1, Self::postfix)?;
                Ok(Expr::Elvis(Box::new([of, otherwise])))
            }
            _ => self.reference(Some(of), false),
        }
    }

    fn reference(&mut self, scope: Option<Expr>, absolute: bool) -> Parsed {
        match self.advance_if_identifier()? {
            Some(name) => {
                let name = Name::new(name);
                Ok(Expr::Reference(Box::new(Reference { scope, name, absolute })))
            }
            None => Err(self.wanted("the name of an attribute after `.`")),
        }
    }

    fn advance_if_identifier(&mut self) -> Result<Option<Cow<'a, [u8]>>, Stop> {
        if !matches!(self.token, Token::Identifier(_)) {
            return Ok(None);
        }
        let Token::Identifier(name) = self.advance()? else { return Ok(None) };
        Ok(Some(name))
    }

    fn primary(&mut self) -> Parsed {
        let literal = match &self.token {
            Token::Undefined => Value::Undefined,
            Token::Error => Value::Error,
            Token::Boolean(is) => Value::Boolean(*is),
            Token::Integer(number) => Value::Integer(*number),
            Token::Real(number) => Value::Real(*number),
            Token::String(text) => Value::text(text),
            Token::Identifier(_) => return self.named(),
            Token::Sign(sign) => {
                let sign = *sign;
                return self.bracketed(sign);
            }
            Token::Operator(_) | Token::Elvis | Token::End => {
                return Err(self.wanted("a value or an attribute"));
            }
        };
        self.advance()?;
        Ok(Expr::Literal(literal))
    }

    fn bracketed(&mut self, sign: u8) -> Parsed {
        match sign {
            b'.' => {
                self.advance()?;
                self.reference(None, true)
            }
            b'(' => {
                self.advance()?;
                let inner = self.expression()?;
                self.expect(b')')?;
                Ok(Expr::Parens(Box::new(inner)))
            }
            b'[' => {
                self.advance()?;
                Ok(Expr::Ad(Arc::new(self.ad()?)))
            }
            b'{' => {
                self.advance()?;
                Ok(Expr::List(self.items(b'}')?.into()))
            }
            _ => Err(self.wanted("a value or an attribute")),
        }
    }

    /// An attribute, or a call.
    fn named(&mut self) -> Parsed {
        let at = self.at;
        let name = self.advance_if_identifier()?.expect("asked before");
        if !self.is(b'(') {
            let name = Name::new(name);
            return Ok(Expr::Reference(Box::new(Reference { scope: None, name, absolute: false })));
        }
        let starts = name.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
        // In quotes it may be anything, and would not read back where it is printed.
        if !starts || !name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
            return Err(stop(at, "this is no name of a function"));
        }
        self.advance()?;
        let args = self.items(b')')?;
        if let [Expr::Literal(Value::String(text))] = args.as_slice() {
            if name.eq_ignore_ascii_case(b"abstime") {
                let time = parse_abs_time(text).ok_or_else(|| not_a_time(at))?;
                return Ok(Expr::Literal(time));
            }
            if name.eq_ignore_ascii_case(b"reltime") {
                let seconds = parse_rel_time(text).ok_or_else(|| not_a_time(at))?;
                return Ok(Expr::RelTimeLiteral(seconds));
            }
        }
        let name: Box<str> = String::from_utf8_lossy(&name).into();
        let function = Function::named(&name);
        Ok(Expr::Call(Box::new(Call { name, function, args, pattern: OnceLock::new() })))
    }

    /// Expressions with commas between them, up to the closing bracket.
    fn items(&mut self, close: u8) -> Result<Vec<Expr>, Stop> {
        let mut items = Vec::new();
        if self.is(close) {
            self.advance()?;
            return Ok(items);
        }
        loop {
            items.push(self.expression()?);
            if self.is(close) {
                self.advance()?;
                return Ok(items);
            }
            if !self.is(b',') {
                return Err(self.wanted(&format!("`,` or `{}`", char::from(close))));
            }
            self.advance()?;
        }
    }

    /// Attributes up to the closing bracket.
    fn ad(&mut self) -> Result<Ad, Stop> {
        let mut attributes = Vec::new();
        loop {
            while self.is(b';') {
                self.advance()?;
            }
            if self.is(b']') {
                self.advance()?;
                return Ok(attributes.into_iter().collect());
            }
            if attributes.len() == MAX_ATTRIBUTES {
                let what = format!("an ad has at most {MAX_ATTRIBUTES} attributes");
                return Err(stop(self.at, what));
            }
            let at = self.at;
            let name = self.advance_if_identifier()?;
            let name = name.ok_or_else(|| self.wanted("the name of an attribute or `]`"))?;
            if name.is_empty() {
                return Err(stop(at, "the name of an attribute is empty"));
            }
            self.expect(b'=')?;
            attributes.push((Name::new(name), self.expression()?));
            if !self.is(b';') && !self.is(b']') {
                return Err(self.wanted("`;` or `]`"));
            }
        }
    }
}

fn not_a_time(at: usize) -> Stop {
    stop(at, "this text is not a time (2026-01-31T12:00:00+01:00, or 1+02:03:04)")
}
