//! Which expression a name means. A name alone is looked for in the ad, in those around it, and at
//! last in the other ad of the match; `MY.`, `TARGET.`, `self.` and `parent.` say where.

use super::{Evaluator, Scope};
use crate::expr::{Expr, Reference};
use crate::name::{Key, Name};
use crate::value::{List, Value};
use std::sync::Arc;

/// Where a name was found. Its expression is not copied: it may be as long as the whole ad.
pub(crate) struct Behind {
    pub(crate) within: Scope,
    /// What stands for a name that no ad has.
    special: Option<Expr>,
}

impl Behind {
    /// A value instead of an expression.
    pub(crate) fn value(value: Value, within: Scope) -> Behind {
        Behind { within, special: Some(Expr::Literal(value)) }
    }

    pub(crate) fn expr(&self, name: &Name) -> Option<&Expr> {
        self.special.as_ref().or_else(|| self.within.ad().get(name))
    }
}

impl Evaluator<'_> {
    pub(super) fn reference(&mut self, reference: &Reference, scope: &Scope) -> Value {
        let value = match reference {
            Reference::Alone(name) => self.alone(name, scope),
            Reference::Absolute(name) => {
                let root = scope.root().clone();
                self.in_scope(name.key(), name, &root).unwrap_or(Value::Undefined)
            }
            Reference::Of(both) => self.selected(&both.0, &both.1, scope),
        };
        self.look(reference, &value);
        value
    }

    fn alone(&mut self, name: &Name, scope: &Scope) -> Value {
        let key = name.key();
        if let Some(found) = self.in_scope(key, name, scope) {
            return found;
        }
        let is_top = scope.parent().is_none()
            || self.stands_for_top.as_ref().is_some_and(|top| top.is(scope));
        let other = if is_top { self.other_side(scope) } else { None };
        other.and_then(|other| self.in_scope(key, name, &other)).unwrap_or(Value::Undefined)
    }

    /// `None`: neither this ad nor those around it have it.
    fn in_scope(&mut self, key: Key, name: &Name, scope: &Scope) -> Option<Value> {
        let mut at = scope;
        loop {
            if let Some(expr) = at.ad().get_keyed(key, name) {
                return Some(self.eval_attribute(expr, at));
            }
            if at.is(scope)
                && let Some(special) = self.special(name, scope)
            {
                return Some(special);
            }
            at = at.parent()?;
        }
    }

    /// What stands behind a name in an ad or in those around it.
    pub(crate) fn lookup(&self, name: &Name, scope: &Scope) -> Option<Behind> {
        let mut at = scope;
        loop {
            if at.ad().get(name).is_some() {
                return Some(Behind { within: at.clone(), special: None });
            }
            if let Some(special) = self.special(name, scope) {
                let special = Some(Expr::Literal(special));
                return Some(Behind { within: scope.clone(), special });
            }
            at = at.parent()?;
        }
    }

    /// The same, and at last in the other ad.
    pub(crate) fn lookup_anywhere(&self, name: &Name, scope: &Scope) -> Option<Behind> {
        let is_top = scope.parent().is_none();
        let elsewhere = || {
            let other = if is_top { self.other_side(scope) } else { None };
            self.lookup(name, &other?)
        };
        self.lookup(name, scope).or_else(elsewhere)
    }

    /// Names that mean an ad, or the time, where no attribute is called so.
    fn special(&self, name: &Name, scope: &Scope) -> Option<Value> {
        let ad = |scope: Option<&Scope>| Some(scope.cloned().map_or(Value::Undefined, Value::Ad));
        match name.as_bytes().len() {
            2 if name.is("my") => ad(Some(scope.root())),
            4 if name.is("self") => ad(Some(scope)),
            4 if name.is("root") => ad(Some(scope.root())),
            6 if name.is("target") => ad(self.other_side(scope).as_ref()),
            6 if name.is("parent") => ad(scope.parent()),
            8 if name.is("toplevel") => ad(Some(scope.root())),
            11 if name.is("currenttime") => Some(Value::Integer(self.context.now)),
            _ => None,
        }
    }

    /// The whole ad on the other side of the match.
    fn other_side(&self, scope: &Scope) -> Option<Scope> {
        let target = self.sides.target.as_ref()?;
        let is_target = scope.root().is(target);
        Some(if is_target { self.sides.my.clone() } else { target.clone() })
    }

    fn selected(&mut self, of: &Expr, name: &Name, scope: &Scope) -> Value {
        match self.eval(of, scope) {
            Value::Undefined => Value::Undefined,
            Value::Ad(inner) => self.in_scope(name.key(), name, &inner).unwrap_or(Value::Undefined),
            Value::List(list) => {
                self.spend_each(list.items.len());
                // The attribute of each of them.
                let each = list.items.iter().map(|item| {
                    let value = self.selected(item, name, scope);
                    Expr::Literal(value)
                });
                let items = each.collect();
                Value::List(Arc::new(List { items, scope: None }))
            }
            _ => Value::Error,
        }
    }
}
