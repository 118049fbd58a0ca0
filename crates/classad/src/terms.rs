//! Why an expression does not hold: the terms of its conjunction, each with its value and the
//! attributes it looked at.

use crate::eval::{Context, Evaluator, Exceeded, Sides};
use crate::expr::{Binary, Expr};
use crate::unparse::{readable, unparse};
use crate::value::Value;

/// One of the terms that all have to hold.
#[derive(Debug, Clone)]
pub struct Term {
    pub text: String,
    pub value: Value,
    pub exceeded: Option<Exceeded>,
    pub looked: Vec<Looked>,
}

/// An attribute as the term names it, and what it gave.
#[derive(Debug, Clone)]
pub struct Looked {
    pub name: String,
    pub value: Value,
}

impl Term {
    pub fn holds(&self) -> bool {
        self.value.as_condition() == Some(true)
    }
}

/// Whether every term of `a && b && (c && d)` holds, all of them together within so many steps.
/// That is what the whole expression says, and `terms` names those that keep it from that. And how
/// many steps were taken.
pub fn holds(expr: &Expr, sides: &Sides, context: &Context, most_steps: u64) -> (bool, u64) {
    let mut evaluator = Evaluator::within(sides, context, most_steps);
    let mut holds = true;
    split(expr, &mut |term| holds = holds && evaluator.holds(term).1);
    (holds, evaluator.steps())
}

/// The terms one by one; another expression is one term. They share the steps that `holds` has for
/// them, and it ends with the one that goes beyond: so all of them hold if and only if `holds`.
pub fn terms(expr: &Expr, sides: &Sides, context: &Context, most_steps: u64) -> Vec<Term> {
    let mut evaluator = Evaluator::within(sides, context, most_steps);
    let mut found: Vec<Term> = Vec::new();
    split(expr, &mut |term| {
        if evaluator.has_exceeded().is_some() {
            return;
        }
        evaluator.keep_looked();
        let (value, _) = evaluator.holds(term);
        let mut looked: Vec<Looked> = Vec::new();
        for seen in evaluator.keep_looked() {
            // What is asked of an ad or a list is said by what it led to.
            if matches!(seen.value, Value::Ad(_) | Value::List(_)) {
                continue;
            }
            let name = readable(&seen.reference);
            if !looked.iter().any(|known| known.name == name) {
                looked.push(Looked { name, value: seen.value });
            }
        }
        let exceeded = evaluator.has_exceeded();
        found.push(Term { text: readable(term.bare()).trim().to_owned(), value, exceeded, looked });
    });
    found
}

/// The same expression without one of its terms, as text; `None` when nothing is left of it.
pub fn without(expr: &Expr, term: &str) -> Option<String> {
    let mut left: Vec<String> = Vec::new();
    split(expr, &mut |one| {
        if readable(one.bare()).trim() != term {
            left.push(format!("({})", unparse(one)));
        }
    });
    (!left.is_empty()).then(|| left.join(" && "))
}

/// Calls with each term, from the left.
pub(crate) fn split<'e>(expr: &'e Expr, see: &mut dyn FnMut(&'e Expr)) {
    match expr.bare() {
        Expr::Chain(chain) if chain.rest().iter().all(|(op, _)| *op == Binary::And) => {
            split(chain.first(), see);
            chain.rest().iter().for_each(|(_, right)| split(right, see));
        }
        _ => see(expr),
    }
}

impl Evaluator<'_> {
    /// What a term gives, and whether it holds. What goes beyond the steps is an error.
    fn holds(&mut self, term: &Expr) -> (Value, bool) {
        let my = self.my().clone();
        let value = self.eval(term, &my);
        let value = if self.has_exceeded().is_some() { Value::Error } else { value };
        let holds = value.as_condition() == Some(true);
        (value, holds)
    }

    /// What an expression that looks at no ad gives; `None` when there is no room for it any more.
    pub(crate) fn constant(&mut self, expr: &Expr) -> Option<Value> {
        let (value, _) = self.holds(expr);
        Some(value).filter(|_| self.has_exceeded().is_none())
    }
}
