//! Evaluation of an expression between two ads: `MY`, where it was written, and `TARGET`.
//!
//! - `operators.rs`   what operators make of values
//! - `references.rs`  which expression a name means, and in which ad it is evaluated
//! - `budget.rs`      what all of it may cost

mod budget;
mod operators;
mod references;

pub(crate) use operators::{Numbers, binary, numbers};
pub(crate) use references::Behind;

use crate::ad::Ad;
use crate::expr::{Chain, Expr, Reference};
use crate::functions::Patterns;
use crate::limits::{MAX_EVALUATION_DEPTH, MAX_LOOKED, MAX_MADE_BYTES, MAX_STEPS};
use crate::name::Name;
use crate::value::{List, Value};
use operators::{decides, unary};
use std::sync::Arc;

/// What expressions may ask of the world, given beforehand.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Seconds since 1970, for `time()` and its like.
    pub now: i64,
    /// The local zone: seconds east of Greenwich.
    pub zone: i32,
    /// Where `random()` begins; without one it is an error.
    pub seed: Option<u64>,
}

/// An ad and what stands around it: a name that it does not have is looked for there.
#[derive(Debug, Clone)]
pub struct Scope(Arc<Frame>);

#[derive(Debug)]
struct Frame {
    ad: Arc<Ad>,
    parent: Option<Scope>,
}

impl Scope {
    pub(crate) fn top(ad: Arc<Ad>) -> Scope {
        Scope(Arc::new(Frame { ad, parent: None }))
    }
    pub(crate) fn inside(ad: Arc<Ad>, parent: Option<Scope>) -> Scope {
        Scope(Arc::new(Frame { ad, parent }))
    }
    pub fn ad(&self) -> &Ad {
        &self.0.ad
    }
    fn parent(&self) -> Option<&Scope> {
        self.0.parent.as_ref()
    }
    pub(crate) fn root_scope(&self) -> Scope {
        self.root().clone()
    }
    fn root(&self) -> &Scope {
        let mut scope = self;
        while let Some(parent) = scope.parent() {
            scope = parent;
        }
        scope
    }
    fn is(&self, other: &Scope) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The two ads. Made once for many evaluations.
#[derive(Debug, Clone)]
pub struct Sides {
    my: Scope,
    target: Option<Scope>,
}

impl Sides {
    pub fn alone(my: Arc<Ad>) -> Sides {
        Sides { my: Scope::top(my), target: None }
    }

    pub fn new(my: Arc<Ad>, target: Arc<Ad>) -> Sides {
        Sides { my: Scope::top(my), target: Some(Scope::top(target)) }
    }

    /// The same from the other side.
    #[must_use]
    pub fn turned(&self) -> Sides {
        let target = self.target.clone().unwrap_or_else(|| Scope::top(Arc::default()));
        Sides { my: target, target: Some(self.my.clone()) }
    }

    pub fn my(&self) -> &Ad {
        self.my.ad()
    }

    pub fn target(&self) -> Option<&Ad> {
        self.target.as_ref().map(Scope::ad)
    }
}

/// A limit that an evaluation went beyond. Its value is an error then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    #[error("attributes refer to one another more than {MAX_EVALUATION_DEPTH} deep")]
    Depth,
    #[error("it takes too many steps")]
    Steps,
    #[error("it makes texts of more than {MAX_MADE_BYTES} bytes")]
    Bytes,
}

#[derive(Debug, Clone)]
pub struct Evaluation {
    pub value: Value,
    pub exceeded: Option<Exceeded>,
    /// What it cost; see `eval/budget.rs`.
    pub steps: u64,
}

pub fn evaluate(expr: &Expr, sides: &Sides, context: &Context) -> Evaluation {
    evaluate_within(expr, sides, context, MAX_STEPS)
}

/// The same with less to spend.
pub fn evaluate_within(
    expr: &Expr,
    sides: &Sides,
    context: &Context,
    most_steps: u64,
) -> Evaluation {
    let mut evaluator = Evaluator::within(sides, context, most_steps);
    let value = evaluator.eval(expr, &sides.my);
    evaluator.ended(value)
}

