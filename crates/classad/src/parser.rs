//! Tokens to expressions and ads. Reads what HTCondor's parser reads, and says where it stopped.
#![expect(clippy::unnecessary_box_returns, reason = "what is nearly always returned stays small")]

use crate::ad::Ad;
use crate::error::ParseError;
use crate::expr::{Binary, Call, Chain, Expr, Reference, Unary};
use crate::functions::Function;
use crate::lexer::Lexer;
use crate::limits::{
    MAX_ATTRIBUTES, MAX_BRACKETS, MAX_NESTING, MAX_POSTFIX, MAX_SIGNS, MAX_SOURCE_BYTES,
};
use crate::name::Name;
use crate::times::{parse_abs_time, parse_rel_time};
use crate::token::{RawText, Token};
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

fn whole_expression(source: &[u8]) -> Result<Expr, Stop> {
    let mut parser = Parser::new(source)?;
    parser.expression()?;
    parser.end()?;
    Ok(parser.pop())
}

fn whole_ad(source: &[u8]) -> Result<Ad, Stop> {
    let mut parser = Parser::new(source)?;
    parser.expect(b'[')?;
    let ad = parser.ad()?;
    if parser.is(b'[') {
        return Err(stop(parser.start(), "a second ad begins here"));
    }
    parser.end()?;
    Ok(ad)
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    nesting: u32,
    /// Expressions that were read and are part of none yet, the last one last. Moved as seldom as
    /// can be; and a chain, a list or the arguments of a call get their memory when their number
    /// is known. The operator is the one before it, in a chain.
    read: Vec<(Binary, Expr)>,
}

/// Expressions that there is room for at first: nearly all need no more at once.
const USUALLY_READ: usize = 24;

/// Boxed, so that what is nearly always returned stays small.
type Stop = Box<ParseError>;
/// An expression was read, and is the last of `read`.
type Parsed = Result<(), Stop>;

fn stop(at: usize, what: impl Into<String>) -> Stop {
    Box::new(ParseError::new(at, what))
}

impl<'a> Parser<'a> {
    fn new(source: &'a [u8]) -> Result<Parser<'a>, Stop> {
        if source.len() > MAX_SOURCE_BYTES {
            let what = format!("{} bytes; at most {MAX_SOURCE_BYTES}", source.len());
            return Err(stop(0, what));
        }
        let read = Vec::with_capacity(USUALLY_READ);
        let mut parser = Parser { lexer: Lexer::new(source), nesting: 0, read };
        parser.advance()?;
        Ok(parser)
    }

    fn advance(&mut self) -> Result<(), Stop> {
        self.lexer.advance()
    }

    fn token(&self) -> Token<'a> {
        self.lexer.token
    }

    /// Where the token begins.
    fn start(&self) -> usize {
        self.lexer.start
    }

    fn push(&mut self, expr: Expr) {
        self.read.push((Binary::And, expr));
    }

    fn pop(&mut self) -> Expr {
        // What was read is there.
        self.read.pop().map_or(Expr::Literal(Value::Error), |(_, expr)| expr)
    }

    fn is(&self, sign: u8) -> bool {
        matches!(self.lexer.token, Token::Sign(found) if found == sign)
    }

    fn expect(&mut self, sign: u8) -> Result<(), Stop> {
        if self.is(sign) {
            return self.advance();
        }
        Err(self.wanted(&format!("`{}`", char::from(sign))))
    }

    fn wanted(&self, what: &str) -> Stop {
        stop(self.start(), format!("wanted {what}, found {}", self.token().describe()))
    }

    fn end(&mut self) -> Result<(), Stop> {
        match self.token() {
            Token::End => Ok(()),
            Token::Sign(b'=') => {
                let what = "found `=`; to compare, write `==`";
                Err(stop(self.start(), what))
            }
            _ => Err(self.wanted("an operator or the end")),
        }
    }

