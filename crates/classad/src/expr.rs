//! Expressions, as read: what stands in the text, with the built-in functions found.

use crate::ad::Ad;
use crate::functions::{Function, Pattern};
use crate::name::Name;
use crate::value::Value;
use std::sync::{Arc, OnceLock};

#[derive(Debug, Clone)]
pub enum Expr {
    Literal(Value),
    /// `relTime("1:00")` written with a text. HTCondor's engine prints it as a time and evaluates
    /// it to a real, and expressions in use rely on what it gives.
    RelTimeLiteral(f64),
    Reference(Reference),
    Unary(Unary, Box<Expr>),
    /// Operators of one level after each other, from the left. One node however many there are, so
    /// that a sum of ten thousand is not ten thousand deep.
    Chain(Chain),
    Ternary(Box<[Expr; 3]>),
    Elvis(Box<[Expr; 2]>),
    Subscript(Box<[Expr; 2]>),
    Parens(Box<Expr>),
    Call(Box<Call>),
    List(Arc<[Expr]>),
    Ad(Arc<Ad>),
}

/// An attribute as it is named.
#[derive(Debug, Clone)]
pub enum Reference {
    /// `name`
    Alone(Name),
    /// `.name`: of the whole ad.
    Absolute(Name),
    /// `scope.name`
    Of(Box<(Expr, Name)>),
}

/// One piece of memory, however long it is: most have one operator, and there are many of them.
#[derive(Debug, Clone)]
pub struct Chain {
    /// Each with the operator before it; that of the first means nothing.
    parts: Box<[(Binary, Expr)]>,
}

impl Chain {
    /// Of at least one part.
    pub(crate) fn new(parts: Vec<(Binary, Expr)>) -> Chain {
        Chain { parts: parts.into_boxed_slice() }
    }

    pub(crate) fn first(&self) -> &Expr {
        const NONE: &Expr = &Expr::Literal(Value::Error);
        self.parts.first().map_or(NONE, |(_, first)| first)
    }

    pub(crate) fn rest(&self) -> &[(Binary, Expr)] {
        self.parts.get(1..).unwrap_or_default()
    }
}

#[derive(Debug, Clone)]
pub struct Call {
    pub(crate) name: Name,
    /// `None`: no such function; the call is an error when it is evaluated, not when it is read.
    pub(crate) function: Option<Function>,
    pub(crate) args: Vec<Expr>,
    /// The first argument as a pattern, when it is a literal: built once, at the first use.
    pub(crate) pattern: OnceLock<Option<Arc<Pattern>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unary {
    Plus,
    Minus,
    Not,
    BitNot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equal,
    NotEqual,
    Is,
    Isnt,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    ShiftLeft,
    ShiftRight,
    ShiftRightUnsigned,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulus,
}

impl Unary {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Unary::Plus => " +",
            Unary::Minus => " -",
            Unary::Not => " !",
            Unary::BitNot => " ~",
        }
    }
}

impl Binary {
    /// Those that bind closer have the higher level.
    pub(crate) fn level(self) -> u8 {
        match self {
            Binary::Or => 1,
            Binary::And => 2,
            Binary::BitOr => 3,
            Binary::BitXor => 4,
            Binary::BitAnd => 5,
            Binary::Equal | Binary::NotEqual | Binary::Is | Binary::Isnt => 6,
            Binary::Less | Binary::LessOrEqual | Binary::Greater | Binary::GreaterOrEqual => 7,
            Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightUnsigned => 8,
            Binary::Add | Binary::Subtract => 9,
            Binary::Multiply | Binary::Divide | Binary::Modulus => 10,
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Binary::Or => " || ",
            Binary::And => " && ",
            Binary::BitOr => " | ",
            Binary::BitXor => " ^ ",
            Binary::BitAnd => " & ",
            Binary::Equal => " == ",
            Binary::NotEqual => " != ",
            Binary::Is => " is ",
            Binary::Isnt => " isnt ",
            Binary::Less => " < ",
            Binary::LessOrEqual => " <= ",
            Binary::Greater => " > ",
            Binary::GreaterOrEqual => " >= ",
            Binary::ShiftLeft => " << ",
            Binary::ShiftRight => " >> ",
            Binary::ShiftRightUnsigned => " >>> ",
            Binary::Add => " + ",
            Binary::Subtract => " - ",
            Binary::Multiply => " * ",
            Binary::Divide => " / ",
            Binary::Modulus => " % ",
        }
    }

    /// As ads of one attribute a line have it.
    pub(crate) fn old_text(self) -> &'static str {
        match self {
            Binary::Is => " =?= ",
            Binary::Isnt => " =!= ",
            other => other.text(),
        }
    }
}

impl Expr {
    pub fn literal(value: impl Into<Value>) -> Expr {
        Expr::Literal(value.into())
    }

    pub fn attribute(name: impl AsRef<[u8]>) -> Expr {
        Expr::Reference(Reference::Alone(Name::new(name)))
    }

    /// Calls `see` with each expression that is directly inside this one.
    pub(crate) fn parts<'e>(&'e self, see: &mut dyn FnMut(&'e Expr)) {
        match self {
            Expr::Literal(_) | Expr::RelTimeLiteral(_) => {}
            Expr::Reference(reference) => reference.scope().into_iter().for_each(see),
            Expr::Unary(_, inner) | Expr::Parens(inner) => see(inner),
            Expr::Chain(chain) => chain.parts.iter().for_each(|(_, part)| see(part)),
            Expr::Ternary(parts) => parts.iter().for_each(see),
            Expr::Elvis(parts) | Expr::Subscript(parts) => parts.iter().for_each(see),
            Expr::Call(call) => call.args.iter().for_each(see),
            Expr::List(items) => items.iter().for_each(see),
            Expr::Ad(ad) => ad.iter().for_each(|(_, inner)| see(inner)),
        }
    }

    /// Without the parentheses around it.
    pub(crate) fn bare(&self) -> &Expr {
        let mut expr = self;
        while let Expr::Parens(inner) = expr {
            expr = inner;
        }
        expr
    }
}