/// An attribute of `MY`; undefined when it has none of this name.
pub fn evaluate_attribute(name: &Name, sides: &Sides, context: &Context) -> Evaluation {
    let Some(expr) = sides.my.ad().get(name) else {
        return Evaluation { value: Value::Undefined, exceeded: None, steps: 0 };
    };
    let mut evaluator = Evaluator::new(sides, context);
    evaluator.stack.push(address(expr));
    let value = evaluator.eval(expr, &sides.my);
    evaluator.ended(value)
}

pub(crate) struct Evaluator<'a> {
    pub(crate) context: &'a Context,
    sides: &'a Sides,
    /// A nested ad that is asked as if it were the whole one; see `functions/contexts.rs`.
    pub(crate) stands_for_top: Option<Scope>,
    depth: u32,
    steps: u64,
    most_steps: u64,
    made: usize,
    /// Attributes being evaluated, by the address of their expressions: one that is asked for
    /// again refers to itself.
    stack: Vec<usize>,
    exceeded: Option<Exceeded>,
    pub(crate) random: u64,
    /// Regular expressions that were built in this evaluation.
    pub(crate) patterns: Patterns,
    /// Attributes that the expression itself names, with what they gave, when somebody wants it.
    looked: Option<Vec<Seen>>,
}

/// A reference that was asked for, by its address too: one that is asked for again is not new.
pub(crate) struct Seen {
    address: usize,
    pub(crate) reference: Expr,
    pub(crate) value: Value,
}