    /// So many levels deeper while `parse` runs.
    fn nested(&mut self, levels: u32, parse: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        if self.nesting + levels > MAX_NESTING {
            let what = format!(
                "nested too deep: at most {MAX_BRACKETS} brackets, or {MAX_SIGNS} signs such as \
                 `!`, inside one another"
            );
            return Err(stop(self.start(), what));
        }
        self.nesting += levels;
        let parsed = parse(self);
        self.nesting -= levels;
        parsed
    }

    fn expression(&mut self) -> Parsed {
        self.nested(1, |parser| {
            parser.operators(1)?;
            if !parser.is(b'?') {
                return Ok(());
            }
            parser.advance()?;
            parser.expression()?;
            parser.expect(b':')?;
            parser.expression()?;
            let (otherwise, then, condition) = (parser.pop(), parser.pop(), parser.pop());
            parser.push(Expr::Ternary(Box::new([condition, then, otherwise])));
            Ok(())
        })
    }

    /// Operators of this level and those that bind closer.
    fn operators(&mut self, level: u8) -> Parsed {
        let start = self.read.len();
        self.unary()?;
        while let Some(op) = self.operator().filter(|op| op.level() >= level) {
            let own = op.level();
            while let Some(op) = self.operator().filter(|op| op.level() == own) {
                self.advance()?;
                let right = self.read.len();
                self.operators(own + 1)?;
                if let Some((before, _)) = self.read.get_mut(right) {
                    *before = op;
                }
            }
            let parts = self.read.split_off(start);
            self.push(Expr::Chain(Chain::new(parts)));
        }
        Ok(())
    }

    fn operator(&self) -> Option<Binary> {
        if let Token::Operator(op) = self.lexer.token { Some(op) } else { None }
    }

    fn unary(&mut self) -> Parsed {
        let op = match self.lexer.token {
            Token::Operator(Binary::Subtract) => Unary::Minus,
            Token::Operator(Binary::Add) => Unary::Plus,
            Token::Sign(b'!') => Unary::Not,
            Token::Sign(b'~') => Unary::BitNot,
            // One level for the operator that is not there, one for what it would stand before.
            _ => return self.nested(2, Self::postfix),
        };
        self.nested(1, |parser| {
            parser.advance()?;
            parser.unary()?;
            let inner = parser.pop();
            parser.push(Expr::Unary(op, Box::new(inner)));
            Ok(())
        })
    }

    fn postfix(&mut self) -> Parsed {
        self.primary()?;
        let mut length = 0;
        while matches!(self.lexer.token, Token::Sign(b'[' | b'.') | Token::Elvis) {
            length += 1;
            if length > MAX_POSTFIX {
                let what = format!("more than {MAX_POSTFIX} selections after each other");
                return Err(stop(self.start(), what));
            }
            self.selection()?;
        }
        Ok(())
    }

    fn selection(&mut self) -> Parsed {
        let token = self.token();
        self.advance()?;
        match token {
            Token::Sign(b'[') => {
                self.expression()?;
                self.expect(b']')?;
                let (index, of) = (self.pop(), self.pop());
                self.push(Expr::Subscript(Box::new([of, index])));
                Ok(())
            }
            Token::Elvis => {
                self.nested(1, Self::postfix)?;
                let (otherwise, of) = (self.pop(), self.pop());
                self.push(Expr::Elvis(Box::new([of, otherwise])));
                Ok(())
            }
            _ => {
                let of = self.pop();
                self.reference(|name| Reference::Of(Box::new((of, name))))
            }
        }
    }

    fn reference(&mut self, make: impl FnOnce(Name) -> Reference) -> Parsed {
        let Token::Identifier(name) = self.lexer.token else {
            return Err(self.wanted("the name of an attribute after `.`"));
        };
        let name = Name::new(self.meaning(name)?);
        self.push(Expr::Reference(make(name)));
        self.advance()
    }

