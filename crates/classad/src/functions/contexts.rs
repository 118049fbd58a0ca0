//! Functions that look at expressions and not only at their values.

use super::patterns::Options;
use crate::convert::length;
use crate::eval::{Behind, Evaluator, Scope};
use crate::expr::{Call, Expr, Reference};
use crate::name::Name;
use crate::parser::parse_expression_bytes;
use crate::value::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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

/// Bytes of an expression that are read in about the time of one step.
const READ_PER_STEP: usize = 4;

/// Reads a text as an expression and evaluates it where the call stands.
pub(super) fn eval(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Value {
    let Some([value]) = on.exactly(call, scope) else { return Value::Error };
    let Ok(text) = on.text_of(&value) else { return Value::Error };
    // To read an expression takes a moment for each byte.
    if !on.may_make(text.len()) || !on.spend_each(text.len() / READ_PER_STEP) {
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
    let Some(behind) = on.found(reference, scope) else { return Value::Undefined };
    let pattern = match call.args.get(1).map(|arg| on.arg(arg, scope)) {
        None => None,
        Some(Value::String(text)) => match on.pattern(&text, Options::of_names()) {
            Some(pattern) => Some(pattern),
            None => return Value::Error,
        },
        Some(_) => return Value::Error,
    };
    let mut missing = Missing::default();
    if let Some(expr) = behind.expr(reference.name()) {
        on.missing(expr, &behind.within, &mut missing);
    }
    if let Some(pattern) = pattern {
        let mut names = missing.names.values();
        return Value::Boolean(names.any(|name| {
            let found = on.captures_at(&pattern, name, 0);
            found.and_then(|found| found.get(0)).is_some_and(|whole| !whole.is_empty())
        }));
    }
    let names: Vec<Vec<u8>> = missing.names.into_values().collect();
    on.made(names.join(&b','))
}

/// Each ad of a list, with what the expression gives in it.
fn in_each(on: &mut Evaluator<'_>, call: &Call, scope: &Scope) -> Result<Vec<Value>, Value> {
    let [expr, ads] = call.args.as_slice() else { return Err(Value::Error) };
    // An attribute means its expression, if the ad has it; otherwise that of each ad in the list.
    let (behind, name) = match expr {
        Expr::Reference(reference) => (on.found(reference, scope), Some(reference.name())),
        _ => (None, None),
    };
    let found = behind.as_ref().zip(name).and_then(|(behind, name)| behind.expr(name));
    let expr = found.unwrap_or(expr);
    let list = match on.arg(ads, scope) {
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
    fn found(&mut self, reference: &Reference, scope: &Scope) -> Option<Behind> {
        match reference {
            Reference::Alone(name) => self.lookup_anywhere(name, scope),
            Reference::Absolute(name) => self.lookup(name, &scope.root_scope()),
            Reference::Of(both) => match self.eval(&both.0, scope) {
                Value::Ad(inner) => self.lookup(&both.1, &inner),
                Value::List(_) => {
                    let whole = Expr::Reference(reference.clone());
                    Some(Behind::value(self.eval(&whole, scope), scope.clone()))
                }
                _ => None,
            },
        }
    }

    /// The names in an expression, and in those behind them, that nothing stands for.
    fn missing(&mut self, expr: &Expr, scope: &Scope, missing: &mut Missing) {
        if !self.enter() {
            return;
        }
        match expr {
            Expr::Reference(Reference::Of(both)) => {
                self.missing_of(&both.0, &both.1, scope, missing);
            }
            Expr::Reference(Reference::Alone(name)) => {
                let found = self.lookup_anywhere(name, scope);
                self.missing_behind(found, name, missing);
            }
            Expr::Reference(Reference::Absolute(name)) => {
                let found = self.lookup(name, &scope.root_scope());
                self.missing_behind(found, name, missing);
            }
            Expr::Ad(ad) => {
                let inner = Scope::inside(Arc::clone(ad), Some(scope.clone()));
                ad.iter().for_each(|(_, expr)| self.missing(expr, &inner, missing));
            }
            other => other.parts(&mut |part| self.missing(part, scope, missing)),
        }
        self.leave();
    }

    /// `of.name`: where nobody knows what `of` is, the whole of it is missing.
    fn missing_of(&mut self, of: &Expr, name: &Name, scope: &Scope, missing: &mut Missing) {
        match self.eval(of, scope) {
            Value::Ad(inner) => {
                let found = self.lookup(name, &inner);
                self.missing_behind(found, name, missing);
            }
            Value::Undefined => {
                let whole = format!("{}.{}", crate::unparse::unparse(of), name.to_text());
                let lower = whole.to_ascii_lowercase();
                let place = ["target.", "my."].iter().find(|place| lower.starts_with(**place));
                self.touch(whole.len());
                let start = place.map_or(0, |place| place.len());
                missing.insert(whole.as_bytes().get(start..).unwrap_or_default());
            }
            _ => {}
        }
    }

    fn missing_behind(&mut self, found: Option<Behind>, name: &Name, missing: &mut Missing) {
        let Some(behind) = found else { return missing.insert(name.as_bytes()) };
        let place = std::ptr::from_ref(behind.within.ad()).addr();
        if missing.seen.insert((place, name.clone()))
            && let Some(expr) = behind.expr(name)
        {
            self.missing(expr, &behind.within, missing);
        }
    }
}

/// What is missing, and what was looked at.
#[derive(Default)]
struct Missing {
    /// By the folded name, so that they are in their order without case.
    names: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Attributes, each with the address of its ad.
    seen: BTreeSet<(usize, Name)>,
}

impl Missing {
    fn insert(&mut self, name: &[u8]) {
        self.names.entry(name.to_ascii_lowercase()).or_insert_with(|| name.to_vec());
    }
}

#[cfg(test)]
mod tests {
    use crate::{Context, Sides, evaluate, parse_ad, parse_expression, unparse_value};
    use std::sync::Arc;

    /// As HTCondor's engine answers.
    #[test]
    fn what_is_not_resolved_is_named_as_far_as_nobody_knows_it() {
        let ad = |text: &str| Arc::new(parse_ad(text).expect("good"));
        let my = ad("[ n = [ i = 8; deep = [ x = r ] ]; ads = { [ a = 1 ], [ b = a ] }; r = 1 ]");
        let sides = Sides::new(my, ad("[ only = 1; tn = [ x = only ] ]"));
        for (expr, expected) in [
            ("zz", "zz"),
            ("n.zz + n.deep.zy", "zy,zz"),
            ("n.r", ""),
            ("zz.b", "zz.b"),
            ("r.b", ""),
            ("ads", "a"),
            ("ads.a", ""),
            ("[q = 1].zz", "zz"),
            ("[q = n.zz; r = zy].q", "zz"),
            ("TARGET.only", ""),
            ("TARGET.zz.b", "zz.b"),
            ("size(zz).b", "size(zz).b"),
        ] {
            let call = parse_expression(&format!("unresolved([y = {expr}].y)")).expect(expr);
            let found = evaluate(&call, &sides, &Context::default()).value;
            assert_eq!(unparse_value(&found), format!("\"{expected}\""), "{expr}");
        }
    }
}
