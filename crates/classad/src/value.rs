//! What an expression gives: one of ten kinds of values.

use crate::eval::Scope;
use crate::expr::Expr;
use std::sync::Arc;

/// Bytes, mostly text: HTCondor's strings are bytes too, and `substr` may cut a letter in two.
pub type Text = Arc<[u8]>;

#[derive(Debug, Clone, Default)]
pub enum Value {
    #[default]
    Undefined,
    Error,
    Boolean(bool),
    Integer(i64),
    Real(f64),
    String(Text),
    /// Seconds since 1970, and the zone it is shown in, in seconds east of Greenwich.
    AbsTime {
        seconds: i64,
        offset: i32,
    },
    RelTime(f64),
    List(Arc<List>),
    /// An ad, and what stands around it.
    Ad(Scope),
}

/// Expressions that are not evaluated until somebody asks for one of them.
#[derive(Debug, Clone)]
pub struct List {
    pub(crate) items: Arc<[Expr]>,
    /// Where they were written; none for a list that a function made.
    pub(crate) scope: Option<Scope>,
}

impl List {
    pub fn items(&self) -> &[Expr] {
        &self.items
    }
}

impl Value {
    pub fn text(text: impl AsRef<[u8]>) -> Value {
        Value::String(text.as_ref().into())
    }

    pub(crate) fn list(values: impl IntoIterator<Item = Value>) -> Value {
        let items = values.into_iter().map(Expr::Literal).collect();
        Value::List(Arc::new(List { items, scope: None }))
    }

    pub fn is_undefined(&self) -> bool {
        matches!(self, Value::Undefined)
    }

    pub fn is_error(&self) -> bool {
        matches!(self, Value::Error)
    }

    /// True, false, or a number that stands for one of them.
    pub fn as_condition(&self) -> Option<bool> {
        match self {
            Value::Boolean(is) => Some(*is),
            Value::Integer(number) => Some(*number != 0),
            Value::Real(number) => Some(*number != 0.0),
            _ => None,
        }
    }

    /// For people: the kind of it.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Undefined => "undefined",
            Value::Error => "error",
            Value::Boolean(_) => "boolean",
            Value::Integer(_) => "integer",
            Value::Real(_) => "real",
            Value::String(_) => "string",
            Value::AbsTime { .. } => "absolute time",
            Value::RelTime(_) => "relative time",
            Value::List(_) => "list",
            Value::Ad(_) => "ad",
        }
    }
}

impl From<bool> for Value {
    fn from(is: bool) -> Value {
        Value::Boolean(is)
    }
}
impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Integer(number)
    }
}
impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Real(number)
    }
}
impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::text(text)
    }
}
impl From<&[u8]> for Value {
    fn from(text: &[u8]) -> Value {
        Value::text(text)
    }
}
impl From<Vec<u8>> for Value {
    fn from(text: Vec<u8>) -> Value {
        Value::String(text.into())
    }
}
impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::text(text)
    }
}
