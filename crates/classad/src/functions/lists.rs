//! Functions over lists: members, sums and bounds.

use crate::convert::length;
use crate::eval::{Evaluator, Numbers, Scope, binary};
use crate::expr::{Binary, Call};
use crate::value::Value;

pub(super) fn member(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    is_member(on, call, scope, Binary::Equal)
}

pub(super) fn identical_member(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    is_member(on, call, scope, Binary::Is)
}

fn is_member(on: &mut Evaluator<'_>, call: &Call, scope: &Scope, op: Binary) -> Value {
    let Some([wanted, list]) = on.exactly(call, scope) else { return Value::Error };
    let is_exact = op == Binary::Is;
    if list.is_undefined() || !is_exact && wanted.is_undefined() {
        return Value::Undefined;
    }
    let Value::List(list) = list else { return Value::Error };
    let is_comparable = !matches!(wanted, Value::List(_) | Value::Ad(_));
    if !is_comparable || !is_exact && wanted.is_error() {
        return Value::Error;
    }
    for item in list.items() {
        let item = on.eval(item, scope);
        if matches!(on.operate(op, &item, &wanted), Value::Boolean(true)) {
            return Value::Boolean(true);
        }
    }
    Value::Boolean(false)
}

pub(super) fn size(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some([value]) = on.exactly(call, scope) else { return Value::Error };
    match value {
        Value::Undefined => Value::Undefined,
        Value::List(list) => Value::Integer(length(list.items().len())),
        Value::Ad(inner) => Value::Integer(length(inner.ad().len())),
        Value::String(text) => Value::Integer(length(text.len())),
        _ => Value::Error,
    }
}

/// The numbers of a list; those that are undefined are left out.
fn numbers(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Result<Vec<Value>, Value> {
    let Some([value]) = on.exactly(call, scope) else { return Err(Value::Error) };
    let list = match value {
        Value::Undefined => return Err(Value::Undefined),
        Value::List(list) => list,
        _ => return Err(Value::Error),
    };
    let mut numbers = Vec::new();
    for value in on.items(&list, scope) {
        match value {
            Value::Undefined => {}
            Value::Integer(_) | Value::Real(_) | Value::Boolean(_) => numbers.push(value),
            _ => return Err(Value::Error),
        }
    }
    Ok(numbers)
}

fn total(numbers: Vec<Value>) -> Value {
    let all = numbers.into_iter().reduce(|sum, number| binary(Binary::Add, &sum, &number));
    all.unwrap_or(Value::Integer(0))
}

pub(super) fn sum(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    numbers(on, call, scope).map_or_else(|other| other, total)
}

/// The average of none is 0, as HTCondor has it.
pub(super) fn avg(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    match numbers(on, call, scope) {
        Err(other) => other,
        Ok(numbers) if numbers.is_empty() => Value::Integer(0),
        Ok(numbers) => {
            let count = Value::Real(crate::convert::real(length(numbers.len())));
            binary(Binary::Divide, &total(numbers), &count)
        }
    }
}

pub(super) fn min(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    bound(on, call, scope, Binary::Less)
}

pub(super) fn max(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    bound(on, call, scope, Binary::Greater)
}

/// Comparing two numbers makes both of one kind, and what is found stays so: the least of 1 and
/// 2.5 is 1.0.
fn bound(on: &mut Evaluator<'_>, call: &Call, scope: &Scope, op: Binary) -> Value {
    let numbers = match numbers(on, call, scope) {
        Ok(numbers) => numbers,
        Err(other) => return other,
    };
    let best = numbers.into_iter().reduce(|best, number| {
        let (number, best) = match crate::eval::numbers(&number, &best) {
            Some(Numbers::Whole(number, best)) => (Value::Integer(number), Value::Integer(best)),
            Some(Numbers::Real(number, best)) => (Value::Real(number), Value::Real(best)),
            None => (number, best),
        };
        let is_better = matches!(binary(op, &number, &best), Value::Boolean(true));
        if is_better { number } else { best }
    });
    best.unwrap_or(Value::Undefined)
}

pub(super) fn any_compare(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    compare(on, call, scope, false)
}

pub(super) fn all_compare(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    compare(on, call, scope, true)
}

/// The first comparison that is undefined ends it; HTCondor's engine does so too.
fn compare(on: &mut Evaluator<'_>, call: &Call, scope: &Scope, all: bool) -> Value {
    let Some([op, list, wanted]) = on.exactly(call, scope) else { return Value::Error };
    let op = match &op {
        Value::Undefined => return Value::Undefined,
        Value::String(text) => match text.as_ref() {
            b"<" => Binary::Less,
            b"<=" => Binary::LessOrEqual,
            b"!=" => Binary::NotEqual,
            b"==" => Binary::Equal,
            b">" => Binary::Greater,
            b">=" => Binary::GreaterOrEqual,
            b"is" => Binary::Is,
            b"isnt" => Binary::Isnt,
            _ => return Value::Error,
        },
        _ => return Value::Error,
    };
    let list = match list {
        Value::Undefined => return Value::Undefined,
        Value::List(list) => list,
        _ => return Value::Error,
    };
    for item in list.items() {
        let item = on.eval(item, scope);
        match on.operate(op, &item, &wanted) {
            Value::Boolean(is) if is != all => return Value::Boolean(is),
            Value::Boolean(_) => {}
            Value::Undefined => return Value::Boolean(false),
            _ => return Value::Error,
        }
    }
    Value::Boolean(all)
}