    #[inline]
    fn meaning(&self, written: RawText<'a>) -> Result<Cow<'a, [u8]>, Stop> {
        written.meaning().ok_or_else(|| stop(self.start(), "a text cannot hold a NUL"))
    }

    fn primary(&mut self) -> Parsed {
        let literal = match self.lexer.token {
            Token::Undefined => Value::Undefined,
            Token::Error => Value::Error,
            Token::Boolean(is) => Value::Boolean(is),
            Token::Integer(number) => Value::Integer(number),
            Token::Real(number) => Value::Real(number),
            Token::String(text) => Value::text(self.meaning(text)?),
            Token::Identifier(name) => return self.named(name),
            Token::Sign(sign) => return self.bracketed(sign),
            Token::Operator(_) | Token::Elvis | Token::End => {
                return Err(self.wanted("a value or an attribute"));
            }
        };
        self.push(Expr::Literal(literal));
        self.advance()
    }

    fn bracketed(&mut self, sign: u8) -> Parsed {
        if !matches!(sign, b'.' | b'(' | b'[' | b'{') {
            return Err(self.wanted("a value or an attribute"));
        }
        self.advance()?;
        match sign {
            b'.' => self.reference(Reference::Absolute),
            b'(' => {
                self.expression()?;
                self.expect(b')')?;
                let inner = self.pop();
                self.push(Expr::Parens(Box::new(inner)));
                Ok(())
            }
            b'[' => {
                let ad = self.ad()?;
                self.push(Expr::Ad(Arc::new(ad)));
                Ok(())
            }
            _ => {
                let items = self.items(b'}')?;
                self.push(Expr::List(items.into()));
                Ok(())
            }
        }
    }

    /// An attribute, or a call.
    fn named(&mut self, name: RawText<'a>) -> Parsed {
        let at = self.start();
        let name = self.meaning(name)?;
        self.advance()?;
        let name = Name::new(name);
        if self.is(b'(') {
            return self.call(name, at);
        }
        self.push(Expr::Reference(Reference::Alone(name)));
        Ok(())
    }

    fn call(&mut self, name: Name, at: usize) -> Parsed {
        // In quotes it may be anything, and would not read back where it is printed.
        if !is_function_name(name.as_bytes()) {
            return Err(stop(at, "this is not the name of a function"));
        }
        self.advance()?;
        let args = self.items(b')')?;
        if let [Expr::Literal(Value::String(text))] = args.as_slice() {
            if name.is("abstime") {
                let time = parse_abs_time(text).ok_or_else(|| not_a_time(at))?;
                self.push(Expr::Literal(time));
                return Ok(());
            }
            if name.is("reltime") {
                let seconds = parse_rel_time(text).ok_or_else(|| not_a_time(at))?;
                self.push(Expr::RelTimeLiteral(seconds));
                return Ok(());
            }
        }
        let function = Function::named(&name);
        let call = Call { name, function, args, pattern: OnceLock::new() };
        self.push(Expr::Call(Box::new(call)));
        Ok(())
    }

    /// Expressions with commas between them, up to the closing bracket.
    fn items(&mut self, close: u8) -> Result<Vec<Expr>, Stop> {
        let start = self.read.len();
        if self.is(close) {
            self.advance()?;
            return Ok(Vec::new());
        }
        loop {
            self.expression()?;
            if self.is(close) {
                break;
            }
            if !self.is(b',') {
                return Err(self.wanted(&format!("`,` or `{}`", char::from(close))));
            }
            self.advance()?;
        }
        self.advance()?;
        Ok(self.read.drain(start..).map(|(_, item)| item).collect())
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
                return Err(stop(self.start(), what));
            }
            let Token::Identifier(name) = self.lexer.token else {
                return Err(self.wanted("the name of an attribute or `]`"));
            };
            let name = Name::new(self.meaning(name)?);
            if name.as_bytes().is_empty() {
                return Err(stop(self.start(), "the name of an attribute is empty"));
            }
            self.advance()?;
            self.expect(b'=')?;
            self.expression()?;
            attributes.push((name, self.pop()));
            if !self.is(b';') && !self.is(b']') {
                return Err(self.wanted("`;` or `]`"));
            }
        }
    }
}

fn is_function_name(name: &[u8]) -> bool {
    let starts = name.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    starts && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

fn not_a_time(at: usize) -> Stop {
    stop(at, "this text is not a time (2026-01-31T12:00:00+01:00, or 1+02:03:04)")
}
