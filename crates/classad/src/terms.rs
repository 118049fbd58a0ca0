//! Why an expression does not hold: the terms of its conjunction, each with its value and the
//! attributes it looked at.

use crate::eval::{Context, Evaluation, Evaluator, Exceeded, Sides};
use crate::expr::{Binary, Expr};
use crate::unparse::readable;
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

/// Evaluates the terms of `a && b && (c && d)` one by one; another expression is one term.
pub fn terms(expr: &Expr, sides: &Sides, context: &Context) -> Vec<Term> {
    let mut found = Vec::new();
    split(expr, &mut |term| {
        let mut evaluator = Evaluator::new(sides, context);
        evaluator.looked = Some(Vec::new());
        let value = evaluator.eval_in_my(term);
        let mut looked: Vec<Looked> = Vec::new();
        for (reference, value) in evaluator.looked.take().unwrap_or_default() {
            // What is asked of an ad or a list is said by what it led to.
            if matches!(value, Value::Ad(_) | Value::List(_)) {
                continue;
            }
            let name = readable(&reference);
            if !looked.iter().any(|known| known.name == name) {
                looked.push(Looked { name, value });
            }
        }
        let Evaluation { value, exceeded } = evaluator.ended(value);
        found.push(Term { text: readable(term.bare()).trim().to_owned(), value, exceeded, looked });
    });
    found
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
    pub(crate) fn eval_in_my(&mut self, expr: &Expr) -> Value {
        let my = self.my().clone();
        self.eval(expr, &my)
    }
}
