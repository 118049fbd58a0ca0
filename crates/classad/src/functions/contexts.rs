//! Functions that look at expressions and not only at their values.

use crate::convert::{length, to_text};
use crate::eval::{Evaluator, Scope};
use crate::expr::{Call, Expr, Reference};
use crate::parser::parse_expression_bytes;
use crate::value::Value;
use regex::bytes::Regex;
use std::collections::BTreeSet;

pub(super) fn if_then_else(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let [condition, then, otherwise] = call.args.as_slice() else { return Value::Error };
    match on.eval(condition, scope) {
        Value::Undefined => Value::Undefined,
        condition => match condition.as_condition() {
            Some(true) => on.eval(then, scope),
            Some(false) => on.eval(otherwise, scope),
            None => Value::Error,
        },
    }
}

/// Reads a text as an expression and evaluates it where the call stands.
pub(super) fn eval(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some([value]) = on.exactly(call, scope) else { return Value::Error };
    let Ok(text) = to_text(&value) else { return Value::Error };
    if !on.may_make(text.len()) {
        return Value::Error;
    }
    parse_expression_bytes(&text).map_or(Value::Error, |expr| on.eval(&expr, scope))
}

/// The text of an attribute of the ad; empty when there is none.
pub(super) fn unparse(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let expr = match call.args.as_slice() {
        [Expr::Reference(Reference::Alone(name))] => scope.ad().get(name),
        [Expr::Reference(_)] => None,
        _ => return Value::Error,
    };
    on.made(expr.map(crate::unparse::pretty).unwrap_or_default().into_bytes())
}

/// The attributes that an attribute's expression needs and the ad does not have; or whether the
/// name of one of them matches a pattern.
pub(super) fn unresolved(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let (Some(Expr::Reference(reference)), 1..=2) = (call.args.first(), call.args.len()) else {
        return Value::Error;
    };
    let Some((expr, within)) = on.found(reference, scope) else { return Value::Undefined };
    let pattern = match call.args.get(1).map(|arg| on.eval(arg, scope)) {
        None => None,
        Some(Value::String(text)) => {
            let text = String::from_utf8_lossy(&text).into_owned();
            match Regex::new(&format!("(?i-u){text}")) {
                Ok(pattern) => Some(pattern),
                Err(_) => return Value::Error,
            }
        }
        Some(_) => return Value::Error,
    };
    let mut missing = BTreeSet::new();
    let mut seen = BTreeSet::new();
    on.missing(&expr, &within, &mut seen, &mut missing);
    if let Some(pattern) = pattern {
        let mut names = missing.iter();
        return Value::Boolean(
            names.any(|(_, name)| pattern.find(name).is_some_and(|found| !found.is_empty())),
        );
    }
    let names: Vec<Vec<u8>> = missing.into_iter().map(|(_, name)| name).collect();
    on.made(names.join(&b','))
}

/// Each ad of a list, with what the expression gives in it.
fn in_each(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Result<Vec<Value>, Value> {
    let [expr, ads] = call.args.as_slice() else { return Err(Value::Error) };
    // An attribute means its expression, if the ad has it; otherwise that of each ad in the list.
    let found = match expr {
        Expr::Reference(reference) => on.found(reference, scope).map(|(expr, _)| expr),
        _ => None,
    };
    let expr = found.as_ref().unwrap_or(expr);
    let list = match on.eval(ads, scope) {
        Value::Undefined => return Err(Value::Undefined),
        Value::List(list) => list,
        _ => return Err(Value::Error),
    };
    let before = on.stands_for_top.take();
    let mut values = Vec::new();
    for item in list.items() {
        values.push(match on.eval(item, scope) {
            Value::Ad(inner) => {
                on.stands_for_top = Some(inner.clone());
                on.eval(expr, &inner)
            }
            Value::Undefined => Value::Undefined,
            _ => Value::Error,
        });
        on.stands_for_top = None;
    }
    on.stands_for_top = before;
    Ok(values)
}

pub(super) fn eval_in_each(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    in_each(on, call, scope).map_or_else(|other| other, Value::list)
}

/// In how many ads of a list the expression holds; in none where there is no list.
pub(super) fn count_matches(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    match in_each(on, call, scope) {
        Ok(values) => {
            let holding = values.iter().filter(|value| value.as_condition() == Some(true));
            Value::Integer(length(holding.count()))
        }
        Err(Value::Undefined) => Value::Integer(0),
        Err(other) => other,
    }
}

impl Evaluator<'_> {
    /// The expression that an attribute stands for, and where it was found.
    fn found(&mut self, reference: &Reference, scope: &Scope) -> Option<(Expr, Scope)> {
        match reference {
            Reference::Alone(name) => self.lookup_anywhere(name, scope),
            Reference::Absolute(name) => self.lookup(name, &scope.root_scope()),
            Reference::Of(both) => match self.eval(&both.0, scope) {
                Value::Ad(inner) => self.lookup(&both.1, &inner),
                Value::List(_) => {
                    let whole = Expr::Reference(reference.clone());
                    Some((Expr::Literal(self.eval(&whole, scope)), scope.clone()))
                }
                _ => None,
            },
        }
    }

    /// Names that nothing stands for, with the folded name first, so that they sort without case.
    fn missing(
        &mut self,
        expr: &Expr,
        scope: &Scope,
        seen: &mut BTreeSet<Vec<u8>>,
        missing: &mut BTreeSet<(Vec<u8>, Vec<u8>)>,
    ) {
        let mut found: Vec<Reference> = Vec::new();
        crate::references::references(expr, &mut |reference| found.push(reference.clone()));
        for reference in found {
            let name = reference.name();
            let folded = name.as_bytes().to_ascii_lowercase();
            let is_target = reference.is_target() == Some(true);
            let is_place = ["my", "target", "self", "parent"].iter().any(|word| name.is(word));
            if is_place || reference.scope().is_some() && reference.is_target().is_none() {
                continue;
            }
            let found = if is_target {
                self.lookup_in_other(name, scope)
            } else {
                self.lookup_anywhere(name, scope)
            };
            match found {
                Some((inner, within)) => {
                    if seen.insert(folded) {
                        self.missing(&inner, &within, seen, missing);
                    }
                }
                None => {
                    missing.insert((folded, name.as_bytes().to_vec()));
                }
            }
        }
    }
}
