//! Which attributes an expression looks at, in the text itself: not those behind them.

use crate::expr::{Call, Expr, Reference};
use crate::name::Name;

/// Calls `see` with every reference; `a.b` is one, and so is the `a` in it.
pub fn references<'e>(expr: &'e Expr, see: &mut dyn FnMut(&'e Reference)) {
    match expr {
        Expr::Literal(_) | Expr::RelTimeLiteral(_) => {}
        Expr::Reference(reference) => {
            see(reference);
            if let Some(scope) = reference.scope() {
                references(scope, see);
            }
        }
        Expr::Unary(_, inner) | Expr::Parens(inner) => references(inner, see),
        Expr::Chain(chain) => {
            references(chain.first(), see);
            chain.rest().iter().for_each(|(_, right)| references(right, see));
        }
        Expr::Ternary(parts) => parts.iter().for_each(|part| references(part, see)),
        Expr::Elvis(parts) | Expr::Subscript(parts) => {
            parts.iter().for_each(|part| references(part, see));
        }
        Expr::Call(call) => call.args.iter().for_each(|arg| references(arg, see)),
        Expr::List(items) => items.iter().for_each(|item| references(item, see)),
        Expr::Ad(ad) => ad.iter().for_each(|(_, inner)| references(inner, see)),
    }
}

/// What of the world an expression asks for: the time, or chance.
pub(crate) fn worldly(expr: &Expr) -> Option<String> {
    let mut found = None;
    calls(expr, &mut |call| {
        let is = |name: &str| call.name.is(name);
        let always = ["time", "currentTime", "dayTime", "random"].iter().any(|name| is(name));
        let alone = call.args.is_empty() && (is("absTime") || is("formatTime"));
        if always || alone {
            found.get_or_insert_with(|| format!("{}()", call.name.to_text()));
        }
    });
    references(expr, &mut |reference| {
        if reference.scope().is_none() && reference.name().is("currenttime") {
            found.get_or_insert_with(|| reference.name().to_text());
        }
    });
    found
}

/// Calls `see` with every call, those in arguments too.
pub(crate) fn calls<'e>(expr: &'e Expr, see: &mut dyn FnMut(&'e Call)) {
    match expr {
        Expr::Literal(_) | Expr::RelTimeLiteral(_) => {}
        Expr::Reference(reference) => {
            reference.scope().into_iter().for_each(|scope| calls(scope, see));
        }
        Expr::Unary(_, inner) | Expr::Parens(inner) => calls(inner, see),
        Expr::Chain(chain) => {
            calls(chain.first(), see);
            chain.rest().iter().for_each(|(_, right)| calls(right, see));
        }
        Expr::Ternary(parts) => parts.iter().for_each(|part| calls(part, see)),
        Expr::Elvis(parts) | Expr::Subscript(parts) => {
            parts.iter().for_each(|part| calls(part, see));
        }
        Expr::Call(call) => {
            see(call);
            call.args.iter().for_each(|arg| calls(arg, see));
        }
        Expr::List(items) => items.iter().for_each(|item| calls(item, see)),
        Expr::Ad(ad) => ad.iter().for_each(|(_, inner)| calls(inner, see)),
    }
}

impl Reference {
    pub fn name(&self) -> &Name {
        match self {
            Reference::Alone(name) | Reference::Absolute(name) => name,
            Reference::Of(both) => &both.1,
        }
    }

    /// What stands before the dot.
    pub(crate) fn scope(&self) -> Option<&Expr> {
        if let Reference::Of(both) = self { Some(&both.0) } else { None }
    }

    /// Whether it says `TARGET.`; `None` where it says nothing, or something else.
    pub fn is_target(&self) -> Option<bool> {
        let Some(Expr::Reference(scope)) = self.scope() else { return None };
        match scope.name() {
            name if name.is("target") => Some(true),
            name if name.is("my") => Some(false),
            _ => None,
        }
    }
}