fn address(expr: &Expr) -> usize {
    std::ptr::from_ref(expr).addr()
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(sides: &'a Sides, context: &'a Context) -> Evaluator<'a> {
        Evaluator {
            context,
            sides,
            stands_for_top: None,
            depth: 0,
            steps: 0,
            most_steps: MAX_STEPS,
            made: 0,
            stack: Vec::new(),
            exceeded: None,
            random: context.seed.unwrap_or(0),
            patterns: Patterns::default(),
            looked: None,
        }
    }

    /// The same with less to spend.
    pub(crate) fn within(sides: &'a Sides, context: &'a Context, most_steps: u64) -> Evaluator<'a> {
        Evaluator { most_steps: most_steps.min(MAX_STEPS), ..Evaluator::new(sides, context) }
    }

    pub(crate) fn has_exceeded(&self) -> Option<Exceeded> {
        self.exceeded
    }

    /// From now on keeps what the expression itself looks at; gives what was kept before.
    pub(crate) fn keep_looked(&mut self) -> Vec<Seen> {
        self.looked.replace(Vec::new()).unwrap_or_default()
    }

    fn look(&mut self, reference: &Reference, value: &Value) {
        let address = std::ptr::from_ref(reference).addr();
        if let Some(looked) = &mut self.looked
            && self.stack.is_empty()
            && looked.len() < MAX_LOOKED
            && looked.iter().all(|seen| seen.address != address)
        {
            let reference = Expr::Reference(reference.clone());
            looked.push(Seen { address, reference, value: value.clone() });
        }
    }

    pub(crate) fn my(&self) -> &Scope {
        &self.sides.my
    }

    pub(crate) fn ended(self, value: Value) -> Evaluation {
        let value = if self.exceeded.is_some() { Value::Error } else { value };
        Evaluation { value, exceeded: self.exceeded, steps: self.steps() }
    }

    pub(crate) fn exceed(&mut self, limit: Exceeded) -> Value {
        self.exceeded.get_or_insert(limit);
        Value::Error
    }

    pub(crate) fn eval(&mut self, expr: &Expr, scope: &Scope) -> Value {
        match expr {
            Expr::Literal(value) => value.clone(),
            Expr::RelTimeLiteral(seconds) => Value::Real(*seconds),
            Expr::List(items) => {
                let (items, scope) = (Arc::clone(items), Some(scope.clone()));
                Value::List(Arc::new(List { items, scope }))
            }
            Expr::Ad(ad) => Value::Ad(Scope::inside(Arc::clone(ad), Some(scope.clone()))),
            inner => self.eval_inner(inner, scope),
        }
    }

    /// One level deeper, if that is within the limits; `leave` is called afterwards.
    pub(crate) fn enter(&mut self) -> bool {
        self.spend(1);
        if self.depth >= MAX_EVALUATION_DEPTH {
            self.exceed(Exceeded::Depth);
        }
        let may_enter = self.exceeded.is_none();
        self.depth += u32::from(may_enter);
        may_enter
    }

    pub(crate) fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn eval_inner(&mut self, expr: &Expr, scope: &Scope) -> Value {
        if !self.enter() {
            return Value::Error;
        }
        let value = match expr {
            Expr::Reference(reference) => self.reference(reference, scope),
            Expr::Chain(chain) => self.chain(chain, scope),
            Expr::Parens(inner) => self.eval(inner, scope),
            Expr::Unary(op, inner) => unary(*op, self.eval(inner, scope)),
            Expr::Call(call) => match call.function {
                Some(function) => function.call(self, call, scope),
                None => Value::Error,
            },
            Expr::Ternary(parts) => {
                let [condition, then, otherwise] = &**parts;
                match self.eval(condition, scope) {
                    Value::Undefined => Value::Undefined,
                    condition => match condition.as_condition() {
                        Some(true) => self.eval(then, scope),
                        Some(false) => self.eval(otherwise, scope),
                        None => Value::Error,
                    },
                }
            }
            Expr::Elvis(parts) => {
                let [first, otherwise] = &**parts;
                match self.eval(first, scope) {
                    Value::Undefined => self.eval(otherwise, scope),
                    found => found,
                }
            }
            Expr::Subscript(parts) => {
                let [of, index] = &**parts;
                self.subscript(of, index, scope)
            }
            leaf => self.eval(leaf, scope),
        };
        self.leave();
        value
    }

    fn chain(&mut self, chain: &Chain, scope: &Scope) -> Value {
        let mut left = self.eval(chain.first(), scope);
        for (op, right) in chain.rest() {
            self.spend(1);
            // Those that follow are of the same level, so that it is decided for them too.
            if let Some(decided) = decides(*op, &left) {
                return decided;
            }
            let right = self.eval(right, scope);
            left = self.operate(*op, &left, &right);
            if self.exceeded.is_some() {
                break;
            }
        }
        left
    }

    fn subscript(&mut self, of: &Expr, index: &Expr, scope: &Scope) -> Value {
        let of = self.eval(of, scope);
        let index = self.eval(index, scope);
        match (&of, &index) {
            (Value::Error, _) | (_, Value::Error) => Value::Error,
            (Value::Undefined, _) | (_, Value::Undefined) => Value::Undefined,
            (Value::Ad(inner), Value::String(name)) => {
                self.touch(name.len());
                let found = inner.ad().get(&Name::new(name));
                found.map_or(Value::Undefined, |expr| self.eval_attribute(expr, inner))
            }
            (Value::List(list), Value::Integer(at)) => {
                let at = usize::try_from(crate::convert::wrapped(*at)).ok();
                let item = at.and_then(|at| list.items.get(at));
                let within = list.scope.as_ref().unwrap_or(scope);
                item.map_or(Value::Error, |item| self.eval(item, within))
            }
            _ => Value::Error,
        }
    }

    /// The expression of an attribute, in the ad that has it. One that refers to itself is
    /// undefined.
    fn eval_attribute(&mut self, expr: &Expr, scope: &Scope) -> Value {
        let plain = matches!(expr, Expr::Literal(_));
        if plain {
            return self.eval(expr, scope);
        }
        let address = address(expr);
        if self.stack.contains(&address) {
            return Value::Undefined;
        }
        self.stack.push(address);
        let value = self.eval(expr, scope);
        self.stack.pop();
        value
    }
}
