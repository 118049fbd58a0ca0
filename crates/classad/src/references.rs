//! Which attributes an expression looks at, in the text itself: not those behind them.

use crate::expr::{Call, Expr, Reference};
use crate::name::Name;

/// Calls `see` with every reference; `a.b` is one, and so is the `a` in it.
pub fn references<'e>(expr: &'e Expr, see: &mut dyn FnMut(&'e Reference)) {
    if let Expr::Reference(reference) = expr {
        see(reference);
    }
    expr.parts(&mut |part| references(part, see));
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
    if let Expr::Call(call) = expr {
        see(call);
    }
    expr.parts(&mut |part| calls(part, see));
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
